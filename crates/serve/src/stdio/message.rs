//! One line, taken for what it is: a message, or something to be refused.

use rmcp::model::{ClientJsonRpcMessage, ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage};
use serde_json::Value;
use toolgate_text::json_complexity::measure;

use crate::json_limits::{MAX_VALUES, within_limits};

/// What a line turned out to be.
#[derive(Debug)]
pub(crate) enum Decoded {
    /// A message for the service.
    Message(Box<ClientJsonRpcMessage>),
    /// Nothing that can be served; this is the answer.
    Refused(Box<ServerJsonRpcMessage>),
    /// Nothing that can be served or answered: it asked for no answer.
    Dropped,
}

impl Decoded {
    /// The answer to what cannot be served.
    pub(crate) fn refused(self) -> Option<ServerJsonRpcMessage> {
        match self {
            Self::Refused(answer) => Some(*answer),
            Self::Message(_) | Self::Dropped => None,
        }
    }
}

/// Takes a line apart. Whatever it holds, there is an answer to it, unless it is a notification.
pub(crate) fn decode(line: &[u8]) -> Decoded {
    // Fewer bytes cannot hold too many values.
    if line.len() > MAX_VALUES && !within_limits(measure(line)) {
        let message = format!("a message may hold at most {MAX_VALUES} values");
        return Decoded::Refused(Box::new(refused(ErrorData::invalid_request(message, None), None)));
    }
    match serde_json::from_slice(line) {
        Ok(message) => Decoded::Message(Box::new(message)),
        Err(_) => refusal_of(line),
    }
}

/// The answer to a line that is too long to be kept.
pub(crate) fn too_long(longest: usize) -> ServerJsonRpcMessage {
    let message = format!("a message may have at most {longest} bytes");
    refused(ErrorData::new(ErrorCode::INVALID_REQUEST, message, None), None)
}

/// The answer to a request whose id stands for another one.
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
    // An answer that nobody can read answers nothing, and an answer to it would be one to nobody.
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
