//! Any text as a patch of any text: parsed, applied or rejected, never a panic. A `\u{1}` separates the patch from its target text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolgate_text::patch;
use toolgate_types::Failure;

fuzz_target!(|bytes: &[u8]| {
    let Ok(input) = std::str::from_utf8(bytes) else { return };
    let (text, original) = input.split_once('\u{1}').unwrap_or((input, ""));
    match patch::parse(text) {
        Ok(files) => {
            for file in &files {
                if let Err(error) = patch::apply(file, original) {
                    let _ = Failure::from(error);
                }
            }
        }
        Err(error) => {
            let _ = Failure::from(error);
        }
    }
});
