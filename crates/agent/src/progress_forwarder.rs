//! Forwards a call's progress output as events, rate limited and bounded.

use std::sync::{Arc, Mutex, PoisonError};

use toolgate_gate::{Progress, ProgressUpdate};
use toolgate_tools::ProgressBuffer;
use toolgate_types::CallId;

use crate::coloured_lines::ColouredLines;
use crate::event::{ChatEvent, EventSink, MessageId};

/// The longest chunk.
const MAX_CHUNK_BYTES: usize = 16 * 1024;

/// Forwards a tool's progress as events.
pub(crate) struct ProgressForwarder {
    events: EventSink,
    message_id: MessageId,
    tool_id: CallId,
    buffer: Arc<ProgressBuffer>,
    /// For the result, also of what the buffer drops.
    coloured: Arc<Mutex<ColouredLines>>,
}

impl ProgressForwarder {
    pub(crate) fn new(events: &EventSink, message_id: &MessageId, tool_id: CallId) -> Self {
        let (events, message_id) = (Arc::clone(events), message_id.clone());
        let buffer = ProgressBuffer::with_colours(MAX_CHUNK_BYTES);
        Self { events, message_id, tool_id, buffer, coloured: Arc::default() }
    }

    /// The sink that the tool writes to.
    pub(crate) fn sink(&self) -> Progress {
        let (forward, coloured) = (self.buffer.sink(), Arc::clone(&self.coloured));
        Arc::new(move |update: ProgressUpdate<'_>| {
            coloured.lock().unwrap_or_else(PoisonError::into_inner).push(&update);
            forward(update);
        })
    }

    /// A result with the colours that its lines were written with; `None` if there are none.
    pub(crate) fn colour(&self, result: &str) -> Option<String> {
        self.coloured.lock().unwrap_or_else(PoisonError::into_inner).colour(result)
    }

    /// Forwards the buffered output.
    pub(crate) fn flush(&self) {
        if let Some(heard) = self.buffer.take() {
            let (message_id, tool_id) = (self.message_id.clone(), self.tool_id);
            (self.events)(ChatEvent::ToolDelta { message_id, tool_id, chunk: heard.text });
        }
    }
}
