//! A chunk of a stream, as far as it is read.
//!
//! Servers that speak this wire add fields of their own, leave some out and send `null` for others, so everything may be missing. What is there
//! must be what it should be: a chunk of another shape cannot be read.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

#[derive(Debug, Default, Deserialize)]
pub(super) struct Chunk {
    pub(super) choices: Option<Vec<Choice>>,
    pub(super) usage: Option<Value>,
    pub(super) error: Option<Value>,
    /// `error` where the chunk itself is the failure (vLLM).
    pub(super) object: Option<String>,
}

impl Chunk {
    /// Whether it says that the server failed.
    pub(super) fn is_failure(&self) -> bool {
        self.error.as_ref().is_some_and(|error| !error.is_null()) || self.object.as_deref() == Some("error")
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice {
    pub(super) index: Option<u64>,
    pub(super) delta: Option<Delta>,
    pub(super) finish_reason: Option<String>,
    pub(super) error: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Delta {
    pub(super) content: Option<Content>,
    pub(super) refusal: Option<String>,
    pub(super) reasoning: Option<String>,
    pub(super) reasoning_content: Option<String>,
    pub(super) reasoning_details: Option<Vec<Map<String, Value>>>,
    pub(super) tool_calls: Option<Vec<CallDelta>>,
    pub(super) function_call: Option<FunctionDelta>,
}

/// Words: as text, or in parts (Mistral).
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Content {
    Text(String),
    Parts(Vec<ContentPart>),
}

#[derive(Debug, Deserialize)]
pub(super) struct ContentPart {
    pub(super) text: Option<String>,
    pub(super) thinking: Option<Vec<ContentPart>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CallDelta {
    pub(super) index: Option<u64>,
    pub(super) id: Option<String>,
    pub(super) function: Option<FunctionDelta>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct FunctionDelta {
    pub(super) name: Option<String>,
    /// A piece of text, or from some servers the whole object.
    pub(super) arguments: Option<Box<RawValue>>,
}
