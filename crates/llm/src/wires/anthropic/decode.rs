//! Decodes the stream of Anthropic Messages.
//!
//! `message_start`, then blocks that begin, grow and end under their index, then `message_delta` with the stop reason, and `message_stop`, which is
//! the terminator. Unknown events and blocks of a kind that was not requested are skipped; known events out of order fail the step.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use serde_json::value::RawValue;

use crate::error::ProviderError;
use crate::event::{FinishReason, Usage};
use crate::frame::{StreamFrame, Tag, Text};
use crate::message_collector::{MessageCollector, PartKey, malformed};
use crate::step_decoder::Decode;
use crate::vendor_error::VendorError;

/// The state of a step.
#[derive(Debug)]
pub(crate) struct AnthropicDecoder {
    collector: MessageCollector,
    has_begun: bool,
    /// Blocks by index, including closed ones.
    blocks: BTreeMap<u32, Block>,
    stop_reason: Option<String>,
    tokens: TokenCounts,
}

#[derive(Debug)]
enum Block {
    Text(PartKey),
    Thinking {
        part: PartKey,
        signature: String,
    },
    Call {
        part: PartKey,
        whole_input: Option<String>,
    },
    /// A kind that was not requested.
    Foreign,
    Over,
}

/// Token counts of this wire: cache reads and writes are not part of the input count.
#[derive(Clone, Copy, Debug, Default)]
struct TokenCounts {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_written: u64,
}

#[derive(Deserialize)]
struct MessageStart {
    message: StartedMessage,
}

#[derive(Deserialize)]
struct StartedMessage {
    #[serde(default)]
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
struct BlockStart<'f> {
    index: u32,
    #[serde(borrow)]
    content_block: StartedBlock<'f>,
}

#[derive(Deserialize)]
struct StartedBlock<'f> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'f, str>,
    #[serde(borrow, default)]
    text: Option<Text<'f>>,
    #[serde(borrow, default)]
    thinking: Option<Text<'f>>,
    #[serde(borrow, default)]
    signature: Option<Text<'f>>,
    #[serde(borrow, default)]
    data: Option<Text<'f>>,
    #[serde(borrow, default)]
    id: Option<Text<'f>>,
    #[serde(borrow, default)]
    name: Option<Text<'f>>,
    #[serde(borrow, default)]
    input: Option<&'f RawValue>,
}

#[derive(Deserialize)]
struct BlockDelta<'f> {
    index: u32,
    #[serde(borrow)]
    delta: Delta<'f>,
}

#[derive(Deserialize)]
struct Delta<'f> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'f, str>,
    #[serde(borrow, default)]
    text: Option<Text<'f>>,
    #[serde(borrow, default)]
    thinking: Option<Text<'f>>,
    #[serde(borrow, default)]
    signature: Option<Text<'f>>,
    #[serde(borrow, default)]
    partial_json: Option<Text<'f>>,
}

#[derive(Deserialize)]
struct BlockStop {
    index: u32,
}

#[derive(Deserialize)]
struct MessageDelta {
    delta: StopDelta,
    #[serde(default)]
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
struct StopDelta {
    #[serde(default)]
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct WireUsage {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
}

impl AnthropicDecoder {
    pub(crate) fn new(collector: MessageCollector) -> Self {
        Self {
            collector,
            has_begun: false,
            blocks: BTreeMap::new(),
            stop_reason: None,
            tokens: TokenCounts::default(),
        }
    }

