//! Decodes the stream of Ollama: one line of JSON per chunk, and a last one with `done`.
//!
//! Calls arrive complete. They count only if the last line also has a `done_reason`: a server whose model crashed sends `done` and nothing else.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::arguments::text_of;
use crate::error::ProviderError;
use crate::event::{FinishReason, Usage};
use crate::frame::{StreamFrame, Text};
use crate::message_collector::MessageCollector;
use crate::step_decoder::{Decode, truncated};
use crate::vendor_error::VendorError;

#[derive(Debug, Deserialize)]
struct OllamaLine<'f> {
    #[serde(borrow)]
    message: Option<OllamaMessage<'f>>,
    done: Option<bool>,
    #[serde(borrow)]
    done_reason: Option<Text<'f>>,
    prompt_eval_count: Option<u64>,
    eval_count: Option<u64>,
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct OllamaMessage<'f> {
    #[serde(borrow)]
    content: Option<Text<'f>>,
    #[serde(borrow)]
    thinking: Option<Text<'f>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<OllamaToolCall<'f>>>,
}

#[derive(Debug, Deserialize)]
struct OllamaToolCall<'f> {
    /// Older servers send none.
    #[serde(borrow)]
    id: Option<Text<'f>>,
    #[serde(borrow)]
    function: OllamaFunction<'f>,
}

#[derive(Debug, Deserialize)]
struct OllamaFunction<'f> {
    #[serde(borrow)]
    name: Text<'f>,
    #[serde(borrow)]
    arguments: Option<&'f RawValue>,
}

/// The state of one step.
pub(crate) struct OllamaDecoder {
    collector: MessageCollector,
}

impl OllamaDecoder {
    pub(crate) fn new(collector: MessageCollector) -> Self {
        Self { collector }
    }

    fn message(&mut self, message: OllamaMessage<'_>) -> Result<(), ProviderError> {
        self.collector.think(message.thinking.as_deref().unwrap_or_default())?;
        self.collector.say(message.content.as_deref().unwrap_or_default())?;
        for OllamaToolCall { id, function } in message.tool_calls.into_iter().flatten() {
            let arguments = function.arguments.map(text_of).transpose()?.unwrap_or_default();
            let call = self.collector.begin_call(id.as_deref().unwrap_or_default(), &function.name)?;
            self.collector.push_arguments(call, &arguments)?;
            self.collector.end_call(call)?;
        }
        Ok(())
    }

    fn finish(&mut self, reason: Option<&str>) -> Result<(), ProviderError> {
        let has_calls = self.collector.has_calls();
        let reason = match reason {
            Some("stop") if has_calls => FinishReason::ToolCalls,
            Some("stop") => FinishReason::Stop,
            Some("length") => FinishReason::Length,
            None | Some("") if has_calls => return Err(truncated()),
            None | Some("") => FinishReason::Stop,
            Some(other) => FinishReason::Other(other.to_owned()),
        };
        self.collector.finish(reason)
    }
}

impl Decode for OllamaDecoder {
    fn frame(&mut self, frame: StreamFrame<'_>) -> Result<(), ProviderError> {
        let line: OllamaLine<'_> = frame.read()?;
        if line.error.is_some_and(|error| !error.is_null()) {
            return Err(VendorError::read_bytes(frame.data).in_stream());
        }
        if let Some(message) = line.message {
            self.message(message)?;
        }
        if line.prompt_eval_count.is_some() || line.eval_count.is_some() {
            self.collector.usage(Usage {
                input_tokens: line.prompt_eval_count.unwrap_or_default(),
                output_tokens: line.eval_count.unwrap_or_default(),
                cached_tokens: 0,
            });
        }
        if line.done == Some(true) { self.finish(line.done_reason.as_deref()) } else { Ok(()) }
    }

    fn collector(&mut self) -> &mut MessageCollector {
        &mut self.collector
    }
}
