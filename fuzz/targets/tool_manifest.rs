//! Any bytes as tool manifests: parsed, or rejected with problems that can be shown. A parsed one renders without turning a value into an option.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};
use toolgate_manifest::{RealPaths, ToolManifest};

/// Arguments for every property: the fuzzer's own text is a good source of hostile input.
fn input(tool: &ToolManifest, text: &str) -> Value {
    let properties = tool.input.get("properties").and_then(Value::as_object);
    let entries = properties.into_iter().flatten().map(|(name, _)| (name.clone(), Value::from(text)));
    Value::Object(entries.collect::<Map<_, _>>())
}

fuzz_target!(|bytes: &[u8]| {
    match ToolManifest::parse_all_bytes("tool.yaml", bytes) {
        Ok((tools, warnings)) => {
            assert!(warnings.iter().all(|warning| !warning.render().is_empty()));
            for tool in tools {
                for text in ["-x", "@x", "a b", "", "../x", "a\0"] {
                    let input = input(&tool, text);
                    let _ = tool.command.named_paths(&input);
                    if let Ok(arguments) = tool.command.template.render(&input) {
                        assert_eq!(
                            arguments.first().map(String::as_str),
                            Some(tool.command.template.program())
                        );
                        assert!(arguments.iter().all(|argument| text != "a\0" || !argument.contains('\0')));
                    }
                    if let Some(stdin) = &tool.command.stdin {
                        let _ = stdin.render(&input, &RealPaths::default());
                    }
                }
            }
        }
        Err(problems) => assert!(!problems.render().is_empty()),
    }
});
