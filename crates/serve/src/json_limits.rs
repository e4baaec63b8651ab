//! Limits on the complexity of a JSON message, checked before it is parsed.

use toolgate_text::json_complexity::{JsonComplexity, measure};

/// Maximum number of values in one message.
pub(crate) const MAX_VALUES: usize = 100_000;

/// Maximum nesting depth.
pub(crate) const MAX_DEPTH: usize = 100;

/// Estimated memory per parsed value, including the copies made during parsing.
const BYTES_PER_VALUE: usize = 256;

/// Whether a message is simple enough to be parsed.
pub(crate) fn within_limits(weight: JsonComplexity) -> bool {
    weight.values <= MAX_VALUES && weight.depth <= MAX_DEPTH
}

/// Whether a message in JSON is simple enough to be parsed: for messages that do not come as the body of a request.
#[must_use]
pub fn is_simple_json(text: &[u8]) -> bool {
    within_limits(measure(text))
}

/// Estimated memory that parsing a message takes.
pub(crate) fn estimated_bytes(weight: JsonComplexity) -> usize {
    weight.values.saturating_mul(BYTES_PER_VALUE)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_would_become_too_much_is_not_borne() {
        let many = |count: usize| json!({"a": vec![0; count]}).to_string();
        assert!(within_limits(measure(many(MAX_VALUES - 10).as_bytes())));
        assert!(!within_limits(measure(many(MAX_VALUES + 1).as_bytes())));
        let deep = |levels: usize| "[".repeat(levels);
        assert!(within_limits(measure(deep(MAX_DEPTH).as_bytes())));
        assert!(!within_limits(measure(deep(MAX_DEPTH + 1).as_bytes())));
        assert!(within_limits(measure(json!({"a": ",".repeat(10 * MAX_VALUES)}).to_string().as_bytes())));
    }
}
