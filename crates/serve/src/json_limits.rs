//! How much of a message is borne: what it would become is counted before it is read.

use toolgate_text::json_complexity::JsonComplexity;

/// The most values in one message.
pub(crate) const MAX_VALUES: usize = 100_000;

/// The most levels that values may stand within each other.
pub(crate) const MAX_DEPTH: usize = 100;

/// About so many bytes are taken by one value, several times over while a message is read.
const BYTES_PER_VALUE: usize = 256;

/// Whether a message may be read.
pub(crate) fn within_limits(weight: JsonComplexity) -> bool {
    weight.values <= MAX_VALUES && weight.depth <= MAX_DEPTH
}

/// About how many bytes it takes to read a message.
pub(crate) fn estimated_bytes(weight: JsonComplexity) -> usize {
    weight.values.saturating_mul(BYTES_PER_VALUE)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolgate_text::json_complexity::measure;

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
