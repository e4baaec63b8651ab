//! Asking a person for approval.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use toolgate_types::time::rfc3339_millis;
use toolgate_types::{CallId, Caller, ErrorCode, Failure, Sha256, ToolClass};

use crate::caller::{AuthenticatedCaller, ToolHolder};
use crate::elicitation::{ServerAnswer, ServerQuestion};
use crate::escalation::EscalationOffer;
use crate::grants::{GrantDuration, GrantOffer};
use crate::tool::Preview;

/// An approval question about one exact call.
#[derive(Clone, Debug)]
pub struct ApprovalRequest {
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// What effect the tool can have.
    pub class: ToolClass,
    /// The caller.
    pub caller: Caller,
    /// The arguments, which a person may change ([`ApprovalReply::Changed`]).
    pub input: Value,
    /// The whole call, as a person is shown it.
    pub preview: Preview,
    /// Digest of the tool's name and the arguments; equal for all callers.
    pub arguments: Sha256,
    /// How long to wait for a reply.
    pub timeout: Duration,
    /// When the timeout ends, by the wall clock.
    pub expires_at: SystemTime,
    /// Whether [`ApprovalReply::ForSession`] may be offered; if not, that reply counts for this call alone.
    pub can_grant_session: bool,
    /// The lasting grants that may be offered, the narrowest first. [`ApprovalReply::Granted`] chooses one by its id.
    pub grants: Vec<GrantOffer>,
    /// What the same call lacked before, and a person may allow it now ([`ApprovalReply::Escalated`]).
    pub escalations: Vec<EscalationOffer>,
}

impl ApprovalRequest {
    /// The same question without the answers that last for the session of the call.
    pub(crate) fn once_at_most(mut self) -> Self {
        self.can_grant_session = false;
        self.grants.retain(|offer| offer.lasts != GrantDuration::Session);
        self.escalations.retain(|offer| !offer.for_session);
        self
    }

    /// [`Self::expires_at`] in RFC 3339, for programs.
    #[must_use]
    pub fn expires_at_rfc3339(&self) -> String {
        jiff::Timestamp::try_from(self.expires_at).map(rfc3339_millis).unwrap_or_default()
    }
}

/// How long a call waited for a person. That time is neither part of the call's duration nor of its timeout.
#[derive(Debug, Default)]
pub(crate) struct ApprovalWait(AtomicU64);

impl ApprovalWait {
    pub(crate) fn total(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }

    /// Counts the time from now until the guard is dropped, also if the question is abandoned.
    pub(crate) fn start(&self) -> impl Drop + '_ {
        ApprovalWaitGuard { wait: self, since: Instant::now() }
    }
}

struct ApprovalWaitGuard<'w> {
    wait: &'w ApprovalWait,
    since: Instant,
}

impl Drop for ApprovalWaitGuard<'_> {
    fn drop(&mut self) {
        let waited = u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.wait.0.fetch_add(waited, Ordering::Relaxed);
    }
}

/// A person's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalReply {
    /// Approves this call.
    Once,
    /// Approves this call and every later call of this tool in this session.
    ForSession,
    /// Approves this call, and allows what these offers of [`ApprovalRequest::escalations`] say. An id that was not offered denies.
    Escalated(Vec<String>),
    /// Approves this call with these arguments in place of the model's. The changed call passes every stage again, and no question is asked about it.
    Changed(Value),
    /// Approves this call, and gives the lasting grant with this id among [`ApprovalRequest::grants`]. An id that was not offered denies.
    Granted(String),
    /// Denies, with an optional reason for the model.
    Denied(Option<String>),
    /// The question was closed without a yes or no.
    Dismissed,
    /// No person can be asked.
    Unavailable(ApprovalUnavailable),
}

/// Why no person can be asked, and what would change that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalUnavailable {
    /// The reason, if it is not simply that no approver exists: the continuation of "this call needs a person's approval, and".
    pub reason: Option<String>,
    /// How to make approval possible, for the operator.
    pub remedy: String,
    /// The same for the caller, if it may know: a person may read the caller's screen but not the operator's.
    pub caller_remedy: Option<String>,
}

