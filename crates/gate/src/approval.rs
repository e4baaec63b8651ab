//! Asking a person.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::time::Duration;

use toolgate_types::{CallId, Caller, ErrorCode, Failure, Sha256, ToolCall, ToolClass};

use crate::tool::Preview;

/// A question about one exact call.
#[derive(Clone, Debug)]
pub struct Question {
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
    /// Digest of tool, arguments and caller: what an answer is an answer to.
    pub digest: Sha256,
    /// How long an answer is waited for.
    pub patience: Duration,
    /// Whether [`Reply::ForSession`] may be offered; where it may not, it counts for this call alone.
    pub may_last: bool,
}

/// A person's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Yes, this call.
    Once,
    /// Yes, and every later call of this tool in this session.
    ForSession,
    /// No, with words for the model.
    No(Option<String>),
    /// There is nobody to ask; says how one could be, to the operator and never to the model.
    Nobody(String),
}

/// Somebody who can be asked.
pub trait Approver: Send + Sync {
    /// Asks, and waits for the answer. The gate gives up by itself when the time is up.
    fn ask(&self, question: Question) -> Pin<Box<dyn Future<Output = Reply> + Send + '_>>;

    /// Whether a yes can be for the rest of a session. It cannot where the gate ends with the call, and its memory with it.
    fn may_last(&self) -> bool {
        true
    }
}

/// Nobody.
#[derive(Clone, Debug)]
pub struct NobodyToAsk {
    /// How somebody could be asked.
    pub remedy: String,
}

impl Approver for NobodyToAsk {
    fn ask(&self, _question: Question) -> Pin<Box<dyn Future<Output = Reply> + Send + '_>> {
        Box::pin(async { Reply::Nobody(self.remedy.clone()) })
    }
}

/// Binds an answer to the exact call: another argument, another tool or another caller is another question.
pub(crate) fn digest(call: &ToolCall, caller: &Caller) -> Sha256 {
    let agent = caller.agent.as_ref().map(ToString::to_string).unwrap_or_default();
    let run = caller.run.as_ref().map(ToString::to_string).unwrap_or_default();
    let permissions: Vec<&str> = caller.permissions.iter().map(String::as_str).collect();
    let permissions = permissions.join("\0");
    let parts = [
        call.tool.as_bytes(),
        &serde_json::to_vec(&call.arguments).unwrap_or_default(),
        caller.subject.as_bytes(),
        agent.as_bytes(),
        caller.session.as_str().as_bytes(),
        run.as_bytes(),
        permissions.as_bytes(),
    ];
    let mut hasher = toolgate_types::digest::Sha256Hasher::new();
    hasher.update(b"toolgate.approval.v1\0");
    for part in parts {
        // Lengths keep two parts from being read as one.
        hasher.update(&(part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finish()
}

/// What people have allowed for the rest of a session.
#[derive(Debug, Default)]
pub(crate) struct SessionGrants(Mutex<BTreeSet<(String, String, String)>>);

impl SessionGrants {
    fn key(tool: &str, caller: &Caller) -> (String, String, String) {
        let agent = caller.agent.as_ref().map(ToString::to_string).unwrap_or_default();
        (caller.session.as_str().to_owned(), format!("{}\0{agent}", caller.subject), tool.to_owned())
    }

    pub(crate) fn allows(&self, tool: &str, caller: &Caller) -> bool {
        // A poisoned lock means a decision was interrupted: ask again.
        self.0.lock().is_ok_and(|grants| grants.contains(&Self::key(tool, caller)))
    }

    pub(crate) fn grant(&self, tool: &str, caller: &Caller) {
        if let Ok(mut grants) = self.0.lock() {
            grants.insert(Self::key(tool, caller));
        }
    }
}

/// What the model is told of an answer that is not yes.
pub(crate) fn refusal(reply: Reply) -> Failure {
    match reply {
        Reply::No(Some(words)) => {
            Failure::new(ErrorCode::ApprovalDenied, format!("a person refused this call: {words}"))
        }
        Reply::Nobody(remedy) => Failure::new(
            ErrorCode::ApprovalUnavailable,
            "this call needs a person's approval and there is nobody to ask",
        )
        .help("go on without this call, or tell the operator that it is needed")
        .operator_note(remedy),
        _ => Failure::new(ErrorCode::ApprovalDenied, "a person refused this call"),
    }
}

/// What the model is told when nobody answered.
pub(crate) fn expired(patience: Duration) -> Failure {
    let message = format!("nobody approved this call within {} s", patience.as_secs_f64());
    Failure::new(ErrorCode::ApprovalExpired, message)
}
