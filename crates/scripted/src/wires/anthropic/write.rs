//! Writes answers in the vendor's format.

use serde_json::{Value, json};

use super::error;
use crate::exchange::{Exchange, GARBAGE, ThinkingDisplay, sse};
use crate::playback::Tape;
use crate::reply::{IndexFault, ReplyPart, ScriptedReply, StreamFault};
use crate::request_rejection::RequestRejection;
use crate::script::Finish;
use crate::signature::sign;

fn message(reply: &ScriptedReply, exchange: &Exchange, content: &Value, stop: &Value) -> Value {
    json!({
        "id": format!("msg_{:04}", reply.turn), "type": "message", "role": "assistant", "model": exchange.model,
        "content": content, "stop_reason": stop, "stop_sequence": null, "usage": usage(reply, reply.usage.output),
    })
}

fn usage(reply: &ScriptedReply, output: u64) -> Value {
    json!({
        "input_tokens": reply.usage.input - reply.usage.cached, "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": reply.usage.cached, "output_tokens": output,
    })
}

fn stop_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "end_turn",
        Finish::ToolCalls => "tool_use",
        Finish::Length => "max_tokens",
        Finish::Refusal => "refusal",
        Finish::Pause => "pause_turn",
    }
}

/// An answer that is not streamed.
pub(crate) fn full_response(reply: &ScriptedReply, exchange: &Exchange) -> Value {
    let mut thoughts = 0;
    let blocks = reply.parts.iter().filter_map(|part| match part {
        ReplyPart::Text(text) => Some(json!({"type": "text", "text": text})),
        ReplyPart::Thinking { text, hidden } => {
            let thought = Thought::new(reply, exchange, thoughts, text, *hidden);
            thoughts += 1;
            Some(match thought {
                Thought::Shown { text, signature } => {
                    json!({"type": "thinking", "thinking": text, "signature": signature})
                }
                Thought::Redacted { data } => json!({"type": "redacted_thinking", "data": data}),
            })
        }
        ReplyPart::Call { id, tool, arguments } => {
            // The vendor parses arguments; it passes invalid JSON on as a string.
            let input =
                serde_json::from_str(arguments).unwrap_or_else(|_| json!({"INVALID_JSON": arguments}));
            Some(json!({"type": "tool_use", "id": id, "name": tool, "input": input}))
        }
        ReplyPart::Pause(_) | ReplyPart::Fault(_) => None,
    });
    let content: Value = blocks.collect();
    message(reply, exchange, &content, &json!(stop_reason(reply.finish)))
}

enum Thought<'t> {
    Shown { text: &'t str, signature: String },
    Redacted { data: String },
}

impl<'t> Thought<'t> {
    fn new(reply: &ScriptedReply, exchange: &Exchange, number: usize, text: &'t str, hidden: bool) -> Self {
        let place = format!("{:04}t{number}", reply.turn);
        if hidden {
            return Self::Redacted { data: sign(&place, "") };
        }
        let text = if exchange.thinking == ThinkingDisplay::Omitted { "" } else { text };
        Self::Shown { text, signature: sign(&place, text) }
    }
}

/// A streamed answer.
pub(crate) fn stream(reply: &ScriptedReply, exchange: &Exchange) -> Tape {
    let mut writer =
        AnthropicStreamWriter { tape: Tape::new(reply.slow), reply, exchange, blocks: 0, thoughts: 0 };
    let mut start = message(reply, exchange, &json!([]), &Value::Null);
    if let Some(counts) = start.get_mut("usage") {
        *counts = usage(reply, 1);
    }
    writer.event("message_start", &json!({"message": start}));
    for part in &reply.parts {
        if !writer.part(part) {
            return writer.tape;
        }
    }
    let delta = json!({"stop_reason": stop_reason(reply.finish), "stop_sequence": null});
    writer.event("message_delta", &json!({"delta": delta, "usage": usage(reply, reply.usage.output)}));
    writer.event("message_stop", &json!({}));
    writer.tape
}

struct AnthropicStreamWriter<'w> {
    tape: Tape,
    reply: &'w ScriptedReply,
    exchange: &'w Exchange,
    blocks: usize,
    thoughts: usize,
}

