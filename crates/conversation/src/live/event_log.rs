//! The numbered events of one conversation, in bounded memory.
//!
//! Deltas of the same message or call are one entry, which knows where each of them ended: a reader that is behind gets the rest as one delta, and a
//! reader in the middle of an entry gets exactly what it lacks. Deltas that a later event repeats in full (the arguments of a started call, the output
//! of a finished one) are dropped then. What remains is about as large as the conversation itself; beyond the bound the oldest entries go, and a reader
//! that needs them has to start from the stored messages.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};
use toolgate_agent::{ChatEvent, MessageId};
use toolgate_types::CallId;

/// The bound while a turn runs, and between turns.
const MAX_RUNNING_BYTES: usize = 16 << 20;
const MAX_IDLE_BYTES: usize = 256 << 10;

/// The longest entry of deltas, and so the longest merged delta.
const MAX_DELTA_BYTES: usize = 16 << 10;

/// What an entry takes besides its text.
const ENTRY_BYTES: usize = 96;

/// A numbered event, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFrame {
    /// The number.
    pub seq: u64,
    /// The name.
    pub event: Arc<str>,
    /// The data as JSON.
    pub data: Arc<str>,
}

impl EventFrame {
    /// The frame of a WebSocket.
    #[must_use]
    pub fn json(&self) -> String {
        format!("{{\"seq\":{},\"event\":\"{}\",\"data\":{}}}", self.seq, self.event, self.data)
    }
}

/// What a reader gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogRead {
    /// The next events; none if the reader has everything.
    Frames(Vec<EventFrame>),
    /// Events between are no longer there.
    Gap,
}

/// The log.
#[derive(Debug)]
pub(crate) struct EventLog {
    entries: VecDeque<LogEntry>,
    /// The last number that was given.
    last: u64,
    /// Events up to this number are no longer there.
    floor: u64,
    bytes: usize,
    max_bytes: usize,
}

#[derive(Debug)]
struct LogEntry {
    first: u64,
    last: u64,
    body: EntryBody,
}

#[derive(Debug)]
enum EntryBody {
    Event { event: Arc<str>, data: Arc<str> },
    Deltas(DeltaRun),
}

/// Consecutive deltas of the same kind.
#[derive(Debug)]
struct DeltaRun {
    of: DeltaOf,
    text: String,
    /// Where each delta ends in the text.
    ends: Vec<u32>,
}

/// What deltas belong to.
#[derive(Clone, Debug, PartialEq)]
enum DeltaOf {
    Text(MessageId),
    Thinking(MessageId),
    Input { message: MessageId, call: CallId, tool: String },
    Output { message: MessageId, call: CallId },
}

impl EventLog {
    /// An empty log whose first event follows this number.
    pub(crate) fn after(base: u64) -> Self {
        Self { entries: VecDeque::new(), last: base, floor: base, bytes: 0, max_bytes: MAX_IDLE_BYTES }
    }

    /// The last number that was given.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Events up to this number are no longer there.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    /// Sets the bound for a running turn, or between turns.
    pub(crate) fn set_running(&mut self, is_running: bool) {
        self.max_bytes = if is_running { MAX_RUNNING_BYTES } else { MAX_IDLE_BYTES };
        self.trim();
    }

    /// Adds an event of the agent.
    pub(crate) fn push(&mut self, event: ChatEvent) -> EventFrame {
        let (of, text) = match event {
            ChatEvent::TextDelta { message_id, text } => (DeltaOf::Text(message_id), text),
            ChatEvent::ThinkingDelta { message_id, text } => (DeltaOf::Thinking(message_id), text),
            ChatEvent::ToolInputDelta { message_id, tool_id, tool_name, chunk } => {
                (DeltaOf::Input { message: message_id, call: tool_id, tool: tool_name }, chunk)
            }
            ChatEvent::ToolDelta { message_id, tool_id, chunk } => {
                (DeltaOf::Output { message: message_id, call: tool_id }, chunk)
            }
            other => {
                match &other {
                    ChatEvent::ToolStart { tool_id, .. } => {
                        self.empty_input(*tool_id);
                        self.drop_deltas(*tool_id);
                    }
                    ChatEvent::ToolResult { tool_id, .. } => self.drop_deltas(*tool_id),
                    _ => {}
                }
                return self.push_event(&other);
            }
        };
        self.push_delta(of, &text)
    }

