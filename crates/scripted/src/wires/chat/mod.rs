//! OpenAI Chat Completions and compatible servers.

mod check;
mod write;

use axum::http::{HeaderMap, Method};
use serde_json::{Value, json};

use crate::request_rejection::RequestRejection;
use crate::script::Script;

use super::{ServedWire, WireRoute};
use crate::exchange::bearer;

pub(super) const WIRE: ServedWire = ServedWire {
    name: "openai-chat",
    base_path: "/v1",
    call_prefix: "call",
    stream_type: "text/event-stream; charset=utf-8",
    error_status: 500,
    route,
    // Compatible servers often need no key.
    authorize: |headers, required| authorize(headers, required, KeyRequirement::IfConfigured),
    read: |script, _, body| check::request(script, body),
    stream: write::stream,
    full_response: |script, reply, exchange| Ok(write::full_response(script, reply, exchange)),
    error,
};

fn route(method: &Method, path: &str, _: &HeaderMap) -> Option<WireRoute> {
    match (method.as_str(), path) {
        ("POST", "/v1/chat/completions") => Some(WireRoute::Step),
        ("GET", "/v1/models") => Some(WireRoute::Query(|script, _| Ok(models(script)))),
        ("GET", path) if path.starts_with("/v1/models/") => {
            Some(WireRoute::Query(|script, _| Ok(model(script))))
        }
        _ => None,
    }
}

/// Whether a request needs a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyRequirement {
    /// Always, whichever it is.
    Always,
    /// Only if the server was started with one.
    IfConfigured,
}

/// Checks the key on either of the vendor's wires.
pub(super) fn authorize(
    headers: &HeaderMap,
    required: Option<&str>,
    needed: KeyRequirement,
) -> Result<(), RequestRejection> {
    let is_good = match (required, bearer(headers)) {
        (Some(_), given) => given == required,
        (None, given) => given.is_some() || needed == KeyRequirement::IfConfigured,
    };
    let incorrect = || RequestRejection::new(401, "Incorrect API key provided.").code("invalid_api_key");
    if is_good { Ok(()) } else { Err(incorrect()) }
}

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
fn models(script: &Script) -> Value {
    json!({"object": "list", "data": [model(script)]})
}

fn model(script: &Script) -> Value {
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
    if !crate::exchange::is_wire_name(name, 64) {
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
