//! How much of a message is borne: what it would become is counted before it is read.

use toolgate_text::json_complexity::JsonComplexity;

/// The most values in one message.
pub(crate) const MOST_VALUES: usize = 100_000;

/// The most levels that values may stand within each other.
pub(crate) const DEEPEST: usize = 100;

/// About so many bytes are taken by one value, several times over while a message is read.
const BYTES_OF_A_VALUE: usize = 256;

/// Whether a message may be read.
pub(crate) fn is_bearable(weight: JsonComplexity) -> bool {
    weight.values <= MOST_VALUES && weight.depth <= DEEPEST
}

/// About how many bytes it takes to read a message.
pub(crate) fn bytes(weight: JsonComplexity) -> usize {
    weight.values.saturating_mul(BYTES_OF_A_VALUE)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolgate_text::json_complexity::measure;

    use super::*;

    #[test]
    fn what_would_become_too_much_is_not_borne() {
        let many = |count: usize| json!({"a": vec![0; count]}).to_string();
        assert!(is_bearable(measure(many(MOST_VALUES - 10).as_bytes())));
        assert!(!is_bearable(measure(many(MOST_VALUES + 1).as_bytes())));
        let deep = |levels: usize| "[".repeat(levels);
        assert!(is_bearable(measure(deep(DEEPEST).as_bytes())));
        assert!(!is_bearable(measure(deep(DEEPEST + 1).as_bytes())));
        assert!(is_bearable(measure(json!({"a": ",".repeat(10 * MOST_VALUES)}).to_string().as_bytes())));
    }
}
