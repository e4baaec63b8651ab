//! Any bytes from a client: split into lines and parsed without a panic, the same however they arrive, and every answer is one line of JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolgate_serve::refusals;

fuzz_target!(|bytes: &[u8]| {
    let answers = refusals(&[bytes]);
    assert_eq!(answers, refusals(&bytes.chunks(7).collect::<Vec<_>>()));
    for answer in answers {
        let value: serde_json::Value = serde_json::from_str(&answer).expect("an answer is JSON");
        assert!(!answer.contains('\n') && value["error"]["code"].is_i64(), "{answer}");
    }
});
