//! Asking a client of the session protocol with `elicitation/create` while its call waits.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use rmcp::model::{ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ServerRequest};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, RoleServer, ServiceError};
use tokio::runtime::Handle;
use toolgate_gate::{
    ApprovalReply, ApprovalRequest, ApprovalUnavailable, Approver, ServerAnswer, ServerQuestion,
};

use super::form::{form, reply};
use super::server_question::{server_answer, server_form};
use crate::mcp::connection::{ConcurrencyPermit, McpConnection};

/// The reason in the cancellation of an elicitation.
const WITHDRAWN: &str = "the call does not wait for an answer any more";

/// Asks the client of a connection.
pub(crate) struct ElicitingApprover {
    pub(crate) peer: Peer<RoleServer>,
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
                answer = answered(&self.peer, form) => match answer {
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
                answer = answered(&self.peer, form) => answer.map_or(ServerAnswer::Unavailable, |result| server_answer(&result)),
                () = self.connection.closing.cancelled() => ServerAnswer::Unavailable,
            }
        })
    }
}

/// The client's answer. Dropping this future cancels the elicitation.
async fn answered(peer: &Peer<RoleServer>, form: ElicitRequestParams) -> Result<ElicitResult, ServiceError> {
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
    let handle = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
    let mut open = OpenElicitation(Some(handle));
    match open.answer().await? {
        ClientResult::ElicitResult(result) => Ok(result),
        _ => Err(ServiceError::UnexpectedResponse),
    }
}

/// An elicitation that is not answered yet.
struct OpenElicitation(Option<RequestHandle<RoleServer>>);

impl OpenElicitation {
    async fn answer(&mut self) -> Result<ClientResult, ServiceError> {
        let Some(handle) = &mut self.0 else { return Err(ServiceError::TransportClosed) };
        let answer = (&mut handle.rx).await;
        self.0 = None;
        answer.map_err(|_| ServiceError::TransportClosed)?
    }
}

impl Drop for OpenElicitation {
    /// Cancels the elicitation: it timed out, or the call was cancelled.
    fn drop(&mut self) {
        let Some(handle) = self.0.take() else { return };
        let mut withdrawing = Box::pin(handle.cancel(Some(WITHDRAWN.to_owned())));
        // Polled once here, so that the cancellation is sent before the call's response; the rest runs as a
        // task.
        if withdrawing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(withdrawing);
        }
    }
}
