//! Any bytes as server-sent events: the same events however the stream is split.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolgate_llm::stream_events;

fuzz_target!(|bytes: &[u8]| {
    let events = stream_events(&[bytes]);
    assert_eq!(events, stream_events(&bytes.chunks(3).collect::<Vec<_>>()));
    // Names and data come from the stream, and nothing is emitted twice.
    if let Ok(events) = events {
        assert!(events.iter().map(|(name, data)| name.len() + data.len()).sum::<usize>() <= bytes.len());
    }
});
