//! Asking a client of the older era, which waits for its answer meanwhile.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use rmcp::model::{ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ServerRequest};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, RoleServer, ServiceError};
use tokio::runtime::Handle;
use toolgate_gate::{ApprovalReply, ApprovalRequest, ApprovalUnavailable, Approver};

use super::form::{form, reply};
use crate::mcp::connection::{ConcurrencyPermit, McpConnection};

/// What a client is told about a question that it need not show any longer.
const WITHDRAWN: &str = "the call does not wait for an answer any more";

/// A client that can be asked.
pub(crate) struct ElicitingApprover {
    pub(crate) peer: Peer<RoleServer>,
    pub(crate) connection: Arc<McpConnection>,
    pub(crate) permit: Arc<ConcurrencyPermit>,
}

impl Approver for ElicitingApprover {
    fn ask(&self, question: ApprovalRequest) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>> {
        Box::pin(async move {
            let form = match form(&question) {
                Ok(form) => form,
                Err(nobody) => return ApprovalReply::Unavailable(nobody),
            };
            // Others go on while a person thinks. The time of a yes is not spent on waiting for room again.
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
}

/// What the client answers. Whoever stops waiting for it withdraws the question.
async fn answered(peer: &Peer<RoleServer>, form: ElicitRequestParams) -> Result<ElicitResult, ServiceError> {
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
    let handle = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
    let mut open = OpenElicitation(Some(handle));
    match open.answer().await? {
        ClientResult::ElicitResult(result) => Ok(result),
        _ => Err(ServiceError::UnexpectedResponse),
    }
}

/// A question that a client is showing.
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
    /// The time is up, or the call was given up: nobody waits for the answer.
    fn drop(&mut self) {
        let Some(handle) = self.0.take() else { return };
        let mut withdrawing = Box::pin(handle.cancel(Some(WITHDRAWN.to_owned())));
        // As far as it goes at once, so that it comes before the answer to the call; the rest goes on by itself.
        if withdrawing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(withdrawing);
        }
    }
}
