//! Caller authentication, and what a caller may do.
//!
//! A caller is either known to the code that built the credential, or it presents a token that is verified here. The difference matters: a person at
//! the keyboard holds every permission, a token only those it carries. No part of a token is kept after verification, and none is ever shown.

use std::fmt;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use toolgate_identity::{Identity, Verifier};
use toolgate_manifest::AgentConfig;
use toolgate_policy::{ALLOW_DESTRUCTIVE, Grant, HeldPermissions, Requirements, ScopeVerdict};
use toolgate_types::{
    AgentName, Caller, Category, ErrorCode, Failure, RESERVED_SUBJECTS, RunId, SessionId, Sha256, ToolClass,
    Trust,
};

use crate::snapshot::{DeclaredAgent, Snapshot};
use crate::tool::ToolSpec;
use crate::tool_search::is_search_tool;

/// The subject recorded for a call whose caller was never verified. No token can carry it.
const UNVERIFIED: &str = RESERVED_SUBJECTS[0];

/// What a caller authenticates with.
#[derive(Clone)]
pub enum Credential {
    /// A caller that the code building this value has verified: the person at the keyboard, who holds every permission, or an agent that such a
    /// person acts as. Claims of a token must never be passed this way.
    Known(Arc<Caller>),
    /// A token, verified by the gate.
    Token {
        /// The token as received.
        token: String,
        /// The session that changes belong to.
        session: SessionId,
        /// The workflow run, if any.
        run: Option<RunId>,
        /// The least strict trust level that applies. The token and its agent's declaration can only make it stricter.
        trust: Trust,
    },
}

impl From<Caller> for Credential {
    fn from(caller: Caller) -> Self {
        Self::Known(Arc::new(caller))
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(caller) => formatter.debug_tuple("Known").field(caller).finish(),
            Self::Token { session, run, trust, .. } => formatter
                .debug_struct("Token")
                .field("session", session)
                .field("run", run)
                .field("trust", trust)
                .finish_non_exhaustive(),
        }
    }
}

impl Credential {
    /// The caller to record before verification; a placeholder for a token.
    #[must_use]
    pub fn unverified_caller(&self) -> Arc<Caller> {
        match self {
            Self::Known(caller) => Arc::clone(caller),
            Self::Token { session, run, trust, .. } => Arc::new(Caller {
                subject: UNVERIFIED.to_owned(),
                permissions: Default::default(),
                agent: None,
                session: session.clone(),
                run: run.clone(),
                trust: *trust,
            }),
        }
    }

    pub(crate) fn is_token(&self) -> bool {
        matches!(self, Self::Token { .. })
    }

    /// Authenticates the caller. Waits only if the issuer's keys must be fetched. Nothing of the token is kept.
    pub(crate) async fn authenticate<'s>(
        self,
        snapshot: &'s Snapshot,
        cancelled: &CancellationToken,
    ) -> Result<AuthenticatedCaller<'s>, Failure> {
        match self {
            Self::Known(caller) => AuthenticatedCaller::from_known(caller, snapshot),
            Self::Token { token, session, run, trust } => {
                // In a box: fetching keys is rare, and its state large.
                let mut verified = Box::pin(verify_token(snapshot.verifier.as_deref(), &token));
                let identity = tokio::select! {
                    biased;
                    identity = &mut verified => identity?,
                    () = cancelled.cancelled() => {
                        return Err(Failure::new(ErrorCode::Cancelled, "the call was cancelled"));
                    }
                };
                AuthenticatedCaller::from_token(identity, session, run, trust, snapshot)
            }
        }
    }
}

async fn verify_token(verifier: Option<&Verifier>, token: &str) -> Result<Identity, Failure> {
    let Some(verifier) = verifier else {
        return Err(unverified("no issuer of tokens is configured"));
    };
    verifier.verify(token).await.map_err(|error| error.to_failure())
}

/// The caller gets no reason; that is for the operator.
fn unverified(reason: impl Into<String>) -> Failure {
    Failure::new(ErrorCode::Unauthenticated, "the caller could not be verified").operator_note(reason)
}

/// What approvals, escalations and background commands are bound to: a caller in a session, and how it is authenticated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionCaller {
    /// The session.
    pub session: SessionId,
    /// The subject.
    pub subject: String,
    /// The agent on whose behalf the subject calls.
    pub agent: Option<AgentName>,
    /// Whether the caller proves itself with a token.
    pub by_token: bool,
}

impl SessionCaller {
    pub(crate) fn new(caller: &Caller, by_token: bool) -> Self {
        let Caller { session, subject, agent, .. } = caller;
        Self { session: session.clone(), subject: subject.clone(), agent: agent.clone(), by_token }
    }

    /// Whether this is that caller, in whatever session.
    #[must_use]
    pub fn is_caller(&self, subject: &str, agent: Option<&AgentName>, by_token: bool) -> bool {
        self.subject == subject && self.agent.as_ref() == agent && self.by_token == by_token
    }
}

