//! The size limits of one step. Beyond them the stream is cut, and the step has failed.

use serde_json::Value;
use toolgate_text::json_complexity::measure;

/// The total bytes of one step.
pub const MAX_STEP_BYTES: usize = 32 << 20;

/// The arguments of one call, in bytes.
pub const MAX_ARGUMENT_BYTES: usize = 8 << 20;

/// The calls of one step.
pub const MAX_CALLS: usize = 1_000;

/// The JSON values of one frame or answer: a short text of them takes a hundred times its size once parsed.
pub(crate) const MAX_VALUES: usize = 250_000;

/// The length of a tool name. No tool that is offered has one nearly as long.
pub(crate) const MAX_NAME_BYTES: usize = 256;

/// The length of a call id. Some servers store state in it.
pub(crate) const MAX_ID_BYTES: usize = 8 << 10;

/// The nesting depth of opaque provider state. Deeper values could be parsed here, but not where they are stored.
pub(crate) const MAX_OPAQUE_STATE_DEPTH: usize = 64;

/// The size of an answer that is not a stream: an error, or a model's capabilities.
pub(crate) const MAX_ANSWER_BYTES: usize = 4 << 20;

/// Whether a JSON text contains more values than the limit.
pub(crate) fn exceeds_max_values(json: &[u8]) -> bool {
    // Every value takes at least one byte.
    json.len() >= MAX_VALUES && measure(json).values > MAX_VALUES
}

/// The number of values in a parsed value.
pub(crate) fn count_values(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(count_values).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(|value| 1 + count_values(value)).sum::<usize>(),
        _ => 1,
    }
}

/// The nesting depth of a parsed value.
pub(crate) fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}
