//! Any text as a patch of any text: parsed, applied or refused, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolgate_text::patch;
use toolgate_types::Failure;

fuzz_target!(|input: (&str, &str)| {
    let (text, original) = input;
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
