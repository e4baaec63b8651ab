//! Asking a person.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;
use toolgate_types::{AgentName, CallId, Caller, ErrorCode, Failure, SessionId, Sha256, ToolClass};

use crate::caller::AuthenticatedCaller;
use crate::tool::Preview;

/// A question about one exact call.
#[derive(Clone, Debug)]
pub struct ApprovalRequest {
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// What the tool can do to the world.
    pub class: ToolClass,
    /// Who asks for it.
    pub caller: Caller,
    /// The whole call as a person should see it.
    pub preview: Preview,
    /// Digest of the tool as it is defined, the arguments and the caller: what an answer is an answer to.
    pub digest: Sha256,
    /// Digest of the tool's name and the arguments, which is the same for every caller.
    pub arguments: Sha256,
    /// How long an answer is waited for.
    pub timeout: Duration,
    /// Whether [`ApprovalReply::ForSession`] may be offered; where it may not, it counts for this call alone.
    pub can_grant_session: bool,
}

/// A person's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalReply {
    /// Yes, this call.
    Once,
    /// Yes, and every later call of this tool in this session.
    ForSession,
    /// No, with words for the model.
    Denied(Option<String>),
    /// The question was put away, and nobody said yes or no.
    Dismissed,
    /// There is nobody to ask.
    Unavailable(ApprovalUnavailable),
}

/// Why nobody can be asked, and what would change that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalUnavailable {
    /// Why, where it is not that there is nobody: what follows "this call needs a person's approval, and".
    pub reason: Option<String>,
    /// How somebody could be asked, for the operator.
    pub remedy: String,
    /// The same where the caller may know it too: a person reads the caller's screen, and not the operator's.
    pub caller_remedy: Option<String>,
}

impl ApprovalUnavailable {
    /// What only the operator is told.
    #[must_use]
    pub fn for_operator(remedy: impl Into<String>) -> Self {
        Self { reason: None, remedy: remedy.into(), caller_remedy: None }
    }

    /// What everybody is told.
    #[must_use]
    pub fn for_everyone(remedy: impl Into<String>) -> Self {
        let remedy = remedy.into();
        Self { reason: None, caller_remedy: Some(remedy.clone()), remedy }
    }

    /// Somebody is there, and cannot be asked for this reason.
    #[must_use]
    pub fn with_reason(why: impl Into<String>) -> Self {
        let why = why.into();
        Self { remedy: why.clone(), reason: Some(why), caller_remedy: None }
    }

    /// The same, with what everybody is told to do about it.
    #[must_use]
    pub fn with_remedy(self, remedy: impl Into<String>) -> Self {
        Self { caller_remedy: Some(remedy.into()), ..self }
    }
}

/// Somebody who can be asked.
pub trait Approver: Send + Sync {
    /// Asks, and waits for the answer. The gate gives up by itself when the time is up.
    fn ask(&self, question: ApprovalRequest) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>>;

    /// Whether a yes can be for the rest of a session. It cannot where the gate ends with the call, and its memory with it.
    fn can_grant_session(&self) -> bool {
        true
    }
}

/// Nobody.
#[derive(Clone, Debug)]
pub struct NoApprover {
    /// How somebody could be asked.
    pub remedy: String,
}

impl Approver for NoApprover {
    fn ask(&self, _question: ApprovalRequest) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>> {
        Box::pin(async { ApprovalReply::Unavailable(ApprovalUnavailable::for_operator(&self.remedy)) })
    }
}

/// Digest of a call without its caller: calls that come as different ones differ in it, even where they would do the same.
pub(crate) fn arguments_digest(tool: &str, arguments: &Value) -> Sha256 {
    let arguments = serde_json::to_vec(arguments).unwrap_or_default();
    Sha256::of(&[tool.as_bytes(), b"\0", &arguments].concat())
}

/// Binds an answer to the exact call: another argument, another tool or another caller is another question, and so is a tool that was changed.
pub(crate) fn digest(
    tool: &str,
    definition: Sha256,
    arguments: &Value,
    who: &AuthenticatedCaller<'_>,
) -> Sha256 {
    let caller = &who.caller;
    let agent = caller.agent.as_ref().map(ToString::to_string).unwrap_or_default();
    let run = caller.run.as_ref().map(ToString::to_string).unwrap_or_default();
    let permissions: Vec<&str> = caller.permissions.iter().map(String::as_str).collect();
    let permissions = permissions.join("\0");
    let parts = [
        tool.as_bytes(),
        definition.as_bytes(),
        &serde_json::to_vec(arguments).unwrap_or_default(),
        caller.subject.as_bytes(),
        &[u8::from(who.by_token)],
        agent.as_bytes(),
        caller.session.as_str().as_bytes(),
        run.as_bytes(),
        permissions.as_bytes(),
    ];
    let mut hasher = toolgate_types::digest::Sha256Hasher::new();
    hasher.update(b"toolgate.approval.v2\0");
    for part in parts {
        // Lengths keep two parts from being read as one.
        hasher.update(&(part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finish()
}

/// What people have allowed for the rest of a session.
#[derive(Debug, Default)]
pub(crate) struct SessionGrants(Mutex<BTreeSet<SessionGrant>>);

/// Whom, in which session, and to use what. The tool is named by its definition: a yes is to a tool as it was, and not to its name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SessionGrant {
    session: SessionId,
    subject: String,
    agent: Option<AgentName>,
    by_token: bool,
    definition: Sha256,
}

impl SessionGrant {
    fn new(definition: Sha256, who: &AuthenticatedCaller<'_>) -> Self {
        let Caller { session, subject, agent, .. } = &*who.caller;
        let (session, subject, agent) = (session.clone(), subject.clone(), agent.clone());
        Self { session, subject, agent, by_token: who.by_token, definition }
    }
}

impl SessionGrants {
    pub(crate) fn allow(&self, definition: Sha256, who: &AuthenticatedCaller<'_>) -> bool {
        // A poisoned lock means a decision was interrupted: ask again.
        self.0.lock().is_ok_and(|grants| grants.contains(&SessionGrant::new(definition, who)))
    }

    pub(crate) fn grant(&self, definition: Sha256, who: &AuthenticatedCaller<'_>) {
        if let Ok(mut grants) = self.0.lock() {
            grants.insert(SessionGrant::new(definition, who));
        }
    }
}

/// What the model is told of an answer that is not yes.
pub(crate) fn refusal(reply: ApprovalReply) -> Failure {
    match reply {
        ApprovalReply::Denied(Some(words)) => {
            Failure::new(ErrorCode::ApprovalDenied, format!("a person refused this call: {words}"))
        }
        ApprovalReply::Dismissed => Failure::new(
            ErrorCode::ApprovalDenied,
            "the question about this call was dismissed, and nobody approved it",
        ),
        ApprovalReply::Unavailable(ApprovalUnavailable { reason: why, remedy, caller_remedy: told }) => {
            let general = "go on without this call, or tell the operator that it is needed";
            let why = why.as_deref().unwrap_or("there is nobody to ask");
            Failure::new(
                ErrorCode::ApprovalUnavailable,
                format!("this call needs a person's approval and {why}"),
            )
            .help(told.unwrap_or_else(|| general.to_owned()))
            .operator_note(remedy)
        }
        _ => Failure::new(ErrorCode::ApprovalDenied, "a person refused this call"),
    }
}

/// What the model is told when nobody answered.
pub(crate) fn approval_timed_out(patience: Duration) -> Failure {
    let message = format!("nobody approved this call within {} s", patience.as_secs_f64());
    Failure::new(ErrorCode::ApprovalExpired, message)
}
