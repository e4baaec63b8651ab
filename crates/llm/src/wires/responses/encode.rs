//! Encodes a step for OpenAI Responses. Nothing is stored at the server (`store: false`): every step carries the whole conversation.

use serde_json::{Map, Value, json};

use crate::arguments::object_text;
use crate::call_ids::CallIds;
use crate::message::{AssistantMessage, Message, MessagePart, OpaqueProviderState, UserImage};
use crate::provider::ModelName;
use crate::request::{StepRequest, ThinkingMode, ToolChoice, ToolDefinition};
use crate::wire_names::WireNames;
use crate::wires::Wire;

/// Models without reasoning, which reject its parameters.
const NON_REASONING_MODELS: &[&str] = &["gpt-3.5", "gpt-4", "chatgpt-4o"];

/// The body of the request. It is deterministic, so that the server's prompt cache is hit.
pub(super) fn body(request: &StepRequest<'_>, model: &ModelName, names: &WireNames) -> Value {
    let reasons = !NON_REASONING_MODELS.iter().any(|name| model.name.starts_with(name));
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(model.name));
    body.insert("stream".to_owned(), json!(true));
    body.insert("store".to_owned(), json!(false));
    if reasons {
        body.insert("include".to_owned(), json!(["reasoning.encrypted_content"]));
        let reasoning = match request.thinking {
            ThinkingMode::Default => None,
            ThinkingMode::On => Some(json!({"effort": "medium", "summary": "auto"})),
            ThinkingMode::Off => Some(json!({"effort": "none"})),
        };
        body.extend(reasoning.map(|reasoning| ("reasoning".to_owned(), reasoning)));
    }
    let most = request.max_output_tokens;
    body.extend(most.map(|most| ("max_output_tokens".to_owned(), json!(most))));
    let system = request.system.filter(|system| !system.trim().is_empty());
    body.extend(system.map(|system| ("instructions".to_owned(), json!(system))));
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| definition(tool, names)).collect();
        body.insert("tools".to_owned(), tools);
        let choice = if request.tool_choice == ToolChoice::None { "none" } else { "auto" };
        body.insert("tool_choice".to_owned(), json!(choice));
    }
    body.insert("input".to_owned(), Value::Array(input(request.messages, model, names)));
    Value::Object(body)
}

/// The gate validates arguments itself; `strict` would restrict what a schema may contain.
fn definition(tool: &ToolDefinition, names: &WireNames) -> Value {
    json!({
        "type": "function",
        "name": names.to_wire(&tool.name),
        "description": tool.description,
        "parameters": *tool.input_schema,
        "strict": false,
    })
}

fn input(messages: &[Message], model: &ModelName, names: &WireNames) -> Vec<Value> {
    let (mut items, mut ids) = (Vec::new(), CallIds::default());
    for message in messages {
        match message {
            Message::User { text, images } => {
                let image = |image: &UserImage| json!({"type": "input_image", "image_url": image.data_url()});
                let text = json!({"type": "input_text", "text": text});
                let content: Vec<Value> = images.iter().map(image).chain([text]).collect();
                items.push(json!({"type": "message", "role": "user", "content": content}));
            }
            Message::Assistant(said) => assistant(said, model, names, &mut ids, &mut items),
            Message::Results { results } => items.extend(results.iter().map(|result| {
                json!({"type": "function_call_output", "call_id": ids.result(&result.call), "output": result.text})
            })),
        }
    }
    items
}

fn assistant(
    said: &AssistantMessage,
    model: &ModelName,
    names: &WireNames,
    ids: &mut CallIds,
    items: &mut Vec<Value>,
) {
    ids.begin_message();
    let is_own = said.model.as_ref() == Some(model);
    let mut phase = None;
    for part in &said.parts {
        match part {
            MessagePart::Text { text } => {
                let content = json!([{"type": "output_text", "text": text}]);
                let mut item = json!({"type": "message", "role": "assistant", "content": content});
                if let (Some(item), Some(phase)) = (item.as_object_mut(), phase.take()) {
                    item.insert("phase".to_owned(), phase);
                }
                items.push(item);
            }
            MessagePart::Thinking {
                seal: Some(OpaqueProviderState { wire: Wire::Openai, value }), ..
            } if is_own => match value.get("phase") {
                Some(said) => phase = Some(said.clone()),
                None => items.push(value.clone()),
            },
            // Thinking of other models cannot be read here.
            MessagePart::Thinking { .. } => {}
            MessagePart::Call(call) => items.push(json!({
                "type": "function_call",
                "call_id": ids.call(&call.id),
                "name": names.to_wire(&call.name),
                "arguments": object_text(call),
            })),
        }
    }
}
