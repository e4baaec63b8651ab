//! Errors of the API as problem details (RFC 9457).

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, Response, StatusCode};
use serde_json::{Map, Value, json};

/// An error of the API.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The status of the response.
    pub status: StatusCode,
    /// A stable code.
    pub code: &'static str,
    /// What is wrong. It names no path of this machine and no secret.
    pub detail: String,
    /// What helps.
    pub help: Option<String>,
    /// The stage of the gate that refused.
    pub stage: Option<&'static str>,
    /// Further members.
    pub more: Map<String, Value>,
}

impl Problem {
    /// A problem.
    #[must_use]
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), help: None, stage: None, more: Map::new() }
    }

    /// Adds the remedy.
    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// Adds the stage of the gate that refused.
    #[must_use]
    pub fn stage(self, stage: &'static str) -> Self {
        Self { stage: Some(stage), ..self }
    }

    /// Adds a member.
    #[must_use]
    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.more.insert(name.to_owned(), value);
        self
    }

    /// The members.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut members = self.more.clone();
        let title = self.status.canonical_reason().unwrap_or("Error");
        for (name, value) in [
            ("type", Some(json!("about:blank"))),
            ("title", Some(json!(title))),
            ("status", Some(json!(self.status.as_u16()))),
            ("code", Some(json!(self.code))),
            ("stage", self.stage.map(|stage| json!(stage))),
            ("detail", Some(json!(self.detail))),
            ("help", self.help.as_ref().map(|help| json!(help))),
        ] {
            if let Some(value) = value {
                members.insert(name.to_owned(), value);
            }
        }
        Value::Object(members)
    }

    /// The response.
    #[must_use]
    pub fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.json().to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl axum::response::IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        Self::into_response(self)
    }
}
