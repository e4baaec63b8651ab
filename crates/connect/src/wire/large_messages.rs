//! Checks large messages before they are parsed.
//!
//! A message of a few megabytes can become a gigabyte when parsed, and a server may send any. So of a large one only the envelope is parsed at first,
//! and its values are counted. Only a response may be large, and only up to a number of values.

use rmcp::model::{ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use toolgate_text::json_complexity::measure;

/// Larger messages are checked first; also the maximum size of an unsolicited message.
pub(super) const MAX_UNCHECKED_BYTES: usize = 64 << 10;

/// Maximum number of values in one response.
const MAX_VALUES: usize = 200_000;

/// The kind of a large message.
#[derive(Debug, PartialEq)]
pub(super) enum LargeMessage {
    /// A response.
    Response(RequestId),
    /// A response with too many values.
    TooComplex(RequestId),
    /// Unsolicited.
    Unsolicited,
    /// Not a message.
    Invalid,
}

/// The envelope of a message.
#[derive(Deserialize)]
struct JsonRpcEnvelope<'m> {
    #[serde(borrow)]
    id: Option<&'m RawValue>,
    method: Option<IgnoredAny>,
    #[serde(borrow)]
    result: Option<&'m RawValue>,
    #[serde(borrow)]
    error: Option<&'m RawValue>,
}

/// Classifies a large message.
pub(super) fn classify(message: &[u8]) -> LargeMessage {
    let Ok(JsonRpcEnvelope { id, method, result, error }) = serde_json::from_slice(message) else {
        return LargeMessage::Invalid;
    };
    let id = id.and_then(|id| serde_json::from_str(id.get()).ok());
    match (id, method, result.or(error)) {
        (Some(id), None, Some(content)) if measure(content.get().as_bytes()).values <= MAX_VALUES => {
            LargeMessage::Response(id)
        }
        (Some(id), None, Some(_)) => LargeMessage::TooComplex(id),
        _ => LargeMessage::Unsolicited,
    }
}

/// Replaces a response that is too complex.
pub(super) fn too_complex_error(id: RequestId) -> ServerJsonRpcMessage {
    let reason = format!("the answer holds more than {MAX_VALUES} values, which is too much to be read");
    ServerJsonRpcMessage::error(ErrorData::new(ErrorCode::INTERNAL_ERROR, reason, None), Some(id))
}

#[cfg(test)]
mod tests {
    use rmcp::model::NumberOrString;
    use serde_json::{Value, json};

    use super::*;

    fn looked(message: &Value) -> LargeMessage {
        classify(message.to_string().as_bytes())
    }

    #[test]
    fn only_answers_may_be_long_and_none_may_be_heavy() {
        let zeros = |count: usize| Value::from(vec![0; count]);
        let three = NumberOrString::Number(3);
        for (message, wanted) in [
            (
                json!({"id": 3, "result": {"text": "x".repeat(1 << 20)}}),
                LargeMessage::Response(three.clone()),
            ),
            (
                json!({"id": 3, "result": {"text": ",[{:\"\\".repeat(MAX_VALUES)}}),
                LargeMessage::Response(three.clone()),
            ),
            (json!({"id": 3, "result": zeros(MAX_VALUES - 10)}), LargeMessage::Response(three.clone())),
            (json!({"id": 3, "result": zeros(MAX_VALUES)}), LargeMessage::TooComplex(three.clone())),
            (json!({"id": 3, "error": {"data": zeros(MAX_VALUES)}}), LargeMessage::TooComplex(three)),
            (json!({"id": "s", "result": {}}), LargeMessage::Response(NumberOrString::String("s".into()))),
            (json!({"method": "notifications/progress", "params": zeros(10)}), LargeMessage::Unsolicited),
            (json!({"id": 3, "method": "ping", "result": {}}), LargeMessage::Unsolicited),
            (json!({"id": null, "error": {}}), LargeMessage::Unsolicited),
            (json!({"id": {}, "result": {}}), LargeMessage::Unsolicited),
            (json!({"result": {}}), LargeMessage::Unsolicited),
            (json!([]), LargeMessage::Invalid),
        ] {
            assert_eq!(
                looked(&message),
                wanted,
                "{}",
                message.to_string().chars().take(60).collect::<String>()
            );
        }
        assert_eq!(classify(b"{\"id\": 3, \"result\": [0,"), LargeMessage::Invalid);
    }
}
