//! What came back, written down byte for byte, and read again.
//!
//! A recording holds the bytes of every step and nothing that was sent: no key, no header, no question. One line of JSON says that a step begins, one
//! for each piece what came, one how it ended.

use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::decode::{StepDecoder, truncated};
use crate::error::{ErrorKind, ProviderError};
use crate::event::Event;
use crate::names::WireNames;
use crate::provider::{ModelName, Wire};

/// Writes down what comes back. Copies write to the same place.
#[derive(Clone)]
pub struct Recorder(Arc<Mutex<Tape>>);

struct Tape {
    writer: Box<dyn Write + Send>,
    steps: u64,
}

impl Recorder {
    /// Everything goes there.
    pub fn new(writer: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Tape { writer: Box::new(writer), steps: 0 })))
    }

    /// A step begins.
    pub(crate) fn step(
        &self,
        wire: Wire,
        model: &ModelName,
        names: &WireNames,
    ) -> Result<StepRecorder, ProviderError> {
        let mut tape = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tape.steps += 1;
        let step = tape.steps;
        tape.write(&Line {
            step,
            what: What::Begins { wire, model: model.clone(), names: names.renamed() },
        })?;
        Ok(StepRecorder { recorder: self.clone(), step })
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Recorder(…)")
    }
}

impl Tape {
    fn write(&mut self, line: &Line) -> Result<(), ProviderError> {
        let written = serde_json::to_vec(line).map_err(std::io::Error::from).and_then(|mut text| {
            text.push(b'\n');
            self.writer.write_all(&text)?;
            self.writer.flush()
        });
        written.map_err(|error| {
            ProviderError::new(ErrorKind::Unusable, format!("the recording cannot be written: {error}"))
                .help("make room for it, or leave it out")
        })
    }
}

/// Writes down one step.
#[derive(Debug)]
pub(crate) struct StepRecorder {
    recorder: Recorder,
    step: u64,
}

impl StepRecorder {
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), ProviderError> {
        self.write(match str::from_utf8(bytes) {
            Ok(text) => What::Text(text.to_owned()),
            Err(_) => What::Base64(STANDARD.encode(bytes)),
        })
    }

    pub(crate) fn ended(&self, how: HowEnded) -> Result<(), ProviderError> {
        self.write(What::Ended(how))
    }

    fn write(&self, what: What) -> Result<(), ProviderError> {
        let mut tape = self.recorder.0.lock().unwrap_or_else(PoisonError::into_inner);
        tape.write(&Line { step: self.step, what })
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    step: u64,
    #[serde(flatten)]
    what: What,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum What {
    Begins {
        wire: Wire,
        model: ModelName,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        names: Vec<(String, String)>,
    },
    Text(String),
    Base64(String),
    Ended(HowEnded),
}

/// How the bytes of a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HowEnded {
    /// In order, or nobody needed more.
    Ended,
    /// The connection broke, or went silent.
    Broke,
}

/// A step that was recorded, decoded anew.
#[derive(Debug, PartialEq)]
pub struct ReplayedStep {
    /// The wire it came by.
    pub wire: Wire,
    /// The model.
    pub model: ModelName,
    /// What happened.
    pub events: Vec<Event>,
    /// Why it failed, where it did.
    pub failed: Option<ProviderError>,
}

/// Decodes the steps of a recording, in the order in which they began.
///
/// # Errors
/// The text is not a recording.
pub fn replay(recording: &str) -> Result<Vec<ReplayedStep>, serde_json::Error> {
    let lines = recording.lines().filter(|line| !line.trim().is_empty());
    let lines = lines.map(serde_json::from_str).collect::<Result<Vec<Line>, _>>()?;
    Ok(lines.iter().filter_map(|line| replay_step(line, &lines)).collect())
}

fn replay_step(first: &Line, lines: &[Line]) -> Option<ReplayedStep> {
    let What::Begins { wire, model, names } = &first.what else { return None };
    let mut decoder = StepDecoder::with_names(*wire, model, WireNames::from_renamed(names));
    let mut failed = None;
    for line in lines.iter().filter(|line| line.step == first.step) {
        let result = match &line.what {
            What::Begins { .. } => Ok(()),
            What::Text(text) => decoder.feed(text.as_bytes()),
            What::Base64(text) => decoder.feed(&STANDARD.decode(text).unwrap_or_default()),
            What::Ended(HowEnded::Ended) => decoder.end(),
            What::Ended(HowEnded::Broke) if decoder.is_finished() => Ok(()),
            What::Ended(HowEnded::Broke) => Err(truncated()),
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
