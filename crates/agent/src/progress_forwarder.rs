//! Output of a call on its way to whoever looks on, in pieces that are neither too many nor too long.

use std::sync::Arc;

use toolgate_gate::Progress;
use toolgate_tools::ProgressBuffer;
use toolgate_types::CallId;

use crate::event::{ChatEvent, EventSink, MessageId};

/// The longest piece.
const MAX_CHUNK_BYTES: usize = 16 * 1024;

/// Tells what a tool says as events.
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

    /// What the tool is given to speak into.
    pub(crate) fn sink(&self) -> Progress {
        self.buffer.sink()
    }

    /// Tells what was not told yet.
    pub(crate) fn flush(&self) {
        if let Some(heard) = self.buffer.take() {
            let (message_id, tool_id) = (self.message_id.clone(), self.tool_id);
            (self.events)(ChatEvent::ToolDelta { message_id, tool_id, chunk: heard.text });
        }
    }
}
