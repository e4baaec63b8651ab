//! How a server is, for operators.

use std::sync::atomic::Ordering;

use super::{Server, ServerState, locked};
use crate::settings::ServerName;

/// How one server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerHealth {
    /// Which.
    pub name: ServerName,
    /// Whether it can be spoken to.
    pub state: HealthState,
    /// The revision of the protocol that it speaks.
    pub protocol: Option<String>,
    /// How many tools it offers.
    pub tools: usize,
    /// How many of these wait for an operator.
    pub suspended: usize,
    /// Whether it was connected, or has failed in every way that there is to begin: whoever waits for it needs to wait no longer.
    pub is_settled: bool,
    /// How often it had to be started again.
    pub restarts: u32,
    /// What of its offer is no tool, and why, with hidden characters spelt out.
    pub rejected_tools: Vec<String>,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// The end of what it wrote to standard error, with hidden characters spelt out.
    pub stderr_tail: String,
}

/// Whether a server can be spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthState {
    /// Soon.
    Starting,
    /// Yes.
    Ready,
    /// Not now; it is tried again.
    BackingOff,
    /// No, and it is not tried again before its settings change.
    Failed,
}

impl HealthState {
    /// The words for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::BackingOff => "backing off",
            Self::Failed => "failed",
        }
    }
}

impl Server {
    /// How it is.
    pub(crate) fn health(&self) -> ServerHealth {
        let (state, connection) = match &*self.state.borrow() {
            ServerState::Starting => (HealthState::Starting, None),
            ServerState::Ready(connection) => (HealthState::Ready, Some(connection.clone())),
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
            stderr_tail: toolgate_tools::escape_control_chars(&errors),
        }
    }
}
