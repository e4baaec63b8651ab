//! Invariants of every step, whatever its bytes.

use std::collections::HashSet;

use toolgate_llm::{FinishReason, MAX_CALLS, ModelName, ProviderError, StepDecoder, StepEvent, Wire};

/// Decodes any bytes: without a panic, the same however they are split, with one finish at the end or none, and with unique call ids.
pub fn decode(wire: Wire, bytes: &[u8]) {
    let (events, failed) = decoded(wire, &[bytes]);
    let in_pieces = decoded(wire, &bytes.chunks(7).collect::<Vec<_>>());
    assert_eq!((&events, &failed), (&in_pieces.0, &in_pieces.1));
    let finishes = events.iter().filter(|event| matches!(event, StepEvent::Finish { .. })).count();
    assert_eq!(finishes, usize::from(failed.is_none()));
    let Some(StepEvent::Finish { reason, message }) = events.last() else { return };
    let calls: Vec<_> = message.calls().collect();
    let ids: HashSet<&str> = calls.iter().map(|call| call.id.as_str()).collect();
    assert!(ids.len() == calls.len() && calls.len() <= MAX_CALLS && !ids.contains(""));
    assert!(*reason != FinishReason::ToolCalls || !calls.is_empty());
    // Every call that may be made was marked as complete.
    let ended = events.iter().filter(|event| matches!(event, StepEvent::CallEnd { .. })).count();
    assert!(*reason != FinishReason::ToolCalls || ended == calls.len());
}

fn decoded(wire: Wire, pieces: &[&[u8]]) -> (Vec<StepEvent>, Option<ProviderError>) {
    let model = ModelName { provider: "any".to_owned(), name: "model".to_owned() };
    let mut decoder = StepDecoder::new(wire, &model);
    let fed = pieces.iter().try_for_each(|piece| decoder.feed(piece));
    let failed = fed.and_then(|()| decoder.end()).err();
    (std::iter::from_fn(|| decoder.next_event()).collect(), failed)
}
