//! A timeout for `server/discover`.
//!
//! A server of the session protocol should answer an unknown request with an error. Many ignore it, and each of them would cost the library's full
//! timeout. So after the probe timeout an error is synthesised, and `initialize` follows on the same connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::time::Instant;

/// The probe timeout, and whether it has elapsed.
#[derive(Clone, Debug)]
pub(super) struct ProbeTimeout {
    /// How long `server/discover` may stay unanswered.
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

/// A transport that answers `server/discover` with an error after the probe timeout.
pub(super) struct ProbeTransport<T> {
    inner: T,
    pending: Option<(RequestId, Instant)>,
    /// The timeout, if there is one.
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
            // The server may send a request before its response.
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
