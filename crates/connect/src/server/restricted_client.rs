//! The gate as an MCP client.
//!
//! Sampling requests are refused, and there are no roots. Elicitations are declined, unless the operator lets the server ask: then they go to the
//! person of the only call in flight.

use std::sync::Arc;

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, ErrorData, FormElicitationCapability, Implementation, ProtocolVersion,
    UrlElicitationCapability,
};
use rmcp::service::{ClientLifecycleMode, RequestContext, RoleClient};
use serde_json::Value;
use toolgate_gate::{AskedQuestion, CallElicitor, ServerAnswer};

use super::active_calls::{ActiveCalls, ActiveElicitor};
use crate::pins::KnownLifecycle;
use crate::server_question::{ShownQuestion, is_plain_name, shown_question};

/// The client.
#[derive(Clone)]
pub(crate) struct RestrictedClient {
    /// The name of the server.
    pub(super) server: String,
    /// Whether the operator lets it ask the person.
    pub(super) may_elicit: bool,
    pub(super) calls: Arc<ActiveCalls>,
}

impl ClientHandler for RestrictedClient {
    fn get_info(&self) -> ClientConfig {
        let this = Implementation::new("toolgate", env!("CARGO_PKG_VERSION"));
        let mut capabilities = ClientCapabilities::default();
        if self.may_elicit {
            let (form, url) = (FormElicitationCapability::default(), UrlElicitationCapability::default());
            capabilities.elicitation = Some(ElicitationCapability::new().with_form(form).with_url(url));
        }
        ClientConfig::new(capabilities, this).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let only = self.may_elicit.then(|| self.calls.only_elicitor()).flatten();
        let Some(ActiveElicitor { elicitor, ended }) = only else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        Ok(tokio::select! {
            answer = ask_person(&elicitor, &self.server, None, &request) => answer,
            () = ended.cancelled() => ElicitResult::new(ElicitationAction::Cancel),
            () = context.ct.cancelled() => ElicitResult::new(ElicitationAction::Cancel),
        })
    }
}

/// Asks the person of a call. Dropping the future withdraws the question.
pub(super) async fn ask_person(
    elicitor: &CallElicitor,
    server: &str,
    key: Option<&str>,
    request: &ElicitRequestParams,
) -> ElicitResult {
    let shown = match shown_question(request) {
        Ok(shown) => shown,
        Err(why) => {
            elicitor.note_refused(server, why);
            return ElicitResult::new(ElicitationAction::Decline);
        }
    };
    let ShownQuestion { message, body, summary } = shown;
    let key = key.filter(|key| is_plain_name(key)).map(str::to_owned);
    match elicitor.ask(AskedQuestion { server, key, message, body, summary: &summary }).await {
        ServerAnswer::Accepted(content) => {
            let accepted = ElicitResult::new(ElicitationAction::Accept);
            match request {
                ElicitRequestParams::FormElicitationParams { .. } => {
                    accepted.with_content(Value::Object(content))
                }
                _ => accepted,
            }
        }
        ServerAnswer::Cancelled => ElicitResult::new(ElicitationAction::Cancel),
        ServerAnswer::Declined | ServerAnswer::Unavailable => ElicitResult::new(ElicitationAction::Decline),
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
