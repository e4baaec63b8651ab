//! Decodes the stream of OpenAI Responses.
//!
//! Items begin, grow and end under their output index; `response.completed` is the terminator, `response.incomplete` the one of a truncated response.
//! The arguments of a call are sent up to four times: in deltas, complete, with the item and with the response. Only if all agree is there a call.

use std::collections::BTreeMap;

use serde_json::json;

use super::item::{ArgumentsFrame, DeltaFrame, ItemFrame, OutputItem, ResponseFrame, ResponseObject};
use crate::error::ProviderError;
use crate::event::FinishReason;
use crate::frame::{StreamFrame, Tag};
use crate::message_collector::{MessageCollector, PartKey, malformed};
use crate::step_decoder::Decode;
use crate::vendor_error::VendorError;

/// The state of a step.
#[derive(Debug)]
pub(crate) struct ResponsesDecoder {
    collector: MessageCollector,
    /// Items by output index.
    items: BTreeMap<u32, OpenItem>,
    is_refused: bool,
}

#[derive(Debug)]
struct OpenItem {
    kind: ItemKind,
    is_over: bool,
}

#[derive(Debug)]
enum ItemKind {
    /// Its parts by content index.
    Message(BTreeMap<u32, PartKey>),
    Reasoning {
        part: PartKey,
        summary: Option<u32>,
    },
    Call {
        part: PartKey,
        call_id: String,
        name: String,
    },
    /// A kind that was not requested.
    Foreign,
}

impl ResponsesDecoder {
    pub(crate) fn new(collector: MessageCollector) -> Self {
        Self { collector, items: BTreeMap::new(), is_refused: false }
    }

