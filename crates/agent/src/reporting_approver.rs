//! An approver that also emits each approval request as an event.

use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;
use toolgate_gate::{
    ApprovalReply, ApprovalRequest, Approver, EscalationOffer, PreviewBody, ServerAnswer, ServerQuestion,
};
use toolgate_text::confusables::Charset;
use toolgate_types::{CallId, Deadline};

use crate::event::{ChatEvent, EscalationChoice, EventSink, MessageId, ToolConfirm};

/// Delegates to an approver, and emits the request.
pub(crate) struct ReportingApprover {
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) events: EventSink,
    pub(crate) message_id: MessageId,
    pub(crate) input: Value,
    /// The deadline of the turn, which does not run while a question is open.
    pub(crate) deadline: Deadline,
}

impl Approver for ReportingApprover {
    fn ask(&self, question: ApprovalRequest) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>> {
        // The approver is called first: an answer may arrive as soon as the event is emitted.
        let confirm = self.confirmation_event(&question);
        let open = QuestionGuard { approver: self, call: question.call, is_open: true };
        let pause = self.deadline.pause();
        let answer = self.approver.ask(question);
        (self.events)(ChatEvent::ToolConfirm(Box::new(confirm)));
        Box::pin(async move {
            let answer = answer.await;
            drop(pause);
            open.close();
            answer
        })
    }

    fn ask_for_server(
        &self,
        question: ServerQuestion,
    ) -> Pin<Box<dyn Future<Output = ServerAnswer> + Send + '_>> {
        let pause = self.deadline.pause();
        let answer = self.approver.ask_for_server(question);
        Box::pin(async move {
            let answer = answer.await;
            drop(pause);
            answer
        })
    }

    fn can_grant_session(&self) -> bool {
        self.approver.can_grant_session()
    }
}

/// A question that was emitted. Dropping it before its answer emits that it is withdrawn.
struct QuestionGuard<'a> {
    approver: &'a ReportingApprover,
    call: CallId,
    is_open: bool,
}

impl QuestionGuard<'_> {
    /// Its answer came.
    fn close(mut self) {
        self.is_open = false;
    }
}

impl Drop for QuestionGuard<'_> {
    fn drop(&mut self) {
        if self.is_open {
            let message_id = self.approver.message_id.clone();
            (self.approver.events)(ChatEvent::ToolWithdrawn { message_id, tool_id: self.call });
        }
    }
}

impl ReportingApprover {
    fn confirmation_event(&self, question: &ApprovalRequest) -> ToolConfirm {
        let (text, diff) = match &question.preview.body {
            PreviewBody::Nothing => (None, None),
            PreviewBody::Text(text) => (Some(text.clone()), None),
            PreviewBody::Diff(diff) => (None, Some(diff.clone())),
        };
        ToolConfirm {
            message_id: self.message_id.clone(),
            tool_id: question.call,
            tool_name: question.tool.clone(),
            input: self.input.clone(),
            class: question.class,
            summary: question.preview.summary.clone(),
            text,
            diff,
            card: question.card(Charset::Unicode),
            timeout_ms: u64::try_from(question.timeout.as_millis()).unwrap_or(u64::MAX),
            expires_at: question.expires_at_rfc3339(),
            escalations: question.escalations.iter().map(choice).collect(),
            may_last: question.can_grant_session,
            grants: question.grants.clone(),
        }
    }
}

fn choice(offer: &EscalationOffer) -> EscalationChoice {
    EscalationChoice { id: offer.id.clone(), text: offer.text() }
}
