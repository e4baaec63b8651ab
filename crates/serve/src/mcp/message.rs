//! The codec: one JSON-RPC message, read once. Parameters and results stay raw JSON until the method says what they are.

use std::borrow::Cow;

use rmcp::model::{ErrorCode, ErrorData, RequestId};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use toolgate_text::json_complexity::measure;

use crate::json_limits::{MAX_VALUES, within_limits};
use crate::mcp::object_json::ObjectJson;

/// The version that every message names.
const JSONRPC: &str = "2.0";

/// A message of a client.
#[derive(Debug)]
pub(crate) enum IncomingMessage<'m> {
    Request {
        id: RequestId,
        method: Cow<'m, str>,
        params: Option<&'m RawValue>,
    },
    Notification {
        method: Cow<'m, str>,
        params: Option<&'m RawValue>,
    },
    /// The response to a request of the gate.
    Reply {
        id: RequestId,
        reply: Result<&'m RawValue, ErrorData>,
    },
}

/// Why bytes are no message.
#[derive(Debug)]
pub(crate) enum InvalidMessage {
    /// The error, and the id of the request if it has one.
    Refused(ErrorData, Option<RequestId>),
    /// It asked for no response: a malformed notification or response.
    Dropped,
}

/// A text that borrows from the message unless it has escapes. Serde borrows no `Cow` within an `Option`.
#[derive(Deserialize)]
struct MethodName<'m>(#[serde(borrow)] Cow<'m, str>);

/// The fields of any message. Unknown ones are ignored.
#[derive(Deserialize)]
struct Envelope<'m> {
    #[serde(borrow)]
    jsonrpc: Cow<'m, str>,
    id: Option<RequestId>,
    #[serde(borrow, default)]
    method: Option<MethodName<'m>>,
    #[serde(borrow, default)]
    params: Option<&'m RawValue>,
    /// Also `null` is a result.
    #[serde(borrow, default, deserialize_with = "raw")]
    result: Option<&'m RawValue>,
    #[serde(default)]
    error: Option<ErrorData>,
}

fn raw<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

impl<'m> Envelope<'m> {
    fn into_message(self) -> Option<IncomingMessage<'m>> {
        let Self { jsonrpc, id, method, params, result, error } = self;
        if jsonrpc != JSONRPC {
            return None;
        }
        match (method, id, result, error) {
            (Some(MethodName(method)), Some(id), None, None) => {
                Some(IncomingMessage::Request { id, method, params })
            }
            (Some(MethodName(method)), None, None, None) => {
                Some(IncomingMessage::Notification { method, params })
            }
            (None, Some(id), Some(result), None) => Some(IncomingMessage::Reply { id, reply: Ok(result) }),
            (None, Some(id), None, Some(error)) => Some(IncomingMessage::Reply { id, reply: Err(error) }),
            _ => None,
        }
    }
}

/// Reads a message. Everything but a notification or a response gets a response.
pub(crate) fn decode(text: &[u8]) -> Result<IncomingMessage<'_>, InvalidMessage> {
    // A text with fewer bytes than `MAX_VALUES` cannot contain too many values.
    if text.len() > MAX_VALUES && !within_limits(measure(text)) {
        let message = format!("a message may hold at most {MAX_VALUES} values");
        return Err(InvalidMessage::Refused(ErrorData::invalid_request(message, None), None));
    }
    let envelope: Option<Envelope<'_>> = ObjectJson::of(text).and_then(|object| object.parse());
    match envelope.and_then(Envelope::into_message) {
        // `"id": null` is none that a response could name.
        Some(IncomingMessage::Notification { .. }) if names_id(text) => Err(invalid(text)),
        Some(message) => Ok(message),
        None => Err(invalid(text)),
    }
}

/// Whether a notification has an id after all, which is `null`.
fn names_id(text: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Id<'m> {
        #[serde(borrow, default, deserialize_with = "raw")]
        id: Option<&'m RawValue>,
    }
    serde_json::from_slice::<Id<'_>>(text).is_ok_and(|named| named.id.is_some())
}

fn invalid(text: &[u8]) -> InvalidMessage {
    let Ok(value) = serde_json::from_slice::<Value>(text) else {
        return InvalidMessage::Refused(ErrorData::parse_error("this line is not JSON in UTF-8", None), None);
    };
    if value.is_array() {
        let error = ErrorData::invalid_request("batches are not served; send one message per line", None);
        return InvalidMessage::Refused(error, None);
    }
    let id = value.get("id").cloned().and_then(|id| serde_json::from_value::<RequestId>(id).ok());
    let is_notification = value.get("method").is_some() && value.get("id").is_none();
    // An invalid response is dropped: JSON-RPC has no response to a response.
    let is_reply = value.get("result").is_some() || value.get("error").is_some();
    if is_notification || is_reply {
        return InvalidMessage::Dropped;
    }
    InvalidMessage::Refused(ErrorData::invalid_request("this is not a JSON-RPC 2.0 message", None), id)
}

