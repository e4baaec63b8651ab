//! Assembles a message from its stream.
//!
//! Every wire's decoder reports here and nowhere else: this is where events are created, tool names are mapped back, and sizes are limited. A message
//! leaves once, at the finish, and only with calls whose ends were seen.

use std::collections::{HashSet, VecDeque};

use serde_json::Value;

use crate::error::{ErrorKind, ProviderError};
use crate::event::{CallKey, FinishReason, StepEvent, Usage};
use crate::limits::{
    MAX_ARGUMENT_BYTES, MAX_CALLS, MAX_ID_BYTES, MAX_NAME_BYTES, MAX_OPAQUE_STATE_DEPTH, MAX_VALUES,
    count_values, depth,
};
use crate::message::{AssistantMessage, MessagePart, ModelCall, OpaqueProviderState};
use crate::provider::ModelName;
use crate::vendor_error::sanitize;
use crate::wire_names::WireNames;
use crate::wires::Wire;

/// An open part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PartKey(usize);

/// An incomplete message, and its pending events.
#[derive(Debug)]
pub(crate) struct MessageCollector {
    wire: Wire,
    model: ModelName,
    names: WireNames,
    parts: Vec<OpenPart>,
    calls: u32,
    /// The ids of the calls.
    ids: HashSet<String>,
    /// The number of values in all opaque state.
    sealed: usize,
    events: VecDeque<StepEvent>,
    is_finished: bool,
}

#[derive(Debug)]
struct OpenPart {
    part: MessagePart,
    /// For a call: its key, and whether it is still open.
    call: Option<(CallKey, bool)>,
}

impl MessageCollector {
    pub(crate) fn new(wire: Wire, model: ModelName, names: WireNames) -> Self {
        Self {
            wire,
            model,
            names,
            parts: Vec::new(),
            calls: 0,
            ids: HashSet::new(),
            sealed: 0,
            events: VecDeque::new(),
            is_finished: false,
        }
    }

    /// Begins a text part.
    pub(crate) fn begin_text(&mut self) -> PartKey {
        self.begin(MessagePart::Text { text: String::new() }, None)
    }

    /// Begins a thinking part.
    pub(crate) fn begin_thinking(&mut self) -> PartKey {
        self.begin(MessagePart::Thinking { text: String::new(), seal: None }, None)
    }

    /// Begins a call, by the wire's name of the tool. A call without an id gets one.
    pub(crate) fn begin_call(&mut self, id: &str, wire_name: &str) -> Result<PartKey, ProviderError> {
        if wire_name.len() > MAX_NAME_BYTES {
            return Err(malformed(format!("the name of a tool has more than {MAX_NAME_BYTES} bytes")));
        }
        if id.len() > MAX_ID_BYTES {
            return Err(malformed(format!("the id of a call has more than {MAX_ID_BYTES} bytes")));
        }
        if self.ids.contains(id) {
            return Err(malformed("two calls of one message have the same id"));
        }
        if usize::try_from(self.calls).unwrap_or(usize::MAX) >= MAX_CALLS {
            return Err(too_large(format!("the model makes more than {MAX_CALLS} calls at once")));
        }
        let key = CallKey(self.calls);
        self.calls += 1;
        let id = if id.is_empty() { self.generated_id() } else { id.to_owned() };
        self.ids.insert(id.clone());
        let name = self.names.from_wire(wire_name).to_owned();
        self.events.push_back(StepEvent::CallStart { call: key, id: id.clone(), name: name.clone() });
        let call = ModelCall { id, name, arguments: String::new() };
        Ok(self.begin(MessagePart::Call(call), Some((key, true))))
    }

    /// Appends to a part that is not a call.
    pub(crate) fn push(&mut self, key: PartKey, more: &str) -> Result<(), ProviderError> {
        if more.is_empty() {
            return Ok(());
        }
        let event = match self.part(key)? {
            MessagePart::Text { text } => {
                text.push_str(more);
                StepEvent::TextDelta(more.to_owned())
            }
            MessagePart::Thinking { text, .. } => {
                text.push_str(more);
                StepEvent::ThinkingDelta(more.to_owned())
            }
            MessagePart::Call(_) => {
                return Err(malformed("words came where arguments of a call were expected"));
            }
        };
        self.events.push_back(event);
        Ok(())
    }

    /// Appends text for the user, on a wire that does not number its parts.
    pub(crate) fn say(&mut self, more: &str) -> Result<(), ProviderError> {
        let last = self.parts.last().is_some_and(|growing| matches!(growing.part, MessagePart::Text { .. }));
        self.push_last(last, Self::begin_text, more)
    }

    /// Appends thinking, on a wire that does not number its parts.
    pub(crate) fn think(&mut self, more: &str) -> Result<(), ProviderError> {
        let last =
            self.parts.last().is_some_and(|growing| matches!(growing.part, MessagePart::Thinking { .. }));
        self.push_last(last, Self::begin_thinking, more)
    }

