//! Decodes the stream of Chat Completions.
//!
//! A step is complete when a chunk has given the `finish_reason` and the stream has ended: with `[DONE]`, or without it for servers that never send
//! it. Nothing of a message can follow its `finish_reason`, so a stream that is cut there has lost only the usage. A stream that is cut earlier is
//! truncated, even if `[DONE]` follows.

use serde_json::{Value, json};

use super::call_assembler::{CallAssembler, CallFragment};
use super::chunk::{CallDelta, Chunk, ChunkChoice, ContentPart, Delta, DeltaContent, FunctionDelta};
use super::reasoning_details::{ReasoningDetails, display_text};
use crate::arguments::text_of;
use crate::error::{ErrorKind, ProviderError};
use crate::event::{FinishReason, Usage};
use crate::frame::StreamFrame;
use crate::message_collector::{MessageCollector, PartKey, malformed};
use crate::step_decoder::{Decode, truncated};
use crate::vendor_error::VendorError;

/// The wire's terminator.
const DONE: &[u8] = b"[DONE]";

/// The state of one step.
pub(crate) struct ChatDecoder {
    collector: MessageCollector,
    calls: CallAssembler,
    thinking: Option<PartKey>,
    reasoning_content: String,
    reasoning_details: ReasoningDetails,
    has_refused: bool,
    finish_reason: Option<String>,
}

impl ChatDecoder {
    pub(crate) fn new(collector: MessageCollector) -> Self {
        Self {
            collector,
            calls: CallAssembler::default(),
            thinking: None,
            reasoning_content: String::new(),
            reasoning_details: ReasoningDetails::default(),
            has_refused: false,
            finish_reason: None,
        }
    }
}

impl Decode for ChatDecoder {
    fn frame(&mut self, frame: StreamFrame<'_>) -> Result<(), ProviderError> {
        if frame.data.trim_ascii() == DONE {
            return self.finish();
        }
        if !frame.is_complete {
            return Ok(());
        }
        let chunk: Chunk<'_> = frame.read()?;
        if chunk.is_failure() {
            return Err(VendorError::read_bytes(frame.data).in_stream());
        }
        let mut choices = chunk.choices.into_iter().flatten();
        if let Some(choice) = choices.next() {
            self.choice(choice)?;
        }
        if choices.next().is_some() {
            return Err(second_answer());
        }
        if let Some(usage) = chunk.usage.as_ref().and_then(usage) {
            self.collector.usage(usage);
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), ProviderError> {
        self.finish()
    }

    fn collector(&mut self) -> &mut MessageCollector {
        &mut self.collector
    }
}

impl ChatDecoder {
    fn choice(&mut self, choice: ChunkChoice<'_>) -> Result<(), ProviderError> {
        if let Some(error) = choice.error.filter(|error| !error.is_null()) {
            return Err(VendorError::read(&error).in_stream());
        }
        if choice.index.is_some_and(|index| index != 0) {
            return Err(second_answer());
        }
        if let Some(delta) = choice.delta {
            let says_something = self.delta(delta)?;
            if says_something && self.finish_reason.is_some() {
                return Err(malformed("the message goes on after it was finished"));
            }
        }
        match choice.finish_reason.as_deref() {
            Some("error") => Err(ProviderError::new(
                ErrorKind::ServerError,
                "the server failed in the middle of the message",
            )),
            Some(reason) if !reason.is_empty() && self.finish_reason.is_none() => {
                let is_whole = is_end(reason);
                self.finish_reason = Some(reason.to_owned());
                if is_whole {
                    self.calls.end(&mut self.collector)
                } else {
                    self.calls.finish_truncated(&mut self.collector)
                }
            }
            _ => Ok(()),
        }
    }

    /// Takes a delta, and returns whether it contains anything.
    fn delta(&mut self, mut delta: Delta<'_>) -> Result<bool, ProviderError> {
        let mut says_something = self.reasoning(&mut delta)?;
        says_something |= match delta.content {
            Some(DeltaContent::Text(text)) => self.say(&text)?,
            Some(DeltaContent::Parts(parts)) => self.parts(&parts)?,
            None => false,
        };
        if let Some(refusal) = delta.refusal.filter(|refusal| !refusal.is_empty()) {
            self.has_refused = true;
            says_something |= self.say(&refusal)?;
        }
        for CallDelta { index, id, function } in delta.tool_calls.into_iter().flatten() {
            self.call(index, id.as_deref().unwrap_or_default(), &function.unwrap_or_default())?;
            says_something = true;
        }
        if let Some(function) = delta.function_call {
            self.call(None, "", &function)?;
            says_something = true;
        }
        Ok(says_something)
    }

