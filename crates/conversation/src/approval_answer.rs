//! A person's answer to a question, as programs send it.

use serde::Deserialize;
use serde_json::{Map, Value};
use toolgate_gate::ApprovalReply;

/// How far an approval reaches.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalScope {
    /// This call.
    #[default]
    Once,
    /// Every later call of this tool in this session.
    Session,
    /// What a lasting grant covers.
    Grant,
}

impl ApprovalScope {
    /// The word in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::Grant => "grant",
        }
    }
}

/// An answer to a question.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct GivenAnswer {
    /// Whether the call may be made.
    pub approved: bool,
    /// How far the approval reaches.
    #[serde(default)]
    pub scope: ApprovalScope,
    /// The id of the lasting grant, with the scope `grant`.
    #[serde(default)]
    pub grant: Option<String>,
    /// The reason of a refusal, for the model.
    #[serde(default)]
    pub reason: Option<String>,
    /// The arguments to run the call with, if not the model's.
    #[serde(default)]
    pub input: Option<Map<String, Value>>,
    /// The ids of what is allowed beyond the configuration.
    #[serde(default)]
    pub escalate: Vec<String>,
}

/// An answer that names its question: `chat:tool-approve`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ToolApproval {
    /// The call.
    pub tool_id: String,
    /// Whether the call may be made.
    pub approved: bool,
    /// How far the approval reaches.
    #[serde(default)]
    pub scope: ApprovalScope,
    /// The id of the lasting grant, with the scope `grant`.
    #[serde(default)]
    pub grant: Option<String>,
    /// The reason of a refusal, for the model.
    #[serde(default)]
    pub reason: Option<String>,
    /// The arguments to run the call with, if not the model's.
    #[serde(default)]
    pub input: Option<Map<String, Value>>,
    /// The ids of what is allowed beyond the configuration.
    #[serde(default)]
    pub escalate: Vec<String>,
}

impl ToolApproval {
    /// The id of the call, and the answer.
    #[must_use]
    pub fn into_parts(self) -> (String, GivenAnswer) {
        let Self { tool_id, approved, scope, grant, reason, input, escalate } = self;
        (tool_id, GivenAnswer { approved, scope, grant, reason, input, escalate })
    }
}

impl GivenAnswer {
    /// The reply to the gate. Parts that contradict each other are no answer.
    ///
    /// # Errors
    /// What contradicts what.
    pub fn into_reply(self) -> Result<ApprovalReply, &'static str> {
        let Self { approved, scope, grant, reason, input, escalate } = self;
        if input.is_some() && (!approved || scope != ApprovalScope::Once) {
            return Err("`input` goes with `approved: true` for this call alone");
        }
        if !escalate.is_empty() && (!approved || scope != ApprovalScope::Once || input.is_some()) {
            return Err("`escalate` goes with `approved: true` for this call alone, without `input`");
        }
        Ok(match (approved, scope, input, grant) {
            (true, ApprovalScope::Grant, _, Some(id)) => ApprovalReply::Granted(id),
            (true, ApprovalScope::Grant, _, None) => return Err("`scope` is `grant`, and `grant` is absent"),
            (true, _, _, Some(_)) => return Err("`grant` needs the scope `grant`"),
            (true, ApprovalScope::Once, Some(input), None) => ApprovalReply::Changed(Value::Object(input)),
            (true, ApprovalScope::Once, None, None) if !escalate.is_empty() => {
                ApprovalReply::Escalated(escalate)
            }
            (true, ApprovalScope::Once, None, None) => ApprovalReply::Once,
            (true, ApprovalScope::Session, ..) => ApprovalReply::ForSession,
            (false, ..) => ApprovalReply::Denied(reason.filter(|words| !words.trim().is_empty())),
        })
    }
}
