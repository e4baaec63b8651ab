//! The frames of OpenAI Responses and the items in them.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::arguments::text_of;
use crate::error::ProviderError;
use crate::event::Usage;
use crate::frame::Text;

/// The start or the end of an item.
#[derive(Deserialize)]
pub(super) struct ItemFrame<'f> {
    pub(super) output_index: u32,
    #[serde(borrow)]
    pub(super) item: OutputItem<'f>,
}

/// A delta of an item.
#[derive(Deserialize)]
pub(super) struct DeltaFrame<'f> {
    pub(super) output_index: u32,
    #[serde(default)]
    pub(super) content_index: u32,
    #[serde(default)]
    pub(super) summary_index: u32,
    #[serde(borrow)]
    pub(super) delta: Text<'f>,
}

/// The complete arguments of a call.
#[derive(Deserialize)]
pub(super) struct ArgumentsFrame<'f> {
    pub(super) output_index: u32,
    #[serde(borrow)]
    pub(super) arguments: Text<'f>,
}

/// The end of the response.
#[derive(Deserialize)]
pub(super) struct ResponseFrame<'f> {
    #[serde(borrow)]
    pub(super) response: ResponseObject<'f>,
}

/// The response object.
#[derive(Deserialize)]
pub(super) struct ResponseObject<'f> {
    #[serde(borrow, default)]
    pub(super) output: Vec<OutputItem<'f>>,
    #[serde(default)]
    pub(super) usage: Option<WireUsage>,
    #[serde(default)]
    pub(super) error: Option<Value>,
    #[serde(default)]
    pub(super) incomplete_details: Option<IncompleteDetails>,
}

#[derive(Deserialize)]
pub(super) struct IncompleteDetails {
    #[serde(default)]
    pub(super) reason: Option<String>,
}

/// One item of the output. Only calls, messages and reasoning are used.
#[derive(Deserialize)]
pub(super) struct OutputItem<'f> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'f, str>,
    #[serde(borrow, default)]
    pub(super) id: Option<Text<'f>>,
    #[serde(borrow, default)]
    pub(super) call_id: Option<Text<'f>>,
    #[serde(borrow, default)]
    pub(super) name: Option<Text<'f>>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'f RawValue>,
    #[serde(borrow, default)]
    pub(super) status: Option<Text<'f>>,
    #[serde(borrow, default)]
    pub(super) phase: Option<Text<'f>>,
    #[serde(borrow, default)]
    pub(super) encrypted_content: Option<Text<'f>>,
    #[serde(default)]
    pub(super) summary: Option<Value>,
    #[serde(default)]
    pub(super) content: Option<Value>,
}

impl OutputItem<'_> {
    /// The arguments of a call; other kinds of items use the field differently.
    pub(super) fn arguments(&self) -> Result<Cow<'_, str>, ProviderError> {
        Ok(self.arguments.map(text_of).transpose()?.unwrap_or_default())
    }

    /// The text parts of a message with their index, and whether each is a refusal.
    pub(super) fn text_parts(&self) -> impl Iterator<Item = (u32, &str, bool)> {
        let parts = self.content.as_ref().and_then(Value::as_array).into_iter().flatten();
        (0..).zip(parts).filter_map(|(index, part)| {
            let is_refusal = match part.get("type")?.as_str()? {
                "output_text" => false,
                "refusal" => true,
                _ => return None,
            };
            let words = part.get(if is_refusal { "refusal" } else { "text" })?.as_str()?;
            Some((index, words, is_refusal))
        })
    }

    /// Reasoning to be sent back. Without its encrypted content the server could not read it.
    pub(super) fn encrypted_reasoning(&self) -> Option<Value> {
        let encrypted = self.encrypted_content.as_deref()?;
        let mut sealed = json!({
            "type": "reasoning",
            "id": self.id.as_deref().unwrap_or_default(),
            "summary": self.summary.clone().unwrap_or_else(|| json!([])),
            "encrypted_content": encrypted,
        });
        let content =
            self.content.as_ref().filter(|content| content.as_array().is_some_and(|parts| !parts.is_empty()));
        if let (Some(sealed), Some(content)) = (sealed.as_object_mut(), content) {
            sealed.insert("content".to_owned(), content.clone());
        }
        Some(sealed)
    }
}

/// Token usage of this wire.
#[derive(Clone, Copy, Deserialize)]
pub(super) struct WireUsage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default)]
    input_tokens_details: Option<InputDetails>,
}

#[derive(Clone, Copy, Deserialize)]
struct InputDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
}

impl From<WireUsage> for Usage {
    fn from(usage: WireUsage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cached_tokens: usage
                .input_tokens_details
                .and_then(|details| details.cached_tokens)
                .unwrap_or_default(),
        }
    }
}
