//! Events of a conversation that are not the agent's.

use serde::Serialize;
use toolgate_types::{CallId, Trust};

use super::participant::Participant;
use crate::approval_answer::ApprovalScope;

/// An event of a conversation that is not the agent's. Names and fields are a contract, like those of the agent's events.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", content = "data", rename_all_fields = "camelCase")]
pub enum LiveEvent {
    /// A message was sent, and a turn begins.
    #[serde(rename = "chat:user-message")]
    UserMessage {
        /// Its id.
        message_id: String,
        /// The text.
        text: String,
        /// Who sent it.
        by: Participant,
        /// The names of the texts that came with it.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<String>,
    },
    /// A question was answered.
    #[serde(rename = "chat:tool-answered")]
    ToolAnswered {
        /// The call.
        tool_id: CallId,
        /// Whether it was approved.
        approved: bool,
        /// How far the approval reaches.
        scope: &'static str,
        /// Whose answer counted.
        by: Participant,
        /// The reason of a refusal.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Whether the arguments were changed.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        changed: bool,
    },
    /// The conversation was renamed, or continues differently.
    #[serde(rename = "chat:session")]
    Session {
        /// The new title.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// The new model.
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The new trust level.
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
