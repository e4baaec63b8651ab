//! Records streams byte for byte, and replays them.
//!
//! A recording contains the bytes that each step received and nothing that was sent: no header, no request, and a key only if the server itself
//! echoes it. An echoed key is not redacted, because it may be split and encoded in any way, and because a replay must be what happened. One line of
//! JSON marks the start of a step, one each chunk, one the end.
//!
//! Disks may be slow, so lines are written on a blocking thread.

use std::fmt;
use std::future::Future;
use std::io::Write;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::error::{ErrorKind, ProviderError};
use crate::event::StepEvent;
use crate::provider::ModelName;
use crate::step_decoder::{StepDecoder, truncated};
use crate::wire_names::WireNames;
use crate::wires::Wire;

/// Records received streams. Clones write to the same file.
#[derive(Clone)]
pub struct StreamRecorder(Arc<Mutex<RecordingFile>>);

struct RecordingFile {
    writer: Box<dyn Write + Send>,
    steps: u64,
}

impl StreamRecorder {
    /// Records to this writer.
    pub fn new(writer: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(RecordingFile { writer: Box::new(writer), steps: 0 })))
    }

    /// Starts a step.
    pub(crate) async fn step(
        &self,
        wire: Wire,
        model: &ModelName,
        names: &WireNames,
    ) -> Result<StepRecorder, ProviderError> {
        let what = RecordingEvent::Begins { wire, model: model.clone(), names: names.renamed() };
        let recorder = self.clone();
        let begun = spawn_blocking(move || {
            let mut tape = recorder.0.lock().unwrap_or_else(PoisonError::into_inner);
            tape.steps += 1;
            let step = tape.steps;
            tape.write(&RecordingLine { step, what })?;
            drop(tape);
            Ok(StepRecorder { recorder, step })
        });
        begun.await.unwrap_or_else(|_| Err(unwritten("nobody is left to do it")))
    }
}

impl fmt::Debug for StreamRecorder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("StreamRecorder(…)")
    }
}

impl RecordingFile {
    fn write(&mut self, line: &RecordingLine) -> Result<(), ProviderError> {
        let written = serde_json::to_vec(line).map_err(std::io::Error::from).and_then(|mut text| {
            text.push(b'\n');
            self.writer.write_all(&text)?;
            self.writer.flush()
        });
        written.map_err(unwritten)
    }
}

fn unwritten(reason: impl fmt::Display) -> ProviderError {
    ProviderError::new(ErrorKind::Unusable, format!("the recording cannot be written: {reason}"))
        .help("make room for it, or leave it out")
}

/// A write in progress, which returns the item when done.
pub(crate) struct PendingWrite<T>(JoinHandle<Result<T, ProviderError>>);

impl<T> Future for PendingWrite<T> {
    type Output = Result<T, ProviderError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let written = ready!(Pin::new(&mut self.0).poll(context));
        Poll::Ready(written.unwrap_or_else(|_| Err(unwritten("nobody is left to do it"))))
    }
}

/// Records one step.
#[derive(Clone, Debug)]
pub(crate) struct StepRecorder {
    recorder: StreamRecorder,
    step: u64,
}

impl StepRecorder {
    /// Records an item.
    pub(crate) fn write<P: AsRef<[u8]> + Send + 'static>(
        &self,
        came: StreamItem<P>,
    ) -> PendingWrite<StreamItem<P>> {
        let StepRecorder { recorder, step } = self.clone();
        PendingWrite(spawn_blocking(move || {
            let what = match &came {
                StreamItem::Chunk(bytes) => RecordingEvent::of_bytes(bytes.as_ref()),
                StreamItem::End => RecordingEvent::Ended(RecordingEnd::Ended),
                StreamItem::Failed(_) => RecordingEvent::Ended(RecordingEnd::Broke),
            };
            let mut tape = recorder.0.lock().unwrap_or_else(PoisonError::into_inner);
            tape.write(&RecordingLine { step, what }).map(|()| came)
        }))
    }
}

/// The next item of a step's stream.
pub(crate) enum StreamItem<P> {
    /// A chunk of bytes.
    Chunk(P),
    /// The regular end.
    End,
    /// The connection broke, or timed out.
    Failed(ProviderError),
}

#[derive(Debug, Serialize, Deserialize)]
struct RecordingLine {
    step: u64,
    #[serde(flatten)]
    what: RecordingEvent,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RecordingEvent {
    Begins {
        wire: Wire,
        model: ModelName,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        names: Vec<(String, String)>,
    },
    Text(String),
    Base64(String),
    Ended(RecordingEnd),
}

impl RecordingEvent {
    fn of_bytes(bytes: &[u8]) -> Self {
        match str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64(STANDARD.encode(bytes)),
        }
    }
}

/// How the stream of a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RecordingEnd {
    /// Regularly, or the rest was not needed.
    Ended,
    /// The connection broke, or timed out.
    Broke,
}

/// A recorded step, decoded again.
#[derive(Debug, PartialEq)]
pub struct ReplayedStep {
    /// Its wire.
    pub wire: Wire,
    /// The model.
    pub model: ModelName,
    /// The events.
    pub events: Vec<StepEvent>,
    /// Why it failed, if it did.
    pub failed: Option<ProviderError>,
}

/// Decodes the steps of a recording, in the order in which they began.
///
/// # Errors
/// The text is not a recording.
pub fn replay(recording: &str) -> Result<Vec<ReplayedStep>, serde_json::Error> {
    let lines = recording.lines().filter(|line| !line.trim().is_empty());
    let lines = lines.map(serde_json::from_str).collect::<Result<Vec<RecordingLine>, _>>()?;
    Ok(lines.iter().filter_map(|line| replay_step(line, &lines)).collect())
}

fn replay_step(first: &RecordingLine, lines: &[RecordingLine]) -> Option<ReplayedStep> {
    let RecordingEvent::Begins { wire, model, names } = &first.what else { return None };
    let mut decoder = StepDecoder::with_names(*wire, model, WireNames::from_renamed(names));
    let mut failed = None;
    for line in lines.iter().filter(|line| line.step == first.step) {
        let result = match &line.what {
            RecordingEvent::Begins { .. } => Ok(()),
            RecordingEvent::Text(text) => decoder.feed(text.as_bytes()),
            RecordingEvent::Base64(text) => decoder.feed(&STANDARD.decode(text).unwrap_or_default()),
            RecordingEvent::Ended(RecordingEnd::Ended) => decoder.end(),
            RecordingEvent::Ended(RecordingEnd::Broke) if decoder.is_finished() => Ok(()),
            RecordingEvent::Ended(RecordingEnd::Broke) => Err(truncated()),
        };
        if let Err(error) = result {
            failed = Some(error);
            break;
        }
    }
    if failed.is_none() && !decoder.is_finished() {
        failed = Some(truncated());
    }
    let events = std::iter::from_fn(|| decoder.next_event()).collect();
    Some(ReplayedStep { wire: *wire, model: model.clone(), events, failed })
}
