//! Approvals by the person behind the client.
//!
//! The gate asks once per call and waits. A client of the session protocol gets an `elicitation/create` request while its call waits. A client of the
//! stateless protocol gets the question as the result, and repeats its request with the answer; until then the call is parked, and it is the same
//! call that continues. Either way there is one call and one record.

mod form;
mod eliciting;
mod deferred;
mod state_sealer;
mod question_text;
mod server_question;

use std::pin::Pin;

use rmcp::model::ClientCapabilities;
use toolgate_gate::{ApprovalReply, ApprovalRequest, ApprovalUnavailable, Approver};

pub(crate) use deferred::{
    DeferredApprover, ParkedCall, ParkedCalls, ParkedLookup, ParkedQuestion, PendingQuestion,
};
pub(crate) use eliciting::ElicitingApprover;
pub(crate) use form::input_required;
pub(crate) use server_question::server_input_required;
pub(crate) use state_sealer::{RequestBinding, StateSealer};

/// Whether a client can show a form to a person. An elicitation capability without modes means forms.
pub(crate) fn can_ask(capabilities: Option<&ClientCapabilities>) -> bool {
    let elicitation = capabilities.and_then(|capabilities| capabilities.elicitation.as_ref());
    elicitation.is_some_and(|kinds| kinds.form.is_some() || kinds.url.is_none())
}

/// Whether a client can show a person an address.
pub(crate) fn can_open(capabilities: Option<&ClientCapabilities>) -> bool {
    let elicitation = capabilities.and_then(|capabilities| capabilities.elicitation.as_ref());
    elicitation.is_some_and(|kinds| kinds.url.is_some())
}

/// A client that cannot show a question. The response says what to do about it.
pub(crate) struct CannotAsk;

impl Approver for CannotAsk {
    fn ask(&self, _question: ApprovalRequest) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>> {
        let remedy = "this client cannot show questions (it lacks MCP elicitation): use a client that can, or start toolgate with `--trust autonomous` if \
                      the client itself asks before every call";
        Box::pin(async move { ApprovalReply::Unavailable(ApprovalUnavailable::for_everyone(remedy)) })
    }
}