    /// Adds an event that is no delta.
    pub(crate) fn push_event(&mut self, event: &impl Serialize) -> EventFrame {
        let (name, data) = name_and_data(event);
        self.last += 1;
        self.bytes += data.len() + ENTRY_BYTES;
        let frame = EventFrame { seq: self.last, event: name.into(), data: data.into() };
        let body = EntryBody::Event { event: Arc::clone(&frame.event), data: Arc::clone(&frame.data) };
        self.entries.push_back(LogEntry { first: self.last, last: self.last, body });
        self.trim();
        frame
    }

    fn push_delta(&mut self, of: DeltaOf, text: &str) -> EventFrame {
        self.last += 1;
        self.bytes += text.len() + size_of::<u32>();
        let frame = delta_frame(self.last, &of, text);
        match self.entries.back_mut() {
            Some(LogEntry { last, body: EntryBody::Deltas(run), .. })
                if run.of == of && run.text.len() + text.len() <= MAX_DELTA_BYTES =>
            {
                *last = self.last;
                run.add(text);
            }
            _ => {
                self.bytes += ENTRY_BYTES;
                let mut run = DeltaRun { of, text: String::new(), ends: Vec::new() };
                run.add(text);
                let body = EntryBody::Deltas(run);
                self.entries.push_back(LogEntry { first: self.last, last: self.last, body });
            }
        }
        self.trim();
        frame
    }

    /// Empties the first delta of a call's arguments: that it came is kept, so that the calls of a message are in the same order for later readers.
    fn empty_input(&mut self, call: CallId) {
        for entry in &mut self.entries {
            let before = entry.bytes();
            if let EntryBody::Deltas(run) = &mut entry.body
                && matches!(run.of, DeltaOf::Input { call: of, .. } if of == call)
            {
                run.text.clear();
                run.ends.clear();
                self.bytes = (self.bytes + entry.bytes()).saturating_sub(before);
                return;
            }
        }
    }

    /// Drops the deltas of a call, which a later event repeats.
    fn drop_deltas(&mut self, call: CallId) {
        let bytes = &mut self.bytes;
        self.entries.retain(|entry| {
            let is_of_call = match &entry.body {
                EntryBody::Deltas(DeltaRun { of: DeltaOf::Input { call: of, .. }, text, .. }) => {
                    *of == call && !text.is_empty()
                }
                EntryBody::Deltas(DeltaRun { of: DeltaOf::Output { call: of, .. }, .. }) => *of == call,
                _ => false,
            };
            if is_of_call {
                *bytes = bytes.saturating_sub(entry.bytes());
            }
            !is_of_call
        });
    }

    fn trim(&mut self) {
        while self.bytes > self.max_bytes
            && let Some(oldest) = self.entries.pop_front()
        {
            self.bytes = self.bytes.saturating_sub(oldest.bytes());
            self.floor = oldest.last;
        }
    }

    /// The events after a number, at most about this many bytes, but at least one. Zero stands for the beginning of the log.
    pub(crate) fn read(&self, after: u64, max_bytes: usize) -> LogRead {
        let after = if after == 0 { self.floor } else { after };
        if after < self.floor || after > self.last {
            return LogRead::Gap;
        }
        let start = self.entries.partition_point(|entry| entry.last <= after);
        let (mut frames, mut bytes) = (Vec::new(), 0);
        for entry in self.entries.range(start..) {
            if bytes >= max_bytes {
                break;
            }
            let frame = entry.frame(after);
            bytes += frame.data.len() + ENTRY_BYTES;
            frames.push(frame);
        }
        LogRead::Frames(frames)
    }
}

