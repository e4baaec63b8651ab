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
pub(super) const SHORT: usize = 64 << 10;

/// The most values in one answer.
const MOST_VALUES: usize = 200_000;

/// What a long message is.
#[derive(Debug, PartialEq)]
pub(super) enum Long {
    /// An answer.
    Answer(RequestId),
    /// An answer that holds more than is read of one.
    Heavy(RequestId),
    /// Something that nobody asked for.
    Unasked,
    /// No message.
    Garbage,
}

/// As much of a message as says whom it is for.
#[derive(Deserialize)]
struct Envelope<'m> {
    #[serde(borrow)]
    id: Option<&'m RawValue>,
    method: Option<IgnoredAny>,
    #[serde(borrow)]
    result: Option<&'m RawValue>,
    #[serde(borrow)]
    error: Option<&'m RawValue>,
}

/// Looks at a long message.
pub(super) fn look(message: &[u8]) -> Long {
    let Ok(Envelope { id, method, result, error }) = serde_json::from_slice(message) else {
        return Long::Garbage;
    };
    let id = id.and_then(|id| serde_json::from_str(id.get()).ok());
    match (id, method, result.or(error)) {
        (Some(id), None, Some(content)) if measure(content.get().as_bytes()).values <= MOST_VALUES => {
            Long::Answer(id)
        }
        (Some(id), None, Some(_)) => Long::Heavy(id),
        _ => Long::Unasked,
    }
}

/// What is said in place of an answer that is too much.
pub(super) fn too_much(id: RequestId) -> ServerJsonRpcMessage {
    let reason = format!("the answer holds more than {MOST_VALUES} values, which is too much to be read");
    ServerJsonRpcMessage::error(ErrorData::new(ErrorCode::INTERNAL_ERROR, reason, None), Some(id))
}

#[cfg(test)]
mod tests {
    use rmcp::model::NumberOrString;
    use serde_json::{Value, json};

    use super::*;

    fn looked(message: &Value) -> Long {
        look(message.to_string().as_bytes())
    }

    #[test]
    fn only_answers_may_be_long_and_none_may_be_heavy() {
        let zeros = |count: usize| Value::from(vec![0; count]);
        let three = NumberOrString::Number(3);
        for (message, wanted) in [
            (json!({"id": 3, "result": {"text": "x".repeat(1 << 20)}}), Long::Answer(three.clone())),
            (
                json!({"id": 3, "result": {"text": ",[{:\"\\".repeat(MOST_VALUES)}}),
                Long::Answer(three.clone()),
            ),
            (json!({"id": 3, "result": zeros(MOST_VALUES - 10)}), Long::Answer(three.clone())),
            (json!({"id": 3, "result": zeros(MOST_VALUES)}), Long::Heavy(three.clone())),
            (json!({"id": 3, "error": {"data": zeros(MOST_VALUES)}}), Long::Heavy(three)),
            (json!({"id": "s", "result": {}}), Long::Answer(NumberOrString::String("s".into()))),
            (json!({"method": "notifications/progress", "params": zeros(10)}), Long::Unasked),
            (json!({"id": 3, "method": "ping", "result": {}}), Long::Unasked),
            (json!({"id": null, "error": {}}), Long::Unasked),
            (json!({"id": {}, "result": {}}), Long::Unasked),
            (json!({"result": {}}), Long::Unasked),
            (json!([]), Long::Garbage),
        ] {
            assert_eq!(
                looked(&message),
                wanted,
                "{}",
                message.to_string().chars().take(60).collect::<String>()
            );
        }
        assert_eq!(look(b"{\"id\": 3, \"result\": [0,"), Long::Garbage);
    }
}
