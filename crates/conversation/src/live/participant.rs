//! Who takes part in a conversation.

use std::sync::Arc;

use serde::Serialize;
use toolgate_gate::Credential;
use toolgate_session::{SessionOwner, SessionSummary};
use toolgate_types::{Caller, Trust};

/// Who said or answered something, as the other clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Participant {
    /// The authenticated subject.
    pub subject: String,
    /// The connection, if it is one that stays: two tabs of one person have different ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// How it came: `web` or `api`.
    pub via: &'static str,
}

/// An authenticated client of the conversations.
#[derive(Clone)]
pub struct Principal {
    /// Whose conversations it sees. It sees no others.
    pub owner: SessionOwner,
    /// The credential of its calls.
    pub credential: Credential,
    /// Its caller, as authenticated.
    pub caller: Arc<Caller>,
    /// What other clients see of it.
    pub participant: Participant,
}

impl Principal {
    /// The credential of the calls in a session: they are made as its agent and with its trust level. `declared` is the level that its agent declares.
    /// A caller with a token can only choose a stricter level than its own, and its token names the agent.
    pub(crate) fn credential_in(&self, session: &SessionSummary, declared: Option<Trust>) -> Credential {
        let (mut credential, level) = (self.credential.clone(), self.trust_in(session, declared));
        match &mut credential {
            Credential::Known(caller) => {
                let caller = Arc::make_mut(caller);
                caller.session = session.id.clone();
                caller.trust = level;
                caller.agent = caller.agent.take().or_else(|| session.agent.clone());
            }
            Credential::Token { session: own, trust, .. } => {
                *own = session.id.clone();
                *trust = session.trust.map_or(*trust, |chosen| stricter(*trust, chosen));
            }
        }
        credential
    }

    /// The trust level of a session of this caller.
    pub(crate) fn trust_in(&self, session: &SessionSummary, declared: Option<Trust>) -> Trust {
        match &self.credential {
            Credential::Known(caller) => session.trust.or(declared).unwrap_or(caller.trust),
            Credential::Token { .. } => {
                session.trust.map_or(self.caller.trust, |chosen| stricter(self.caller.trust, chosen))
            }
        }
    }
}

/// The stricter of two trust levels.
pub(crate) fn stricter(one: Trust, other: Trust) -> Trust {
    let strictness = |trust| match trust {
        Trust::Supervised => 2,
        Trust::Guided => 1,
        Trust::Autonomous => 0,
    };
    if strictness(one) >= strictness(other) { one } else { other }
}
