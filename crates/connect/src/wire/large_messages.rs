//! Messages that are long, looked at before anything is made of them.
//!
//! A message of a few megabytes can become a gigabyte once it is read, and a server may send any. So of a long one no more is read at first than whom it
//! is for, and what it holds is counted. Only the answer to a question may be long, and it may not hold more than can be borne.

use rmcp::model::{ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use toolgate_text::json_complexity::measure;

/// The longest message that is read without being looked at first, and the longest that a server may send unasked.
pub(super) const MAX_UNCHECKED_BYTES: usize = 64 << 10;

/// The most values in one answer.
const MAX_VALUES: usize = 200_000;

/// What a long message is.
#[derive(Debug, PartialEq)]
pub(super) enum LargeMessage {
    /// An answer.
    Response(RequestId),
    /// An answer that holds more than is read of one.
    TooComplex(RequestId),
    /// Something that nobody asked for.
    Unsolicited,
    /// No message.
    Invalid,
}

/// As much of a message as says whom it is for.
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

/// Looks at a long message.
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

/// What is said in place of an answer that is too much.
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
