//! A fast path: serialises the response to a call. Writes the same JSON as serde, but faster: a text that is repeated in the structured
//! content is escaped only once, raw JSON is copied, and the first part of a long text is written while the next is escaped.
//!
//! - **Plain way**: serde (`write_plainly`).
//! - **Gain**: a text of 1 KiB, also in the structured content, in 0.18 µs where serde takes 1.4 µs; of 256 KiB in 60 µs where it takes 200 µs.
//! - **Switch**: `--cfg toolgate_plain` takes the plain way.
//! - **Compared** with the plain way and with rmcp's own types by `a_response_is_the_json_that_serde_writes`.

use std::ops::Range;

use rmcp::model::{ContentBlock, RequestId};
use serde::Serialize;
use serde_json::Value;
use toolgate_types::Structured;
use toolgate_types::json_escape::escape_json;

use crate::mcp::{ERROR_META_KEY, ResponseOutcome, StructuredContent, ToolResponse};

/// Text is escaped in chunks of this size, so that the first can be written while the next is escaped.
const CHUNK_BYTES: usize = 64 * 1024;

/// A buffer that may be flushed while a message is serialised.
pub(crate) trait ChunkedSink {
    /// The bytes that are not written yet.
    fn bytes(&mut self) -> &mut Vec<u8>;

    /// Called where the bytes so far may be flushed.
    fn maybe_flush(&mut self) {}
}

impl ChunkedSink for Vec<u8> {
    fn bytes(&mut self) -> &mut Vec<u8> {
        self
    }
}

/// Writes the response to a request, without a line end.
pub(crate) fn write_response(
    sink: &mut impl ChunkedSink,
    id: &RequestId,
    is_stateless: bool,
    answer: &ToolResponse,
) {
    #[cfg(toolgate_plain)]
    return write_plainly(sink.bytes(), id, is_stateless, answer);
    #[cfg(not(toolgate_plain))]
    write_in_parts(sink, id, is_stateless, answer);
}

/// All of it in one piece, by serde.
#[cfg(any(test, toolgate_plain))]
fn write_plainly(json: &mut Vec<u8>, id: &RequestId, is_stateless: bool, answer: &ToolResponse) {
    use serde_json::json;
    let mut result = serde_json::Map::new();
    if is_stateless {
        result.insert("resultType".to_owned(), json!("complete"));
    }
    let content = answer.more.iter().map(|block| serde_json::to_value(block).unwrap_or_default());
    let text = json!({"type": "text", "text": answer.text});
    result.insert("content".to_owned(), std::iter::once(text).chain(content).collect());
    let (structured, error) = match &answer.outcome {
        ResponseOutcome::Done(structured) => (structured.as_ref(), None),
        ResponseOutcome::Failed(error) => (None, error.as_ref()),
    };
    let structured = structured.map(|content| match content {
        StructuredContent::Whole(Structured::Value(whole)) => whole.clone(),
        StructuredContent::Whole(Structured::Raw(whole)) => whole.parse(),
        StructuredContent::WithText { rest, name } => {
            let mut whole = rest.parse();
            if let Some(fields) = whole.as_object_mut() {
                fields.insert((*name).to_owned(), json!(answer.text));
            }
            whole
        }
    });
    result.extend(structured.map(|structured| ("structuredContent".to_owned(), structured)));
    result.insert("isError".to_owned(), json!(matches!(answer.outcome, ResponseOutcome::Failed(_))));
    result.extend(error.map(|error| ("_meta".to_owned(), json!({ERROR_META_KEY: error}))));
    other(json, &json!({"jsonrpc": "2.0", "id": id, "result": result}));
}

#[cfg_attr(toolgate_plain, allow(dead_code, reason = "the plain way is taken"))]
fn write_in_parts(sink: &mut impl ChunkedSink, id: &RequestId, is_stateless: bool, answer: &ToolResponse) {
    match &answer.outcome {
        // No flush before the text is copied from the buffer again.
        ResponseOutcome::Done(Some(StructuredContent::WithText { .. })) => {
            write_result(sink.bytes(), id, is_stateless, answer)
        }
        _ => write_result(sink, id, is_stateless, answer),
    }
}