    /// Appends to the arguments of a call.
    pub(crate) fn push_arguments(&mut self, key: PartKey, more: &str) -> Result<(), ProviderError> {
        let (call, key) = self.open_call(key)?;
        if call.arguments.len() + more.len() > MAX_ARGUMENT_BYTES {
            return Err(too_large(format!(
                "the arguments of a call have more than {MAX_ARGUMENT_BYTES} bytes"
            )));
        }
        if !more.is_empty() {
            call.arguments.push_str(more);
            self.events.push_back(StepEvent::CallDelta { call: key, json: more.to_owned() });
        }
        Ok(())
    }

    /// The arguments of a call so far.
    pub(crate) fn arguments(&self, key: PartKey) -> Option<&str> {
        match &self.parts.get(key.0)?.part {
            MessagePart::Call(call) => Some(&call.arguments),
            _ => None,
        }
    }

    /// Marks the arguments of a call as complete.
    pub(crate) fn end_call(&mut self, key: PartKey) -> Result<(), ProviderError> {
        let (call, call_key) = self.open_call(key)?;
        complete(call);
        self.events.push_back(StepEvent::CallEnd { call: call_key });
        if let Some(growing) = self.parts.get_mut(key.0) {
            growing.call = Some((call_key, false));
        }
        Ok(())
    }

    /// Sets the opaque state of a thinking part.
    pub(crate) fn set_opaque_state(&mut self, key: PartKey, value: Value) -> Result<(), ProviderError> {
        self.sealed += count_values(&value);
        if self.sealed > MAX_VALUES {
            return Err(too_large(format!("the model's reasoning holds more than {MAX_VALUES} values")));
        }
        if depth(&value) > MAX_OPAQUE_STATE_DEPTH {
            return Err(malformed(format!(
                "the model's reasoning has more than {MAX_OPAQUE_STATE_DEPTH} levels"
            )));
        }
        let wire = self.wire;
        match self.part(key)? {
            MessagePart::Thinking { seal, .. } => {
                *seal = Some(OpaqueProviderState { wire, value });
                Ok(())
            }
            _ => Err(malformed("a signature came where none was expected")),
        }
    }

    /// Reports the usage so far.
    pub(crate) fn usage(&mut self, usage: Usage) {
        self.events.push_back(StepEvent::Usage(usage));
    }

    /// Whether a call has begun.
    pub(crate) fn has_calls(&self) -> bool {
        self.calls > 0
    }

    /// The wire's terminator was seen. A call that is still open was truncated, if the reason is one that truncates, and is kept as far as it came,
    /// so that the model gets a result for it; with any other reason the message is malformed.
    pub(crate) fn finish(&mut self, reason: FinishReason) -> Result<(), ProviderError> {
        let is_open = |growing: &OpenPart| matches!(growing.call, Some((_, true)));
        if matches!(reason, FinishReason::Stop | FinishReason::ToolCalls) && self.parts.iter().any(is_open) {
            return Err(malformed("the step is over before one of its calls"));
        }
        let reason = match reason {
            FinishReason::Other(word) => FinishReason::Other(sanitize(&word)),
            known => known,
        };
        self.is_finished = true;
        let mut said = std::mem::take(&mut self.parts);
        for growing in &mut said {
            if let MessagePart::Call(call) = &mut growing.part {
                complete(call);
            }
        }
        let parts = said.into_iter().map(|growing| growing.part).filter(|part| !is_empty(part)).collect();
        let message = AssistantMessage { parts, model: Some(self.model.clone()) };
        self.events.push_back(StepEvent::Finish { reason, message });
        Ok(())
    }

    /// Whether the step is complete.
    pub(crate) fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// The oldest pending event.
    pub(crate) fn next_event(&mut self) -> Option<StepEvent> {
        self.events.pop_front()
    }

    fn begin(&mut self, part: MessagePart, call: Option<(CallKey, bool)>) -> PartKey {
        self.parts.push(OpenPart { part, call });
        PartKey(self.parts.len() - 1)
    }

    fn push_last(
        &mut self,
        goes_on: bool,
        begin: fn(&mut Self) -> PartKey,
        more: &str,
    ) -> Result<(), ProviderError> {
        if more.is_empty() {
            return Ok(());
        }
        let key = if goes_on { PartKey(self.parts.len().saturating_sub(1)) } else { begin(self) };
        self.push(key, more)
    }

    fn part(&mut self, key: PartKey) -> Result<&mut MessagePart, ProviderError> {
        self.parts
            .get_mut(key.0)
            .map(|growing| &mut growing.part)
            .ok_or_else(|| malformed("a part goes on that never began"))
    }

    fn open_call(&mut self, key: PartKey) -> Result<(&mut ModelCall, CallKey), ProviderError> {
        match self.parts.get_mut(key.0) {
            Some(OpenPart { part: MessagePart::Call(call), call: Some((call_key, true)) }) => {
                Ok((call, *call_key))
            }
            _ => Err(malformed("arguments came for a call that is not open")),
        }
    }

