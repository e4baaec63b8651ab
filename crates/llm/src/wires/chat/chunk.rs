//! A chunk of a stream.
//!
//! Compatible servers add fields of their own, omit some and send `null` for others, so every field is optional. A field that is present must have
//! the right type, or the chunk is malformed.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::frame::Text;

#[derive(Debug, Default, Deserialize)]
pub(super) struct Chunk<'f> {
    #[serde(borrow)]
    pub(super) choices: Option<Vec<ChunkChoice<'f>>>,
    pub(super) usage: Option<Value>,
    pub(super) error: Option<Value>,
    /// `error` if the chunk itself is an error (vLLM).
    #[serde(borrow)]
    pub(super) object: Option<Text<'f>>,
}

impl Chunk<'_> {
    /// Whether it reports an error.
    pub(super) fn is_failure(&self) -> bool {
        self.error.as_ref().is_some_and(|error| !error.is_null()) || self.object.as_deref() == Some("error")
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct ChunkChoice<'f> {
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'f>>,
    #[serde(borrow)]
    pub(super) finish_reason: Option<Text<'f>>,
    pub(super) error: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Delta<'f> {
    #[serde(borrow)]
    pub(super) content: Option<DeltaContent<'f>>,
    #[serde(borrow)]
    pub(super) refusal: Option<Text<'f>>,
    #[serde(borrow)]
    pub(super) reasoning: Option<Text<'f>>,
    #[serde(borrow)]
    pub(super) reasoning_content: Option<Text<'f>>,
    pub(super) reasoning_details: Option<Vec<Map<String, Value>>>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<CallDelta<'f>>>,
    #[serde(borrow)]
    pub(super) function_call: Option<FunctionDelta<'f>>,
}

/// Content: as text, or in parts (Mistral).
#[derive(Debug)]
pub(super) enum DeltaContent<'f> {
    Text(Cow<'f, str>),
    Parts(Vec<ContentPart<'f>>),
}

#[derive(Debug, Deserialize)]
pub(super) struct ContentPart<'f> {
    #[serde(borrow)]
    pub(super) text: Option<Text<'f>>,
    #[serde(borrow)]
    pub(super) thinking: Option<Vec<ContentPart<'f>>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CallDelta<'f> {
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) id: Option<Text<'f>>,
    #[serde(borrow)]
    pub(super) function: Option<FunctionDelta<'f>>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct FunctionDelta<'f> {
    #[serde(borrow)]
    pub(super) name: Option<Text<'f>>,
    /// A fragment of text, or from some servers the whole object.
    #[serde(borrow)]
    pub(super) arguments: Option<&'f RawValue>,
}

/// By hand, because serde's `untagged` would first buffer a copy of the value.
impl<'de: 'f, 'f> Deserialize<'de> for DeltaContent<'f> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = DeltaContent<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("words, as text or in parts")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(DeltaContent::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(DeltaContent::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, parts: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(parts)).map(DeltaContent::Parts)
    }
}
