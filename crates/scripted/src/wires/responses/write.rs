//! Writes answers in the vendor's format.

use serde_json::{Map, Value, json};

use crate::exchange::{Exchange, GARBAGE, ThinkingDisplay, sse};
use crate::playback::Tape;
use crate::reply::{IndexFault, ReplyPart, ScriptedReply, StreamFault};
use crate::script::Finish;
use crate::signature::sign;
use crate::wires::chat::CREATED;

/// The status of an answer.
#[derive(Clone, Copy)]
enum ResponseStatus<'s> {
    Begun,
    Over,
    Failed(&'s str, Option<&'s str>),
}

fn response(
    reply: &ScriptedReply,
    exchange: &Exchange,
    output: &[Value],
    stage: ResponseStatus<'_>,
) -> Value {
    let (status, incomplete, error) = match (stage, reply.finish) {
        (ResponseStatus::Begun, _) => ("in_progress", Value::Null, Value::Null),
        (ResponseStatus::Failed(message, code), _) => {
            let code = code.unwrap_or("server_error");
            ("failed", Value::Null, json!({"code": code, "message": message}))
        }
        (ResponseStatus::Over, Finish::Length) => {
            ("incomplete", json!({"reason": "max_output_tokens"}), Value::Null)
        }
        (ResponseStatus::Over, Finish::Refusal) => {
            ("incomplete", json!({"reason": "content_filter"}), Value::Null)
        }
        (ResponseStatus::Over, Finish::Stop | Finish::ToolCalls | Finish::Pause) => {
            ("completed", Value::Null, Value::Null)
        }
    };
    let usage = if matches!(stage, ResponseStatus::Over) { usage(reply) } else { Value::Null };
    let mut response = Map::from_iter([
        ("id".to_owned(), json!(format!("resp_{:04}", reply.turn))),
        ("object".to_owned(), json!("response")),
        ("created_at".to_owned(), json!(CREATED)),
        ("status".to_owned(), json!(status)),
        ("background".to_owned(), json!(false)),
        ("error".to_owned(), error),
        ("incomplete_details".to_owned(), incomplete),
        ("model".to_owned(), json!(exchange.model)),
        ("output".to_owned(), json!(output)),
        ("service_tier".to_owned(), json!("default")),
        ("usage".to_owned(), usage),
    ]);
    response.extend(exchange.options.echo.clone());
    Value::Object(response)
}

fn usage(reply: &ScriptedReply) -> Value {
    let thought = reply.parts.iter().any(|part| matches!(part, ReplyPart::Thinking { .. }));
    json!({
        "input_tokens": reply.usage.input,
        "input_tokens_details": {"cached_tokens": reply.usage.cached, "cache_write_tokens": 0},
        "output_tokens": reply.usage.output, "output_tokens_details": {"reasoning_tokens": u64::from(thought)},
        "total_tokens": reply.usage.input.saturating_add(reply.usage.output),
    })
}

/// An item of the output, when it is added and when it is done.
struct WrittenItem {
    id: String,
    added: Value,
    done: Value,
    body: ItemBody,
}

enum ItemBody {
    Reasoning(Option<String>),
    Message(String),
    Call(String),
}

fn item(reply: &ScriptedReply, exchange: &Exchange, number: usize, part: &ReplyPart) -> Option<WrittenItem> {
    let name = |prefix: &str| format!("{prefix}_{:04}i{number}", reply.turn);
    match part {
        ReplyPart::Text(text) => {
            let id = name("msg");
            let item = |status: &str, content: Value| json!({"id": id, "type": "message", "status": status, "role": "assistant", "content": content});
            let (added, done) =
                (item("in_progress", json!([])), item("completed", json!([output_text(text)])));
            Some(WrittenItem { added, done, body: ItemBody::Message(text.clone()), id })
        }
        ReplyPart::Thinking { text, hidden } => {
            let id = name("rs");
            let shown = (exchange.thinking == ThinkingDisplay::Shown && !hidden).then(|| text.clone());
            let summary: Vec<Value> = shown.iter().map(|text| summary_text(text)).collect();
            let item = |summary: Value| {
                let mut item = json!({"id": id, "type": "reasoning", "summary": summary});
                if let Some(item) = item.as_object_mut().filter(|_| exchange.options.encrypted_reasoning) {
                    item.insert("encrypted_content".to_owned(), json!(sign(&id, &id)));
                }
                item
            };
            let (added, done) = (item(json!([])), item(json!(summary)));
            Some(WrittenItem { added, done, body: ItemBody::Reasoning(shown), id })
        }
        ReplyPart::Call { id: call, tool, arguments } => {
            let id = name("fc");
            let item = |status: &str, arguments: &str| {
                json!({
                    "id": id, "type": "function_call", "status": status, "arguments": arguments, "call_id": call, "name": tool,
                })
            };
            let (added, done) = (item("in_progress", ""), item("completed", arguments));
            Some(WrittenItem { added, done, body: ItemBody::Call(arguments.clone()), id })
        }
        ReplyPart::Pause(_) | ReplyPart::Fault(_) => None,
    }
}

fn output_text(text: &str) -> Value {
    json!({"type": "output_text", "annotations": [], "logprobs": [], "text": text})
}

fn summary_text(text: &str) -> Value {
    json!({"type": "summary_text", "text": text})
}

/// An answer that is not streamed.
pub(crate) fn full_response(reply: &ScriptedReply, exchange: &Exchange) -> Value {
    let mut output = Vec::new();
    for part in &reply.parts {
        output.extend(item(reply, exchange, output.len(), part).map(|item| item.done));
    }
    response(reply, exchange, &output, ResponseStatus::Over)
}

