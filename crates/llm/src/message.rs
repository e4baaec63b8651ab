//! A conversation as it is stored: complete messages, independent of the wire except for opaque state that only its wire can read.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_types::{CallId, Decision, ErrorCode, Stage};

use crate::provider::ModelName;
use crate::wires::Wire;

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// The user's message.
    User {
        /// The text.
        text: String,
        /// Images that come with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<UserImage>,
    },
    /// The model's message, complete.
    Assistant(AssistantMessage),
    /// The results of all calls of the message before, in order.
    Results {
        /// One per call.
        results: Vec<CallResult>,
    },
}

impl Message {
    /// A message of the user without images.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { text: text.into(), images: Vec::new() }
    }
}

/// An image that the user attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserImage {
    /// Its name, such as the path of the file.
    pub name: String,
    /// Its media type: `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub mime_type: String,
    /// Its bytes in base64.
    pub data: String,
}

impl UserImage {
    /// As a `data:` URL.
    pub(crate) fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.mime_type, self.data)
    }
}

/// A model's message of one step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// Its parts, in order.
    pub parts: Vec<MessagePart>,
    /// The model that wrote it; opaque state is sent back to no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelName>,
}

/// A part of a model's message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MessagePart {
    /// Text for the user.
    Text {
        /// The text.
        text: String,
    },
    /// The model's thinking.
    Thinking {
        /// What may be shown of it; empty if nothing may.
        text: String,
        /// State that must be sent back unchanged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seal: Option<OpaqueProviderState>,
    },
    /// A requested call.
    Call(ModelCall),
}

/// State that only its wire can read: a signature, encrypted reasoning, the id of an item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpaqueProviderState {
    /// The wire.
    pub wire: Wire,
    /// The state.
    pub value: Value,
}

/// A call as the model wrote it. Whether it is valid is decided when it is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelCall {
    /// The model's id for the call, or a generated one if the wire has none. Unique within its message.
    pub id: String,
    /// The tool, by the name under which it was offered.
    pub name: String,
    /// The complete arguments, verbatim; `{}` if there were none. They may not be valid JSON.
    pub arguments: String,
}

impl ModelCall {
    /// The arguments as JSON.
    ///
    /// # Errors
    /// They are not valid JSON.
    pub fn parse(&self) -> Result<Value, serde_json::Error> {
        serde_json::from_str(&self.arguments)
    }
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResult {
    /// The model's id of the call.
    pub call: String,
    /// The tool.
    pub name: String,
    /// The text for the model.
    pub text: String,
    /// Whether the call failed.
    #[serde(rename = "isError", alias = "is_error")]
    pub is_error: bool,
    /// How it went, for people who read the conversation later. No wire sends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<RecordedOutcome>,
}

/// How a call went, as it is on record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedOutcome {
    /// The call, as it is audited.
    pub call_id: CallId,
    /// The decision.
    pub decision: Decision,
    /// The stage that denied the call, or where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// The code of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
    /// How long it took, without the wait below.
    pub duration_ms: u64,
    /// How long a person was waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<u64>,
    /// The exit code of a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
}

impl AssistantMessage {
    /// The calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ModelCall> {
        self.parts.iter().filter_map(|part| match part {
            MessagePart::Call(call) => Some(call),
            _ => None,
        })
    }

    /// The text for the user, joined.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            MessagePart::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }
}
