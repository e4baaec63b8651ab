//! Validates requests as Ollama does. It accepts almost anything; where it would silently drop a part of the conversation, this server rejects the
//! request.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::conversation::{ModelTurnCall, SentConversation, SentTurn, ToolCallResult};
use crate::exchange::{Exchange, ResponseOptions, ThinkingDisplay};
use crate::reply::tokens;
use crate::request_rejection::RequestRejection;
use crate::script::Script;

/// Ollama's default context size.
const DEFAULT_CONTEXT_TOKENS: u64 = 4096;

pub(crate) fn read_model(script: &Script, body: &Value) -> Result<String, RequestRejection> {
    // Older clients call it `name`.
    let model = body.get("model").or_else(|| body.get("name")).and_then(Value::as_str);
    let model = model
        .filter(|model| !model.is_empty())
        .ok_or_else(|| RequestRejection::bad_request("model is required"))?;
    let is_it = |name: &String| name == model || model.strip_suffix(":latest") == Some(name);
    if script.model.name.as_ref().is_some_and(|name| !is_it(name)) {
        return Err(RequestRejection::new(404, format!("model '{model}' not found")));
    }
    Ok(model.to_owned())
}

pub(crate) fn request(script: &Script, body: &Value) -> Result<Exchange, RequestRejection> {
    let model = read_model(script, body)?;
    let offered = tools(body)?;
    if !offered.is_empty() && !script.model.tools {
        return Err(RequestRejection::bad_request(format!(
            "registry.ollama.ai/library/{model} does not support tools"
        )));
    }
    let thinking = match body.get("think") {
        None | Some(Value::Null) => ThinkingDisplay::Shown,
        Some(Value::Bool(false)) => ThinkingDisplay::Off,
        Some(Value::Bool(true) | Value::String(_)) if script.model.thinking => ThinkingDisplay::Shown,
        Some(Value::Bool(true) | Value::String(_)) => {
            return Err(RequestRejection::bad_request(format!("\"{model}\" does not support thinking")));
        }
        Some(_) => {
            return Err(RequestRejection::bad_request(
                "think must be a boolean or string (\"high\", \"medium\", \"low\", true, or false)",
            ));
        }
    };
    let mut reader = OllamaRequestReader { conversation: SentConversation::default(), open: BTreeMap::new() };
    let messages = body.get("messages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (at, message) in messages.iter().enumerate() {
        reader.message(message, at)?;
    }
    reader.answered()?;
    let mut conversation = reader.conversation;
    conversation.tools_on = !offered.is_empty();
    conversation.offered = offered;
    let window = body.pointer("/options/num_ctx").and_then(Value::as_u64).unwrap_or(DEFAULT_CONTEXT_TOKENS);
    let window = window.min(script.model.context_window);
    let said = tokens(body.to_string().len());
    if said > window {
        truncate_context(&mut conversation, messages, said - window);
    }
    Ok(Exchange {
        conversation,
        // Unlike on the other wires, streaming is the default.
        is_streamed: body.get("stream").and_then(Value::as_bool).unwrap_or(true),
        thinking,
        model,
        input_tokens: said.min(window),
        options: ResponseOptions::default(),
    })
}

/// Drops what does not fit from the beginning, silently, except for the last turn. That is what Ollama does.
fn truncate_context(conversation: &mut SentConversation, messages: &[Value], mut surplus: u64) {
    let weights =
        messages.iter().filter(|message| message.get("role").and_then(Value::as_str) != Some("system"));
    for weight in weights.map(|message| tokens(message.to_string().len())) {
        if surplus == 0 || conversation.turns.len() <= 1 {
            return;
        }
        surplus = surplus.saturating_sub(weight);
        match conversation.turns.first_mut() {
            Some(SentTurn::Results(results)) if results.len() > 1 => drop(results.remove(0)),
            _ => drop(conversation.turns.remove(0)),
        }
    }
}

fn tools(body: &Value) -> Result<Vec<String>, RequestRejection> {
    let tools = body.get("tools").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let names = tools.iter().map(|tool| {
        let name = tool.pointer("/function/name").and_then(Value::as_str).filter(|name| !name.is_empty());
        name.map(str::to_owned).ok_or_else(|| RequestRejection::bad_request("tools: a function has no name"))
    });
    names.collect()
}

fn unmarshal(found: &Value, field: &str, wanted: &str) -> RequestRejection {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    RequestRejection::bad_request(format!(
        "json: cannot unmarshal {found} into Go struct field ChatRequest.{field} of type {wanted}"
    ))
}

struct OllamaRequestReader {
    conversation: SentConversation,
    /// The number of unanswered calls per tool. Not every client sends ids here.
    open: BTreeMap<String, usize>,
}

impl OllamaRequestReader {
    fn message(&mut self, message: &Value, at: usize) -> Result<(), RequestRejection> {
        let text = match message.get("content") {
            None | Some(Value::Null) => "",
            Some(Value::String(text)) => text,
            Some(other) => return Err(unmarshal(other, "messages.content", "string")),
        };
        let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
        if role != "tool" {
            self.answered()?;
        }
        match role {
            "system" => self.conversation.system.push_str(text),
            "user" => self.conversation.prompt(text),
            "assistant" => self.assistant(message)?,
            "tool" => self.result(message, text, at)?,
            other => {
                return Err(RequestRejection::bad_request(format!(
                    "invalid role \"{other}\" in message {at}"
                )));
            }
        }
        Ok(())
    }

    fn assistant(&mut self, message: &Value) -> Result<(), RequestRejection> {
        self.conversation.model_turn(|_| ());
        for call in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            let name = call.pointer("/function/name").and_then(Value::as_str).unwrap_or_default();
            match call.pointer("/function/arguments") {
                Some(Value::Object(_)) => {}
                other => {
                    let field = "messages.tool_calls.function.arguments";
                    return Err(unmarshal(other.unwrap_or(&Value::Null), field, "map[string]interface {}"));
                }
            }
            let id = call.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
            *self.open.entry(name.to_owned()).or_default() += 1;
            self.conversation.model_turn(|said| said.calls.push(ModelTurnCall { id, tool: name.to_owned() }));
        }
        Ok(())
    }

    fn result(&mut self, message: &Value, text: &str, at: usize) -> Result<(), RequestRejection> {
        let tool = message.get("tool_name").and_then(Value::as_str).filter(|name| !name.is_empty());
        let tool = tool.ok_or_else(|| {
            RequestRejection::bad_request(format!("message {at} is a result and has no tool_name"))
        })?;
        match self.open.get_mut(tool).filter(|open| **open > 0) {
            Some(open) => *open -= 1,
            None => {
                return Err(RequestRejection::bad_request(format!(
                    "message {at} is a result of {tool}, which was not called"
                )));
            }
        }
        self.conversation.result(ToolCallResult { tool: tool.to_owned(), text: text.to_owned() });
        Ok(())
    }

    fn answered(&mut self) -> Result<(), RequestRejection> {
        match self.open.iter().find(|(_, open)| **open > 0) {
            Some((tool, _)) => Err(RequestRejection::bad_request(format!("a call of {tool} has no result"))),
            None => {
                self.open.clear();
                Ok(())
            }
        }
    }
}