/// What is kept for one tool of a caller in a session. The tool is identified by its definition, not its name: an approval is for the tool as it was.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ToolHolder {
    caller: SessionCaller,
    definition: Sha256,
}

impl ToolHolder {
    pub(crate) fn new(who: &AuthenticatedCaller<'_>, definition: Sha256) -> Self {
        Self { caller: SessionCaller::new(&who.caller, who.by_token), definition }
    }

    #[cfg(test)]
    pub(crate) fn of_test(subject: &str) -> Self {
        let session = "s".parse().unwrap();
        let caller = SessionCaller { session, subject: subject.to_owned(), agent: None, by_token: false };
        Self { caller, definition: Sha256::of(b"tool") }
    }
}

/// An authenticated caller.
pub(crate) struct AuthenticatedCaller<'s> {
    pub(crate) caller: Arc<Caller>,
    pub(crate) acting_as: ActingAs<'s>,
    pub(crate) by_token: bool,
}

/// What an authenticated caller acts as.
#[derive(Clone, Copy)]
pub(crate) enum ActingAs<'s> {
    /// A person at the keyboard: every tool, every permission.
    Person,
    /// An agent: what its declaration grants.
    Agent(&'s DeclaredAgent),
    /// The bearer of a token that names no agent: every tool its permissions allow; built-in tools need `files:read`, `files:write` or
    /// `commands:run`.
    Bearer,
}

impl<'s> AuthenticatedCaller<'s> {
    /// A caller verified elsewhere. An undeclared agent is refused.
    pub(crate) fn from_known(mut caller: Arc<Caller>, snapshot: &'s Snapshot) -> Result<Self, Failure> {
        let standing = match &caller.agent {
            None => ActingAs::Person,
            Some(name) => {
                ActingAs::Agent(snapshot.agent(name).ok_or_else(|| undeclared_agent(name.as_str()))?)
            }
        };
        if let ActingAs::Agent(agent) = standing {
            let declared = agent.config.permissions.iter().map(|permission| permission.value.clone());
            Arc::make_mut(&mut caller).permissions.extend(declared);
        }
        if stricter(caller.trust, snapshot.trust) != caller.trust {
            Arc::make_mut(&mut caller).trust = snapshot.trust;
        }
        Ok(Self { caller, acting_as: standing, by_token: false })
    }

    /// Re-evaluates an authenticated caller under a newer configuration.
    pub(crate) fn revalidate(
        mut caller: Arc<Caller>,
        by_token: bool,
        before: &Snapshot,
        snapshot: &'s Snapshot,
    ) -> Result<Self, Failure> {
        if !by_token {
            // Replace the permissions of the agent's earlier declaration with those of the current one.
            if let Some(earlier) = caller.agent.as_ref().and_then(|name| before.agent(name)) {
                let held = &mut Arc::make_mut(&mut caller).permissions;
                for permission in &earlier.config.permissions {
                    held.remove(&permission.value);
                }
            }
            return Self::from_known(caller, snapshot);
        }
        let standing = match &caller.agent {
            None => ActingAs::Bearer,
            Some(name) => {
                ActingAs::Agent(snapshot.agent(name).ok_or_else(|| undeclared_agent(name.as_str()))?)
            }
        };
        Ok(Self { caller, acting_as: standing, by_token })
    }

    fn from_token(
        identity: Identity,
        session: SessionId,
        run: Option<RunId>,
        given: Trust,
        snapshot: &'s Snapshot,
    ) -> Result<Self, Failure> {
        let Identity { subject, permissions, agent, trust: claimed, .. } = identity;
        let standing = match &agent {
            None => ActingAs::Bearer,
            Some(name) => {
                ActingAs::Agent(snapshot.agent(name).ok_or_else(|| undeclared_agent(name.as_str()))?)
            }
        };
        let declared = match standing {
            ActingAs::Agent(agent) => agent.config.trust.as_ref().map(|trust| trust.value),
            ActingAs::Person | ActingAs::Bearer => None,
        };
        let trust = [claimed, declared, Some(snapshot.trust)].into_iter().flatten().fold(given, stricter);
        let caller = Arc::new(Caller { subject, permissions, agent, session, run, trust });
        Ok(Self { caller, acting_as: standing, by_token: true })
    }