    /// Takes a frame by its kind; `false` if the kind is unknown.
    fn take(&mut self, kind: &str, frame: StreamFrame<'_>) -> Result<bool, ProviderError> {
        match kind {
            "response.output_text.delta" => self.message_grows(&frame.read()?)?,
            "response.refusal.delta" => {
                self.is_refused = true;
                self.message_grows(&frame.read()?)?;
            }
            "response.function_call_arguments.delta" => self.call_grows(&frame.read()?)?,
            "response.function_call_arguments.done" => self.arguments_are_whole(&frame.read()?)?,
            "response.reasoning_summary_text.delta" => self.reasoning_grows(&frame.read()?, true)?,
            "response.reasoning_text.delta" => self.reasoning_grows(&frame.read()?, false)?,
            "response.output_item.added" => self.item_begins(&frame.read()?)?,
            "response.output_item.done" => self.item_ends(&frame.read()?)?,
            "response.completed" => self.completed(&read_end(frame, kind)?)?,
            "response.incomplete" => self.incomplete(&read_end(frame, kind)?)?,
            "response.failed" => {
                let failed = read_end(frame, kind)?;
                return Err(VendorError::read(&failed.error.unwrap_or_default()).in_stream());
            }
            "error" => return Err(VendorError::read(&frame.read()?).in_stream()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn item_begins(&mut self, begun: &ItemFrame<'_>) -> Result<(), ProviderError> {
        if self.items.contains_key(&begun.output_index) {
            return Err(malformed("two items of one response have the same place"));
        }
        let item = &begun.item;
        let kind = match item.kind.as_ref() {
            "message" => {
                if let Some(phase) = item.phase.as_deref() {
                    let part = self.collector.begin_thinking();
                    self.collector.set_opaque_state(part, json!({"phase": phase}))?;
                }
                ItemKind::Message(BTreeMap::new())
            }
            "reasoning" => ItemKind::Reasoning { part: self.collector.begin_thinking(), summary: None },
            "function_call" => {
                let (Some(call_id), Some(name)) = (item.call_id.as_deref(), item.name.as_deref()) else {
                    return Err(malformed("a call begins without an id or without a name"));
                };
                let part = self.collector.begin_call(call_id, name)?;
                self.collector.push_arguments(part, &item.arguments()?)?;
                ItemKind::Call { part, call_id: call_id.to_owned(), name: name.to_owned() }
            }
            _ => ItemKind::Foreign,
        };
        self.items.insert(begun.output_index, OpenItem { kind, is_over: false });
        Ok(())
    }

    fn message_grows(&mut self, more: &DeltaFrame<'_>) -> Result<(), ProviderError> {
        match open(&mut self.items, more.output_index)? {
            ItemKind::Message(parts) => {
                let part = *parts.entry(more.content_index).or_insert_with(|| self.collector.begin_text());
                self.collector.push(part, &more.delta)
            }
            _ => Err(malformed("words came for an item that is no message")),
        }
    }

    fn reasoning_grows(&mut self, more: &DeltaFrame<'_>, is_summary: bool) -> Result<(), ProviderError> {
        match open(&mut self.items, more.output_index)? {
            ItemKind::Reasoning { part, summary } => {
                // The parts of a summary are paragraphs.
                if is_summary
                    && summary.replace(more.summary_index).is_some_and(|last| last != more.summary_index)
                {
                    self.collector.push(*part, "\n\n")?;
                }
                self.collector.push(*part, &more.delta)
            }
            _ => Err(malformed("reasoning came for an item that is none")),
        }
    }

    fn call_grows(&mut self, more: &DeltaFrame<'_>) -> Result<(), ProviderError> {
        match open(&mut self.items, more.output_index)? {
            ItemKind::Call { part, .. } => self.collector.push_arguments(*part, &more.delta),
            _ => Err(malformed("arguments came for an item that is no call")),
        }
    }

    fn arguments_are_whole(&mut self, whole: &ArgumentsFrame<'_>) -> Result<(), ProviderError> {
        match open(&mut self.items, whole.output_index)? {
            ItemKind::Call { part, .. } => check_arguments(&mut self.collector, *part, &whole.arguments),
            _ => Err(malformed("arguments came for an item that is no call")),
        }
    }

    fn item_ends(&mut self, ended: &ItemFrame<'_>) -> Result<(), ProviderError> {
        let item = &ended.item;
        let is_cut = item.status.as_deref() == Some("incomplete");
        let kind = open(&mut self.items, ended.output_index)?;
        match (&mut *kind, item.kind.as_ref()) {
            (ItemKind::Message(parts), "message") => {
                for (index, words, is_refusal) in item.text_parts() {
                    self.is_refused |= is_refusal;
                    // Text that was not streamed comes now.
                    if let std::collections::btree_map::Entry::Vacant(place) = parts.entry(index) {
                        let part = *place.insert(self.collector.begin_text());
                        self.collector.push(part, words)?;
                    }
                }
            }
            (ItemKind::Reasoning { part, .. }, "reasoning") => {
                if let Some(sealed) = item.encrypted_reasoning() {
                    self.collector.set_opaque_state(*part, sealed)?;
                }
            }
            // A truncated call stays open: the response gives the reason, and the call is kept as far as it came.
            (ItemKind::Call { .. }, "function_call") if is_cut => return Ok(()),
            (ItemKind::Call { part, call_id, name }, "function_call") => {
                if !is_same(item, call_id, name) {
                    return Err(malformed("a call ends as another one"));
                }
                check_arguments(&mut self.collector, *part, &item.arguments()?)?;
                self.collector.end_call(*part)?;
            }
            (ItemKind::Foreign, _) => {}
            _ => return Err(malformed("an item ends as another kind of item")),
        }
        if let Some(item) = self.items.get_mut(&ended.output_index) {
            item.is_over = true;
        }
        Ok(())
    }

    fn completed(&mut self, response: &ResponseObject<'_>) -> Result<(), ProviderError> {
        if self.items.values().any(|item| !item.is_over) {
            return Err(malformed("the response is over before one of its items"));
        }
        self.compare(response)?;
        self.count(response);
        let reason = match (self.collector.has_calls(), self.is_refused) {
            (true, _) => FinishReason::ToolCalls,
            (false, true) => FinishReason::Refusal,
            (false, false) => FinishReason::Stop,
        };
        self.collector.finish(reason)
    }

    fn incomplete(&mut self, response: &ResponseObject<'_>) -> Result<(), ProviderError> {
        self.count(response);
        let reason = response.incomplete_details.as_ref().and_then(|details| details.reason.as_deref());
        let reason = match reason {
            Some("max_output_tokens") => FinishReason::Length,
            Some("content_filter") => FinishReason::Refusal,
            other => FinishReason::Other(other.unwrap_or("incomplete").to_owned()),
        };
        self.collector.finish(reason)
    }

    /// The calls of the complete response must equal the streamed ones. Servers that do not repeat the output are trusted.
    fn compare(&self, response: &ResponseObject<'_>) -> Result<(), ProviderError> {
        if response.output.is_empty() {
            return Ok(());
        }
        let seen = self.items.values().filter_map(|item| match &item.kind {
            ItemKind::Call { part, call_id, name } => Some((*part, call_id, name)),
            _ => None,
        });
        let mut said = response.output.iter().filter(|item| item.kind == "function_call");
        for (part, call_id, name) in seen {
            let is_said = match said.next() {
                Some(item) if is_same(item, call_id, name) => {
                    is_equal(self.collector.arguments(part).unwrap_or_default(), &item.arguments()?)
                }
                _ => false,
            };
            if !is_said {
                return Err(malformed("the response ends with other calls than it made"));
            }
        }
        if said.next().is_some() {
            Err(malformed("the response ends with a call that nobody saw begin"))
        } else {
            Ok(())
        }
    }

    fn count(&mut self, response: &ResponseObject<'_>) {
        if let Some(usage) = response.usage {
            self.collector.usage(usage.into());
        }
    }
}

/// The end of a response, if the frame is one.
fn read_end<'f>(frame: StreamFrame<'f>, kind: &str) -> Result<ResponseObject<'f>, ProviderError> {
    let tag: Tag<'_> = frame.read()?;
    if tag.kind() != kind {
        return Err(malformed("an event has two names"));
    }
    Ok(frame.read::<ResponseFrame<'_>>()?.response)
}

fn open(items: &mut BTreeMap<u32, OpenItem>, place: u32) -> Result<&mut ItemKind, ProviderError> {
    match items.get_mut(&place) {
        Some(OpenItem { kind, is_over: false }) => Ok(kind),
        _ => Err(malformed("an item goes on that is not open")),
    }
}

fn is_same(item: &OutputItem<'_>, call_id: &str, name: &str) -> bool {
    item.call_id.as_deref() == Some(call_id) && item.name.as_deref() == Some(name)
}

/// Complete arguments must equal the streamed ones, if there were any.
fn check_arguments(
    collector: &mut MessageCollector,
    part: PartKey,
    whole: &str,
) -> Result<(), ProviderError> {
    match collector.arguments(part).unwrap_or_default() {
        "" => collector.push_arguments(part, whole),
        pieces if pieces == whole => Ok(()),
        _ => Err(malformed("the arguments of a call are not what came of them before")),
    }
}

/// Missing arguments equal an empty object.
fn is_equal(seen: &str, said: &str) -> bool {
    seen == said || (seen == "{}" && said.trim().is_empty())
}

impl Decode for ResponsesDecoder {
    fn frame(&mut self, frame: StreamFrame<'_>) -> Result<(), ProviderError> {
        if self.take(frame.event, frame)? {
            return Ok(());
        }
        // Some servers omit the event name, or use the same one for all events.
        let tag: Tag<'_> = frame.read()?;
        self.take(tag.kind(), frame)?;
        Ok(())
    }

    fn collector(&mut self) -> &mut MessageCollector {
        &mut self.collector
    }
}
