//! The four ways to speak with a model.

use axum::http::HeaderMap;
use serde::Deserialize;
use serde_json::Value;

use crate::conversation::SentConversation;

/// A way to speak with a model, by the names that models are chosen with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Openai,
    /// OpenAI Chat Completions and everything that speaks it.
    OpenaiChat,
    /// Ollama's own.
    Ollama,
}

impl Wire {
    /// Every wire.
    pub const ALL: [Self; 4] = [Self::Anthropic, Self::Openai, Self::OpenaiChat, Self::Ollama];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Openai => "openai",
            Self::OpenaiChat => "openai-chat",
            Self::Ollama => "ollama",
        }
    }

    /// What clients of this wire put behind the address of a server before they add their own paths.
    pub(crate) fn base_path(self) -> &'static str {
        match self {
            Self::Openai | Self::OpenaiChat => "/v1",
            Self::Anthropic | Self::Ollama => "",
        }
    }
}

/// A request that was read and found good: what it says, and how it wants to be answered.
pub(crate) struct Exchange {
    pub(crate) conversation: SentConversation,
    pub(crate) is_streamed: bool,
    pub(crate) thinking: ThinkingDisplay,
    /// The model, as the request names it.
    pub(crate) model: String,
    /// How many tokens the request is, roughly.
    pub(crate) input_tokens: u64,
    /// What of the request the answer depends on besides.
    pub(crate) options: ResponseOptions,
}

/// What a client wants to see of thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThinkingDisplay {
    /// All of it.
    Shown,
    /// That there was some, and its seal.
    Omitted,
    /// The model is not to think.
    Off,
}

/// What some wires are told by some clients.
#[derive(Debug, Default)]
pub(crate) struct ResponseOptions {
    /// Chat Completions: tell what was used at the end of a stream.
    pub(crate) usage_in_stream: bool,
    /// Responses: hand out reasoning for a server that does not keep it.
    pub(crate) encrypted_reasoning: bool,
    /// Responses: what is told back as it was asked.
    pub(crate) echo: serde_json::Map<String, Value>,
}

pub(crate) fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok()).filter(|value| !value.is_empty())
}

/// Whether a name can be the name of a tool: letters, digits, `_` and `-`.
pub(crate) fn is_wire_name(name: &str, longest: usize) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=longest).contains(&name.len()) && name.bytes().all(allowed)
}

/// One event of a stream, as servers write it.
pub(crate) fn sse(event: Option<&str>, data: &Value) -> String {
    match event {
        Some(event) => format!("event: {event}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    }
}

/// Bytes that are neither text nor JSON.
pub(crate) const GARBAGE: &[u8] = b"data: {\"type\": \xff\xfe\x00 not json\n\n";
