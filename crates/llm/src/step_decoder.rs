//! Decodes bytes into events, without any network: the result does not depend on the source of a stream or on its chunks.

use crate::error::{ErrorKind, ProviderError};
use crate::event::StepEvent;
use crate::frame::StreamFrame;
use crate::limits::{MAX_STEP_BYTES, MAX_VALUES, exceeds_max_values};
use crate::message_collector::MessageCollector;
use crate::ndjson::LineParser;
use crate::provider::ModelName;
use crate::sse::SseParser;
use crate::wire_names::WireNames;
use crate::wires::{Framing, Wire};

/// A wire's state machine.
pub(crate) trait Decode: Send {
    /// Takes the next frame. None comes after the finish.
    fn frame(&mut self, frame: StreamFrame<'_>) -> Result<(), ProviderError>;

    /// The stream ended regularly without a terminator. Only a wire whose terminator is optional finishes here.
    fn end(&mut self) -> Result<(), ProviderError> {
        Err(truncated())
    }

    /// The collector.
    fn collector(&mut self) -> &mut MessageCollector;
}

/// Decodes the bytes of one step.
pub struct StepDecoder {
    framing: StreamFraming,
    wire: Box<dyn Decode>,
    bytes: usize,
    state: DecodeState,
}

enum StreamFraming {
    Events(SseParser),
    Lines(LineParser),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DecodeState {
    Running,
    Finished,
    Failed,
}

impl StepDecoder {
    /// A decoder at the beginning of a step.
    #[must_use]
    pub fn new(wire: Wire, model: &ModelName) -> Self {
        Self::with_names(wire, model, WireNames::default())
    }

    pub(crate) fn with_names(wire: Wire, model: &ModelName, names: WireNames) -> Self {
        let collector = MessageCollector::new(wire, model.clone(), names);
        let spec = wire.spec();
        let framing = match spec.framing {
            Framing::ServerSentEvents => StreamFraming::Events(SseParser::default()),
            Framing::JsonLines => StreamFraming::Lines(LineParser::default()),
        };
        Self { framing, wire: (spec.decoder)(collector), bytes: 0, state: DecodeState::Running }
    }

    /// Takes more bytes. Events from before a failure can still be taken.
    ///
    /// # Errors
    /// The step failed, and no later bytes will change that.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), ProviderError> {
        if self.state != DecodeState::Running {
            return Ok(());
        }
        // Cut exactly at the limit, so that the result does not depend on the chunks.
        let (bytes, excess) = bytes.split_at_checked(MAX_STEP_BYTES - self.bytes).unwrap_or((bytes, &[]));
        self.bytes += bytes.len();
        let fed = match &mut self.framing {
            StreamFraming::Events(parser) => parser.feed(bytes, &mut each(self.wire.as_mut())),
            StreamFraming::Lines(parser) => parser.feed(bytes, &mut each(self.wire.as_mut())),
        };
        self.note(fed)?;
        if self.state == DecodeState::Running && !excess.is_empty() {
            let message = format!("the server sent more than {MAX_STEP_BYTES} bytes in one step");
            return self.note(Err(ProviderError::new(ErrorKind::TooLarge, message)));
        }
        Ok(())
    }

    /// The stream ended regularly.
    ///
    /// # Errors
    /// The step was incomplete.
    pub fn end(&mut self) -> Result<(), ProviderError> {
        match self.state {
            DecodeState::Finished => return Ok(()),
            DecodeState::Failed => return Err(truncated()),
            DecodeState::Running => {}
        }
        let ended = match &mut self.framing {
            StreamFraming::Events(parser) => parser.end(&mut each(self.wire.as_mut())),
            StreamFraming::Lines(parser) => parser.end(&mut each(self.wire.as_mut())),
        };
        self.note(ended)?;
        if self.state == DecodeState::Running {
            let ended = self.wire.end();
            self.note(ended)?;
        }
        if self.state == DecodeState::Finished { Ok(()) } else { self.note(Err(truncated())) }
    }

    /// The oldest pending event.
    pub fn next_event(&mut self) -> Option<StepEvent> {
        self.wire.collector().next_event()
    }

    /// Whether the wire's terminator was seen.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.state == DecodeState::Finished
    }

    /// Errors after the finish are ignored, since whether trailing bytes are parsed depends on the chunks.
    fn note(&mut self, result: Result<(), ProviderError>) -> Result<(), ProviderError> {
        if self.wire.collector().is_finished() {
            self.state = DecodeState::Finished;
            return Ok(());
        }
        if result.is_err() {
            self.state = DecodeState::Failed;
        }
        result
    }
}

impl std::fmt::Debug for StepDecoder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("StepDecoder").field("state", &self.state).finish_non_exhaustive()
    }
}

/// Ignores frames after the finish, and rejects frames with too many values before they are parsed.
fn each(wire: &mut dyn Decode) -> impl FnMut(StreamFrame<'_>) -> Result<(), ProviderError> {
    |frame| {
        if wire.collector().is_finished() {
            return Ok(());
        }
        if exceeds_max_values(frame.data) {
            let message = format!("a piece of the stream holds more than {MAX_VALUES} values");
            return Err(ProviderError::new(ErrorKind::TooLarge, message));
        }
        wire.frame(frame)
    }
}

/// The stream ended before the wire's terminator.
pub(crate) fn truncated() -> ProviderError {
    ProviderError::new(ErrorKind::Truncated, "the stream ended before the model's message did")
}
