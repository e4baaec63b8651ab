//! Any text: the result is JSON, and valid JSON is unchanged, unless it is a string that contains the arguments.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use toolgate_text::repair::repair_json;

fuzz_target!(|text: &str| {
    let before = serde_json::from_str::<Value>(text);
    let repaired = repair_json(text);
    if let Some(repaired) = &repaired {
        assert!(serde_json::from_str::<Value>(&repaired.json).is_ok(), "{}", repaired.json);
    }
    if before.is_ok_and(|value| !value.is_string()) {
        let repaired = repaired.expect("JSON is not refused");
        assert_eq!(repaired.json, text);
        assert!(repaired.repairs.is_empty());
    }
});
