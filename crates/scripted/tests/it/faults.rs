//! Faults on every wire.

use std::fmt::Write as _;

use toolgate_scripted::Wire;

use crate::client::{Heard, post, post_until, request, serve};

const SCRIPTS: &[(&str, &str)] = &[
    ("nothing", "{say: Hello}"),
    ("reset", "{say: Hello, fault: reset}"),
    ("truncate", "{say: Hello, fault: truncate}"),
    ("garbage", "{do: [{say: Hello}, {fault: garbage}]}"),
    ("unknown_event", "{do: [{fault: unknown_event}, {say: Hello}]}"),
    ("comment", "{do: [{fault: comment}, {say: Hello}]}"),
    ("error_in_stream", "{say: Hello, fault: error_in_stream}"),
    ("cut after 9 bytes", "{say: Hello, fault: {kind: truncate, after_bytes: 9}}"),
    ("reset after 9 bytes", "{say: Hello, fault: {kind: reset, after_bytes: 9}}"),
    (
        "status",
        "{fault: {status: 503, message: away, retry_after: 2s, retry_after_ms: 1500, should_retry: true}}",
    ),
];

fn ends_in_order(wire: Wire, text: &str) -> bool {
    match wire {
        Wire::Anthropic => text.contains("event: message_stop"),
        Wire::Openai => text.contains("event: response.completed"),
        Wire::OpenaiChat => text.contains("data: [DONE]"),
        Wire::Ollama => text.contains("\"done\":true"),
    }
}

fn told(wire: Wire, heard: &Heard) -> String {
    let text = heard.text();
    let mut told = format!("{} {} bytes", heard.status, if heard.is_whole { "all" } else { "not all" });
    for (word, is_so) in [
        ("words", text.contains("Hello")),
        ("garbage", text.contains('\u{fffd}')),
        ("terminator", ends_in_order(wire, &text)),
    ] {
        if is_so {
            let _ = write!(told, ", {word}");
        }
    }
    for hint in ["retry-after", "retry-after-ms", "x-should-retry"] {
        let line = heard.head.lines().find(|line| line.starts_with(&format!("{hint}: ")));
        let _ = line.map(|line| write!(told, ", {line}"));
    }
    told
}

#[tokio::test]
async fn each_fault_on_each_wire_streamed_and_whole() {
    let mut table = String::new();
    for (name, step) in SCRIPTS {
        let server = serve(&format!("steps: [{step}]")).await;
        for &wire in Wire::ALL {
            for is_streamed in [true, false] {
                let heard = post(&server, wire, &request(wire, "go", is_streamed)).await;
                let way = if is_streamed { "streamed" } else { "whole" };
                let _ = writeln!(table, "{name:<20} {:<12} {way:<9} {}", wire.as_str(), told(wire, &heard));
            }
        }
    }
    insta::assert_snapshot!(table);
}

#[tokio::test]
async fn silence_lasts_until_somebody_leaves() {
    for &wire in Wire::ALL {
        let server = serve("steps: [{say: Hello, fault: idle}]").await;
        let heard = post_until(server, wire, &request(wire, "go", true), "Hello").await;
        assert!(!heard.is_whole && !ends_in_order(wire, &heard.text()), "{wire:?}: {}", heard.text());
    }
}

#[tokio::test]
async fn a_fault_that_passes_is_counted_over_all_conversations() {
    let server = serve("steps: [{fault: {status: 429, times: 2}, say: at last}]").await;
    let mut statuses = Vec::new();
    for &wire in Wire::ALL {
        statuses.push(post(&server, wire, &request(wire, "go", true)).await.status);
    }
    assert_eq!(statuses, [429, 429, 200, 200]);
}

#[tokio::test]
async fn a_stream_can_be_cut_at_every_byte() {
    let wire = Wire::Anthropic;
    let whole = post(&serve("steps: [{say: Hi}]").await, wire, &request(wire, "go", true)).await.body;
    for length in [1, whole.len() / 2, whole.len() - 1] {
        let step = format!("steps: [{{say: Hi, fault: {{kind: truncate, after_bytes: {length}}}}}]");
        let heard = post(&serve(&step).await, wire, &request(wire, "go", true)).await;
        assert_eq!((heard.body.as_slice(), heard.is_whole), (&whole[..length], true));
    }
}

#[tokio::test]
async fn indexes_are_repeated_or_left_out() {
    for (fault, indexes) in
        [("duplicate_index", "\"index\":0"), ("missing_index", "{\"tool_calls\":[{\"id\"")]
    {
        let calls = "{call: {tool: read_file}}, {call: {tool: read_file}}";
        let server = serve(&format!("steps: [{{do: [{{fault: {fault}}}, {calls}]}}]")).await;
        let text = post(&server, Wire::OpenaiChat, &request(Wire::OpenaiChat, "go", true)).await.text();
        assert!(text.contains(indexes) && !text.contains("\"index\":1"), "{text}");
    }
}

#[tokio::test]
async fn a_server_is_for_this_machine_alone() {
    use toolgate_scripted::{Script, ScriptServer, ServerOptions};
    let script = Script::parse("test.yaml", "steps: [{say: hi}]").unwrap();
    let listen = "0.0.0.0:0".parse().unwrap();
    let options = ServerOptions { listen, ..ServerOptions::default() };
    let refused = ScriptServer::start(script, options).await.unwrap_err();
    insta::assert_snapshot!(refused, @"`0.0.0.0:0` can be reached from other machines; a script is served on this one only, such as on `127.0.0.1:0`");
}
