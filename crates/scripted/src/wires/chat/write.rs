//! Writes answers in the vendor's format.

use serde_json::{Map, Value, json};

use super::{CREATED, error};
use crate::exchange::{Exchange, GARBAGE, sse};
use crate::playback::Tape;
use crate::reply::{IndexFault, ReplyPart, ScriptedReply, StreamFault};
use crate::request_rejection::RequestRejection;
use crate::script::{Finish, Reasoning, Script};
use crate::signature::sign;

fn finish_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop | Finish::Pause => "stop",
        Finish::ToolCalls => "tool_calls",
        Finish::Length => "length",
        Finish::Refusal => "content_filter",
    }
}

fn usage(reply: &ScriptedReply) -> Value {
    let thought = reply.parts.iter().any(|part| matches!(part, ReplyPart::Thinking { .. }));
    json!({
        "prompt_tokens": reply.usage.input, "completion_tokens": reply.usage.output,
        "total_tokens": reply.usage.input.saturating_add(reply.usage.output),
        "prompt_tokens_details": {"cached_tokens": reply.usage.cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": u64::from(thought)},
    })
}

fn detail(reply: &ScriptedReply, number: usize, text: &str, hidden: bool) -> Value {
    let place = format!("{:04}t{number}", reply.turn);
    if hidden {
        return json!({"type": "reasoning.encrypted", "data": sign(&place, ""), "format": "scripted-v1", "index": number});
    }
    json!({
        "type": "reasoning.text", "text": text, "signature": sign(&place, text), "format": "scripted-v1", "index": number,
    })
}

/// An answer that is not streamed.
pub(crate) fn full_response(script: &Script, reply: &ScriptedReply, exchange: &Exchange) -> Value {
    let (mut text, mut reasoning) = (String::new(), String::new());
    let (mut calls, mut details) = (Vec::new(), Vec::new());
    for part in &reply.parts {
        match part {
            ReplyPart::Text(more) => text.push_str(more),
            ReplyPart::Thinking { text, hidden } => {
                details.push(detail(reply, details.len(), text, *hidden));
                if !hidden {
                    reasoning.push_str(text);
                }
            }
            ReplyPart::Call { id, tool, arguments } => calls.push(
                json!({"id": id, "type": "function", "function": {"name": tool, "arguments": arguments}}),
            ),
            ReplyPart::Pause(_) | ReplyPart::Fault(_) => {}
        }
    }
    let content = if text.is_empty() && !calls.is_empty() { Value::Null } else { json!(text) };
    let mut message = Map::from_iter([
        ("role".to_owned(), json!("assistant")),
        ("content".to_owned(), content),
        ("refusal".to_owned(), Value::Null),
    ]);
    match script.model.reasoning {
        Reasoning::ReasoningContent if !reasoning.is_empty() => {
            message.insert("reasoning_content".to_owned(), json!(reasoning));
        }
        Reasoning::ReasoningDetails if !details.is_empty() => {
            message.insert("reasoning".to_owned(), json!(reasoning));
            message.insert("reasoning_details".to_owned(), json!(details));
        }
        _ => {}
    }
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), json!(calls));
    }
    json!({
        "id": format!("chatcmpl-{:04}", reply.turn), "object": "chat.completion", "created": CREATED, "model": exchange.model,
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(reply.finish)}],
        "usage": usage(reply), "service_tier": "default", "system_fingerprint": "fp_scripted",
    })
}

/// A streamed answer.
pub(crate) fn stream(script: &Script, reply: &ScriptedReply, exchange: &Exchange) -> Tape {
    let mut writer =
        ChatStreamWriter { tape: Tape::new(reply.slow), script, reply, exchange, calls: 0, thoughts: 0 };
    writer.choice(&json!({"role": "assistant", "content": "", "refusal": null}), None);
    for part in &reply.parts {
        if !writer.part(part) {
            return writer.tape;
        }
    }
    writer.choice(&json!({}), Some(finish_reason(reply.finish)));
    if exchange.options.usage_in_stream {
        writer.chunk(&json!([]), &usage(reply));
    }
    writer.tape.bytes("data: [DONE]\n\n");
    writer.tape
}

