//! Anthropic Messages.

mod check;
mod write;

use axum::http::HeaderMap;
use serde_json::{Value, json};

use crate::request_rejection::RequestRejection;
use crate::script::Script;
use crate::wire::{Exchange, header};

/// The error type of each status.
fn kind_of(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        408 | 504 => "timeout_error",
        409 => "conflict_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    }
}

/// The body of an error, in a response or within a stream.
pub(crate) fn error(refusal: &RequestRejection) -> Value {
    let kind = refusal.kind.as_deref().unwrap_or_else(|| kind_of(refusal.status));
    let mut error = json!({"type": kind, "message": refusal.message});
    if let (Some(code), Some(error)) = (&refusal.code, error.as_object_mut()) {
        error.insert("details".to_owned(), json!({"error_code": code}));
    }
    json!({"type": "error", "error": error, "request_id": "req_scripted"})
}

/// Parses and validates a request.
pub(crate) fn read(script: &Script, headers: &HeaderMap, body: &Value) -> Result<Exchange, RequestRejection> {
    let version = header(headers, "anthropic-version")
        .ok_or_else(|| RequestRejection::bad_request("anthropic-version: header is required"))?;
    check::request(script, version, body)
}

pub(crate) use write::{full_response, stream};

/// The model list.
pub(crate) fn models(script: &Script) -> Value {
    json!({"data": [model(script)], "has_more": false, "first_id": script.model_name(), "last_id": script.model_name()})
}

pub(crate) fn model(script: &Script) -> Value {
    json!({
        "type": "model", "id": script.model_name(), "display_name": "Scripted", "created_at": "2026-01-01T00:00:00Z",
        "lifecycle": "active", "line": null, "max_input_tokens": script.model.context_window,
        "max_tokens": script.model.max_output_tokens,
    })
}