impl ApprovalUnavailable {
    /// With a remedy that only the operator sees.
    #[must_use]
    pub fn for_operator(remedy: impl Into<String>) -> Self {
        Self { reason: None, remedy: remedy.into(), caller_remedy: None }
    }

    /// With a remedy that the operator and the caller see.
    #[must_use]
    pub fn for_everyone(remedy: impl Into<String>) -> Self {
        let remedy = remedy.into();
        Self { reason: None, caller_remedy: Some(remedy.clone()), remedy }
    }

    /// An approver exists, but cannot be asked for this reason.
    #[must_use]
    pub fn with_reason(why: impl Into<String>) -> Self {
        let why = why.into();
        Self { remedy: why.clone(), reason: Some(why), caller_remedy: None }
    }

    /// Adds a remedy that the caller sees.
    #[must_use]
    pub fn with_remedy(self, remedy: impl Into<String>) -> Self {
        Self { caller_remedy: Some(remedy.into()), ..self }
    }
}

/// Asks a person for approval.
pub trait Approver: Send + Sync {
    /// Asks, and waits for the reply. The gate applies the approval timeout itself.
    ///
    /// The future is the binding: its value decides the call of this question and no other. An approver with several open questions reports them apart by
    /// [`ApprovalRequest::call`].
    fn ask(&self, question: ApprovalRequest) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>>;

    /// Shows a question of a server behind the gate, as that server's, and waits for the answer. No answer approves anything.
    fn ask_for_server(
        &self,
        _question: ServerQuestion,
    ) -> Pin<Box<dyn Future<Output = ServerAnswer> + Send + '_>> {
        Box::pin(async { ServerAnswer::Unavailable })
    }

    /// Whether an approval can last for the session. It cannot if the gate, which remembers it, ends with the call.
    fn can_grant_session(&self) -> bool {
        true
    }
}

/// An approver that can ask no one.
#[derive(Clone, Debug)]
pub struct NoApprover {
    /// How to make approval possible.
    pub remedy: String,
}

impl Approver for NoApprover {
    fn ask(&self, _question: ApprovalRequest) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>> {
        Box::pin(async { ApprovalReply::Unavailable(ApprovalUnavailable::for_operator(&self.remedy)) })
    }
}

/// Digest of a call without its caller. Calls that were sent differently get different digests, even if their effect is the same.
pub(crate) fn arguments_digest(tool: &str, arguments: &Value) -> Sha256 {
    let arguments = serde_json::to_vec(arguments).unwrap_or_default();
    Sha256::of(&[tool.as_bytes(), b"\0", &arguments].concat())
}

/// The session-wide approvals.
#[derive(Debug, Default)]
pub(crate) struct SessionGrants(Mutex<BTreeSet<ToolHolder>>);

impl SessionGrants {
    pub(crate) fn allow(&self, definition: Sha256, who: &AuthenticatedCaller<'_>) -> bool {
        // A poisoned lock means that an update was interrupted: ask again.
        self.0.lock().is_ok_and(|grants| grants.contains(&ToolHolder::new(who, definition)))
    }

    pub(crate) fn grant(&self, definition: Sha256, who: &AuthenticatedCaller<'_>) {
        if let Ok(mut grants) = self.0.lock() {
            grants.insert(ToolHolder::new(who, definition));
        }
    }
}

/// The failure for a reply other than an approval.
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
        ApprovalReply::Granted(_) => Failure::new(
            ErrorCode::ApprovalDenied,
            "the answer chose a grant that was not offered, so it is no approval",
        ),
        ApprovalReply::Escalated(_) => Failure::new(
            ErrorCode::ApprovalDenied,
            "the answer allowed something that was not offered, so it is no approval",
        ),
        _ => Failure::new(ErrorCode::ApprovalDenied, "a person refused this call"),
    }
}

/// The failure when no reply came in time.
pub(crate) fn approval_timed_out(patience: Duration) -> Failure {
    let message = format!("nobody approved this call within {} s", patience.as_secs_f64());
    Failure::new(ErrorCode::ApprovalExpired, message)
}
