//! Ollama's native API.

mod check;
mod write;

use serde_json::{Value, json};

use crate::request_rejection::RequestRejection;
use crate::script::Script;

pub(crate) use check::{read_model, request as read};
pub(crate) use write::{full_response, stream};

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
pub(crate) fn tags(script: &Script) -> Value {
    let name = script.model_name();
    json!({"models": [{
        "name": name, "model": name, "modified_at": CREATED_AT, "size": 1, "digest": "0".repeat(64), "details": details(),
    }]})
}

/// The details of one model.
pub(crate) fn show(script: &Script) -> Value {
    let tools = script.model.tools.then_some("tools");
    let thinking = script.model.thinking.then_some("thinking");
    let capabilities: Vec<&str> = ["completion"].into_iter().chain(tools).chain(thinking).collect();
    json!({
        "modelfile": "", "parameters": "", "template": "", "details": details(), "capabilities": capabilities,
        "model_info": {"general.architecture": "scripted", "scripted.context_length": script.model.context_window},
        "modified_at": CREATED_AT,
    })
}