    /// Takes a frame by its kind; `false` if the kind is unknown.
    fn take(&mut self, kind: &str, frame: StreamFrame<'_>) -> Result<bool, ProviderError> {
        match kind {
            "content_block_delta" => self.block_grows(&frame.read()?)?,
            "content_block_start" => self.block_begins(frame.read()?)?,
            "content_block_stop" => self.block_ends(&frame.read()?)?,
            "message_start" => self.message_begins(&frame.read()?)?,
            "message_delta" => self.message_stops(frame.read()?)?,
            "message_stop" if frame.read::<Tag<'_>>()?.kind() == "message_stop" => self.finish()?,
            "message_stop" => return Err(malformed("an event has two names")),
            "error" => return Err(VendorError::read(&frame.read()?).in_stream()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn message_begins(&mut self, start: &MessageStart) -> Result<(), ProviderError> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Err(malformed("a message begins within another"));
        }
        self.count(start.message.usage.as_ref());
        Ok(())
    }

    fn block_begins(&mut self, start: BlockStart<'_>) -> Result<(), ProviderError> {
        if !self.has_begun || self.stop_reason.is_some() {
            return Err(malformed("a block begins outside of a message"));
        }
        if self.blocks.contains_key(&start.index) {
            return Err(malformed("two blocks of one message have the same index"));
        }
        let said = start.content_block;
        let block = match said.kind.as_ref() {
            "text" => {
                let part = self.collector.begin_text();
                self.collector.push(part, said.text.as_deref().unwrap_or_default())?;
                Block::Text(part)
            }
            "thinking" => {
                let part = self.collector.begin_thinking();
                self.collector.push(part, said.thinking.as_deref().unwrap_or_default())?;
                Block::Thinking { part, signature: said.signature.as_deref().unwrap_or_default().to_owned() }
            }
            "redacted_thinking" => {
                let part = self.collector.begin_thinking();
                self.collector
                    .set_opaque_state(part, json!({"redacted": said.data.as_deref().unwrap_or_default()}))?;
                Block::Foreign
            }
            "tool_use" => {
                let (Some(id), Some(name)) = (said.id.as_deref(), said.name.as_deref()) else {
                    return Err(malformed("a call begins without an id or without a name"));
                };
                let part = self.collector.begin_call(id, name)?;
                Block::Call { part, whole_input: whole_input(said.input)? }
            }
            _ => Block::Foreign,
        };
        self.blocks.insert(start.index, block);
        Ok(())
    }

    fn block_grows(&mut self, more: &BlockDelta<'_>) -> Result<(), ProviderError> {
        let delta = &more.delta;
        let missing = || malformed("a block grows by nothing");
        match (delta.kind.as_ref(), self.blocks.get_mut(&more.index)) {
            (_, None | Some(Block::Over)) => Err(malformed("a block grows that is not open")),
            ("text_delta", Some(Block::Text(part))) => {
                self.collector.push(*part, delta.text.as_deref().ok_or_else(missing)?)
            }
            ("input_json_delta", Some(Block::Call { part, whole_input })) => {
                let more = delta.partial_json.as_deref().ok_or_else(missing)?;
                if whole_input.is_some() && !more.is_empty() {
                    return Err(malformed("the arguments of a call came twice"));
                }
                self.collector.push_arguments(*part, more)
            }
            ("thinking_delta", Some(Block::Thinking { part, .. })) => {
                self.collector.push(*part, delta.thinking.as_deref().ok_or_else(missing)?)
            }
            ("signature_delta", Some(Block::Thinking { signature, .. })) => {
                signature.push_str(delta.signature.as_deref().ok_or_else(missing)?);
                Ok(())
            }
            (_, Some(Block::Foreign)) => Ok(()),
            ("text_delta" | "input_json_delta" | "thinking_delta" | "signature_delta", _) => {
                Err(malformed("a block grows by what it cannot hold"))
            }
            _ => Ok(()),
        }
    }

    fn block_ends(&mut self, stop: &BlockStop) -> Result<(), ProviderError> {
        let block = self.blocks.get_mut(&stop.index).map(|block| std::mem::replace(block, Block::Over));
        match block {
            None | Some(Block::Over) => Err(malformed("a block ends that is not open")),
            Some(Block::Text(_) | Block::Foreign) => Ok(()),
            Some(Block::Thinking { signature, .. }) if signature.is_empty() => Ok(()),
            Some(Block::Thinking { part, signature }) => {
                self.collector.set_opaque_state(part, json!({"signature": signature}))
            }
            Some(Block::Call { part, whole_input }) => {
                self.collector.push_arguments(part, whole_input.as_deref().unwrap_or_default())?;
                self.collector.end_call(part)
            }
        }
    }

    fn message_stops(&mut self, more: MessageDelta) -> Result<(), ProviderError> {
        if !self.has_begun {
            return Err(malformed("a message stops that never began"));
        }
        self.count(more.usage.as_ref());
        match (more.delta.stop_reason, &self.stop_reason) {
            (Some(_), Some(_)) => Err(malformed("a message stops twice")),
            (Some(reason), None) => {
                self.stop_reason = Some(reason);
                Ok(())
            }
            (None, _) => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<(), ProviderError> {
        if self.blocks.values().any(|block| !matches!(block, Block::Over)) {
            return Err(malformed("the message is over before one of its blocks"));
        }
        let Some(reason) = self.stop_reason.take() else {
            return Err(malformed("the message is over, and nothing says why"));
        };
        let reason = match (reason.as_str(), self.collector.has_calls()) {
            ("tool_use", true) => FinishReason::ToolCalls,
            ("end_turn" | "stop_sequence", true) => {
                return Err(malformed("the message makes calls, and says that it makes none"));
            }
            ("end_turn" | "stop_sequence" | "tool_use", false) => FinishReason::Stop,
            ("max_tokens" | "model_context_window_exceeded", _) => FinishReason::Length,
            ("refusal", _) => FinishReason::Refusal,
            ("pause_turn", _) => FinishReason::Pause,
            _ => FinishReason::Other(reason),
        };
        self.collector.finish(reason)
    }

    /// Each report is cumulative; omitted counts are unchanged.
    fn count(&mut self, usage: Option<&WireUsage>) {
        let Some(usage) = usage else { return };
        let counted = &mut self.tokens;
        counted.input = usage.input_tokens.unwrap_or(counted.input);
        counted.output = usage.output_tokens.unwrap_or(counted.output);
        counted.cache_read = usage.cache_read_input_tokens.unwrap_or(counted.cache_read);
        counted.cache_written = usage.cache_creation_input_tokens.unwrap_or(counted.cache_written);
        self.collector.usage(Usage {
            input_tokens: counted
                .input
                .saturating_add(counted.cache_read)
                .saturating_add(counted.cache_written),
            output_tokens: counted.output,
            cached_tokens: counted.cache_read,
        });
    }
}

/// Arguments in the start of a call. By the specification it is `{}`; some servers send all arguments there.
fn whole_input(input: Option<&RawValue>) -> Result<Option<String>, ProviderError> {
    let Some(input) = input.map(RawValue::get) else { return Ok(None) };
    match serde_json::from_str::<BTreeMap<String, IgnoredAny>>(input) {
        Ok(fields) => Ok((!fields.is_empty()).then(|| input.to_owned())),
        Err(_) => Err(malformed("the arguments of a call are no object")),
    }
}

impl Decode for AnthropicDecoder {
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
