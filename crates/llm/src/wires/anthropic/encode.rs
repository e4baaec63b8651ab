//! Encodes a step for Anthropic Messages.

use serde_json::{Map, Value, json};

use crate::arguments::object_text;
use crate::call_ids::CallIds;
use crate::known_models;
use crate::message::{
    AssistantMessage, CallResult, Message, MessagePart, ModelCall, OpaqueProviderState, UserImage,
};
use crate::provider::ModelName;
use crate::request::{StepRequest, ThinkingMode, ToolChoice, ToolDefinition};
use crate::wire_names::WireNames;
use crate::wires::Wire;

/// The default output limit of an unknown model; every model supports it.
const DEFAULT_MAX_TOKENS: u64 = 8_192;

/// The upper bound of the default output limit.
const MAX_DEFAULT_TOKENS: u64 = 32_000;

/// The body of the request. It is deterministic, so that the server's prompt cache is hit.
pub(super) fn body(
    request: &StepRequest<'_>,
    model: &ModelName,
    stated_most: Option<u64>,
    names: &WireNames,
) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(model.name));
    body.insert("max_tokens".to_owned(), json!(max_tokens(request, model, stated_most)));
    body.insert("stream".to_owned(), json!(true));
    let mut tools: Vec<Value> = request.tools.iter().map(|tool| definition(tool, names)).collect();
    let system = request.system.filter(|system| !system.trim().is_empty());
    // Tools precede the system prompt, so one cache breakpoint after the last of the two covers both.
    if system.is_none()
        && let Some(last) = tools.last_mut()
    {
        set_cache_control(last);
    }
    if let Some(system) = system {
        let mut block = json!({"type": "text", "text": system});
        set_cache_control(&mut block);
        body.insert("system".to_owned(), json!([block]));
    }
    if !tools.is_empty() {
        body.insert("tools".to_owned(), Value::Array(tools));
        if request.tool_choice == ToolChoice::None {
            body.insert("tool_choice".to_owned(), json!({"type": "none"}));
        }
    }
    match request.thinking {
        ThinkingMode::Default => {}
        ThinkingMode::On => {
            body.insert("thinking".to_owned(), json!({"type": "adaptive", "display": "summarized"}));
        }
        ThinkingMode::Off => {
            body.insert("thinking".to_owned(), json!({"type": "disabled"}));
        }
    }
    body.insert("messages".to_owned(), messages(request.messages, model, names));
    Value::Object(body)
}

/// `max_tokens` is mandatory: as requested, else as configured, else a suitable value for the model.
fn max_tokens(request: &StepRequest<'_>, model: &ModelName, stated_most: Option<u64>) -> u64 {
    let known = || known_models::known_capabilities(&model.name).and_then(|known| known.max_output_tokens);
    let usual = || known().unwrap_or(DEFAULT_MAX_TOKENS).min(MAX_DEFAULT_TOKENS);
    request.max_output_tokens.map(u64::from).or(stated_most).unwrap_or_else(usual)
}

fn definition(tool: &ToolDefinition, names: &WireNames) -> Value {
    json!({
        "name": names.to_wire(&tool.name),
        "description": tool.description,
        "input_schema": *tool.input_schema,
    })
}

/// Sets a cache breakpoint: everything up to here may be cached by the server.
fn set_cache_control(block: &mut Value) {
    let is_markable = block.get("type").and_then(Value::as_str).is_none_or(|kind| !kind.contains("thinking"));
    if is_markable && let Some(block) = block.as_object_mut() {
        block.insert("cache_control".to_owned(), json!({"type": "ephemeral"}));
    }
}

/// The messages: consecutive messages of the same role are merged, and none is empty.
fn messages(messages: &[Message], model: &ModelName, names: &WireNames) -> Value {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    let mut ids = CallIds::default();
    for message in messages {
        let (role, blocks) = match message {
            Message::User { text, images } => {
                ("user", images.iter().map(image_block).chain(text_block(text)).collect())
            }
            Message::Assistant(said) => ("assistant", assistant(said, model, names, &mut ids)),
            Message::Results { results } => {
                ("user", results.iter().map(|result| answer(result, &ids)).collect())
            }
        };
        match turns.last_mut() {
            Some((last, earlier)) if *last == role => earlier.extend(blocks),
            _ if blocks.is_empty() => {}
            _ => turns.push((role, blocks)),
        }
    }
    if let Some(last) = turns.last_mut().and_then(|(_, blocks)| blocks.last_mut()) {
        set_cache_control(last);
    }
    turns.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect()
}

fn image_block(image: &UserImage) -> Value {
    let source = json!({"type": "base64", "media_type": image.mime_type, "data": image.data});
    json!({"type": "image", "source": source})
}

/// Empty text blocks are rejected.
fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

fn assistant(said: &AssistantMessage, model: &ModelName, names: &WireNames, ids: &mut CallIds) -> Vec<Value> {
    ids.begin_message();
    let is_own = said.model.as_ref() == Some(model);
    let block = |part: &MessagePart| match part {
        MessagePart::Text { text } => text_block(text),
        MessagePart::Thinking { text, seal } => {
            seal.as_ref().filter(|_| is_own).and_then(|seal| thinking(text, seal))
        }
        MessagePart::Call(call) => Some(tool_use(call, names, ids)),
    };
    said.parts.iter().filter_map(block).collect()
}

/// Thinking is sent back unchanged, to the model that it came from; others cannot read it.
fn thinking(text: &str, seal: &OpaqueProviderState) -> Option<Value> {
    if seal.wire != Wire::Anthropic {
        return None;
    }
    if let Some(data) = seal.value.get("redacted") {
        return Some(json!({"type": "redacted_thinking", "data": data}));
    }
    let signature = seal.value.get("signature")?;
    Some(json!({"type": "thinking", "thinking": text, "signature": signature}))
}

fn tool_use(call: &ModelCall, names: &WireNames, ids: &mut CallIds) -> Value {
    let input: Value = serde_json::from_str(&object_text(call)).unwrap_or_else(|_| json!({}));
    json!({"type": "tool_use", "id": ids.call(&call.id), "name": names.to_wire(&call.name), "input": input})
}

fn answer(result: &CallResult, ids: &CallIds) -> Value {
    let mut block = json!({"type": "tool_result", "tool_use_id": ids.result(&result.call)});
    if let Some(block) = block.as_object_mut() {
        if !result.text.is_empty() {
            block.insert("content".to_owned(), json!(result.text));
        }
        if result.is_error {
            block.insert("is_error".to_owned(), json!(true));
        }
    }
    block
}
