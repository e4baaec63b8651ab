//! Writes answers in Ollama's format.

use serde_json::{Map, Value, json};

use super::{CREATED_AT, error};
use crate::exchange::Exchange;
use crate::playback::Tape;
use crate::reply::{IndexFault, ReplyPart, ScriptedReply, StreamFault};
use crate::request_rejection::RequestRejection;
use crate::script::Finish;

/// The last line of an answer.
fn last(reply: &ScriptedReply, exchange: &Exchange, message: &Value) -> Value {
    let reason = if reply.finish == Finish::Length { "length" } else { "stop" };
    json!({
        "model": exchange.model, "created_at": CREATED_AT, "message": message, "done": true, "done_reason": reason,
        "total_duration": 3_000_000, "load_duration": 1_000_000, "prompt_eval_count": reply.usage.input,
        "prompt_eval_duration": 1_000_000, "eval_count": reply.usage.output, "eval_duration": 1_000_000,
    })
}

/// A call, which this wire only sends complete and parsed; arguments that do not parse are a server error.
fn call(reply: &ScriptedReply, number: usize, part: (&str, &str, &str)) -> Result<Value, RequestRejection> {
    let (id, tool, arguments) = part;
    let arguments = serde_json::from_str::<Map<String, Value>>(arguments).map_err(|reason| {
        RequestRejection::new(500, format!("error parsing tool call: raw='{arguments}', err={reason}"))
    })?;
    let mut function = Map::new();
    match reply.index {
        IndexFault::None => function.insert("index".to_owned(), json!(number)),
        IndexFault::Duplicate => function.insert("index".to_owned(), json!(0)),
        IndexFault::Missing => None,
    };
    function.insert("name".to_owned(), json!(tool));
    function.insert("arguments".to_owned(), Value::Object(arguments));
    Ok(json!({"id": id, "function": function}))
}

/// An answer that is not streamed.
pub(crate) fn full_response(reply: &ScriptedReply, exchange: &Exchange) -> Result<Value, RequestRejection> {
    let (mut text, mut thinking, mut calls) = (String::new(), String::new(), Vec::new());
    for part in &reply.parts {
        match part {
            ReplyPart::Text(more) => text.push_str(more),
            ReplyPart::Thinking { text, hidden: false } => thinking.push_str(text),
            ReplyPart::Call { id, tool, arguments } => {
                calls.push(call(reply, calls.len(), (id, tool, arguments))?);
            }
            ReplyPart::Thinking { hidden: true, .. } | ReplyPart::Pause(_) | ReplyPart::Fault(_) => {}
        }
    }
    let mut message =
        Map::from_iter([("role".to_owned(), json!("assistant")), ("content".to_owned(), json!(text))]);
    if !thinking.is_empty() {
        message.insert("thinking".to_owned(), json!(thinking));
    }
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), json!(calls));
    }
    Ok(last(reply, exchange, &Value::Object(message)))
}

/// A streamed answer.
pub(crate) fn stream(reply: &ScriptedReply, exchange: &Exchange) -> Tape {
    let mut writer = OllamaStreamWriter { tape: Tape::new(reply.slow), reply, exchange, calls: 0 };
    for part in &reply.parts {
        if !writer.part(part) {
            return writer.tape;
        }
    }
    let end = last(reply, exchange, &json!({"role": "assistant", "content": ""}));
    writer.line(&end);
    writer.tape
}

struct OllamaStreamWriter<'w> {
    tape: Tape,
    reply: &'w ScriptedReply,
    exchange: &'w Exchange,
    calls: usize,
}

impl OllamaStreamWriter<'_> {
    /// Writes a part; returns whether the stream goes on.
    fn part(&mut self, part: &ReplyPart) -> bool {
        match part {
            ReplyPart::Text(text) => {
                for delta in self.reply.deltas(text) {
                    self.message(&json!({"role": "assistant", "content": delta}));
                }
            }
            ReplyPart::Thinking { text, hidden: false } => {
                for delta in self.reply.deltas(text) {
                    self.message(&json!({"role": "assistant", "content": "", "thinking": delta}));
                }
            }
            ReplyPart::Thinking { hidden: true, .. } => {}
            ReplyPart::Call { id, tool, arguments } => {
                match call(self.reply, self.calls, (id, tool, arguments)) {
                    Ok(call) => {
                        self.message(&json!({"role": "assistant", "content": "", "tool_calls": [call]}))
                    }
                    Err(refusal) => {
                        self.line(&error(&refusal));
                        return false;
                    }
                }
                self.calls += 1;
            }
            ReplyPart::Pause(time) => self.tape.wait(*time),
            ReplyPart::Fault(odd) => return self.fault(odd),
        }
        true
    }

    fn message(&mut self, message: &Value) {
        self.tape.pace();
        let line = json!({"model": self.exchange.model, "created_at": CREATED_AT, "message": message, "done": false});
        self.line(&line);
    }

    fn line(&mut self, line: &Value) {
        self.tape.bytes(format!("{line}\n"));
    }

    fn fault(&mut self, odd: &StreamFault) -> bool {
        match odd {
            StreamFault::Break(end) => self.tape.end(*end),
            StreamFault::Error { message, .. } => {
                let refusal = RequestRejection::new(500, message.clone());
                self.line(&error(&refusal));
            }
            StreamFault::Garbage => {
                self.tape.bytes(&b"{\"model\": \xff\xfe\x00 not json\n"[..]);
                return true;
            }
            StreamFault::UnknownEvent => {
                self.line(&json!({"model": self.exchange.model, "surprise": true, "done": false}));
                return true;
            }
            // Lines of JSON have no comments.
            StreamFault::Comment => return true,
        }
        false
    }
}
