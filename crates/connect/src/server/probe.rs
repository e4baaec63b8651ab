//! A timeout for `server/discover`.
//!
//! A server of the session protocol should answer an unknown request with an error. Many ignore it, and each of them would cost the library's full
//! timeout. So after the probe timeout an error is synthesised, and `initialize` follows on the same connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    ClientNotification, ClientRequest, ErrorData, JsonRpcMessage, ProtocolVersion, RequestId, ServerConfig,
    ServerResult,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::time::Instant;
use tokio::time::error::Elapsed;

use crate::wire::answers_request;

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

/// How long a refusal of `initialize` is held back for the late response to `server/discover`. Without that response the server is started again.
const MAX_LATE_WAIT: Duration = Duration::from_secs(10);

/// A transport that answers `server/discover` with an error after the probe timeout.
///
/// A stateless server that was only slow still answers it, and refuses the `initialize` that followed. Its late response then answers `initialize`
/// with the stateless protocol, so the connection goes on without a second start.
pub(super) struct ProbeTransport<T> {
    inner: T,
    state: ProbeState,
    /// The timeout, if there is one.
    probe: Option<ProbeTimeout>,
}

/// How far the probe is.
enum ProbeState {
    /// Not sent, or answered in time.
    Idle,
    /// Sent, with the end of its timeout if there is one.
    Pending(RequestId, Option<Instant>),
    /// Its timeout has elapsed, or `initialize` followed.
    Late(Box<LateProbe>),
}

/// A probe whose timeout has elapsed.
struct LateProbe {
    discover: RequestId,
    initialize: Option<RequestId>,
    /// The refusal of `initialize`, and until when it is held back.
    refusal: Option<(RxJsonRpcMessage<RoleClient>, Instant)>,
    protocol: LateProtocol,
}

/// The protocol of a server whose probe timeout has elapsed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LateProtocol {
    /// It has not answered yet.
    Unknown,
    /// It accepted `initialize`.
    Session,
    /// It answered `server/discover` after all.
    Stateless,
}

/// The next message, or that a deadline passed before it.
async fn receive_until<T: Transport<RoleClient>>(
    inner: &mut T,
    until: Option<Instant>,
) -> Result<Option<RxJsonRpcMessage<RoleClient>>, Elapsed> {
    match until {
        Some(until) => tokio::time::timeout_at(until, inner.receive()).await,
        None => Ok(inner.receive().await),
    }
}

impl LateProbe {
    fn new(discover: RequestId) -> Self {
        Self { discover, initialize: None, refusal: None, protocol: LateProtocol::Unknown }
    }

    /// What of a message is passed on.
    fn filter(&mut self, message: RxJsonRpcMessage<RoleClient>) -> Option<RxJsonRpcMessage<RoleClient>> {
        let id = match &message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        let answers = |request: &RequestId| id.is_some_and(|id| answers_request(id, request));
        if answers(&self.discover) {
            return self.discovered(message);
        }
        if !self.initialize.as_ref().is_some_and(answers) {
            return Some(message);
        }
        match (self.protocol, &message) {
            (LateProtocol::Stateless, _) => None,
            (LateProtocol::Unknown, JsonRpcMessage::Error(_)) => {
                self.refusal = Some((message, Instant::now() + MAX_LATE_WAIT));
                None
            }
            _ => {
                self.protocol = LateProtocol::Session;
                Some(message)
            }
        }
    }

    /// The late response to `server/discover` becomes that to `initialize`. The library takes a version without `initialize` for the stateless protocol.
    fn discovered(&mut self, message: RxJsonRpcMessage<RoleClient>) -> Option<RxJsonRpcMessage<RoleClient>> {
        let refusal = self.refusal.take().map(|(refusal, _)| refusal);
        let (LateProtocol::Unknown, Some(initialize)) = (self.protocol, &self.initialize) else {
            return None;
        };
        let JsonRpcMessage::Response(response) = message else { return refusal };
        let ServerResult::DiscoverResult(known) = response.result else { return refusal };
        if !known.supported_versions.contains(&ProtocolVersion::V_2026_07_28) {
            return refusal;
        }
        self.protocol = LateProtocol::Stateless;
        let mut info = ServerConfig::new(known.capabilities.clone());
        info.server_info = known.server_info().unwrap_or_default();
        info.protocol_version = ProtocolVersion::V_2026_07_28;
        let result = ServerResult::InitializeResult(info);
        Some(RxJsonRpcMessage::<RoleClient>::response(result, initialize.clone()))
    }
}

impl<T> ProbeTransport<T> {
    pub(super) fn new(inner: T, probe: Option<ProbeTimeout>) -> Self {
        Self { inner, state: ProbeState::Idle, probe }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for ProbeTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let mut is_for_server = true;
        match (&message, &mut self.state) {
            (JsonRpcMessage::Request(sent), state)
                if matches!(sent.request, ClientRequest::InitializeRequest(_)) =>
            {
                // The library has a timeout of its own.
                if let ProbeState::Pending(discover, _) = state {
                    *state = ProbeState::Late(Box::new(LateProbe::new(discover.clone())));
                }
                if let ProbeState::Late(late) = state {
                    late.initialize = Some(sent.id.clone());
                }
            }
            (JsonRpcMessage::Request(sent), state)
                if matches!(sent.request, ClientRequest::DiscoverRequest(_)) =>
            {
                let until = self.probe.as_ref().map(|silence| Instant::now() + silence.timeout);
                *state = ProbeState::Pending(sent.id.clone(), until);
            }
            // The stateless protocol has no such notification.
            (JsonRpcMessage::Notification(sent), ProbeState::Late(late))
                if matches!(sent.notification, ClientNotification::InitializedNotification(_)) =>
            {
                is_for_server = late.protocol != LateProtocol::Stateless;
            }
            _ => {}
        }
        let sending = is_for_server.then(|| self.inner.send(message));
        async move {
            match sending {
                Some(sending) => sending.await,
                None => Ok(()),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            match &mut self.state {
                ProbeState::Idle => return self.inner.receive().await,
                ProbeState::Pending(id, until) => {
                    if let Ok(message) = receive_until(&mut self.inner, *until).await {
                        // The server may send a request before its response.
                        if matches!(
                            message,
                            None | Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))
                        ) {
                            self.state = ProbeState::Idle;
                        }
                        return message;
                    }
                    if let Some(silence) = &self.probe {
                        silence.elapsed.store(true, Ordering::Relaxed);
                    }
                    let id = id.clone();
                    self.state = ProbeState::Late(Box::new(LateProbe::new(id.clone())));
                    let refusal = ErrorData::method_not_found::<rmcp::model::DiscoverRequestMethod>();
                    return Some(RxJsonRpcMessage::<RoleClient>::error(refusal, Some(id)));
                }
                ProbeState::Late(late) => {
                    let until = late.refusal.as_ref().map(|(_, until)| *until);
                    let Ok(Some(message)) = receive_until(&mut self.inner, until).await else {
                        return late.refusal.take().map(|(refusal, _)| refusal);
                    };
                    if let Some(message) = late.filter(message) {
                        return Some(message);
                    }
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