struct ChatStreamWriter<'w> {
    tape: Tape,
    script: &'w Script,
    reply: &'w ScriptedReply,
    exchange: &'w Exchange,
    calls: usize,
    thoughts: usize,
}

impl ChatStreamWriter<'_> {
    /// Writes a part; returns whether the stream goes on.
    fn part(&mut self, part: &ReplyPart) -> bool {
        match part {
            ReplyPart::Text(text) => {
                for delta in self.reply.deltas(text) {
                    self.delta(&json!({"content": delta}));
                }
            }
            ReplyPart::Thinking { text, hidden } => self.thinking(text, *hidden),
            ReplyPart::Call { id, tool, arguments } => {
                let start =
                    json!({"id": id, "type": "function", "function": {"name": tool, "arguments": ""}});
                self.call(&start);
                for delta in self.reply.deltas(arguments) {
                    self.call(&json!({"function": {"arguments": delta}}));
                }
                self.calls += 1;
            }
            ReplyPart::Pause(time) => self.tape.wait(*time),
            ReplyPart::Fault(odd) => return self.fault(odd),
        }
        true
    }

    fn thinking(&mut self, text: &str, hidden: bool) {
        let number = self.thoughts;
        self.thoughts += 1;
        if self.script.model.reasoning == Reasoning::ReasoningContent {
            let shown = if hidden { "" } else { text };
            for delta in self.reply.deltas(shown) {
                self.delta(&json!({"reasoning_content": delta}));
            }
            return;
        }
        let mut last = detail(self.reply, number, text, hidden);
        if !hidden {
            for delta in self.reply.deltas(text) {
                let piece = json!({"type": "reasoning.text", "text": delta, "format": "scripted-v1", "index": number});
                self.delta(&json!({"reasoning": delta, "reasoning_details": [piece]}));
            }
            // The signature is sent separately, after the text.
            if let Some(last) = last.as_object_mut() {
                last.remove("text");
            }
        }
        self.delta(&json!({"reasoning_details": [last]}));
    }

    fn call(&mut self, call: &Value) {
        let mut whole = Map::new();
        match self.reply.index {
            IndexFault::None => whole.insert("index".to_owned(), json!(self.calls)),
            IndexFault::Duplicate => whole.insert("index".to_owned(), json!(0)),
            IndexFault::Missing => None,
        };
        whole.extend(call.as_object().cloned().unwrap_or_default());
        self.delta(&json!({"tool_calls": [whole]}));
    }

    fn delta(&mut self, delta: &Value) {
        self.tape.pace();
        self.choice(delta, None);
    }

    fn choice(&mut self, delta: &Value, finish: Option<&str>) {
        self.chunk(
            &json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]),
            &Value::Null,
        );
    }

    fn chunk(&mut self, choices: &Value, usage: &Value) {
        let mut chunk = json!({
            "id": format!("chatcmpl-{:04}", self.reply.turn), "object": "chat.completion.chunk", "created": CREATED,
            "model": self.exchange.model, "service_tier": "default", "system_fingerprint": "fp_scripted", "choices": choices,
        });
        // If usage was requested, every chunk has the key, and only the last one a value.
        if let Some(chunk) = chunk.as_object_mut().filter(|_| self.exchange.options.usage_in_stream) {
            chunk.insert("usage".to_owned(), usage.clone());
        }
        self.tape.bytes(sse(None, &chunk));
    }

    fn fault(&mut self, odd: &StreamFault) -> bool {
        match odd {
            StreamFault::Break(end) => self.tape.end(*end),
            StreamFault::Error { message, kind } => {
                let refusal = RequestRejection {
                    kind: kind.clone(),
                    ..RequestRejection::new(502, message.clone()).code("502")
                };
                self.tape.bytes(sse(None, &error(&refusal)));
            }
            StreamFault::Garbage => {
                self.tape.bytes(GARBAGE);
                return true;
            }
            StreamFault::UnknownEvent => {
                self.tape.bytes(sse(
                    Some("scripted.surprise"),
                    &json!({"object": "scripted.surprise", "choices": []}),
                ));
                return true;
            }
            StreamFault::Comment => {
                self.tape.bytes(": OPENROUTER PROCESSING\n\n");
                return true;
            }
        }
        false
    }
}
