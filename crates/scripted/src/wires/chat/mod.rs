//! OpenAI Chat Completions and compatible servers.

mod check;
mod write;

use serde_json::{Value, json};

use crate::request_rejection::RequestRejection;
use crate::script::Script;

pub(crate) use check::request as read;
pub(crate) use write::{full_response, stream};

/// The fixed creation time of everything, so that answers are deterministic: the first second of 2026.
pub(crate) const CREATED: u64 = 1_767_225_600;

fn kind_of(status: u16) -> &'static str {
    match status {
        429 => "requests",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    }
}

/// The body of an error, in a response or within a stream. The same for Responses.
pub(crate) fn error(refusal: &RequestRejection) -> Value {
    let kind = refusal.kind.as_deref().unwrap_or_else(|| kind_of(refusal.status));
    json!({"error": {"message": refusal.message, "type": kind, "param": refusal.param, "code": refusal.code}})
}

/// The model list: the vendor's format with fields that other servers add.
pub(crate) fn models(script: &Script) -> Value {
    json!({"object": "list", "data": [model(script)]})
}

pub(crate) fn model(script: &Script) -> Value {
    let parameters: &[&str] =
        if script.model.tools { &["max_tokens", "tools", "tool_choice"] } else { &["max_tokens"] };
    json!({
        "id": script.model_name(), "object": "model", "created": CREATED, "owned_by": "toolgate",
        "context_length": script.model.context_window, "max_model_len": script.model.context_window,
        "supported_parameters": parameters,
    })
}

/// Validates a tool name on either of the vendor's wires. `path` is the position of the name.
pub(crate) fn check_name(name: Option<&Value>, path: &str) -> Result<String, RequestRejection> {
    let missing = || {
        let message = format!("Missing required parameter: '{path}'.");
        RequestRejection::bad_request(message).param(path).code("missing_required_parameter")
    };
    let name = name.and_then(Value::as_str).ok_or_else(missing)?;
    if name.len() > 64 {
        let message = format!(
            "Invalid '{path}': string too long. Expected a string with maximum length 64, but got a string with length {} instead.",
            name.len()
        );
        return Err(RequestRejection::bad_request(message).param(path).code("string_above_max_length"));
    }
    if !crate::wire::is_wire_name(name, 64) {
        let message = format!(
            "Invalid '{path}': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
        );
        return Err(RequestRejection::bad_request(message).param(path).code("invalid_value"));
    }
    Ok(name.to_owned())
}

/// Whether the model may call tools, by `tool_choice` on either of the vendor's wires.
pub(crate) fn tools_on(body: &Value, any: bool) -> Result<bool, RequestRejection> {
    for key in ["tool_choice", "parallel_tool_calls"] {
        if !any && body.get(key).is_some_and(|value| !value.is_null()) {
            let message =
                format!("Invalid value for '{key}': '{key}' is only allowed when 'tools' are specified.");
            return Err(RequestRejection::bad_request(message).param(key));
        }
    }
    match body.get("tool_choice") {
        None | Some(Value::Null | Value::Object(_)) => Ok(any),
        Some(Value::String(choice)) if choice == "none" => Ok(false),
        Some(Value::String(choice)) if matches!(choice.as_str(), "auto" | "required") => Ok(any),
        Some(other) => {
            let message =
                format!("Invalid value: {other}. Supported values are: 'none', 'auto', and 'required'.");
            Err(RequestRejection::bad_request(message).param("tool_choice").code("invalid_value"))
        }
    }
}

/// The requested model, which must be the script's.
pub(crate) fn check_model(script: &Script, body: &Value) -> Result<String, RequestRejection> {
    let model = body.get("model").and_then(Value::as_str).filter(|model| !model.is_empty());
    let model = model.ok_or_else(|| RequestRejection::bad_request("you must provide a model parameter"))?;
    if script.model.name.as_ref().is_some_and(|name| name != model) {
        let message = format!("The model `{model}` does not exist or you do not have access to it.");
        return Err(RequestRejection::new(404, message).code("model_not_found"));
    }
    Ok(model.to_owned())
}

/// Rejects a conversation that exceeds the context window.
pub(crate) fn check_length(script: &Script, input_tokens: u64, param: &str) -> Result<(), RequestRejection> {
    let most = script.model.context_window;
    if input_tokens <= most {
        return Ok(());
    }
    let message = format!(
        "This model's maximum context length is {most} tokens. However, your messages resulted in {input_tokens} tokens. Please \
         reduce the length of the messages."
    );
    Err(RequestRejection::bad_request(message).param(param).code("context_length_exceeded"))
}