fn write_result(sink: &mut impl ChunkedSink, id: &RequestId, is_stateless: bool, answer: &ToolResponse) {
    raw(sink, "{\"jsonrpc\":\"2.0\",\"id\":");
    other(sink, id);
    raw(sink, ",\"result\":{");
    if is_stateless {
        raw(sink, "\"resultType\":\"complete\",");
    }
    raw(sink, "\"content\":[{\"type\":\"text\",\"text\":");
    let begin = sink.bytes().len();
    text(sink, &answer.text);
    let repeated = begin..sink.bytes().len();
    raw(sink, "}");
    for block in &answer.more {
        raw(sink, ",");
        content(sink, block);
    }
    raw(sink, "]");
    let error = match &answer.outcome {
        ResponseOutcome::Done(content) => {
            if let Some(content) = content {
                raw(sink, ",\"structuredContent\":");
                structured(sink, content, repeated);
            }
            raw(sink, ",\"isError\":false");
            None
        }
        ResponseOutcome::Failed(error) => {
            raw(sink, ",\"isError\":true");
            error.as_ref()
        }
    };
    if let Some(error) = error {
        raw(sink, ",\"_meta\":{");
        text(sink, ERROR_META_KEY);
        raw(sink, ":");
        value(sink, error);
        raw(sink, "}");
    }
    raw(sink, "}}");
}

fn content(sink: &mut impl ChunkedSink, block: &ContentBlock) {
    match block {
        ContentBlock::Text(content) if content.meta.is_none() && content.annotations.is_none() => {
            raw(sink, "{\"type\":\"text\",\"text\":");
            text(sink, &content.text);
            raw(sink, "}");
        }
        block => other(sink, block),
    }
}

fn value(sink: &mut impl ChunkedSink, whole: &Value) {
    match whole {
        Value::String(string) => text(sink, string),
        Value::Array(items) => {
            raw(sink, "[");
            for (number, item) in items.iter().enumerate() {
                raw(sink, if number == 0 { "" } else { "," });
                value(sink, item);
            }
            raw(sink, "]");
        }
        Value::Object(fields) => {
            raw(sink, "{");
            for (number, (name, field)) in fields.iter().enumerate() {
                raw(sink, if number == 0 { "" } else { "," });
                text(sink, name);
                raw(sink, ":");
                value(sink, field);
            }
            raw(sink, "}");
        }
        Value::Null => raw(sink, "null"),
        Value::Bool(is_true) => raw(sink, if *is_true { "true" } else { "false" }),
        Value::Number(_) => other(sink, whole),
    }
}

/// The structured content. `text` is the range of the escaped text in the buffer, to copy it from there.
fn structured(sink: &mut impl ChunkedSink, content: &StructuredContent, text: Range<usize>) {
    match content {
        StructuredContent::Whole(Structured::Value(whole)) => value(sink, whole),
        StructuredContent::Whole(Structured::Raw(whole)) => raw(sink, whole.as_str()),
        StructuredContent::WithText { rest, name } => {
            raw(sink, "{");
            raw(sink, rest.fields());
            raw(sink, if rest.fields().is_empty() { "\"" } else { ",\"" });
            raw(sink, name);
            raw(sink, "\":");
            sink.bytes().extend_from_within(text);
            raw(sink, "}");
        }
    }
}

fn text(sink: &mut impl ChunkedSink, text: &str) {
    raw(sink, "\"");
    for piece in text.as_bytes().chunks(CHUNK_BYTES) {
        escape_json(piece, sink.bytes());
        sink.maybe_flush();
    }
    raw(sink, "\"");
}

fn raw(sink: &mut impl ChunkedSink, json: &str) {
    sink.bytes().extend_from_slice(json.as_bytes());
}

