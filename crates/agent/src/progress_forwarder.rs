//! Forwards a call's progress output as events, rate limited and bounded.

use std::sync::Arc;

use toolgate_gate::Progress;
use toolgate_tools::ProgressBuffer;
use toolgate_types::CallId;

use crate::event::{ChatEvent, EventSink, MessageId};

/// The longest chunk.
const MAX_CHUNK_BYTES: usize = 16 * 1024;

/// Forwards a tool's progress as events.
pub(crate) struct ProgressForwarder {
    events: EventSink,
    message_id: MessageId,
    tool_id: CallId,
    buffer: Arc<ProgressBuffer>,
}

impl ProgressForwarder {
    pub(crate) fn new(events: &EventSink, message_id: &MessageId, tool_id: CallId) -> Self {
        let (events, message_id) = (Arc::clone(events), message_id.clone());
        Self { events, message_id, tool_id, buffer: ProgressBuffer::with_limit(MAX_CHUNK_BYTES) }
    }

    /// The sink that the tool writes to.
    pub(crate) fn sink(&self) -> Progress {
        self.buffer.sink()
    }

    /// Forwards the buffered output.
    pub(crate) fn flush(&self) {
        if let Some(heard) = self.buffer.take() {
            let (message_id, tool_id) = (self.message_id.clone(), self.tool_id);
            (self.events)(ChatEvent::ToolDelta { message_id, tool_id, chunk: heard.text });
        }
    }
}
