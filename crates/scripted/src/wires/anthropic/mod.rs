//! Anthropic Messages.

mod check;
mod write;

use axum::http::{HeaderMap, Method};
use serde_json::{Value, json};

use crate::exchange::{Exchange, bearer, header};
use crate::request_rejection::RequestRejection;
use crate::script::Script;

use super::{ServedWire, WireRoute};

pub(super) const WIRE: ServedWire = ServedWire {
    name: "anthropic",
    base_path: "",
    call_prefix: "toolu",
    stream_type: "text/event-stream; charset=utf-8",
    error_status: 529,
    route,
    authorize,
    read,
    stream: |_, reply, exchange| write::stream(reply, exchange),
    full_response: |_, reply, exchange| Ok(write::full_response(reply, exchange)),
    error,
};

fn route(method: &Method, path: &str, headers: &HeaderMap) -> Option<WireRoute> {
    // Another vendor lists its models at the same path.
    let is_ours = headers.contains_key("anthropic-version");
    match (method.as_str(), path) {
        ("POST", "/v1/messages") => Some(WireRoute::Step),
        ("GET", "/v1/models") if is_ours => Some(WireRoute::Query(|script, _| Ok(models(script)))),
        ("GET", path) if is_ours && path.starts_with("/v1/models/") => {
            Some(WireRoute::Query(|script, _| Ok(model(script))))
        }
        _ => None,
    }
}

fn authorize(headers: &HeaderMap, required: Option<&str>) -> Result<(), RequestRejection> {
    match (required, header(headers, "x-api-key").or(bearer(headers))) {
        (None, Some(_)) => Ok(()),
        (Some(_), given) if given == required => Ok(()),
        _ => Err(RequestRejection::new(401, "invalid x-api-key")),
    }
}

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
fn error(refusal: &RequestRejection) -> Value {
    let kind = refusal.kind.as_deref().unwrap_or_else(|| kind_of(refusal.status));
    let mut error = json!({"type": kind, "message": refusal.message});
    if let (Some(code), Some(error)) = (&refusal.code, error.as_object_mut()) {
        error.insert("details".to_owned(), json!({"error_code": code}));
    }
    json!({"type": "error", "error": error, "request_id": "req_scripted"})
}

/// Parses and validates a request.
fn read(script: &Script, headers: &HeaderMap, body: &Value) -> Result<Exchange, RequestRejection> {
    let version = header(headers, "anthropic-version")
        .ok_or_else(|| RequestRejection::bad_request("anthropic-version: header is required"))?;
    check::request(script, version, body)
}

/// The model list.
fn models(script: &Script) -> Value {
    json!({"data": [model(script)], "has_more": false, "first_id": script.model_name(), "last_id": script.model_name()})
}

fn model(script: &Script) -> Value {
    json!({
        "type": "model", "id": script.model_name(), "display_name": "Scripted", "created_at": "2026-01-01T00:00:00Z",
        "lifecycle": "active", "line": null, "max_input_tokens": script.model.context_window,
        "max_tokens": script.model.max_output_tokens,
    })
}
