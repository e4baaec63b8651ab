//! The health of a server, for operators.

use std::sync::atomic::Ordering;

use super::{Server, ServerState, locked};
use crate::settings::ServerName;

/// The health of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerHealth {
    /// Its name.
    pub name: ServerName,
    /// Its state.
    pub state: HealthState,
    /// The protocol version that it speaks.
    pub protocol: Option<String>,
    /// How many tools it offers.
    pub tools: usize,
    /// How many of these wait for an operator.
    pub suspended: usize,
    /// Whether it has connected, or failed with every protocol: there is nothing more to wait for.
    pub is_settled: bool,
    /// How often it was restarted.
    pub restarts: u32,
    /// Tools that were left out, and why, with hidden characters escaped.
    pub rejected_tools: Vec<String>,
    /// The last error.
    pub last_error: Option<String>,
    /// The last bytes of its standard error, with hidden characters escaped.
    pub stderr_tail: String,
}

/// The state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthState {
    /// Being started.
    Starting,
    /// Connected.
    Ready,
    /// Failed; will be retried.
    BackingOff,
    /// Failed; not retried until its settings change.
    Failed,
    /// Not tried again before a person has logged in.
    NeedsLogin,
}

impl HealthState {
    /// The state as text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::BackingOff => "backing off",
            Self::Failed => "failed",
            Self::NeedsLogin => "needs login",
        }
    }
}

impl Server {
    /// Its health.
    pub(crate) fn health(&self) -> ServerHealth {
        let (state, connection) = match &*self.state.borrow() {
            ServerState::Starting => (HealthState::Starting, None),
            ServerState::Ready(connection) => (HealthState::Ready, Some(connection.clone())),
            ServerState::Down { login: Some(_), .. } => (HealthState::NeedsLogin, None),
            ServerState::Down { given_up: false, .. } => (HealthState::BackingOff, None),
            ServerState::Down { given_up: true, .. } => (HealthState::Failed, None),
        };
        let catalogue = self.catalogue();
        let errors = connection.as_ref().map(|connection| connection.stderr_tail()).unwrap_or_default();
        ServerHealth {
            name: self.name.clone(),
            state,
            protocol: connection.map(|connection| connection.protocol.clone()),
            tools: catalogue.entries().count(),
            suspended: catalogue.entries().filter(|entry| entry.suspended.is_some()).count(),
            is_settled: *self.settled.borrow(),
            restarts: self.restarts.load(Ordering::Relaxed),
            rejected_tools: self.reporter.rejected(),
            last_error: locked(&self.last_error).clone(),
            stderr_tail: toolgate_text::escape_control_chars(&errors),
        }
    }
}
