//! Recorded streams, and properties that hold for each of them however it is split.

use std::fmt::Write as _;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::select;
use toolgate_llm::{
    AssistantMessage, ErrorKind, FinishReason, ModelName, ProviderError, StepDecoder, StepEvent, Wire,
};

/// A decoded stream.
#[derive(Debug, PartialEq)]
pub(crate) struct Decoded {
    pub(crate) events: Vec<StepEvent>,
    pub(crate) failed: Option<ProviderError>,
}

impl Decoded {
    /// The finish event, if there is one.
    pub(crate) fn finish(&self) -> Option<(&FinishReason, &AssistantMessage)> {
        match self.events.last() {
            Some(StepEvent::Finish { reason, message }) => Some((reason, message)),
            _ => None,
        }
    }
}

/// A recorded stream.
#[derive(Clone, Debug)]
pub(crate) struct Fixture {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// Decodes a stream in these chunks with a regular end.
pub(crate) fn decode<'b>(wire: Wire, pieces: impl IntoIterator<Item = &'b [u8]>) -> Decoded {
    let model = ModelName { provider: "test".into(), name: "m".into() };
    let mut decoder = StepDecoder::new(wire, &model);
    let fed = pieces.into_iter().try_for_each(|piece| decoder.feed(piece));
    let failed = fed.and_then(|()| decoder.end()).err();
    let events: Vec<StepEvent> = std::iter::from_fn(|| decoder.next_event()).collect();
    assert_eq!(failed.is_none(), decoder.is_finished());
    assert_eq!(failed.is_none(), matches!(events.last(), Some(StepEvent::Finish { .. })));
    Decoded { events, failed }
}

/// The streams of a wire, by name.
pub(crate) fn fixtures(folder: &str) -> Vec<Fixture> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(folder);
    let mut found: Vec<Fixture> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            Fixture { name, bytes: std::fs::read(path).unwrap() }
        })
        .collect();
    found.sort_by(|one, other| one.name.cmp(&other.name));
    assert!(!found.is_empty());
    found
}

/// The bytes of one stream of a wire.
pub(crate) fn fixture(folder: &str, name: &str) -> Vec<u8> {
    fixtures(folder).into_iter().find(|fixture| fixture.name == name).unwrap().bytes
}

/// A decoded stream as text.
pub(crate) fn rendered(decoded: &Decoded) -> String {
    let mut text = String::new();
    for event in &decoded.events {
        match event {
            StepEvent::TextDelta(words) => writeln!(text, "says {words:?}"),
            StepEvent::ThinkingDelta(words) => writeln!(text, "thinks {words:?}"),
            StepEvent::CallStart { call, id, name } => {
                writeln!(text, "call {} begins: {name} as {id}", call.0)
            }
            StepEvent::CallDelta { call, json } => writeln!(text, "call {} goes on: {json:?}", call.0),
            StepEvent::CallEnd { call } => writeln!(text, "call {} ends", call.0),
            StepEvent::Usage(usage) => writeln!(
                text,
                "used {} in ({} cached), {} out",
                usage.input_tokens, usage.cached_tokens, usage.output_tokens
            ),
            StepEvent::Finish { reason, message } => {
                let message = serde_json::to_string_pretty(&message.parts).unwrap();
                writeln!(text, "finished, {reason:?}: {message}")
            }
        }
        .unwrap();
    }
    if let Some(failed) = &decoded.failed {
        writeln!(text, "failed, {}: {failed}", failed.kind.as_str()).unwrap();
    }
    text
}

/// Takes a snapshot of every stream of a wire.
pub(crate) fn snapshots(wire: Wire, folder: &str) {
    for Fixture { name, bytes } in fixtures(folder) {
        let decoded = decode(wire, [bytes.as_slice()]);
        insta::assert_snapshot!(format!("{folder}__{name}"), rendered(&decoded));
    }
}

/// The same bytes give the same events, however they are split: in one chunk, byte by byte, and anywhere.
pub(crate) fn any_chunking(wire: Wire, folder: &str) {
    let fixtures = fixtures(folder);
    for Fixture { name, bytes } in &fixtures {
        let whole = decode(wire, [bytes.as_slice()]);
        assert_eq!(decode(wire, bytes.chunks(1)), whole, "{name}");
    }
    let strategy = (select(fixtures), proptest::collection::vec(1_usize..60, 1..200));
    proptest!(ProptestConfig::with_cases(300), |((fixture, sizes) in strategy)| {
        let mut rest = fixture.bytes.as_slice();
        let mut sizes = sizes.iter().cycle();
        let pieces = std::iter::from_fn(|| {
            let (piece, more) = rest.split_at_checked(*sizes.next()?).unwrap_or((rest, &[]));
            rest = more;
            (!piece.is_empty()).then_some(piece)
        });
        let pieces: Vec<&[u8]> = pieces.collect();
        prop_assert_eq!(decode(wire, pieces), decode(wire, [fixture.bytes.as_slice()]), "{}", fixture.name);
    });
}

/// Cut after any byte, a stream is truncated, or it has lost nothing of its message: what finishes is what the whole stream finishes with. If the
/// whole stream fails, no prefix of it yields a call.
pub(crate) fn cut_anywhere(wire: Wire, folder: &str) {
    for Fixture { name, bytes } in fixtures(folder) {
        let whole = decode(wire, [bytes.as_slice()]);
        for end in 0..bytes.len() {
            let cut = decode(wire, [&bytes[..end]]);
            if let Some((reason, message)) = cut.finish() {
                let is_harmless = whole.failed.is_some() && message.calls().next().is_none();
                let is_whole = Some((reason, message)) == whole.finish();
                assert!(is_whole || is_harmless, "{name} cut after {end} bytes: {message:?}");
                continue;
            }
            let failed = cut.failed.unwrap();
            let is_own = whole.failed.as_ref() == Some(&failed);
            assert!(
                failed.kind == ErrorKind::Truncated || is_own,
                "{name} cut after {end} bytes: {failed:?}"
            );
        }
    }
}