impl LogEntry {
    fn bytes(&self) -> usize {
        ENTRY_BYTES
            + match &self.body {
                EntryBody::Event { data, .. } => data.len(),
                EntryBody::Deltas(run) => run.text.len() + run.ends.len() * size_of::<u32>(),
            }
    }

    /// What a reader that has everything up to a number lacks of this entry.
    fn frame(&self, after: u64) -> EventFrame {
        match &self.body {
            EntryBody::Event { event, data } => {
                EventFrame { seq: self.last, event: Arc::clone(event), data: Arc::clone(data) }
            }
            EntryBody::Deltas(run) => {
                let known = usize::try_from((after + 1).saturating_sub(self.first)).unwrap_or(usize::MAX);
                let start = known.checked_sub(1).and_then(|index| run.ends.get(index)).copied().unwrap_or(0);
                let text = usize::try_from(start).ok().and_then(|start| run.text.get(start..));
                delta_frame(self.last, &run.of, text.unwrap_or_default())
            }
        }
    }
}

impl DeltaRun {
    fn add(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
    }
}

fn delta_frame(seq: u64, of: &DeltaOf, text: &str) -> EventFrame {
    let (event, data) = match of {
        DeltaOf::Text(message) => ("chat:text-delta", json!({"messageId": message, "text": text})),
        DeltaOf::Thinking(message) => ("chat:thinking-delta", json!({"messageId": message, "text": text})),
        DeltaOf::Input { message, call, tool } => (
            "chat:tool-input-delta",
            json!({"messageId": message, "toolId": call, "toolName": tool, "chunk": text}),
        ),
        DeltaOf::Output { message, call } => {
            ("chat:tool-delta", json!({"messageId": message, "toolId": call, "chunk": text}))
        }
    };
    EventFrame { seq, event: event.into(), data: data.to_string().into() }
}

/// The name and the data of an event. One that cannot be serialised, which its types rule out, has no data.
fn name_and_data(event: &impl Serialize) -> (String, String) {
    match serde_json::to_value(event) {
        Ok(Value::Object(mut fields)) => {
            let name = fields.get("event").and_then(Value::as_str).unwrap_or_default().to_owned();
            let data = fields.remove("data").unwrap_or_else(|| json!({}));
            (name, data.to_string())
        }
        _ => (String::new(), "{}".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_a_message_are_in_their_order_for_whoever_reads_later() {
        let mut log = EventLog::after(0);
        let message_id = MessageId::from("m");
        let calls = [CallId::fresh(), CallId::fresh()];
        let chunk = "x".repeat(MAX_DELTA_BYTES);
        // Each is written in two pieces that are entries of their own, and starts when all are written.
        for tool_id in calls {
            for _ in 0..2 {
                let (message_id, tool_name) = (message_id.clone(), "t".to_owned());
                log.push(ChatEvent::ToolInputDelta { message_id, tool_id, tool_name, chunk: chunk.clone() });
            }
        }
        let written = log.bytes;
        for tool_id in calls {
            let (message_id, tool_name) = (message_id.clone(), "t".to_owned());
            log.push(ChatEvent::ToolStart {
                message_id,
                tool_id,
                tool_name,
                input: json!({}),
                input_text: None,
            });
            let LogRead::Frames(frames) = log.read(0, usize::MAX) else { panic!("a gap") };
            let data = frames.iter().map(|frame| serde_json::from_str::<Value>(&frame.data).unwrap());
            let mut order: Vec<String> =
                data.map(|data| data["toolId"].as_str().unwrap().to_owned()).collect();
            order.dedup();
            assert_eq!(order[..2], calls.map(|call| call.to_string()), "after {tool_id}");
        }
        // The arguments are in the start alone.
        assert!(log.bytes < written / 8, "{} of {written}", log.bytes);
        let counted: usize = log.entries.iter().map(LogEntry::bytes).sum();
        assert_eq!(log.bytes, counted);
    }
}