/// The error for a line above the size limit.
pub(crate) fn too_long(longest: usize) -> ErrorData {
    let message = format!("a message may have at most {longest} bytes");
    ErrorData::new(ErrorCode::INVALID_REQUEST, message, None)
}

/// The error for a request whose id is in use.
pub(crate) fn duplicate_id() -> ErrorData {
    ErrorData::invalid_request("another request with this id is not answered yet, or was given up", None)
}

/// A notification or a request of the gate.
#[derive(Debug, Serialize)]
pub(crate) struct ServerMessage {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<RequestId>,
    method: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<Value>,
}

impl ServerMessage {
    pub(crate) fn notification(method: &'static str, params: Option<Value>) -> Self {
        Self { jsonrpc: JSONRPC, id: None, method, params }
    }

    pub(crate) fn request(id: RequestId, method: &'static str, params: Value) -> Self {
        Self { jsonrpc: JSONRPC, id: Some(id), method, params: Some(params) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage};
    use serde_json::json;

    use super::*;

    /// What rmcp makes of the same bytes, as far as both name it.
    fn reference(text: &str) -> Option<(&'static str, Option<RequestId>)> {
        match serde_json::from_str::<ClientJsonRpcMessage>(text).ok()? {
            JsonRpcMessage::Request(request) => Some(("request", Some(request.id))),
            JsonRpcMessage::Notification(_) => Some(("notification", None)),
            JsonRpcMessage::Response(response) => Some(("reply", Some(response.id))),
            JsonRpcMessage::Error(error) => Some(("reply", error.id)),
        }
    }

    fn read(text: &str) -> Option<(&'static str, Option<RequestId>)> {
        match decode(text.as_bytes()).ok()? {
            IncomingMessage::Request { id, .. } => Some(("request", Some(id))),
            IncomingMessage::Notification { .. } => Some(("notification", None)),
            IncomingMessage::Reply { id, .. } => Some(("reply", Some(id))),
        }
    }

    #[test]
    fn messages_are_told_apart_by_their_fields() {
        let request = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#;
        let escaped = request.replace("tools/call", "tools\\/call");
        for (text, kind) in [
            (request, Some("request")),
            (&escaped, Some("request")),
            (r#"{"jsonrpc":"2.0","id":"x","method":"m"}"#, Some("request")),
            (r#"{"jsonrpc":"2.0","method":"m","params":null}"#, Some("notification")),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, Some("reply")),
            (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, Some("reply")),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}"#, Some("reply")),
            (r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#, None),
            (r#"{"id":1,"method":"m"}"#, None),
            (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, None),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#, None),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#, None),
            (r#"{"jsonrpc":"2.0","id":1,"method":"m","result":1}"#, None),
            (r#"{"jsonrpc":"2.0","id":1}"#, None),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"m"}]"#, None),
            (r#"["2.0",1,"tools/list"]"#, None),
            ("{", None),
        ] {
            assert_eq!(read(text).map(|(kind, _)| kind), kind, "{text}");
        }
        let many = request.replace("\"a\"", &format!("[1{}]", ",1".repeat(MAX_VALUES)));
        assert!(read(&many).is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn what_is_read_is_what_rmcp_reads(
            id in prop_oneof!["-?[0-9]{1,20}", "\"[a-z\\\\n\"]{0,4}\"", Just("1.0".to_owned()), Just("1e2".to_owned()), Just("null".to_owned())],
            method in "[\\PC]{0,6}",
            params in prop::sample::select(vec!["", ",\"params\":{\"a\":[1,{\"b\":\"\\ud83e\\udd80\"}]}", ",\"params\":{}"]),
            (before, after) in ("[ \t]{0,1}", "[ \t]{0,1}"),
        ) {
            let method = json!(format!("x{method}"));
            for text in [
                format!(r#"{{"jsonrpc":"2.0",{before}"id":{id},"method":{method}{params}{after}}}"#),
                format!(r#"{{"method":{after}{method},"id":{id}{params},"jsonrpc":"2.0"}}"#),
                format!(r#"{{"jsonrpc":"2.0","method":{method}{params}}}"#),
            ] {
                // `"id": null` is refused here with a response.
                if !text.contains("null") {
                    prop_assert_eq!(read(&text), reference(&text), "{}", text);
                }
            }
        }
    }
}
