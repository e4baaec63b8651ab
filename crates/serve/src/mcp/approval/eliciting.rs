//! Asking a client of the session protocol with `elicitation/create` while its call waits.

use std::pin::Pin;
use std::sync::Arc;

use toolgate_gate::{
    ApprovalReply, ApprovalRequest, ApprovalUnavailable, Approver, ServerAnswer, ServerQuestion,
};

use super::form::{form, reply};
use super::server_question::{server_answer, server_form};
use crate::admission::ConcurrencyPermit;
use crate::mcp::client_sink::ClientSink;
use crate::mcp::connection::McpConnection;

/// Asks the client of a connection.
pub(crate) struct ElicitingApprover {
    pub(crate) client: ClientSink,
    pub(crate) connection: Arc<McpConnection>,
    pub(crate) permit: Arc<ConcurrencyPermit>,
    /// Whether the client can show an address.
    pub(crate) can_open: bool,
}

impl Approver for ElicitingApprover {
    fn ask(&self, question: ApprovalRequest) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>> {
        Box::pin(async move {
            let form = match form(&question) {
                Ok(form) => form,
                Err(nobody) => return ApprovalReply::Unavailable(nobody),
            };
            // Other calls run while a person decides. The permit is not acquired again afterwards, so that an approved
            // call does not spend its time waiting for one.
            self.permit.release();
            tokio::select! {
                answer = self.client.elicit(&form) => match answer {
                    Ok(result) => reply(&result),
                    Err(_) => ApprovalReply::Unavailable(ApprovalUnavailable::with_reason("the client did not show the question")),
                },
                () = self.connection.closing.cancelled() => {
                    ApprovalReply::Unavailable(ApprovalUnavailable::for_operator("the client closed the connection before it answered"))
                }
            }
        })
    }

    fn ask_for_server(
        &self,
        question: ServerQuestion,
    ) -> Pin<Box<dyn Future<Output = ServerAnswer> + Send + '_>> {
        Box::pin(async move {
            let Some(form) = server_form(&question, self.can_open) else { return ServerAnswer::Unavailable };
            self.permit.release();
            tokio::select! {
                answer = self.client.elicit(&form) => answer.map_or(ServerAnswer::Unavailable, |result| server_answer(&result)),
                () = self.connection.closing.cancelled() => ServerAnswer::Unavailable,
            }
        })
    }
}