/// Serialises a small part with serde.
fn other(sink: &mut impl ChunkedSink, part: &impl Serialize) {
    // Cannot fail: the types serialise without error, and a `Vec` grows.
    let _ = serde_json::to_writer(sink.bytes(), part);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rmcp::model::{CallToolResult, ResultType, ServerJsonRpcMessage, ServerResult};
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

    fn structured_contents() -> impl Strategy<Value = Option<StructuredContent>> {
        let fields =
            || prop::collection::btree_map("[a-z]{1,5}", values(), 0..4).prop_map(|fields| json!(fields));
        prop_oneof![
            Just(()).prop_map(|()| None),
            values().prop_map(|whole| Some(StructuredContent::Whole(whole.into()))),
            fields().prop_map(|whole| {
                Some(StructuredContent::Whole(Structured::Raw(Structured::from(whole).into_raw().unwrap())))
            }),
            fields().prop_map(|rest| {
                let rest = Structured::from(rest).into_raw().unwrap();
                Some(StructuredContent::WithText { rest, name: "Text" })
            }),
        ]
    }

    fn outcomes() -> impl Strategy<Value = ResponseOutcome> {
        let failed = prop::option::of(values()).prop_map(ResponseOutcome::Failed);
        prop_oneof![4 => structured_contents().prop_map(ResponseOutcome::Done), 1 => failed]
    }

    /// A sink that is flushed whenever it may be.
    #[derive(Default)]
    struct FlushingSink {
        bytes: Vec<u8>,
        flushed: Vec<u8>,
    }

    impl ChunkedSink for FlushingSink {
        fn bytes(&mut self) -> &mut Vec<u8> {
            &mut self.bytes
        }

        fn maybe_flush(&mut self) {
            self.flushed.append(&mut self.bytes);
        }
    }

    #[test]
    fn long_texts_are_flushed_in_chunks_and_the_json_is_the_same() {
        let long = "\"long\"\n".repeat(CHUNK_BYTES);
        let fields = || Structured::from(json!({"a": 1, "b": long})).into_raw().unwrap();
        for structured in [
            None,
            Some(StructuredContent::Whole(json!({"a": [long, long], "b": "short"}).into())),
            Some(StructuredContent::Whole(Structured::Raw(fields()))),
            Some(StructuredContent::WithText { rest: fields(), name: "text" }),
        ] {
            let more = vec![ContentBlock::text(long.clone()), ContentBlock::text("short")];
            let response =
                ToolResponse { text: long.clone(), more, outcome: ResponseOutcome::Done(structured) };
            let mut sink = FlushingSink::default();
            write_in_parts(&mut sink, &RequestId::Number(7), false, &response);
            sink.maybe_flush();
            let mut result = CallToolResult::from(response);
            result.result_type = None;
            let message =
                ServerJsonRpcMessage::response(ServerResult::CallToolResult(result), RequestId::Number(7));
            assert!(String::from_utf8(sink.flushed).unwrap() == serde_json::to_string(&message).unwrap());
        }
    }

    proptest! {
        #[test]
        fn a_response_is_the_json_that_serde_writes(
            id in ids(),
            text in "([\\PC\n\t\"\\\\\u{0}-\u{1f}]){0,200}",
            more in prop::collection::vec(blocks(), 0..4),
            outcome in outcomes(),
            is_stateless in any::<bool>(),
            before in 0..3usize,
        ) {
            let response = ToolResponse { text, more, outcome };
            let mut written = b"xy".get(..before).unwrap().to_vec();
            write_in_parts(&mut written, &id, is_stateless, &response);
            let mut plainly = Vec::new();
            write_plainly(&mut plainly, &id, is_stateless, &response);
            prop_assert_eq!(&written[before..], plainly);
            let mut result = CallToolResult::from(response);
            result.result_type = is_stateless.then_some(ResultType::COMPLETE);
            let message = ServerJsonRpcMessage::response(ServerResult::CallToolResult(result), id);
            let written = String::from_utf8(written.split_off(before)).unwrap();
            prop_assert_eq!(written, serde_json::to_string(&message).unwrap());
        }
    }
}