    pub(crate) fn agent(&self) -> Option<&'s AgentConfig> {
        match self.acting_as {
            ActingAs::Agent(agent) => Some(&agent.config),
            ActingAs::Person | ActingAs::Bearer => None,
        }
    }

    pub(crate) fn held_permissions(&self) -> HeldPermissions<'_> {
        match self.acting_as {
            ActingAs::Person => HeldPermissions::Everything,
            ActingAs::Agent(_) | ActingAs::Bearer => HeldPermissions::granted(&self.caller),
        }
    }

    /// Whether the caller's scope includes the tool, and with which grant.
    pub(crate) fn scope(&self, spec: &ToolSpec) -> ScopeVerdict {
        let built_in = spec.requirements.is_none();
        match self.acting_as {
            _ if is_search_tool(spec) => ScopeVerdict::Allowed(Grant::default()),
            ActingAs::Person => ScopeVerdict::Allowed(Grant::default()),
            ActingAs::Agent(agent) => agent.scope.permits(spec.name.as_str(), spec.class),
            ActingAs::Bearer if built_in => self.built_in_verdict(spec),
            ActingAs::Bearer => ScopeVerdict::Allowed(Grant::default()),
        }
    }

    /// Built-in tools declare no permissions; a bearer without an agent needs these.
    fn built_in_verdict(&self, spec: &ToolSpec) -> ScopeVerdict {
        let needed: &[&str] = match (spec.category, spec.class) {
            (Category::Exec, _) => &["commands:run", ALLOW_DESTRUCTIVE],
            (Category::Web, _) => &["web:search"],
            (_, ToolClass::Read) => &["files:read"],
            (_, ToolClass::Write) => &["files:write"],
            (_, ToolClass::Destructive) => &["files:write", ALLOW_DESTRUCTIVE],
        };
        let missing: Vec<&str> = needed
            .iter()
            .copied()
            .filter(|permission| !self.caller.permissions.contains(*permission))
            .collect();
        if missing.is_empty() {
            return ScopeVerdict::Allowed(Grant::default());
        }
        ScopeVerdict::Denied {
            operator_reason: format!(
                "`{}` acts for no agent and lacks `{}` for the built-in tool `{}`",
                self.caller.subject,
                missing.join("`, `"),
                spec.name
            ),
        }
    }

    /// Why no call of this tool by this caller could be permitted, if none could.
    pub(crate) fn refusal(&self, spec: &ToolSpec) -> Option<String> {
        if self.can_see(spec) {
            return None;
        }
        if let Some(reason) = &spec.suspended {
            return Some(format!("suspended: {reason}"));
        }
        if let ScopeVerdict::Denied { operator_reason } = self.scope(spec) {
            return Some(operator_reason);
        }
        let requirements = spec.requirements.iter();
        let needed = requirements.flat_map(|needed| {
            let destructive = (needed.class == ToolClass::Destructive).then_some(ALLOW_DESTRUCTIVE);
            needed.permissions.iter().map(String::as_str).chain(destructive)
        });
        let missing: Vec<&str> = needed.filter(|needed| !self.held_permissions().holds(needed)).collect();
        Some(format!("`{}` lacks the permission `{}`", self.caller.subject, missing.join("`, `")))
    }

    /// Whether a model that calls as this caller is shown the tool: some call of it could be permitted.
    pub(crate) fn can_see(&self, spec: &ToolSpec) -> bool {
        let demands_met = |requirements: &Requirements| {
            let held = |permission: &str| self.held_permissions().holds(permission);
            let is_destructive = requirements.class == ToolClass::Destructive;
            requirements.permissions.iter().all(|permission| held(permission))
                && (!is_destructive || held(ALLOW_DESTRUCTIVE))
        };
        spec.suspended.is_none()
            && self.scope(spec).is_allowed()
            && spec.requirements.as_ref().is_none_or(demands_met)
    }
}

fn undeclared_agent(name: &str) -> Failure {
    unverified(format!("agent `{name}` is not declared"))
}

/// The stricter of two trust levels.
pub(crate) fn stricter(one: Trust, other: Trust) -> Trust {
    match (one, other) {
        (Trust::Supervised, _) | (_, Trust::Supervised) => Trust::Supervised,
        (Trust::Guided, _) | (_, Trust::Guided) => Trust::Guided,
        (Trust::Autonomous, Trust::Autonomous) => Trust::Autonomous,
    }
}

#[cfg(test)]
mod tests {
    use toolgate_policy::needs_question;

    use super::*;

    #[test]
    fn the_tighter_of_two_never_asks_less_than_either() {
        let all = [Trust::Supervised, Trust::Guided, Trust::Autonomous];
        for (one, other) in all.into_iter().flat_map(|one| all.map(|other| (one, other))) {
            let both = stricter(one, other);
            assert!(both == one || both == other);
            for class in [ToolClass::Read, ToolClass::Write, ToolClass::Destructive] {
                let asked = needs_question(one, class) || needs_question(other, class);
                assert_eq!(needs_question(both, class), asked, "{one} and {other}");
            }
        }
    }

    #[test]
    fn a_credential_does_not_print_its_token() {
        let credential = Credential::Token {
            token: "eyJhbGciOiJIUzI1NiJ9.secret.signature".to_owned(),
            session: "s1".parse().unwrap(),
            run: None,
            trust: Trust::Guided,
        };
        let shown = format!("{credential:?} {:?}", credential.unverified_caller());
        assert!(!shown.contains("eyJ") && !shown.contains("secret"), "{shown}");
    }
}
