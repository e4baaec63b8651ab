//! A server that is asked which era it is of, and says nothing.
//!
//! Servers of the older era are to refuse a request that they do not know. Many ignore it, and each of them would cost as long as the library waits. So
//! silence is taken for a refusal after a moment, and the beginning of the older era follows on the same connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::time::Instant;

/// Whether a server was silent when it was asked.
#[derive(Clone, Debug)]
pub(super) struct Silence {
    /// For how long nothing is made of it.
    patience: Duration,
    heard: Arc<AtomicBool>,
}

impl Silence {
    pub(super) fn after(patience: Duration) -> Self {
        Self { patience, heard: Arc::default() }
    }

    pub(super) fn was_heard(&self) -> bool {
        self.heard.load(Ordering::Relaxed)
    }
}

/// A transport on which the question of the newer era does not stay open.
pub(super) struct Probed<T> {
    inner: T,
    asked: Option<(RequestId, Instant)>,
    /// Where silence is an answer.
    silence: Option<Silence>,
}

impl<T> Probed<T> {
    pub(super) fn new(inner: T, silence: Option<Silence>) -> Self {
        Self { inner, asked: None, silence }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Probed<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let (JsonRpcMessage::Request(sent), Some(silence)) = (&message, &self.silence)
            && matches!(sent.request, ClientRequest::DiscoverRequest(_))
        {
            self.asked = Some((sent.id.clone(), Instant::now() + silence.patience));
        }
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let Some((id, until)) = self.asked.clone() else { return self.inner.receive().await };
        if let Ok(message) = tokio::time::timeout_at(until, self.inner.receive()).await {
            // The server may ask something before it answers.
            if matches!(message, None | Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))) {
                self.asked = None;
            }
            return message;
        }
        self.asked = None;
        if let Some(silence) = &self.silence {
            silence.heard.store(true, Ordering::Relaxed);
        }
        let refusal = ErrorData::method_not_found::<rmcp::model::DiscoverRequestMethod>();
        Some(RxJsonRpcMessage::<RoleClient>::error(refusal, Some(id)))
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
