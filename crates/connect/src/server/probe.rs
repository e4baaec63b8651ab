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
pub(super) struct ProbeTimeout {
    /// For how long nothing is made of it.
    timeout: Duration,
    elapsed: Arc<AtomicBool>,
}

impl ProbeTimeout {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, elapsed: Arc::default() }
    }

    pub(super) fn has_elapsed(&self) -> bool {
        self.elapsed.load(Ordering::Relaxed)
    }
}

/// A transport on which the question of the newer era does not stay open.
pub(super) struct ProbeTransport<T> {
    inner: T,
    pending: Option<(RequestId, Instant)>,
    /// Where silence is an answer.
    probe: Option<ProbeTimeout>,
}

impl<T> ProbeTransport<T> {
    pub(super) fn new(inner: T, probe: Option<ProbeTimeout>) -> Self {
        Self { inner, pending: None, probe }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for ProbeTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let (JsonRpcMessage::Request(sent), Some(silence)) = (&message, &self.probe)
            && matches!(sent.request, ClientRequest::DiscoverRequest(_))
        {
            self.pending = Some((sent.id.clone(), Instant::now() + silence.timeout));
        }
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let Some((id, until)) = self.pending.clone() else { return self.inner.receive().await };
        if let Ok(message) = tokio::time::timeout_at(until, self.inner.receive()).await {
            // The server may ask something before it answers.
            if matches!(message, None | Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))) {
                self.pending = None;
            }
            return message;
        }
        self.pending = None;
        if let Some(silence) = &self.probe {
            silence.elapsed.store(true, Ordering::Relaxed);
        }
        let refusal = ErrorData::method_not_found::<rmcp::model::DiscoverRequestMethod>();
        Some(RxJsonRpcMessage::<RoleClient>::error(refusal, Some(id)))
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
