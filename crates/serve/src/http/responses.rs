//! The responses that the HTTP server gives by itself.

use axum::body::Body;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALLOW, CACHE_CONTROL, CONNECTION,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, RETRY_AFTER, VARY, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use rmcp::model::ServerJsonRpcMessage;
use serde_json::{Value, json};
use toolgate_types::ErrorCode;

use super::body::BodyError;
use super::host_check::HostRejection;

/// JSON-RPC: the message is not JSON.
const PARSE_ERROR: i32 = -32700;
/// JSON-RPC: the message is no valid request.
const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC: a server error.
const SERVER_ERROR: i32 = -32000;

pub(crate) const OTHER_METHOD: &str = "this method is not served here; `Allow` says which are";

/// The headers that clients in browsers need to send and to read.
const CORS_ALLOW_HEADERS: &str = "authorization, content-type, accept, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name, last-event-id, idempotency-key";
const CORS_EXPOSE_HEADERS: &str = "mcp-session-id, www-authenticate, retry-after";

/// A response in JSON.
pub(crate) fn json_response(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = status;
    set(&mut response, CONTENT_TYPE, "application/json");
    set(&mut response, CACHE_CONTROL, "no-store");
    response
}

/// A plain text response.
pub(crate) fn text_response(status: StatusCode, kind: &'static str, text: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    set(&mut response, CONTENT_TYPE, kind);
    set(&mut response, CACHE_CONTROL, "no-store");
    response
}

/// A rejection, as a JSON-RPC error without an id.
pub(crate) fn error_response(status: StatusCode, message: &str) -> Response<Body> {
    failure(status, SERVER_ERROR, message)
}

fn failure(status: StatusCode, code: i32, message: &str) -> Response<Body> {
    json_response(status, &json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}}))
}

/// The body is not JSON.
pub(crate) fn parse_error() -> Response<Body> {
    failure(StatusCode::BAD_REQUEST, PARSE_ERROR, "the body is not JSON")
}

/// The body is JSON, but no JSON-RPC message.
pub(crate) fn invalid_request() -> Response<Body> {
    failure(StatusCode::BAD_REQUEST, INVALID_REQUEST, "the body is not one message of JSON-RPC")
}

/// A JSON-RPC message as the whole response.
pub(crate) fn rpc_response(status: StatusCode, message: &ServerJsonRpcMessage) -> Response<Body> {
    json_response(status, &json!(message))
}

/// The client accepts no form that a response may have.
pub(crate) fn not_acceptable(message: &str) -> Response<Body> {
    error_response(StatusCode::NOT_ACCEPTABLE, message)
}

/// The body is of another type.
pub(crate) fn unsupported_media_type() -> Response<Body> {
    error_response(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send the message as application/json")
}

/// A message was taken that has no response: 202.
pub(crate) fn accepted() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// The HTTP method is not used by MCP.
pub(crate) fn method_not_allowed() -> Response<Body> {
    let mut response = error_response(StatusCode::METHOD_NOT_ALLOWED, OTHER_METHOD);
    set(&mut response, ALLOW, "GET, POST, DELETE");
    // The body was not read, so the connection cannot be reused.
    set(&mut response, CONNECTION, "close");
    response
}

/// `Host` or `Origin` was rejected.
pub(crate) fn host_rejected(strange: HostRejection) -> Response<Body> {
    let mut response = match strange {
        HostRejection::NoHost => {
            error_response(StatusCode::BAD_REQUEST, "the request does not say once for which host it is")
        }
        HostRejection::OtherHost => {
            error_response(StatusCode::MISDIRECTED_REQUEST, "this gate is not that host")
        }
        HostRejection::OtherOrigin => {
            error_response(StatusCode::FORBIDDEN, "pages of that origin may not use this gate")
        }
    };
    set(&mut response, CONNECTION, "close");
    response
}

/// The body was not read.
pub(crate) fn body_rejected(unread: BodyError) -> Response<Body> {
    let (status, message) = match unread {
        BodyError::TooLong => (StatusCode::PAYLOAD_TOO_LARGE, "the body is longer than this gate takes"),
        BodyError::TooSlow => (StatusCode::REQUEST_TIMEOUT, "the body did not come in time"),
        BodyError::TooMuch => {
            (StatusCode::PAYLOAD_TOO_LARGE, "the body holds more values than this gate takes")
        }
        BodyError::TooDeep => {
            (StatusCode::BAD_REQUEST, "the values of the body stand too deep within each other")
        }
        BodyError::NoRoom => (StatusCode::SERVICE_UNAVAILABLE, "too many long requests at once"),
        BodyError::Broken => (StatusCode::BAD_REQUEST, "the body did not come whole"),
    };
    let mut response = error_response(status, message);
    // The rest of the body is not read, so the connection cannot be reused.
    set(&mut response, CONNECTION, "close");
    if unread == BodyError::NoRoom {
        set(&mut response, RETRY_AFTER, "1");
    }
    response
}

/// Too many at a time, or too often: the client should retry later.
pub(crate) fn retry_later(status: StatusCode, message: &str, seconds: &'static str) -> Response<Body> {
    let milliseconds = seconds.parse().unwrap_or(1_u64) * 1000;
    let data = match status {
        StatusCode::TOO_MANY_REQUESTS => {
            json!({"code": ErrorCode::RateLimited.as_str(), "retry_after_ms": milliseconds})
        }
        _ => json!({"retry_after_ms": milliseconds}),
    };
    let error = json!({"code": SERVER_ERROR, "message": message, "data": data});
    let mut response = json_response(status, &json!({"jsonrpc": "2.0", "id": null, "error": error}));
    set(&mut response, RETRY_AFTER, seconds);
    response
}

/// 401 with a `WWW-Authenticate` challenge.
pub(crate) fn unauthorized(challenge: &str, message: &str) -> Response<Body> {
    let mut response = error_response(StatusCode::UNAUTHORIZED, message);
    if let Ok(challenge) = HeaderValue::from_str(challenge) {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response
}

/// The session was ended by DELETE: 204.
pub(crate) fn session_ended() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// The response to a CORS preflight request.
pub(crate) fn preflight() -> Response<Body> {
    let mut response = session_ended();
    set(&mut response, ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PATCH, DELETE");
    set(&mut response, ACCESS_CONTROL_ALLOW_HEADERS, CORS_ALLOW_HEADERS);
    set(&mut response, ACCESS_CONTROL_MAX_AGE, "600");
    response
}

/// Allows a page of this origin to read the response. The origin was checked before.
pub(crate) fn allow_origin(response: &mut Response<Body>, origin: HeaderValue) {
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    set(response, ACCESS_CONTROL_EXPOSE_HEADERS, CORS_EXPOSE_HEADERS);
}

/// The headers of every response.
pub(crate) fn set_common_headers(response: &mut Response<Body>) {
    response.headers_mut().append(VARY, HeaderValue::from_static("Origin"));
    set(response, X_CONTENT_TYPE_OPTIONS, "nosniff");
    // Only the page has its own. Whatever else a browser shows as a document can load, run and frame nothing, and is framed by nothing.
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'; sandbox"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
    ] {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
}

fn set(response: &mut Response<Body>, name: HeaderName, value: &'static str) {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
}
