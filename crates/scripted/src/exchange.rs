//! What the wires share: a valid request, and pieces of answers.

use axum::http::HeaderMap;
use serde_json::Value;

use crate::conversation::SentConversation;

/// A valid request, and how to answer it.
pub(crate) struct Exchange {
    pub(crate) conversation: SentConversation,
    pub(crate) is_streamed: bool,
    pub(crate) thinking: ThinkingDisplay,
    /// The model, as the request names it.
    pub(crate) model: String,
    /// The approximate number of input tokens.
    pub(crate) input_tokens: u64,
    /// Further request options that the answer depends on.
    pub(crate) options: ResponseOptions,
}

/// How thinking is shown to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThinkingDisplay {
    /// In full.
    Shown,
    /// Only that there was some, and its signature.
    Omitted,
    /// The model does not think.
    Off,
}

/// Options of single wires.
#[derive(Debug, Default)]
pub(crate) struct ResponseOptions {
    /// Chat Completions: usage at the end of a stream (`stream_options.include_usage`).
    pub(crate) usage_in_stream: bool,
    /// Responses: include encrypted reasoning, which the server does not store.
    pub(crate) encrypted_reasoning: bool,
    /// Responses: request fields that the answer echoes.
    pub(crate) echo: serde_json::Map<String, Value>,
}

/// The token of `authorization: Bearer …`.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    header(headers, "authorization").and_then(|value| value.strip_prefix("Bearer "))
}

pub(crate) fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok()).filter(|value| !value.is_empty())
}

/// Whether a name is a valid tool name: letters, digits, `_` and `-`.
pub(crate) fn is_wire_name(name: &str, longest: usize) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=longest).contains(&name.len()) && name.bytes().all(allowed)
}

/// One server-sent event.
pub(crate) fn sse(event: Option<&str>, data: &Value) -> String {
    match event {
        Some(event) => format!("event: {event}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    }
}

/// Bytes that are neither UTF-8 nor JSON.
pub(crate) const GARBAGE: &[u8] = b"data: {\"type\": \xff\xfe\x00 not json\n\n";
