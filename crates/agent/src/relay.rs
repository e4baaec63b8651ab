//! Output of a call on its way to whoever looks on, in pieces that are neither too many nor too long.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use toolgate_gate::{Progress, Said};
use toolgate_tools::clean;
use toolgate_types::CallId;

use crate::event::{ChatEvent, EventSink, MessageId};

/// Not more often than this.
pub(crate) const INTERVAL: Duration = Duration::from_millis(40);

/// Longer pieces lose their beginning: whoever looks on wants to see the newest.
const LONGEST: usize = 16 * 1024;

/// Collects what a tool says until it is told.
pub(crate) struct Relay {
    events: EventSink,
    message_id: MessageId,
    tool_id: CallId,
    said: Mutex<String>,
}

impl Relay {
    pub(crate) fn new(events: &EventSink, message_id: &MessageId, tool_id: CallId) -> Arc<Self> {
        let (events, message_id) = (Arc::clone(events), message_id.clone());
        Arc::new(Self { events, message_id, tool_id, said: Mutex::default() })
    }

    /// What the tool is given to speak into.
    pub(crate) fn ear(self: &Arc<Self>) -> Progress {
        let relay = Arc::clone(self);
        Arc::new(move |said: Said<'_>| relay.hear(said.words))
    }

    fn hear(&self, piece: &str) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.push_str(piece);
        if said.len() > 2 * LONGEST {
            let from = said.ceil_char_boundary(said.len() - LONGEST);
            said.drain(..from);
        }
    }

    /// Tells what was not told yet.
    pub(crate) fn tell(&self) {
        let said = std::mem::take(&mut *self.said.lock().unwrap_or_else(PoisonError::into_inner));
        if said.is_empty() {
            return;
        }
        let chunk = clean(&said);
        let from = chunk.ceil_char_boundary(chunk.len().saturating_sub(LONGEST));
        let chunk = chunk.get(from..).unwrap_or_default().to_owned();
        let (message_id, tool_id) = (self.message_id.clone(), self.tool_id);
        (self.events)(ChatEvent::ToolDelta { message_id, tool_id, chunk });
    }
}
