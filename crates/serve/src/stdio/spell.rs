//! The answer to a call as JSON: what serde would write, and faster, because most of an answer is text that needs no second look.

use rmcp::model::{CallToolResult, ContentBlock, RequestId};
use serde::Serialize;
use serde_json::Value;

use crate::stdio::escape::escape;

/// Text is put into words in pieces of this size, so that the first can leave while the next is made.
const PIECE: usize = 64 * 1024;

/// Where words are written down.
pub(super) trait Paper {
    /// What was written and has not left.
    fn bytes(&mut self) -> &mut Vec<u8>;

    /// What was written so far may leave.
    fn turn(&mut self) {}
}

impl Paper for Vec<u8> {
    fn bytes(&mut self) -> &mut Vec<u8> {
        self
    }
}

/// Writes the answer to a request, without a line end.
pub(super) fn answer(paper: &mut impl Paper, id: &RequestId, result: &CallToolResult) {
    raw(paper, "{\"jsonrpc\":\"2.0\",\"id\":");
    other(paper, id);
    raw(paper, ",\"result\":{");
    if let Some(kind) = &result.result_type {
        raw(paper, "\"resultType\":");
        other(paper, kind);
        raw(paper, ",");
    }
    raw(paper, "\"content\":[");
    for (number, block) in result.content.iter().enumerate() {
        raw(paper, if number == 0 { "" } else { "," });
        content(paper, block);
    }
    raw(paper, "]");
    if let Some(structured) = &result.structured_content {
        raw(paper, ",\"structuredContent\":");
        value(paper, structured);
    }
    if let Some(is_error) = result.is_error {
        raw(paper, if is_error { ",\"isError\":true" } else { ",\"isError\":false" });
    }
    if let Some(meta) = &result.meta {
        raw(paper, ",\"_meta\":");
        other(paper, meta);
    }
    raw(paper, "}}");
}

fn content(paper: &mut impl Paper, block: &ContentBlock) {
    match block {
        ContentBlock::Text(content) if content.meta.is_none() && content.annotations.is_none() => {
            raw(paper, "{\"type\":\"text\",\"text\":");
            text(paper, &content.text);
            raw(paper, "}");
        }
        block => other(paper, block),
    }
}

fn value(paper: &mut impl Paper, whole: &Value) {
    match whole {
        Value::String(string) => text(paper, string),
        Value::Array(items) => {
            raw(paper, "[");
            for (number, item) in items.iter().enumerate() {
                raw(paper, if number == 0 { "" } else { "," });
                value(paper, item);
            }
            raw(paper, "]");
        }
        Value::Object(fields) => {
            raw(paper, "{");
            for (number, (name, field)) in fields.iter().enumerate() {
                raw(paper, if number == 0 { "" } else { "," });
                text(paper, name);
                raw(paper, ":");
                value(paper, field);
            }
            raw(paper, "}");
        }
        Value::Null => raw(paper, "null"),
        Value::Bool(is_true) => raw(paper, if *is_true { "true" } else { "false" }),
        Value::Number(_) => other(paper, whole),
    }
}

fn text(paper: &mut impl Paper, text: &str) {
    raw(paper, "\"");
    for piece in text.as_bytes().chunks(PIECE) {
        escape(piece, paper.bytes());
        paper.turn();
    }
    raw(paper, "\"");
}

fn raw(paper: &mut impl Paper, words: &str) {
    paper.bytes().extend_from_slice(words.as_bytes());
}

/// What is not worth another way.
fn other(paper: &mut impl Paper, part: &impl Serialize) {
    // It cannot fail: the parts are ours and can be spelt, and there is always more paper.
    let _ = serde_json::to_writer(paper.bytes(), part);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rmcp::model::{MetaObject, ResultType, ServerJsonRpcMessage, ServerResult};
    use serde_json::json;

    use super::*;

    fn blocks() -> impl Strategy<Value = ContentBlock> {
        let text = "([\\PC\n\t\"\\\\\u{0}-\u{1f}]){0,40}";
        prop_oneof![
            text.prop_map(ContentBlock::text),
            text.prop_map(|text| {
                let annotated = json!({"type": "text", "text": text, "annotations": {"priority": 0.5}, "_meta": {"a": 1}});
                serde_json::from_value(annotated).unwrap()
            }),
            Just(ContentBlock::image("aGk=", "image/png")),
            Just(
                serde_json::from_value(json!({"type": "resource_link", "uri": "a://b", "name": "\"n\"", "size": 3}))
                    .unwrap()
            ),
        ]
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[\\PC\n\"\\\\]{0,20}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[\\PC\n\"]{0,5}", inner, 0..4).prop_map(|map| json!(map)),
            ]
        })
    }

    fn ids() -> impl Strategy<Value = RequestId> {
        prop_oneof![
            any::<i64>().prop_map(RequestId::Number),
            "[\\PC\n\"]{0,9}".prop_map(|text| RequestId::String(text.into()))
        ]
    }

    proptest! {
        #[test]
        fn an_answer_is_spelt_as_serde_spells_it(
            id in ids(),
            blocks in prop::collection::vec(blocks(), 0..4),
            structured in prop::option::of(values()),
            is_error in prop::option::of(any::<bool>()),
            (is_typed, has_meta) in any::<(bool, bool)>(),
        ) {
            let mut result = CallToolResult::success(blocks);
            result.structured_content = structured;
            result.is_error = is_error;
            result.result_type = is_typed.then_some(ResultType::COMPLETE);
            let meta: MetaObject = serde_json::from_value(json!({"k": ["v"]})).unwrap();
            result.meta = has_meta.then_some(meta);
            let mut spelt = Vec::new();
            answer(&mut spelt, &id, &result);
            let message = ServerJsonRpcMessage::response(ServerResult::CallToolResult(result), id);
            prop_assert_eq!(String::from_utf8(spelt).unwrap(), serde_json::to_string(&message).unwrap());
        }
    }
}