/// A streamed answer.
pub(crate) fn stream(reply: &ScriptedReply, exchange: &Exchange) -> Tape {
    let mut writer =
        ResponsesStreamWriter { tape: Tape::new(reply.slow), reply, exchange, output: Vec::new(), events: 0 };
    for event in ["response.created", "response.in_progress"] {
        writer.lifecycle(event, ResponseStatus::Begun);
    }
    for part in &reply.parts {
        let goes_on = match part {
            ReplyPart::Pause(time) => {
                writer.tape.wait(*time);
                true
            }
            ReplyPart::Fault(odd) => writer.fault(odd),
            part => {
                if let Some(item) = item(reply, exchange, writer.output.len(), part) {
                    writer.item(item);
                }
                true
            }
        };
        if !goes_on {
            return writer.tape;
        }
    }
    let last = match reply.finish {
        Finish::Length | Finish::Refusal => "response.incomplete",
        Finish::Stop | Finish::ToolCalls | Finish::Pause => "response.completed",
    };
    writer.lifecycle(last, ResponseStatus::Over);
    writer.tape
}

struct ResponsesStreamWriter<'w> {
    tape: Tape,
    reply: &'w ScriptedReply,
    exchange: &'w Exchange,
    output: Vec<Value>,
    events: usize,
}

impl ResponsesStreamWriter<'_> {
    fn item(&mut self, item: WrittenItem) {
        self.event("response.output_item.added", true, &json!({"item": item.added}));
        let id = item.id.as_str();
        match &item.body {
            ItemBody::Reasoning(None) => {}
            ItemBody::Reasoning(Some(text)) => self.summary(id, text),
            ItemBody::Message(text) => self.text(id, text),
            ItemBody::Call(arguments) => {
                for delta in self.reply.deltas(arguments) {
                    self.tape.pace();
                    let data = json!({"item_id": id, "delta": delta});
                    self.event("response.function_call_arguments.delta", true, &data);
                }
                let data = json!({"item_id": id, "arguments": arguments});
                self.event("response.function_call_arguments.done", true, &data);
            }
        }
        self.event("response.output_item.done", true, &json!({"item": item.done}));
        self.output.push(item.done);
    }

    fn summary(&mut self, id: &str, text: &str) {
        let part = |text: &str| json!({"item_id": id, "summary_index": 0, "part": summary_text(text)});
        self.event("response.reasoning_summary_part.added", true, &part(""));
        for delta in self.reply.deltas(text) {
            self.tape.pace();
            let data = json!({"item_id": id, "summary_index": 0, "delta": delta});
            self.event("response.reasoning_summary_text.delta", true, &data);
        }
        let data = json!({"item_id": id, "summary_index": 0, "text": text});
        self.event("response.reasoning_summary_text.done", true, &data);
        self.event("response.reasoning_summary_part.done", true, &part(text));
    }

    fn text(&mut self, id: &str, text: &str) {
        let part = |text: &str| json!({"item_id": id, "content_index": 0, "part": output_text(text)});
        self.event("response.content_part.added", true, &part(""));
        for delta in self.reply.deltas(text) {
            self.tape.pace();
            let data = json!({"item_id": id, "content_index": 0, "delta": delta, "logprobs": []});
            self.event("response.output_text.delta", true, &data);
        }
        let data = json!({"item_id": id, "content_index": 0, "text": text, "logprobs": []});
        self.event("response.output_text.done", true, &data);
        self.event("response.content_part.done", true, &part(text));
    }

    fn lifecycle(&mut self, event: &str, stage: ResponseStatus<'_>) {
        let response = response(self.reply, self.exchange, &self.output, stage);
        self.event(event, false, &json!({"response": response}));
    }

    fn event(&mut self, event: &str, is_indexed: bool, data: &Value) {
        let mut whole = Map::from_iter([
            ("type".to_owned(), json!(event)),
            ("sequence_number".to_owned(), json!(self.events)),
        ]);
        self.events += 1;
        match self.reply.index {
            _ if !is_indexed => None,
            IndexFault::None => whole.insert("output_index".to_owned(), json!(self.output.len())),
            IndexFault::Duplicate => whole.insert("output_index".to_owned(), json!(0)),
            IndexFault::Missing => None,
        };
        whole.extend(data.as_object().cloned().unwrap_or_default());
        self.tape.bytes(sse(Some(event), &Value::Object(whole)));
    }

    fn fault(&mut self, odd: &StreamFault) -> bool {
        match odd {
            StreamFault::Break(end) => self.tape.end(*end),
            StreamFault::Error { message, kind } => self.failed(message, kind.as_deref()),
            StreamFault::Garbage => {
                self.tape.bytes(GARBAGE);
                return true;
            }
            StreamFault::UnknownEvent => {
                self.event("response.scripted_surprise", false, &json!({"surprise": true}));
                return true;
            }
            StreamFault::Comment => {
                self.tape.bytes(": keep-alive\n\n");
                return true;
            }
        }
        false
    }

    /// Fails the response, or the stream if the kind is `error`.
    fn failed(&mut self, message: &str, kind: Option<&str>) {
        if kind == Some("error") {
            let data = json!({"code": "server_error", "message": message, "param": null});
            self.event("error", false, &data);
        } else {
            self.lifecycle("response.failed", ResponseStatus::Failed(message, kind));
        }
    }
}