    fn say(&mut self, text: &str) -> Result<bool, ProviderError> {
        self.collector.say(text)?;
        Ok(!text.is_empty())
    }

    fn parts(&mut self, parts: &[ContentPart<'_>]) -> Result<bool, ProviderError> {
        let mut says_something = false;
        for part in parts {
            says_something |= self.say(part.text.as_deref().unwrap_or_default())?;
            for thought in part.thinking.iter().flatten() {
                says_something |= self.think(thought.text.as_deref().unwrap_or_default())?;
            }
        }
        Ok(says_something)
    }

    /// All thinking of a message is one part on this wire, wherever in the stream it comes.
    fn think(&mut self, text: &str) -> Result<bool, ProviderError> {
        if text.is_empty() {
            return Ok(false);
        }
        let part = self.thinking_part();
        self.collector.push(part, text)?;
        Ok(true)
    }

    fn thinking_part(&mut self) -> PartKey {
        *self.thinking.get_or_insert_with(|| self.collector.begin_thinking())
    }

    /// Servers send the same reasoning under several names: one of them is shown, and what must be sent back is kept.
    fn reasoning(&mut self, delta: &mut Delta<'_>) -> Result<bool, ProviderError> {
        let content = delta.reasoning_content.as_deref().unwrap_or_default();
        let plain = delta.reasoning.as_deref().unwrap_or_default();
        let details = delta.reasoning_details.take().unwrap_or_default();
        self.reasoning_content.push_str(content);
        let shown: String = match (content, plain) {
            ("", "") => details.iter().filter_map(display_text).collect(),
            ("", plain) => plain.to_owned(),
            (content, _) => content.to_owned(),
        };
        let has_details = !details.is_empty();
        details.into_iter().try_for_each(|detail| self.reasoning_details.add(detail))?;
        Ok(self.think(&shown)? || has_details)
    }

    fn call(
        &mut self,
        index: Option<u64>,
        id: &str,
        function: &FunctionDelta<'_>,
    ) -> Result<(), ProviderError> {
        let arguments = function.arguments.map(text_of).transpose()?.unwrap_or_default();
        let name = function.name.as_deref().unwrap_or_default();
        let piece = CallFragment { id, index, name, arguments: &arguments };
        self.calls.take(piece, &mut self.collector)
    }

    fn finish(&mut self) -> Result<(), ProviderError> {
        let reason = self.finish_reason.take().ok_or_else(truncated)?;
        if let Some(seal) = self.opaque_state() {
            let part = self.thinking_part();
            self.collector.set_opaque_state(part, seal)?;
        }
        let has_calls = self.collector.has_calls();
        self.collector.finish(match reason.as_str() {
            _ if self.has_refused => FinishReason::Refusal,
            // Servers confuse `tool_calls` and `stop`.
            _ if is_end(&reason) && has_calls => FinishReason::ToolCalls,
            _ if is_end(&reason) => FinishReason::Stop,
            "length" => FinishReason::Length,
            "content_filter" => FinishReason::Refusal,
            _ => FinishReason::Other(reason),
        })
    }

    /// What the server expects back: its details if it sends any, else its text, under the original name.
    fn opaque_state(&mut self) -> Option<Value> {
        let details = self.reasoning_details.take();
        let content = std::mem::take(&mut self.reasoning_content);
        if !details.is_empty() {
            Some(json!({ "reasoning_details": details }))
        } else if !content.is_empty() {
            Some(json!({ "reasoning_content": content }))
        } else {
            None
        }
    }
}

fn second_answer() -> ProviderError {
    malformed("the server sends a second answer that nobody asked for")
}

/// Whether the model itself ended the message.
fn is_end(reason: &str) -> bool {
    matches!(reason, "stop" | "tool_calls" | "function_call")
}

fn usage(value: &Value) -> Option<Usage> {
    let count = |pointer: &str| value.pointer(pointer).and_then(Value::as_u64);
    let (input, output) = (count("/prompt_tokens"), count("/completion_tokens"));
    if input.is_none() && output.is_none() {
        return None;
    }
    let cached = count("/prompt_tokens_details/cached_tokens").or_else(|| count("/prompt_cache_hit_tokens"));
    Some(Usage {
        input_tokens: input.unwrap_or_default(),
        output_tokens: output.unwrap_or_default(),
        cached_tokens: cached.unwrap_or_default(),
    })
}
