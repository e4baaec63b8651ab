//! What is asked over Chat Completions.

use serde_json::{Map, Value, json};

use super::Flavour;
use crate::arguments::object_text;
use crate::message::{AssistantMessage, CallResult, Message, ModelCall, Part};
use crate::names::WireNames;
use crate::provider::{ModelName, Wire};
use crate::request::{Request, Thinking, ToolChoice, ToolDefinition};

/// The body of a request.
pub(crate) fn encode(request: &Request<'_>, model: &ModelName, names: &WireNames, flavour: Flavour) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), json!(model.name));
    body.insert("messages".into(), Value::Array(messages(request, model, names)));
    body.insert("stream".into(), json!(true));
    body.insert("stream_options".into(), json!({ "include_usage": true }));
    if !request.tools.is_empty() {
        body.insert("tools".into(), request.tools.iter().map(|definition| tool(definition, names)).collect());
        if request.tool_choice == ToolChoice::None {
            body.insert("tool_choice".into(), json!("none"));
        }
    }
    if let Some(most) = request.max_output_tokens {
        let name = if flavour == Flavour::Openai { "max_completion_tokens" } else { "max_tokens" };
        body.insert(name.into(), json!(most));
    }
    if let Some((name, value)) = thinking(request, model, flavour) {
        body.insert(name.into(), value);
    }
    Value::Object(body)
}

/// How the server is told whether to think; `None` where it is left to it, or where there is no common way to say it.
fn thinking(request: &Request<'_>, model: &ModelName, flavour: Flavour) -> Option<(&'static str, Value)> {
    match (flavour, request.thinking) {
        // These refuse tools here unless they are told not to think.
        (Flavour::Openai, _) if !request.tools.is_empty() && thinks_elsewhere(&model.name) => {
            Some(("reasoning_effort", json!("none")))
        }
        (Flavour::Openrouter, Thinking::On) => Some(("reasoning", json!({ "enabled": true }))),
        (Flavour::Openrouter, Thinking::Off) => Some(("reasoning", json!({ "enabled": false }))),
        _ => None,
    }
}

/// Models of OpenAI that think and call tools over Responses alone.
fn thinks_elsewhere(model: &str) -> bool {
    model.starts_with("gpt-5.6") || model.starts_with("gpt-6")
}

fn tool(definition: &ToolDefinition, names: &WireNames) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": names.to_wire(&definition.name),
            "description": definition.description,
            "parameters": *definition.input_schema,
        },
    })
}

fn messages(request: &Request<'_>, model: &ModelName, names: &WireNames) -> Vec<Value> {
    let mut messages = Vec::new();
    messages.extend(request.system.map(|text| json!({ "role": "system", "content": text })));
    let is_user = |message: &Message| matches!(message, Message::User { .. });
    let turn = request.messages.iter().rposition(is_user).unwrap_or_default();
    for (place, message) in request.messages.iter().enumerate() {
        match message {
            Message::User { text } => user(text, &mut messages),
            Message::Assistant(said) => messages.push(assistant(said, model, names, place > turn)),
            Message::Results { results } => messages.extend(results.iter().map(result)),
        }
    }
    messages
}

/// Models of other vendors refuse two messages of a person in a row, so they become one.
fn user(text: &str, messages: &mut Vec<Value>) {
    if let Some(last) = messages.last_mut().filter(|last| last["role"] == "user")
        && let Some(Value::String(before)) = last.get_mut("content")
    {
        before.push_str("\n\n");
        before.push_str(text);
    } else {
        messages.push(json!({ "role": "user", "content": text }));
    }
}

fn assistant(said: &AssistantMessage, model: &ModelName, names: &WireNames, is_this_turn: bool) -> Value {
    let text = said.text();
    let calls: Vec<Value> = said.calls().map(|made| call(made, names)).collect();
    let mut message = Map::new();
    message.insert("role".into(), json!("assistant"));
    let content = if text.is_empty() && !calls.is_empty() { Value::Null } else { json!(text) };
    message.insert("content".into(), content);
    if !calls.is_empty() {
        message.insert("tool_calls".into(), Value::Array(calls));
    }
    if said.model.as_ref() == Some(model) {
        for (name, value) in said.parts.iter().filter_map(sealed).flatten() {
            // Text of earlier turns is refused or thrown away; details carry signatures, and belong to the message.
            if name == "reasoning_details" || (name == "reasoning_content" && is_this_turn) {
                message.insert(name.clone(), value.clone());
            }
        }
    }
    Value::Object(message)
}

/// What the server sent along with its thinking, to be sent back.
fn sealed(part: &Part) -> Option<&Map<String, Value>> {
    match part {
        Part::Thinking { seal: Some(seal), .. } if seal.wire == Wire::OpenaiChat => seal.value.as_object(),
        _ => None,
    }
}

fn call(made: &ModelCall, names: &WireNames) -> Value {
    json!({
        "id": made.id,
        "type": "function",
        "function": { "name": names.to_wire(&made.name), "arguments": object_text(made) },
    })
}

fn result(result: &CallResult) -> Value {
    json!({ "role": "tool", "tool_call_id": result.call, "content": result.text })
}
