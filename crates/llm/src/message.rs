//! A conversation as it is kept: whole messages, and nothing of any one wire but what only that wire can read again.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::provider::{ModelName, Wire};

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// What a person said.
    User {
        /// The words.
        text: String,
    },
    /// What a model said, whole.
    Assistant(AssistantMessage),
    /// What became of the calls of the message before: every one of them, in their order.
    Results {
        /// One for each call.
        results: Vec<CallResult>,
    },
}

/// What a model said in one step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// Its parts, in the order in which they came.
    pub parts: Vec<MessagePart>,
    /// Which model said it; seals are shown to no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelName>,
}

/// A part of what a model said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MessagePart {
    /// Words for the person.
    Text {
        /// The words.
        text: String,
    },
    /// Words for itself.
    Thinking {
        /// What may be shown of it; empty where nothing may.
        text: String,
        /// What the wire wants to see again, exactly as it came.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seal: Option<OpaqueProviderState>,
    },
    /// A call that it wants made.
    Call(ModelCall),
}

/// Something that only the wire it came by can read: a signature, encrypted reasoning, the id of an item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpaqueProviderState {
    /// The wire.
    pub wire: Wire,
    /// The thing itself.
    pub value: Value,
}

/// A call as the model wrote it. Whether it can be made is decided by whoever makes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelCall {
    /// The model's id for it, or one that was made where the wire has none. Unique within its message.
    pub id: String,
    /// The tool, by the name that it was offered under.
    pub name: String,
    /// The arguments as they came, complete; `{}` where nothing came. They may not be JSON.
    pub arguments: String,
}

impl ModelCall {
    /// The arguments, where they are JSON and nothing besides.
    ///
    /// # Errors
    /// They are not.
    pub fn parse(&self) -> Result<Value, serde_json::Error> {
        serde_json::from_str(&self.arguments)
    }
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResult {
    /// The call, by the model's id for it.
    pub call: String,
    /// The tool.
    pub name: String,
    /// What the model is told.
    pub text: String,
    /// Whether it did not do what was asked.
    pub is_error: bool,
}

impl AssistantMessage {
    /// The calls, in their order.
    pub fn calls(&self) -> impl Iterator<Item = &ModelCall> {
        self.parts.iter().filter_map(|part| match part {
            MessagePart::Call(call) => Some(call),
            _ => None,
        })
    }

    /// The words for the person, as one text.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            MessagePart::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }
}
