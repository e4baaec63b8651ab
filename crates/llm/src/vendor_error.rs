//! Parses the error formats of model servers, and classifies the errors.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::header::HeaderMap;
use serde_json::Value;
use toolgate_text::cleaned_line;

use crate::error::{ErrorKind, ProviderError};
use crate::limits::exceeds_max_values;

/// A server's message is cut to this length.
pub(crate) const MAX_MESSAGE_CHARS: usize = 400;

/// Longer values of `Retry-After` are cut to this.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// An error as a server reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VendorError {
    /// Its names for the error, from general to specific.
    names: Vec<String>,
    /// Its message for people.
    message: String,
}

impl VendorError {
    /// From a body or an event: `{"error": {"type", "code", "message", "details": {"error_code"}}}`, the same without the outer object, `{"error":
    /// "…"}`, or `{"detail": "…"}`.
    pub(crate) fn read(value: &Value) -> Self {
        let inner = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
        if let Some(message) = inner.as_str() {
            return Self { names: Vec::new(), message: message.to_owned() };
        }
        let name = |name: Option<&Value>| match name {
            Some(Value::String(name)) => Some(name.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        let details = inner.get("details").and_then(|details| details.get("error_code"));
        let names = [inner.get("type"), inner.get("code"), details].into_iter().filter_map(name).collect();
        let message = ["message", "detail"].into_iter().find_map(|field| inner.get(field)?.as_str());
        Self { names, message: message.unwrap_or_default().to_owned() }
    }

    /// From a body that may be anything.
    pub(crate) fn read_bytes(body: &[u8]) -> Self {
        if exceeds_max_values(body) {
            return Self::default();
        }
        serde_json::from_slice(body).map_or_else(|_| Self::default(), |value| Self::read(&value))
    }

    /// Whether it contains nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.message.is_empty()
    }

    /// The error reported within a stream.
    pub(crate) fn in_stream(&self) -> ProviderError {
        let status =
            self.names.iter().find_map(|name| name.parse().ok()).filter(|status| (400..600).contains(status));
        let kind = self.kind(status.unwrap_or(500));
        ProviderError::new(kind, format!("the server broke off: {}", self.display_message()))
    }

    /// The error of a response with this status.
    pub(crate) fn with_status(&self, status: u16, host: &str) -> ProviderError {
        let words = self.display_message();
        let message = match words.as_str() {
            "" => format!("`{host}` answers with status {status}"),
            words => format!("`{host}` answers with status {status}: {words}"),
        };
        let kind = self.kind(status);
        let failed = ProviderError::new(kind, message);
        match kind {
            ErrorKind::Unauthorized => failed.help("check the key and what it may be used for"),
            ErrorKind::UnknownModel => failed.help("check the name of the model"),
            ErrorKind::SpendLimit => failed.help("check the plan and the limits of the account"),
            ErrorKind::ContextExceeded => {
                failed.help("begin a new session, or let the conversation be summed up")
            }
            ErrorKind::BadRequest if status == 404 => {
                failed.help("check `base_url`: nothing is served there")
            }
            _ => failed,
        }
    }

    /// The message, else the names; sanitised and truncated.
    fn display_message(&self) -> String {
        let names = self.names.join(", ");
        let words = if self.message.trim().is_empty() { &names } else { &self.message };
        sanitize(words)
    }

    fn kind(&self, status: u16) -> ErrorKind {
        let named = |wanted: &[&str]| self.names.iter().any(|name| wanted.contains(&name.as_str()));
        let message = self.message.to_ascii_lowercase();
        let tells = |wanted: &[&str]| wanted.iter().any(|words| message.contains(words));
        if named(&[
            "enforced_spend_limit_reached",
            "billing_error",
            "insufficient_quota",
            "billing_hard_limit_reached",
        ]) {
            return ErrorKind::SpendLimit;
        }
        if named(&["context_length_exceeded", "request_too_large", "model_context_window_exceeded"])
            || (matches!(status, 400 | 413 | 422 | 500) && tells(CONTEXT_LENGTH_PHRASES))
        {
            return ErrorKind::ContextExceeded;
        }
        if named(&["overloaded_error", "server_is_overloaded", "slow_down"]) {
            return ErrorKind::Overloaded;
        }
        if named(&["rate_limit_error", "rate_limit_exceeded"]) {
            return ErrorKind::RateLimited;
        }
        if named(&["authentication_error", "permission_error", "invalid_api_key"]) {
            return ErrorKind::Unauthorized;
        }
        if named(&["model_not_found"]) || (status == 404 && message.contains("model")) {
            return ErrorKind::UnknownModel;
        }
        if named(&["not_found_error"]) && message.starts_with("model:") {
            return ErrorKind::UnknownModel;
        }
        match status {
            401 | 403 => ErrorKind::Unauthorized,
            402 => ErrorKind::SpendLimit,
            // Both are transient: a timeout or a lock conflict.
            408 | 409 => ErrorKind::ServerError,
            413 => ErrorKind::ContextExceeded,
            429 => ErrorKind::RateLimited,
            // The most general name: servers also use it for wrong keys.
            _ if named(&["invalid_request_error", "invalid_prompt"]) => ErrorKind::BadRequest,
            503 | 529 => ErrorKind::Overloaded,
            500.. => ErrorKind::ServerError,
            _ => ErrorKind::BadRequest,
        }
    }
}

/// How servers without a specific code say that a conversation is too long.
const CONTEXT_LENGTH_PHRASES: &[&str] = &[
    "prompt is too long",
    "maximum context length",
    "context length exceeded",
    "exceeds the context",
    "exceed context limit",
    "exceeds the available context size",
    "context window",
];

/// Sanitises a server's text for display.
pub(crate) fn sanitize(words: &str) -> String {
    cleaned_line(words, MAX_MESSAGE_CHARS)
}

/// Adds the retry headers. An exhausted account is never retried, whatever they say.
pub(crate) fn with_hints(mut failed: ProviderError, headers: &HeaderMap, now: Timestamp) -> ProviderError {
    let header = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    failed.should_retry = match header("x-should-retry") {
        _ if failed.kind == ErrorKind::SpendLimit => Some(false),
        Some("true") => Some(true),
        Some("false") => Some(false),
        _ => None,
    };
    let milliseconds = header("retry-after-ms").and_then(|text| seconds(text, 1e-3));
    failed.retry_after = milliseconds.or_else(|| {
        let text = header("retry-after")?;
        seconds(text, 1.0).or_else(|| until(text, now))
    });
    failed
}

fn seconds(text: &str, unit: f64) -> Option<Duration> {
    let seconds = text.parse::<f64>().ok()? * unit;
    Duration::try_from_secs_f64(seconds).ok().map(|wait| wait.min(MAX_RETRY_AFTER))
}

fn until(date: &str, now: Timestamp) -> Option<Duration> {
    let then = rfc2822::parse(date).ok()?.timestamp();
    let wait = Duration::try_from(then.duration_since(now)).unwrap_or_default();
    Some(wait.min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;

    #[test]
    fn words_of_a_server_hide_nothing() {
        assert_eq!(sanitize("a\u{202e}b\u{e0041}c\u{1b}[2Jd\u{fe0f}\n"), "abc [2Jd");
    }

    #[test]
    fn failures_are_told_apart() {
        let prompt = "prompt is too long: 208310 tokens > 200000 maximum";
        for (status, body, kind) in [
            (
                400,
                json!({"type": "error", "error": {"type": "invalid_request_error", "message": "max_tokens: Field required"}}),
                ErrorKind::BadRequest,
            ),
            (
                400,
                json!({"type": "error", "error": {"type": "invalid_request_error", "message": prompt}}),
                ErrorKind::ContextExceeded,
            ),
            (
                413,
                json!({"type": "error", "error": {"type": "request_too_large", "message": "x"}}),
                ErrorKind::ContextExceeded,
            ),
            (
                401,
                json!({"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}),
                ErrorKind::Unauthorized,
            ),
            (
                403,
                json!({"type": "error", "error": {"type": "permission_error", "message": "x"}}),
                ErrorKind::Unauthorized,
            ),
            (
                404,
                json!({"type": "error", "error": {"type": "not_found_error", "message": "model: claude-9"}}),
                ErrorKind::UnknownModel,
            ),
            (
                404,
                json!({"type": "error", "error": {"type": "not_found_error", "message": "Not found"}}),
                ErrorKind::BadRequest,
            ),
            (
                429,
                json!({"type": "error", "error": {"type": "rate_limit_error", "message": "x"}}),
                ErrorKind::RateLimited,
            ),
            (
                429,
                json!({"error": {"type": "rate_limit_error", "message": "x", "details": {"error_code": "enforced_spend_limit_reached"}}}),
                ErrorKind::SpendLimit,
            ),
            (402, json!({"error": {"type": "billing_error", "message": "x"}}), ErrorKind::SpendLimit),
            (
                429,
                json!({"error": {"type": "insufficient_quota", "code": "insufficient_quota", "message": "x"}}),
                ErrorKind::SpendLimit,
            ),
            (
                529,
                json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
                ErrorKind::Overloaded,
            ),
            (
                500,
                json!({"type": "error", "error": {"type": "api_error", "message": "x"}}),
                ErrorKind::ServerError,
            ),
            (
                400,
                json!({"error": {"code": "context_length_exceeded", "type": "invalid_request_error", "message": "x"}}),
                ErrorKind::ContextExceeded,
            ),
            (
                404,
                json!({"error": {"code": "model_not_found", "type": "invalid_request_error", "message": "x"}}),
                ErrorKind::UnknownModel,
            ),
            (404, json!({"error": "model 'llama9' not found"}), ErrorKind::UnknownModel),
            (
                400,
                json!({"object": "error", "message": "This model's maximum context length is 4096 tokens.", "code": 400}),
                ErrorKind::ContextExceeded,
            ),
            (422, json!({"detail": "x"}), ErrorKind::BadRequest),
            (
                401,
                json!({"error": {"code": "invalid_api_key", "type": "invalid_request_error", "message": "x"}}),
                ErrorKind::Unauthorized,
            ),
            (
                401,
                json!({"error": {"type": "invalid_request_error", "message": "x"}}),
                ErrorKind::Unauthorized,
            ),
            (
                429,
                json!({"error": {"type": "invalid_request_error", "message": "x"}}),
                ErrorKind::RateLimited,
            ),
            (500, json!({"error": {"type": "invalid_request_error", "message": "x"}}), ErrorKind::BadRequest),
            (502, json!(null), ErrorKind::ServerError),
            (503, json!("x"), ErrorKind::Overloaded),
            (409, json!({}), ErrorKind::ServerError),
            (418, json!([]), ErrorKind::BadRequest),
        ] {
            let failed = VendorError::read(&body).with_status(status, "models.example");
            assert_eq!(failed.kind, kind, "{status} {body}");
        }
    }

    #[test]
    fn words_of_a_server_are_cut_and_cleaned() {
        let body = json!({"error": {"message": format!("\u{1b}[2Ja\r\nb\u{202e}c{}", "x".repeat(10_000))}});
        let failed = VendorError::read(&body).with_status(400, "models.example");
        assert!(
            failed.message.starts_with("`models.example` answers with status 400: [2Ja  bcxxx"),
            "{}",
            failed.message
        );
        assert!(failed.message.ends_with("x…") && failed.message.chars().count() < 460);
    }

    #[test]
    fn hints_are_read_as_the_official_clients_read_them() {
        let now: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
        for (kind, headers, wait, should_retry) in [
            (ErrorKind::RateLimited, vec![], None, None),
            (ErrorKind::RateLimited, vec![("retry-after", "7")], Some(7_000), None),
            (ErrorKind::RateLimited, vec![("retry-after", "1.5")], Some(1_500), None),
            (ErrorKind::RateLimited, vec![("retry-after", "7"), ("retry-after-ms", "250")], Some(250), None),
            (
                ErrorKind::RateLimited,
                vec![("retry-after", "Sun, 15 Nov 2026 12:00:30 GMT")],
                Some(30_000),
                None,
            ),
            (ErrorKind::RateLimited, vec![("retry-after", "Sun, 15 Nov 2026 11:00:30 GMT")], Some(0), None),
            (ErrorKind::RateLimited, vec![("retry-after", "-1"), ("x-should-retry", "maybe")], None, None),
            (ErrorKind::RateLimited, vec![("retry-after", "NaN")], None, None),
            (ErrorKind::RateLimited, vec![("retry-after", "soon")], None, None),
            (ErrorKind::RateLimited, vec![("retry-after", "9e9")], Some(86_400_000), None),
            (ErrorKind::RateLimited, vec![("x-should-retry", "false")], None, Some(false)),
            (ErrorKind::BadRequest, vec![("x-should-retry", "true")], None, Some(true)),
            (
                ErrorKind::SpendLimit,
                vec![("x-should-retry", "true"), ("retry-after", "1")],
                Some(1_000),
                Some(false),
            ),
        ] {
            let named = headers
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            let failed = with_hints(ProviderError::new(kind, "x"), &named.collect(), now);
            assert_eq!(failed.retry_after, wait.map(Duration::from_millis), "{headers:?}");
            assert_eq!(failed.should_retry, should_retry, "{headers:?}");
        }
    }
}
