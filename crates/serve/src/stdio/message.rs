//! Decodes one line into a message or a JSON-RPC error.

use rmcp::model::{ClientJsonRpcMessage, ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage};
use serde_json::Value;
use toolgate_text::json_complexity::measure;

use crate::json_limits::{MAX_VALUES, within_limits};

/// A decoded line.
#[derive(Debug)]
pub(crate) enum Decoded {
    /// A message for rmcp.
    Message(Box<ClientJsonRpcMessage>),
    /// An invalid message; this is the error response.
    Refused(Box<ServerJsonRpcMessage>),
    /// An invalid message that gets no response, because it asked for none.
    Dropped,
}

impl Decoded {
    /// The error response, if the line was rejected.
    pub(crate) fn refused(self) -> Option<ServerJsonRpcMessage> {
        match self {
            Self::Refused(answer) => Some(*answer),
            Self::Message(_) | Self::Dropped => None,
        }
    }
}

/// Decodes a line. Every line but a notification or a response gets a response.
pub(crate) fn decode(line: &[u8]) -> Decoded {
    // A line with fewer bytes than `MAX_VALUES` cannot contain too many values.
    if line.len() > MAX_VALUES && !within_limits(measure(line)) {
        let message = format!("a message may hold at most {MAX_VALUES} values");
        return Decoded::Refused(Box::new(refused(ErrorData::invalid_request(message, None), None)));
    }
    match serde_json::from_slice(line) {
        Ok(message) => Decoded::Message(Box::new(message)),
        Err(_) => refusal_of(line),
    }
}

/// The error response for a line above the size limit.
pub(crate) fn too_long(longest: usize) -> ServerJsonRpcMessage {
    let message = format!("a message may have at most {longest} bytes");
    refused(ErrorData::new(ErrorCode::INVALID_REQUEST, message, None), None)
}

/// The error for a request whose id is in use.
pub(crate) fn duplicate_id() -> ErrorData {
    ErrorData::invalid_request("another request with this id is not answered yet, or was given up", None)
}

fn refusal_of(line: &[u8]) -> Decoded {
    let Ok(value) = serde_json::from_slice::<Value>(line) else {
        let error = ErrorData::parse_error("this line is not JSON in UTF-8", None);
        return Decoded::Refused(Box::new(refused(error, None)));
    };
    if value.is_array() {
        let error = ErrorData::invalid_request("batches are not served; send one message per line", None);
        return Decoded::Refused(Box::new(refused(error, None)));
    }
    let id = value.get("id").cloned().and_then(|id| serde_json::from_value::<RequestId>(id).ok());
    let is_notification = value.get("method").is_some() && value.get("id").is_none();
    // An invalid response is dropped: JSON-RPC has no response to a response.
    let is_answer = value.get("result").is_some() || value.get("error").is_some();
    if is_notification || is_answer {
        return Decoded::Dropped;
    }
    Decoded::Refused(Box::new(refused(
        ErrorData::invalid_request("this is not a JSON-RPC 2.0 message", None),
        id,
    )))
}

pub(crate) fn refused(error: ErrorData, id: Option<RequestId>) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::error(error, id)
}
