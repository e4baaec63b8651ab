//! Encodes a step for Ollama.

use serde_json::{Map, Value, json};

use super::show::ModelInfo;
use crate::arguments::object_text;
use crate::message::{AssistantMessage, CallResult, Message, MessagePart, ModelCall, UserImage};
use crate::provider::ModelName;
use crate::request::{StepRequest, ThinkingMode, ToolChoice, ToolDefinition};
use crate::wire_names::WireNames;

/// The body of a request.
pub(crate) fn encode(
    request: &StepRequest<'_>,
    model: &ModelName,
    names: &WireNames,
    shown: &ModelInfo,
) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), json!(model.name));
    body.insert("messages".into(), Value::Array(messages(request, model, names)));
    body.insert("stream".into(), json!(true));
    // The API has no other way to disable tools.
    if !request.tools.is_empty() && request.tool_choice == ToolChoice::Auto {
        body.insert("tools".into(), request.tools.iter().map(|definition| tool(definition, names)).collect());
    }
    match request.thinking {
        ThinkingMode::On if shown.can_think => drop(body.insert("think".into(), json!(true))),
        ThinkingMode::Off if shown.can_think => drop(body.insert("think".into(), json!(false))),
        _ => {}
    }
    // A conversation that is too long must be an error, not silently lose its beginning.
    body.insert("truncate".into(), json!(false));
    body.insert("shift".into(), json!(false));
    let mut options = Map::new();
    options.extend(shown.num_ctx.map(|tokens| ("num_ctx".into(), json!(tokens))));
    options.extend(request.max_output_tokens.map(|most| ("num_predict".into(), json!(most))));
    if !options.is_empty() {
        body.insert("options".into(), Value::Object(options));
    }
    Value::Object(body)
}

fn tool(definition: &ToolDefinition, names: &WireNames) -> Value {
    let mut parameters = Value::Object((*definition.input_schema).clone());
    soften(&mut parameters);
    json!({
        "type": "function",
        "function": {
            "name": names.to_wire(&definition.name),
            "description": definition.description,
            "parameters": parameters,
        },
    })
}

/// Ollama parses schemas into a type of its own, which does not accept `true` as a schema.
fn soften(schema: &mut Value) {
    if schema.is_boolean() {
        *schema = json!({});
    }
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(soften);
    }
    if let Some(choices) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
        choices.iter_mut().for_each(soften);
    }
}

fn messages(request: &StepRequest<'_>, model: &ModelName, names: &WireNames) -> Vec<Value> {
    let system = request.system.map(|text| json!({ "role": "system", "content": text }));
    let conversation = request.messages.iter().flat_map(|message| match message {
        Message::User { text, images } => vec![user(text, images)],
        Message::Assistant(said) => vec![assistant(said, model, names)],
        Message::Results { results } => results.iter().map(|made| result(made, names)).collect(),
    });
    system.into_iter().chain(conversation).collect()
}

fn user(text: &str, images: &[UserImage]) -> Value {
    let mut message = json!({ "role": "user", "content": text });
    if let (Some(message), false) = (message.as_object_mut(), images.is_empty()) {
        message.insert("images".into(), images.iter().map(|image| image.data.as_str()).collect());
    }
    message
}

fn assistant(said: &AssistantMessage, model: &ModelName, names: &WireNames) -> Value {
    let mut message = Map::new();
    message.insert("role".into(), json!("assistant"));
    message.insert("content".into(), json!(said.text()));
    let thinking: String = said.parts.iter().filter_map(thought).collect();
    if said.model.as_ref() == Some(model) && !thinking.is_empty() {
        message.insert("thinking".into(), json!(thinking));
    }
    let calls: Vec<Value> = said.calls().map(|made| call(made, names)).collect();
    if !calls.is_empty() {
        message.insert("tool_calls".into(), Value::Array(calls));
    }
    Value::Object(message)
}

fn thought(part: &MessagePart) -> Option<&str> {
    match part {
        MessagePart::Thinking { text, .. } => Some(text),
        _ => None,
    }
}

fn call(made: &ModelCall, names: &WireNames) -> Value {
    let arguments: Value = serde_json::from_str(&object_text(made)).unwrap_or_else(|_| json!({}));
    json!({
        "id": made.id,
        "function": { "name": names.to_wire(&made.name), "arguments": arguments },
    })
}

fn result(made: &CallResult, names: &WireNames) -> Value {
    json!({
        "role": "tool",
        "tool_name": names.to_wire(&made.name),
        "tool_call_id": made.call,
        "content": made.text,
    })
}
