//! Any rules over any answer: rejected, or filtered so that nothing redacted is left and filtering is idempotent.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use toolgate_policy::{OutputPolicy, OutputRule};

// Lines are patterns, each after `+` (allow), `~` (mask) or `-` (redact); the first other line and all after it are the answer.
fuzz_target!(|text: &str| {
    let mut rules = Vec::new();
    let mut rest = text;
    while let Some((line, after)) = rest.split_once('\n') {
        let rule = match line.chars().next() {
            Some('+') => OutputRule::Allow,
            Some('~') => OutputRule::Mask,
            Some('-') => OutputRule::Redact,
            _ => break,
        };
        rules.push((&line[1..], rule));
        rest = after;
    }
    let (Ok(policy), Ok(answer)) = (OutputPolicy::compile(&rules), serde_json::from_str::<Value>(rest))
    else {
        return;
    };
    let filtered = policy.apply(answer.clone());
    if rules.iter().all(|(_, rule)| *rule == OutputRule::Redact) {
        assert!(is_bare(&filtered.value), "{answer} became {}", filtered.value);
    }
    if rules.iter().all(|(_, rule)| *rule != OutputRule::Mask) {
        assert_eq!(policy.apply(filtered.value.clone()).value, filtered.value);
    }
    if filtered.redacted.is_empty() && filtered.dropped.is_empty() {
        assert_eq!(filtered.value, answer);
    }
});

/// Whether only structure is left.
fn is_bare(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.values().all(is_bare),
        Value::Array(items) => items.iter().all(is_bare),
        Value::Null => true,
        plain => plain == "[redacted]",
    }
}
