//! How much of one step is taken. Whoever says more is cut off, and the step has failed.

use serde_json::Value;
use toolgate_text::json_complexity::measure;

/// The bytes of one step, everything counted.
pub const MAX_STEP_BYTES: usize = 32 << 20;

/// The arguments of one call.
pub const MAX_ARGUMENT_BYTES: usize = 8 << 20;

/// The calls of one step.
pub const MAX_CALLS: usize = 1_000;

/// The values of one frame or answer: a short text of them takes a hundred times its room once it is read.
pub(crate) const MAX_VALUES: usize = 250_000;

/// The name of a tool. None that is offered is nearly as long.
pub(crate) const MAX_NAME_BYTES: usize = 256;

/// The id of a call. Some servers keep in it what they want to see again.
pub(crate) const MAX_ID_BYTES: usize = 8 << 10;

/// How deep the levels are of what a wire wants to see again. Deeper ones could be read here, and nowhere that they are kept.
pub(crate) const MAX_OPAQUE_STATE_DEPTH: usize = 64;

/// What a server says of itself: a failure, or what a model can do.
pub(crate) const MAX_ANSWER_BYTES: usize = 4 << 20;

/// Whether a text of JSON holds more values than are read.
pub(crate) fn exceeds_max_values(json: &[u8]) -> bool {
    // Every value has a byte of its own.
    json.len() >= MAX_VALUES && measure(json).values > MAX_VALUES
}

/// The values of something that was read.
pub(crate) fn count_values(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(count_values).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(|value| 1 + count_values(value)).sum::<usize>(),
        _ => 1,
    }
}

/// How many levels something has that was read.
pub(crate) fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}
