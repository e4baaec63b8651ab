//! Compiles JSON schemas for validation, everywhere in the gate.
//!
//! A pattern determines how long validation takes, and schemas may be untrusted. So all patterns run on an engine with linear time, and their
//! compiled size is limited. What such an engine does not support, lookaround and back references, cannot be in a schema.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;

/// Maximum size of a compiled pattern.
pub const MAX_COMPILED_PATTERN_BYTES: usize = 4 << 20;

/// Maximum size of the lazy DFA's cache, per pattern.
const MAX_DFA_CACHE_BYTES: usize = 128 << 10;

/// Compiles a JSON Schema 2020-12.
///
/// # Errors
/// What is wrong with the schema; [`schema_problem`] explains it.
pub fn validator(schema: &Value) -> Result<Validator, ValidationError<'static>> {
    validator_within(schema, MAX_COMPILED_PATTERN_BYTES)
}

/// The same with a limit on the compiled size of every pattern.
///
/// # Errors
/// As for [`validator`].
pub fn validator_within(
    schema: &Value,
    largest_pattern: usize,
) -> Result<Validator, ValidationError<'static>> {
    let patterns = PatternOptions::regex()
        .size_limit(largest_pattern.min(MAX_COMPILED_PATTERN_BYTES))
        .dfa_size_limit(MAX_DFA_CACHE_BYTES);
    jsonschema::draft202012::options().with_pattern_options(patterns).build(schema)
}

/// Why a schema is invalid. It may quote the schema, so the caller must escape it for display.
#[must_use]
pub fn schema_problem(error: &ValidationError<'_>) -> String {
    match error.kind() {
        ValidationErrorKind::Format { format } if format == "regex" => format!(
            "the pattern {} cannot be used: it is not a regular expression, looks ahead or behind, refers back to a group, or is too large",
            beginning(&error.instance().to_string())
        ),
        _ => error.to_string(),
    }
}

/// A pattern of any length, truncated for a message.
fn beginning(pattern: &str) -> String {
    const MAX_SHOWN_CHARS: usize = 60;
    let shown: String = pattern.chars().take(MAX_SHOWN_CHARS).collect();
    if shown.len() < pattern.len() { format!("{shown}…") } else { shown }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// All places in a schema where a pattern can be.
    fn placed(pattern: &str) -> [Value; 4] {
        [
            json!({"pattern": pattern}),
            json!({"patternProperties": {pattern: {}}}),
            json!({"not": {"pattern": pattern}}),
            json!({"properties": {"a": {"items": {"pattern": pattern}}}}),
        ]
    }

    #[test]
    fn patterns_that_an_engine_in_linear_time_cannot_run_are_refused_with_a_reason() {
        for pattern in [
            r"(.*)\1x",
            "^(?!a)b",
            "(?=a)b",
            "(?<=a)b",
            "(?<!a)b",
            r"(?<n>a)\k<n>",
            "(",
            r"\w{60000}",
            r"(\w{900}){90}",
        ] {
            for schema in placed(pattern) {
                let error = validator(&schema).map(|_| ()).expect_err(pattern);
                let problem = schema_problem(&error);
                assert!(problem.contains("looks ahead or behind"), "{problem}");
            }
        }
        let long = "(?=".repeat(10_000);
        let problem = schema_problem(&validator(&json!({"pattern": long})).map(|_| ()).unwrap_err());
        assert!(problem.len() < 1000, "{problem}");
    }

    #[test]
    fn common_patterns_are_as_they_were() {
        for (pattern, fits, does_not) in [
            ("^[a-z][a-z0-9-]*$", "a-1", "1"),
            (r"^\d{4}-\d{2}-\d{2}$", "2026-01-01", "x"),
            (r"^[\p{L}\p{N} _-]{1,64}$", "Äpfel", "a/b"),
            (r"^(?:[0-9a-f]{8}-[0-9a-f]{4}|none)$", "none", "some"),
        ] {
            let validator = validator(&json!({"pattern": pattern})).unwrap();
            assert!(validator.is_valid(&json!(fits)) && !validator.is_valid(&json!(does_not)), "{pattern}");
        }
    }

    #[test]
    fn a_lower_bound_holds_and_a_higher_one_changes_nothing() {
        let schema = json!({"pattern": r"\w{4000}"});
        assert!(validator(&schema).is_ok());
        assert!(validator_within(&schema, 16 << 10).is_err());
        assert!(validator_within(&json!({"pattern": r"\w{60000}"}), usize::MAX).is_err());
    }
}