    fn generated_id(&self) -> String {
        let numbered = (self.calls..).map(|number| format!("call_{number}"));
        numbered.into_iter().find(|id| !self.ids.contains(id)).unwrap_or_default()
    }
}

/// Missing arguments are an empty object.
fn complete(call: &mut ModelCall) {
    if call.arguments.trim().is_empty() {
        "{}".clone_into(&mut call.arguments);
    }
}

fn is_empty(part: &MessagePart) -> bool {
    match part {
        MessagePart::Text { text } => text.is_empty(),
        MessagePart::Thinking { text, seal } => text.is_empty() && seal.is_none(),
        MessagePart::Call(_) => false,
    }
}

/// The error for a response that cannot be parsed.
pub(crate) fn malformed(message: impl Into<String>) -> ProviderError {
    ProviderError::new(ErrorKind::Garbled, message)
}

/// The error for a response that exceeds a limit.
pub(crate) fn too_large(message: String) -> ProviderError {
    ProviderError::new(ErrorKind::TooLarge, message).help("ask for less in one step")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collector() -> MessageCollector {
        let model = ModelName { provider: "test".to_owned(), name: "m".to_owned() };
        let names = WireNames::new(["fs.read"].into_iter());
        MessageCollector::new(Wire::OpenaiChat, model, names)
    }

    fn drained(collector: &mut MessageCollector) -> Vec<StepEvent> {
        std::iter::from_fn(|| collector.next_event()).collect()
    }

    #[test]
    fn calls_come_back_by_the_names_they_were_offered_under_and_with_ids_of_their_own() {
        let mut collector = collector();
        for (id, name) in [("call_1", "fs_read"), ("", "fs_read"), ("", "unheard")] {
            let part = collector.begin_call(id, name).unwrap();
            collector.end_call(part).unwrap();
        }
        assert_eq!(collector.begin_call("call_1", "fs_read").unwrap_err().kind, ErrorKind::Garbled);
        collector.finish(FinishReason::ToolCalls).unwrap();
        let Some(StepEvent::Finish { message, .. }) = drained(&mut collector).pop() else {
            panic!("no finish")
        };
        let calls: Vec<_> = message
            .calls()
            .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str()))
            .collect();
        assert_eq!(
            calls,
            [("call_1", "fs.read", "{}"), ("call_2", "fs.read", "{}"), ("call_3", "unheard", "{}")]
        );
    }

    #[test]
    fn an_open_call_is_made_by_no_finish() {
        for (reason, fine) in [
            (FinishReason::ToolCalls, false),
            (FinishReason::Stop, false),
            (FinishReason::Length, true),
            (FinishReason::Refusal, true),
            (FinishReason::Other("x".to_owned()), true),
        ] {
            let mut collector = collector();
            let part = collector.begin_call("a", "t").unwrap();
            collector.push_arguments(part, "{\"a").unwrap();
            assert_eq!(collector.finish(reason.clone()).is_ok(), fine, "{reason:?}");
            assert_eq!(collector.is_finished(), fine);
            let events = drained(&mut collector);
            assert!(!events.iter().any(|event| matches!(event, StepEvent::CallEnd { .. })));
            assert_eq!(events.iter().any(|event| matches!(event, StepEvent::Finish { .. })), fine);
        }
    }

    #[test]
    fn more_than_is_taken_is_too_large() {
        let mut many = collector();
        let failed =
            (0..=MAX_CALLS).find_map(|number| many.begin_call(&number.to_string(), "t").err()).unwrap();
        assert_eq!(failed.kind, ErrorKind::TooLarge);
        assert_eq!(usize::try_from(many.calls).unwrap(), MAX_CALLS);
        let mut long = collector();
        let (part, piece) = (long.begin_call("a", "t").unwrap(), "x".repeat(MAX_ARGUMENT_BYTES / 8));
        let failed = (0..9).find_map(|_| long.push_arguments(part, &piece).err()).unwrap();
        assert_eq!(failed.kind, ErrorKind::TooLarge);
        assert_eq!(long.arguments(part).unwrap().len(), MAX_ARGUMENT_BYTES);
    }

    #[test]
    fn parts_hold_what_they_can() {
        let mut collector = collector();
        let (text, call) = (collector.begin_text(), collector.begin_call("a", "t").unwrap());
        assert!(collector.push(call, "x").is_err() && collector.push_arguments(text, "x").is_err());
        assert!(collector.set_opaque_state(text, Value::Null).is_err() && collector.end_call(text).is_err());
        assert!(collector.end_call(call).is_ok() && collector.end_call(call).is_err());
        assert!(collector.push_arguments(call, "x").is_err() && collector.push(PartKey(9), "x").is_err());
    }
}
