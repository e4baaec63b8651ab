//! Lasting grants: questions that a person answered for later calls as well.
//!
//! A grant answers a question where one would be asked, and does nothing else: permissions, scopes, deny rules and blocked commands are checked before
//! and after it. It belongs to one definition of one tool, one caller and one workspace, and covers what its matcher covers
//! (`toolgate_policy::GrantMatcher`). Only an approver's answer creates one, by the id of an offer that the gate made for that question.

mod grant_file;
mod offers;
mod grantable_call;
mod grant_store;

use serde::{Deserialize, Serialize};
use toolgate_policy::GrantMatcher;
use toolgate_types::{AgentName, CallId, SessionId, Sha256};

pub use grant_store::{GrantStore, GrantStoreError};
pub(crate) use grantable_call::GrantableCall;
use offers::OfferedGrant;
pub use offers::{GrantDuration, GrantOffer, day_words};

/// A question that a person answered for later calls as well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LastingGrant {
    /// Its id, as records name it.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// What it covers, as the person was shown.
    pub covers: String,
    /// The subject that it was given to.
    pub subject: String,
    /// The agent on whose behalf the subject calls.
    pub agent: Option<AgentName>,
    /// Whether the caller proves itself with a token.
    pub by_token: bool,
    /// The workspace's path on the host.
    pub workspace: String,
    /// Whether it also holds where every call is asked about.
    pub supervised: bool,
    /// When it was given, in milliseconds since 1970.
    pub given_at: i64,
    /// When it ends, in milliseconds since 1970; `None` until it is revoked.
    pub expires_at: Option<i64>,
    /// The call that the question was about.
    pub given_by: CallId,
    definition: Sha256,
    workspace_digest: Sha256,
    matcher: GrantMatcher,
}

impl LastingGrant {
    fn new(call: &GrantableCall, chosen: &OfferedGrant, given_at: i64) -> Self {
        let (workspace_digest, workspace) = call.workspace.clone();
        Self {
            id: fresh_id(),
            tool: call.tool.clone(),
            covers: chosen.offer.covers.clone(),
            subject: call.identity.subject.clone(),
            agent: call.identity.agent.clone(),
            by_token: call.identity.by_token,
            workspace,
            supervised: call.is_supervised(),
            given_at,
            expires_at: chosen.offer.lasts.expires_at(),
            given_by: call.call,
            definition: call.definition,
            workspace_digest,
            matcher: chosen.matcher.clone(),
        }
    }

    /// Whether it answers the question about this call.
    fn answers(&self, call: &GrantableCall, now: i64) -> bool {
        self.tool == call.tool
            && self.definition == call.definition
            && call.identity.is_caller(&self.subject, self.agent.as_ref(), self.by_token)
            && self.workspace_digest == call.workspace.0
            && (self.supervised || !call.is_supervised())
            && !self.is_expired(now)
            && self.matcher.covers(&call.facts())
    }

    /// Whether its time is over. A clock that was set back to before it was given ends it too.
    #[must_use]
    pub fn is_expired(&self, now: i64) -> bool {
        self.expires_at.is_some_and(|end| now >= end || now < self.given_at)
    }
}

/// A grant of a session, which is never stored.
#[derive(Debug)]
struct SessionBoundGrant {
    session: SessionId,
    grant: LastingGrant,
}

/// 48 random bits: enough to be unique in one file, and short enough to be typed.
fn fresh_id() -> String {
    let digest = Sha256::of(toolgate_types::fresh_uuid().as_bytes());
    format!("g{}", digest.to_string().chars().take(12).collect::<String>())
}