impl AnthropicStreamWriter<'_> {
    /// Writes a part; returns whether the stream goes on.
    fn part(&mut self, part: &ReplyPart) -> bool {
        match part {
            ReplyPart::Text(text) => {
                self.block(&json!({"type": "text", "text": ""}), |writer| {
                    for delta in writer.reply.deltas(text) {
                        writer.delta(&json!({"type": "text_delta", "text": delta}));
                    }
                });
            }
            ReplyPart::Thinking { text, hidden } => self.thinking(text, *hidden),
            ReplyPart::Call { id, tool, arguments } => {
                let start = json!({"type": "tool_use", "id": id, "name": tool, "input": {}});
                self.block(&start, |writer| {
                    writer.delta(&json!({"type": "input_json_delta", "partial_json": ""}));
                    // A call without arguments has no delta.
                    let arguments = if arguments == "{}" { "" } else { arguments };
                    for delta in writer.reply.deltas(arguments) {
                        writer.delta(&json!({"type": "input_json_delta", "partial_json": delta}));
                    }
                });
            }
            ReplyPart::Pause(time) => self.tape.wait(*time),
            ReplyPart::Fault(odd) => return self.fault(odd),
        }
        true
    }

    fn thinking(&mut self, text: &str, hidden: bool) {
        let thought = Thought::new(self.reply, self.exchange, self.thoughts, text, hidden);
        self.thoughts += 1;
        match thought {
            Thought::Redacted { data } => {
                self.block(&json!({"type": "redacted_thinking", "data": data}), |_| ());
            }
            Thought::Shown { text, signature } => {
                self.block(&json!({"type": "thinking", "thinking": "", "signature": ""}), |writer| {
                    for delta in writer.reply.deltas(text) {
                        writer.delta(&json!({"type": "thinking_delta", "thinking": delta}));
                    }
                    writer.delta(&json!({"type": "signature_delta", "signature": signature}));
                });
            }
        }
    }

    fn block(&mut self, start: &Value, inner: impl FnOnce(&mut Self)) {
        self.indexed("content_block_start", "content_block", start);
        if self.blocks == 0 {
            self.event("ping", &json!({}));
        }
        inner(self);
        self.indexed("content_block_stop", "", &Value::Null);
        self.blocks += 1;
    }

    fn delta(&mut self, delta: &Value) {
        self.tape.pace();
        self.indexed("content_block_delta", "delta", delta);
    }

    fn indexed(&mut self, event: &str, key: &str, value: &Value) {
        let mut data = serde_json::Map::new();
        match self.reply.index {
            IndexFault::None => data.insert("index".to_owned(), json!(self.blocks)),
            IndexFault::Duplicate => data.insert("index".to_owned(), json!(0)),
            IndexFault::Missing => None,
        };
        if !key.is_empty() {
            data.insert(key.to_owned(), value.clone());
        }
        self.event(event, &Value::Object(data));
    }

    fn event(&mut self, event: &str, data: &Value) {
        let mut whole = serde_json::Map::from_iter([("type".to_owned(), json!(event))]);
        whole.extend(data.as_object().cloned().unwrap_or_default());
        self.tape.bytes(sse(Some(event), &Value::Object(whole)));
    }

    fn fault(&mut self, odd: &StreamFault) -> bool {
        match odd {
            StreamFault::Break(end) => self.tape.end(*end),
            StreamFault::Error { message, kind } => {
                let kind = kind.clone().or_else(|| Some("overloaded_error".to_owned()));
                let refusal = RequestRejection { kind, ..RequestRejection::new(529, message.clone()) };
                self.tape.bytes(sse(Some("error"), &error(&refusal)));
            }
            StreamFault::Garbage => {
                self.tape.bytes(GARBAGE);
                return true;
            }
            StreamFault::UnknownEvent => {
                self.event("scripted_surprise", &json!({"surprise": true}));
                return true;
            }
            StreamFault::Comment => {
                self.tape.bytes(": keep-alive\n\n");
                return true;
            }
        }
        false
    }
}
