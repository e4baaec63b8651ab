//! The one error of a request above a limit.

use rmcp::model::{ErrorCode as JsonRpcCode, ErrorData};
use serde_json::json;
use toolgate_types::{ErrorCode, Failure};

/// A fixed retry hint: when a call will end is not known, and clients must not retry in a busy loop.
const RETRY_AFTER_MS: u64 = 1000;

/// A request above a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overload {
    /// Too many unanswered requests on this connection.
    Connection,
    /// Too many calls of this caller, running or queued.
    Caller { max: usize },
    /// Too many long responses are not read yet. The call was made; only its response is not sent.
    ResponseBytes,
}

impl Overload {
    /// As the gate records it.
    pub(crate) fn failure(self) -> Failure {
        let (message, help) = match self {
            Self::Connection => {
                ("too many requests are not answered yet".to_owned(), "wait until some of them have ended")
            }
            Self::Caller { max } => {
                (format!("{max} calls of this caller are under way"), "wait until some of them have ended")
            }
            Self::ResponseBytes => (
                "too many long answers have not been read yet, so this one is not sent".to_owned(),
                "read those, or try again later. What was called was done",
            ),
        };
        Failure::new(ErrorCode::RateLimited, message).help(help).detail("retry_after_ms", RETRY_AFTER_MS)
    }

    /// As a client gets it: with the code and the retry hint in `data`.
    pub(crate) fn to_error_data(self) -> ErrorData {
        let code = match self {
            Self::Connection | Self::Caller { .. } => JsonRpcCode::INVALID_REQUEST,
            // The request was as it should be, and was carried out.
            Self::ResponseBytes => JsonRpcCode::INTERNAL_ERROR,
        };
        let data = json!({"code": ErrorCode::RateLimited.as_str(), "retry_after_ms": RETRY_AFTER_MS});
        ErrorData::new(code, self.failure().to_string(), Some(data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_overload_has_the_same_shape() {
        for (overload, code, words) in [
            (Overload::Connection, -32600, "too many requests are not answered yet"),
            (Overload::Caller { max: 256 }, -32600, "256 calls of this caller are under way"),
            (Overload::ResponseBytes, -32603, "What was called was done"),
        ] {
            let error = overload.to_error_data();
            assert_eq!(error.code.0, code);
            assert!(error.message.contains(words), "{}", error.message);
            assert_eq!(error.data, Some(json!({"code": "rate_limited", "retry_after_ms": 1000})));
            assert_eq!(overload.failure().code, ErrorCode::RateLimited);
        }
    }
}
