//! The gate as an MCP client without capabilities.
//!
//! Sampling requests are refused, elicitations are declined, and there are no roots. A server behind the gate gets only calls.

use rmcp::ClientHandler;
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion};
use rmcp::service::ClientLifecycleMode;

use crate::pins::KnownLifecycle;

/// The client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RestrictedClient;

impl ClientHandler for RestrictedClient {
    fn get_info(&self) -> ClientConfig {
        let this = Implementation::new("toolgate", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), this)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

/// The protocol that a server speaks, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtocolLifecycle {
    /// Not known: `server/discover` is tried first.
    Unknown,
    /// The stateless protocol.
    Stateless,
    /// The session protocol, with `initialize`.
    Session,
}

impl From<KnownLifecycle> for ProtocolLifecycle {
    fn from(known: KnownLifecycle) -> Self {
        match known {
            KnownLifecycle::Session => Self::Session,
            KnownLifecycle::Stateless => Self::Stateless,
        }
    }
}

impl ProtocolLifecycle {
    /// What an established connection was spoken to with.
    pub(super) fn established(version: &ProtocolVersion) -> KnownLifecycle {
        if version.has_initialize() { KnownLifecycle::Session } else { KnownLifecycle::Stateless }
    }

    /// The lifecycle to start with.
    pub(super) fn lifecycle(self) -> ClientLifecycleMode {
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        match self {
            Self::Unknown => ClientLifecycleMode::Auto {
                preferred_versions,
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
            Self::Stateless => ClientLifecycleMode::Discover { preferred_versions },
            Self::Session => ClientLifecycleMode::Initialize,
        }
    }

    /// What to try after a failed handshake: some servers of the session protocol crash on `server/discover`, and a stateless server that timed out
    /// may only be slow to start.
    pub(super) fn fallback(self, was_silent: bool) -> Self {
        match self {
            Self::Unknown if was_silent => Self::Stateless,
            Self::Unknown => Self::Session,
            Self::Stateless | Self::Session => Self::Unknown,
        }
    }
}
