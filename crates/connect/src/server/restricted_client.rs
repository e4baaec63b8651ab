//! What the gate is to a server: a client that can be asked nothing.
//!
//! Requests for a model's words are refused, requests for a person's are declined, and there are no roots. A server behind the gate gets calls, and
//! only calls.

use rmcp::ClientHandler;
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion};
use rmcp::service::ClientLifecycleMode;

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

/// Which of the protocol's beginnings a server understands, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtocolLifecycle {
    /// Not known: it is asked.
    Unknown,
    /// The one without `initialize`.
    Stateless,
    /// The one with it.
    Session,
}

impl ProtocolLifecycle {
    /// How to begin.
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

    /// What to try when a beginning failed: some servers of the older era do not survive the question of the newer one, and one of the newer era that
    /// was silent when it was asked may only be slow to get ready.
    pub(super) fn fallback(self, was_silent: bool) -> Self {
        match self {
            Self::Unknown if was_silent => Self::Stateless,
            Self::Unknown => Self::Session,
            Self::Stateless | Self::Session => Self::Unknown,
        }
    }
}
