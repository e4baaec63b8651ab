//! Ollama's native API.

mod check;
mod write;

use serde_json::{Value, json};

use crate::request_rejection::RequestRejection;
use crate::script::Script;

use super::{ServedWire, WireRoute};

pub(super) const WIRE: ServedWire = ServedWire {
    name: "ollama",
    base_path: "",
    call_prefix: "call",
    stream_type: "application/x-ndjson",
    error_status: 500,
    route: |method, path, _| match (method.as_str(), path) {
        ("POST", "/api/chat") => Some(WireRoute::Step),
        ("POST", "/api/show") => {
            Some(WireRoute::Query(|script, body| check::read_model(script, body).map(|_| show(script))))
        }
        ("GET", "/api/tags") => Some(WireRoute::Query(|script, _| Ok(tags(script)))),
        ("GET", "/api/version") => Some(WireRoute::Query(|_, _| Ok(json!({"version": "0.14.0"})))),
        _ => None,
    },
    // There are no keys.
    authorize: |_, _| Ok(()),
    read: |script, _, body| check::request(script, body),
    stream: |_, reply, exchange| write::stream(reply, exchange),
    full_response: |_, reply, exchange| write::full_response(reply, exchange),
    error,
};

/// The fixed creation time.
const CREATED_AT: &str = "2026-01-01T00:00:00Z";

/// The body of an error, in a response or within a stream.
pub(crate) fn error(refusal: &RequestRejection) -> Value {
    json!({"error": refusal.message})
}

fn details() -> Value {
    json!({
        "parent_model": "", "format": "gguf", "family": "scripted", "families": ["scripted"], "parameter_size": "1B",
        "quantization_level": "Q4_K_M",
    })
}

/// The installed models.
fn tags(script: &Script) -> Value {
    let name = script.model_name();
    json!({"models": [{
        "name": name, "model": name, "modified_at": CREATED_AT, "size": 1, "digest": "0".repeat(64), "details": details(),
    }]})
}

/// The details of one model.
fn show(script: &Script) -> Value {
    let tools = script.model.tools.then_some("tools");
    let thinking = script.model.thinking.then_some("thinking");
    let capabilities: Vec<&str> = ["completion"].into_iter().chain(tools).chain(thinking).collect();
    json!({
        "modelfile": "", "parameters": "", "template": "", "details": details(), "capabilities": capabilities,
        "model_info": {"general.architecture": "scripted", "scripted.context_length": script.model.context_window},
        "modified_at": CREATED_AT,
    })
}
