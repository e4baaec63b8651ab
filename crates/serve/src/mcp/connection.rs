//! The state of one connection, or of one session over several.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{InitializeRequestParams, Tool};
use tokio_util::sync::CancellationToken;
use toolgate_gate::LogSeverity;

use crate::admission::ConnectionLimit;
use crate::mcp::client_sink::ServerRequests;
use crate::mcp::subscriptions::SubscribedResources;

/// One connection.
pub(crate) struct McpConnection {
    /// Cancelled when the client will send nothing more: elicitations and list notifications are pointless.
    pub(crate) closing: CancellationToken,
    /// Cancelled when the client will read nothing more: its calls are cancelled.
    pub(crate) gone: CancellationToken,
    /// What was negotiated with `initialize`.
    session: Mutex<Option<Arc<InitializeRequestParams>>>,
    /// The requests of the gate that the client has not answered.
    pub(crate) requests: Arc<ServerRequests>,
    /// Whether `notifications/initialized` arrived.
    is_ready: AtomicBool,
    /// The tools that were last listed to the client.
    listed: Mutex<Option<Arc<[Tool]>>>,
    /// What log messages the client wants (session protocol).
    log_level: Mutex<Option<LogSeverity>>,
    /// The resources that the client is subscribed to (session protocol).
    pub(crate) subscribed: Mutex<SubscribedResources>,
    pub(crate) limit: ConnectionLimit,
}

impl Default for McpConnection {
    fn default() -> Self {
        let (closing, gone) = (CancellationToken::new(), CancellationToken::new());
        Self {
            closing,
            gone,
            session: Mutex::default(),
            requests: Arc::default(),
            is_ready: AtomicBool::new(false),
            listed: Mutex::default(),
            log_level: Mutex::default(),
            subscribed: Mutex::default(),
            limit: ConnectionLimit::default(),
        }
    }
}

impl McpConnection {
    /// What was negotiated with `initialize`, if it was.
    pub(crate) fn session(&self) -> Option<Arc<InitializeRequestParams>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_session(&self, negotiated: InitializeRequestParams) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(negotiated));
    }

    /// Whether this is the first `notifications/initialized`.
    pub(crate) fn mark_ready(&self) -> bool {
        !self.is_ready.swap(true, Ordering::Relaxed)
    }

    /// Records the tools that the client was sent.
    pub(crate) fn set_listed(&self, tools: &Arc<[Tool]>) {
        *self.listed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(tools));
    }

    pub(crate) fn set_log_level(&self, level: LogSeverity) {
        *self.log_level.lock().unwrap_or_else(PoisonError::into_inner) = Some(level);
    }

    pub(crate) fn log_level(&self) -> Option<LogSeverity> {
        *self.log_level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tools that were last listed to the client.
    pub(crate) fn listed(&self) -> Option<Arc<[Tool]>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for McpConnection {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}
