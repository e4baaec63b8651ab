//! The cost of a streamed token on every wire, compared with parsing each of its frames as JSON and discarding it; and that long arguments take
//! linear time.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark prints what it measures, and may stop at the first surprise"
)]

use std::hint::black_box;

use serde_json::{Value, json};
use toolgate_benches::{in_turns, report};
use toolgate_llm::{ModelName, StepDecoder, StepEvent, Wire};

const WIRES: [(Wire, &str); 4] = [
    (Wire::Anthropic, "anthropic"),
    (Wire::Openai, "responses"),
    (Wire::OpenaiChat, "chat"),
    (Wire::Ollama, "ollama"),
];

fn main() {
    tokens();
    long_arguments();
}

/// Tokens of one step.
const TOKENS: u32 = 2_000;

fn tokens() {
    for (wire, name) in WIRES {
        let frames = text(wire);
        let stream: Vec<Vec<u8>> = frames.iter().map(|frame| framed(wire, frame)).collect();
        let frames: Vec<Vec<u8>> = frames.iter().map(|frame| frame.to_string().into_bytes()).collect();
        let ours = || assert!(decoded(wire, stream.iter()) > TOKENS as usize);
        let read = || {
            for frame in &frames {
                black_box(serde_json::from_slice::<Value>(frame).unwrap());
            }
        };
        let (ours, read) = in_turns(301, ours, read);
        report(&format!("llm/token-{name}"), ours / TOKENS, read / TOKENS, "serde_json_alone", 1.0);
    }
}

/// Ollama sends calls complete; the others stream them.
fn long_arguments() {
    for (wire, name) in WIRES.into_iter().filter(|(wire, _)| *wire != Wire::Ollama) {
        let streams = [1, 2, 4].map(|times| arguments(wire, times << 18));
        let feed = |stream: &[Vec<u8>]| assert!(decoded(wire, stream.iter()) > 1000);
        let (one, four) = in_turns(15, || feed(&streams[0]), || feed(&streams[2]));
        let (_, two) = in_turns(15, || feed(&streams[0]), || feed(&streams[1]));
        println!(
            "arguments in pieces of 20 bytes over {name}: 256 KiB {one:.1?}, 512 KiB {two:.1?}, 1 MiB {four:.1?}"
        );
        report(&format!("llm/arguments-1MiB-{name}"), four, one * 4, "four_times_256KiB", 1.3);
    }
}

/// The number of events of a stream that finishes.
fn decoded<'b>(wire: Wire, pieces: impl Iterator<Item = &'b Vec<u8>>) -> usize {
    let model = ModelName { provider: "bench".to_owned(), name: "model".to_owned() };
    let mut decoder = StepDecoder::new(wire, &model);
    let (mut events, mut finished) = (0, false);
    for piece in pieces {
        decoder.feed(piece).unwrap();
        while let Some(event) = decoder.next_event() {
            finished = matches!(black_box(event), StepEvent::Finish { .. });
            events += 1;
        }
    }
    assert!(finished);
    events
}

/// A frame as it appears in a stream.
fn framed(wire: Wire, frame: &Value) -> Vec<u8> {
    match (wire, frame["type"].as_str()) {
        (Wire::Ollama, _) => format!("{frame}\n"),
        (_, Some(name)) => format!("event: {name}\ndata: {frame}\n\n"),
        (_, None) if frame.is_string() => format!("data: {}\n\n", frame.as_str().unwrap()),
        (_, None) => format!("data: {frame}\n\n"),
    }
    .into_bytes()
}

/// A step of text tokens.
fn text(wire: Wire) -> Vec<Value> {
    let tokens = (0..TOKENS).map(|_| " word");
    match wire {
        Wire::Anthropic => {
            let deltas = tokens.map(|text| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}));
            anthropic(json!({"type": "text", "text": ""}), deltas, "end_turn")
        }
        Wire::Openai => {
            let item = json!({"type": "message", "id": "msg_1", "role": "assistant", "content": []});
            let deltas = tokens.map(|text| {
                json!({"type": "response.output_text.delta", "sequence_number": 7, "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": text, "logprobs": []})
            });
            responses(&item, deltas, &item)
        }
        Wire::OpenaiChat => chat(tokens.map(|text| json!({"content": text})), "stop"),
        Wire::Ollama => {
            let line = |text: &str, done: bool| json!({"model": "m", "created_at": "2026-11-15T12:00:00.000000Z", "message": {"role": "assistant", "content": text}, "done": done});
            let mut last = line("", true);
            last["done_reason"] = json!("stop");
            tokens.map(|text| line(text, false)).chain([last]).collect()
        }
    }
}

/// The stream of a step with one call, whose arguments have this many bytes in chunks of twenty.
fn arguments(wire: Wire, bytes: usize) -> Vec<Vec<u8>> {
    let whole = format!("{{\"content\":\"{}\"}}", "x".repeat(bytes));
    let pieces = whole.as_bytes().chunks(20).map(|piece| String::from_utf8(piece.to_vec()).unwrap());
    let frames = match wire {
        Wire::Anthropic => {
            let deltas = pieces.map(|json| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": json}}));
            anthropic(
                json!({"type": "tool_use", "id": "toolu_1", "name": "write_file", "input": {}}),
                deltas,
                "tool_use",
            )
        }
        Wire::Openai => {
            let call = |arguments: &str| json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "write_file", "arguments": arguments});
            let deltas = pieces.map(|json| {
                json!({"type": "response.function_call_arguments.delta", "sequence_number": 7, "item_id": "fc_1", "output_index": 0, "delta": json})
            });
            responses(&call(""), deltas, &call(&whole))
        }
        Wire::OpenaiChat | Wire::Ollama => {
            let begin = json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "write_file", "arguments": ""}}]});
            let more =
                pieces.map(|json| json!({"tool_calls": [{"index": 0, "function": {"arguments": json}}]}));
            chat([begin].into_iter().chain(more), "tool_calls")
        }
    };
    frames.iter().map(|frame| framed(wire, frame)).collect()
}

fn anthropic(block: Value, deltas: impl Iterator<Item = Value>, reason: &str) -> Vec<Value> {
    let before = [
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 1, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
    ];
    let after = [
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}}),
        json!({"type": "message_stop"}),
    ];
    before.into_iter().chain(deltas).chain(after).collect()
}

fn responses(begun: &Value, deltas: impl Iterator<Item = Value>, ended: &Value) -> Vec<Value> {
    let before = [json!({"type": "response.output_item.added", "output_index": 0, "item": begun})];
    let after = [
        json!({"type": "response.output_item.done", "output_index": 0, "item": ended}),
        json!({"type": "response.completed", "response": {"status": "completed", "output": [ended]}}),
    ];
    before.into_iter().chain(deltas).chain(after).collect()
}

fn chat(deltas: impl Iterator<Item = Value>, reason: &str) -> Vec<Value> {
    let chunk = |delta: Value, reason: Value| json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
    let last = [chunk(json!({}), json!(reason)), json!("[DONE]")];
    deltas.map(|delta| chunk(delta, Value::Null)).chain(last).collect()
}
