//! Encodes a step for Chat Completions.

use serde_json::{Map, Value, json};

use super::Flavour;
use crate::arguments::object_text;
use crate::message::{AssistantMessage, CallResult, Message, MessagePart, ModelCall, UserImage};
use crate::provider::ModelName;
use crate::request::{StepRequest, ThinkingMode, ToolChoice, ToolDefinition};
use crate::wire_names::WireNames;
use crate::wires::Wire;

/// The body of a request.
pub(crate) fn encode(
    request: &StepRequest<'_>,
    model: &ModelName,
    names: &WireNames,
    flavour: Flavour,
) -> Value {
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

/// The parameter for thinking; `None` for the server's default, or if there is no common parameter.
fn thinking(request: &StepRequest<'_>, model: &ModelName, flavour: Flavour) -> Option<(&'static str, Value)> {
    match (flavour, request.thinking) {
        // These reject tools here unless reasoning is disabled.
        (Flavour::Openai, _) if !request.tools.is_empty() && reasons_over_responses_only(&model.name) => {
            Some(("reasoning_effort", json!("none")))
        }
        (Flavour::Openrouter, ThinkingMode::On) => Some(("reasoning", json!({ "enabled": true }))),
        (Flavour::Openrouter, ThinkingMode::Off) => Some(("reasoning", json!({ "enabled": false }))),
        _ => None,
    }
}

/// OpenAI models that combine reasoning with tools only over Responses.
fn reasons_over_responses_only(model: &str) -> bool {
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

fn messages(request: &StepRequest<'_>, model: &ModelName, names: &WireNames) -> Vec<Value> {
    let mut messages = Vec::new();
    messages.extend(request.system.map(|text| json!({ "role": "system", "content": text })));
    let is_user = |message: &Message| matches!(message, Message::User { .. });
    let turn = request.messages.iter().rposition(is_user).unwrap_or_default();
    for (place, message) in request.messages.iter().enumerate() {
        match message {
            Message::User { text, images } => user(text, images, &mut messages),
            Message::Assistant(said) => messages.push(assistant(said, model, names, place > turn)),
            Message::Results { results } => messages.extend(results.iter().map(result)),
        }
    }
    messages
}

/// Other vendors' models reject two consecutive user messages, so they are merged.
fn user(text: &str, images: &[UserImage], messages: &mut Vec<Value>) {
    let last = messages.last_mut().filter(|last| last["role"] == "user");
    match (last.and_then(|last| last.get_mut("content")), images) {
        (Some(Value::String(before)), []) => {
            before.push_str("\n\n");
            before.push_str(text);
        }
        (Some(before), _) => {
            let mut parts = match before.take() {
                Value::Array(parts) => parts,
                earlier => vec![json!({ "type": "text", "text": earlier })],
            };
            parts.extend(content_parts(text, images));
            *before = Value::Array(parts);
        }
        (None, []) => messages.push(json!({ "role": "user", "content": text })),
        (None, _) => messages.push(json!({ "role": "user", "content": content_parts(text, images) })),
    }
}

/// Parts are only sent with images: some servers know text alone.
fn content_parts(text: &str, images: &[UserImage]) -> Vec<Value> {
    let image = |image: &UserImage| json!({ "type": "image_url", "image_url": { "url": image.data_url() } });
    images.iter().map(image).chain([json!({ "type": "text", "text": text })]).collect()
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
        for (name, value) in said.parts.iter().filter_map(opaque_state).flatten() {
            // `reasoning_content` of earlier turns is rejected or discarded; `reasoning_details` carry signatures, and belong to the message.
            if name == "reasoning_details" || (name == "reasoning_content" && is_this_turn) {
                message.insert(name.clone(), value.clone());
            }
        }
    }
    Value::Object(message)
}

/// The opaque state of thinking, to be sent back.
fn opaque_state(part: &MessagePart) -> Option<&Map<String, Value>> {
    match part {
        MessagePart::Thinking { seal: Some(seal), .. } if seal.wire == Wire::OpenaiChat => {
            seal.value.as_object()
        }
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

#[cfg(test)]
mod tests {
    use crate::wire_names::ToolNames;
    use std::sync::Arc;

    use super::*;
    use crate::message::OpaqueProviderState;

    #[test]
    fn openai_is_told_not_to_think_where_it_would_refuse_tools() {
        let tool =
            ToolDefinition { name: "read".into(), description: String::new(), input_schema: Arc::default() };
        for (flavour, name, has_tools, expected) in [
            (Flavour::Openai, "gpt-6.1-sol", true, Some("none")),
            (Flavour::Openai, "gpt-5.6-luna", true, Some("none")),
            (Flavour::Openai, "gpt-6.1-sol", false, None),
            (Flavour::Openai, "gpt-5.4", true, None),
            (Flavour::Openai, "gpt-4o", true, None),
            (Flavour::Compatible, "gpt-6.1-sol", true, None),
        ] {
            let tools = if has_tools { std::slice::from_ref(&tool) } else { &[] };
            let request = StepRequest {
                system: None,
                messages: &[],
                tools,
                tool_choice: ToolChoice::Auto,
                max_output_tokens: Some(5),
                thinking: ThinkingMode::On,
            };
            let model = ModelName { provider: "openai-chat".into(), name: name.into() };
            let body = encode(&request, &model, &WireNames::of(&request, ToolNames::Restricted), flavour);
            assert_eq!(body.get("reasoning_effort").and_then(Value::as_str), expected, "{name}");
            let most = if flavour == Flavour::Openai { "max_completion_tokens" } else { "max_tokens" };
            assert_eq!(body[most], 5, "{name}");
        }
    }

    #[test]
    fn details_go_back_to_the_model_that_sent_them_and_to_no_other() {
        let model = ModelName { provider: "openrouter".into(), name: "a/m".into() };
        let details = json!([{"type": "reasoning.text", "text": "Hm.", "signature": "s", "index": 0}]);
        let seal =
            OpaqueProviderState { wire: Wire::OpenaiChat, value: json!({ "reasoning_details": details }) };
        let foreign = OpaqueProviderState {
            wire: Wire::Anthropic,
            value: json!({ "reasoning_details": "another wire's" }),
        };
        let said = |seal: &OpaqueProviderState, model: &ModelName| AssistantMessage {
            parts: vec![MessagePart::Thinking { text: "Hm.".into(), seal: Some(seal.clone()) }],
            model: Some(model.clone()),
        };
        let other = ModelName { provider: "openrouter".into(), name: "a/other".into() };
        for (said, expected) in [
            (said(&seal, &model), Some(&details)),
            (said(&seal, &other), None),
            (said(&foreign, &model), None),
        ] {
            // Also for earlier turns.
            let message = assistant(&said, &model, &WireNames::default(), false);
            assert_eq!(message.get("reasoning_details"), expected, "{message}");
        }
    }
}
