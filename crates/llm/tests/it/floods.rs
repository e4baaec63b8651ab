//! Streams within the byte limit whose parsed form would exceed memory.

use serde_json::{Value, json};
use toolgate_llm::{ErrorKind, FinishReason, Wire};

use crate::stream::{Decoded, decode};

/// More values than the limit, in fewer bytes than the limit.
const MANY: usize = 300_000;

fn many(value: &str) -> String {
    format!("[{}{value}]", format!("{value},").repeat(MANY))
}

/// A stream of these frames on any wire.
fn stream(wire: Wire, frames: &[String]) -> Decoded {
    let framed = |frame: &String| match wire {
        Wire::Ollama => format!("{frame}\n"),
        _ => format!("data: {frame}\n\n"),
    };
    let bytes: String = frames.iter().map(framed).collect();
    decode(wire, [bytes.as_bytes()])
}

fn kind(wire: Wire, frames: &[String]) -> Option<ErrorKind> {
    stream(wire, frames).failed.map(|failed| failed.kind)
}

/// A chunk of Chat Completions with this delta.
fn chat(delta: &Value) -> String {
    json!({"choices": [{"index": 0, "delta": delta}]}).to_string()
}

fn chat_call(id: &str, name: &str) -> String {
    chat(&json!({"tool_calls": [{"index": 0, "id": id, "function": {"name": name, "arguments": "{}"}}]}))
}

fn chat_end(reason: &str) -> String {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}).to_string()
}

#[test]
fn frames_of_too_many_values_are_not_read() {
    let usage = |list: &str| format!(r#"{{"choices":[],"usage":{list}}}"#);
    let item = |field: &str| {
        let list = many("[]");
        format!(
            r#"{{"type":"response.output_item.added","output_index":0,"item":{{"type":"reasoning","{field}":{list}}}}}"#
        )
    };
    let block = |list: &str| {
        format!(
            r#"{{"type":"content_block_start","index":0,"content_block":{{"type":"tool_use","id":"a","name":"t","input":{{"a":{list}}}}}}}"#
        )
    };
    let started = r#"{"type":"message_start","message":{}}"#.to_owned();
    for (wire, frames) in [
        (Wire::OpenaiChat, vec![format!(r#"{{"choices":{}}}"#, many("{}"))]),
        (Wire::OpenaiChat, vec![usage(&many("1"))]),
        (Wire::OpenaiChat, vec![format!(r#"{{"error":{}}}"#, many("1"))]),
        (Wire::OpenaiChat, vec![format!(r#"{{"choices":[{{"delta":{{"tool_calls":{}}}}}]}}"#, many("{}"))]),
        (
            Wire::OpenaiChat,
            vec![format!(r#"{{"choices":[{{"delta":{{"reasoning_details":{}}}}}]}}"#, many("{}"))],
        ),
        (Wire::Openai, vec![item("summary")]),
        (Wire::Openai, vec![item("content")]),
        (Wire::Openai, vec![format!(r#"{{"type":"error","error":{}}}"#, many("1"))]),
        (Wire::Anthropic, vec![started, block(&many("1"))]),
        (Wire::Anthropic, vec![format!(r#"{{"type":"error","error":{}}}"#, many("1"))]),
        (Wire::Ollama, vec![format!(r#"{{"message":{{"tool_calls":{}}}}}"#, many("{}"))]),
        (Wire::Ollama, vec![format!(r#"{{"error":{}}}"#, many("1"))]),
    ] {
        assert_eq!(kind(wire, &frames), Some(ErrorKind::TooLarge), "{wire:?} {:.120}", frames[0]);
    }
}

#[test]
fn long_words_and_arguments_are_no_flood() {
    let words = "[1,".repeat(MANY);
    let decoded =
        stream(Wire::OpenaiChat, &[chat(&json!({"content": words})), chat_end("stop"), "[DONE]".to_owned()]);
    assert_eq!(decoded.finish().unwrap().1.text(), words);
}

#[test]
fn reasoning_that_is_kept_is_bounded_over_all_frames() {
    let chunk = chat(&json!({"reasoning_details": [{"list": vec![0; 100_000]}]}));
    assert_eq!(kind(Wire::OpenaiChat, &vec![chunk; 4]), Some(ErrorKind::TooLarge));
    let items: Vec<String> = (0..4)
        .flat_map(|index| {
            let item = json!({"type": "reasoning", "encrypted_content": "x", "summary": vec![0; 100_000]});
            ["response.output_item.added", "response.output_item.done"]
                .map(|kind| json!({"type": kind, "output_index": index, "item": item}).to_string())
        })
        .collect();
    assert_eq!(kind(Wire::Openai, &items), Some(ErrorKind::TooLarge));
}

#[test]
fn reasoning_that_could_be_kept_nowhere_is_refused() {
    let nested = |levels: usize| {
        let inner = "[".repeat(levels) + &"]".repeat(levels);
        let delta = format!(r#"{{"reasoning_details":[{{"a":{inner}}}]}}"#);
        let chunk = format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#);
        kind(Wire::OpenaiChat, &[chunk, chat_end("stop"), "[DONE]".to_owned()])
    };
    assert_eq!((nested(50), nested(70)), (None, Some(ErrorKind::Garbled)));
}

#[test]
fn only_one_answer_was_asked_for() {
    for choices in [json!([{}, {}]), json!([{"index": 0}, {"index": 0}]), json!([{"index": 1}])] {
        let chunk = json!({ "choices": choices }).to_string();
        assert_eq!(kind(Wire::OpenaiChat, &[chunk]), Some(ErrorKind::Garbled), "{choices}");
    }
}

#[test]
fn names_ids_and_reasons_are_short() {
    let ended = |frame: String| kind(Wire::OpenaiChat, &[frame, chat_end("stop"), "[DONE]".to_owned()]);
    assert_eq!(ended(chat_call("a", &"n".repeat(256))), None);
    assert_eq!(ended(chat_call("a", &"n".repeat(257))), Some(ErrorKind::Garbled));
    assert_eq!(ended(chat_call(&"i".repeat(8 << 10), "n")), None);
    assert_eq!(ended(chat_call(&"i".repeat((8 << 10) + 1), "n")), Some(ErrorKind::Garbled));
    let long = "r".repeat(1 << 20);
    let decoded = stream(Wire::OpenaiChat, &[chat_end(&long), "[DONE]".to_owned()]);
    let Some((FinishReason::Other(reason), _)) = decoded.finish() else { panic!("{:?}", decoded.failed) };
    assert!(reason.starts_with("rrr") && reason.chars().count() <= 401, "{reason}");
}
