//! Any document and any node: an update changes the one key, or is rejected; the body stays byte for byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use toolgate_text::frontmatter::{FrontmatterError, parse, update};

fuzz_target!(|input: (&str, &str, &str)| {
    let (document, node, step) = input;
    let change = json!({"currentNodeId": {"set": node}, "stepsCompleted.append": [step]});
    let Some(change) = change.as_object() else { return };
    let before = parse(document);
    match update(document, change) {
        Ok(after) => {
            let after = parse(&after).expect("an update leaves a document that parses");
            if before == Err(FrontmatterError::Missing) {
                assert_eq!(after.body, document.strip_prefix('\u{feff}').unwrap_or(document));
                return;
            }
            let before = before.expect("only what parses, or has none, is updated");
            assert_eq!(before.body, after.body);
            assert_eq!(after.value.get("currentNodeId"), Some(&json!(node)));
            for (name, value) in before
                .value
                .iter()
                .filter(|(name, _)| !["currentNodeId", "stepsCompleted"].contains(&name.as_str()))
            {
                assert_eq!(after.value.get(name), Some(value));
            }
        }
        Err(error) => {
            let _ = error.to_string();
        }
    }
});
