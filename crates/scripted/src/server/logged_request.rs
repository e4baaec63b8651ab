//! A log of requests, for tests.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use axum::http::HeaderMap;
use serde_json::Value;

use crate::wires::Wire;

/// Headers with secrets.
const SECRET_HEADERS: [&str; 2] = ["authorization", "x-api-key"];

/// One request, without its key.
#[derive(Clone, Debug)]
pub struct LoggedRequest {
    /// The wire, if the path belongs to only one.
    pub wire: Option<Wire>,
    /// The path.
    pub path: String,
    /// The headers in order; the values of those with keys are redacted.
    pub headers: Vec<(String, String)>,
    /// The body; `null` if there was none or it is not JSON.
    pub body: Value,
    /// The status of the answer.
    pub status: u16,
}

impl LoggedRequest {
    pub(super) fn new(wire: Option<Wire>, path: &str, headers: &HeaderMap, body: Value, status: u16) -> Self {
        let shown = headers.iter().map(|(name, value)| {
            let is_secret = SECRET_HEADERS.contains(&name.as_str());
            let value = if is_secret {
                "…".to_owned()
            } else {
                String::from_utf8_lossy(value.as_bytes()).into_owned()
            };
            (name.to_string(), value)
        });
        Self { wire, path: path.to_owned(), headers: shown.collect(), body, status }
    }

    /// A header, by its name in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// The last requests.
#[derive(Debug)]
pub(super) struct RequestLog {
    capacity: usize,
    requests: Mutex<VecDeque<LoggedRequest>>,
}

impl RequestLog {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, requests: Mutex::new(VecDeque::new()) }
    }

    pub(super) fn add(&self, asked: LoggedRequest) {
        if self.capacity == 0 {
            return;
        }
        let mut all = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= self.capacity {
            all.pop_front();
        }
        all.push_back(asked);
    }

    pub(super) fn all(&self) -> Vec<LoggedRequest> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
