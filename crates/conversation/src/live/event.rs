//! Events of a conversation that are not the agent's.

use serde::Serialize;
use toolgate_types::{CallId, Trust};

use super::participant::Participant;
use crate::approval_answer::ApprovalScope;

/// An event of a conversation that is not the agent's. Names and fields are a contract, like those of the agent's events.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", content = "data", rename_all_fields = "camelCase")]
pub(crate) enum LiveEvent {
    /// A message was sent, and a turn begins.
    #[serde(rename = "chat:user-message")]
    UserMessage {
        message_id: String,
        text: String,
        by: Participant,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<String>,
    },
    /// A question was answered.
    #[serde(rename = "chat:tool-answered")]
    ToolAnswered {
        tool_id: CallId,
        approved: bool,
        scope: &'static str,
        by: Participant,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        changed: bool,
    },
    /// The conversation was renamed, or continues differently.
    #[serde(rename = "chat:session")]
    Session {
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        trust: Option<Trust>,
    },
}

impl LiveEvent {
    pub(crate) fn answered(
        tool_id: CallId,
        approved: bool,
        scope: ApprovalScope,
        by: &Participant,
        reason: Option<String>,
        changed: bool,
    ) -> Self {
        Self::ToolAnswered { tool_id, approved, scope: scope.as_str(), by: by.clone(), reason, changed }
    }
}
