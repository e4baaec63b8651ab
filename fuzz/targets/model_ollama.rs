//! Any bytes as what a model sends over Ollama: a step that finished, or one that failed.
#![no_main]

#[path = "shared/step.rs"]
mod step;

use libfuzzer_sys::fuzz_target;
use toolgate_llm::Wire;

fuzz_target!(|bytes: &[u8]| step::decode(Wire::Ollama, bytes));
