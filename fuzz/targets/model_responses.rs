//! Any bytes as a stream of OpenAI Responses: a finished step, or a failed one.
#![no_main]

#[path = "shared/step.rs"]
mod step;

use libfuzzer_sys::fuzz_target;
use toolgate_llm::Wire;

fuzz_target!(|bytes: &[u8]| step::decode(Wire::Openai, bytes));
