//! `--log` and `RUST_LOG`: which lines are written, and what is in none of them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::fixture::CliFixture;

const CANARY: &str = "canary-4711";

/// The lines of one read under these options and this `RUST_LOG`.
fn lines(options: &[&str], filter: &str) -> Vec<Value> {
    let place = CliFixture::new();
    std::fs::write(place.workspace.join("a.txt"), CANARY).unwrap();
    let mut command = place.toolgate();
    command.args(["--log", "json"]).args(options).env("RUST_LOG", filter);
    let output = command.args(["call", "read_file", r#"{"path": "a.txt"}"#]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!said.contains(CANARY), "{said}");
    said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn targets(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["target"].as_str().unwrap()).collect()
}

#[test]
fn rust_log_chooses_lines_and_the_command_line_wins() {
    for (options, filter, expected) in [
        (&[][..], "", 1),
        (&[], "off", 0),
        (&[], "toolgate=warn", 0),
        (&[], "info", 1),
        (&[], "toolgate::call=debug", 2),
        (&["--log-level", "warn"], "debug", 0),
        (&["--log-level", "debug"], "off", 2),
    ] {
        let lines = lines(options, filter);
        assert_eq!(targets(&lines), vec!["toolgate::call"; expected], "{options:?} {filter}");
    }
}

#[test]
fn spans_are_lines_where_rust_log_asks_for_them() {
    let lines = lines(&[], "toolgate::span=debug");
    assert_eq!(targets(&lines), ["toolgate::span"; 8]);
    let stages: Vec<&Value> = lines.iter().map(|line| &line["toolgate.stage"]).collect();
    let expected = ["REGISTRY", "AUTH", "PERMISSION", "VALIDATION", "APPROVAL", "EXECUTION", "OUTPUT"];
    assert_eq!(stages[..7], expected.map(|stage| json!(stage)).iter().collect::<Vec<_>>());
    let call = &lines[7];
    assert_eq!((&call["message"], &call["gen_ai.tool.name"]), (&json!("execute_tool"), &json!("read_file")));
    for line in &lines {
        assert!(line["duration_ms"].is_f64() && line.get("path").is_none(), "{line}");
        assert_eq!(line["gen_ai.tool.call.id"], call["gen_ai.tool.call.id"]);
    }
}

/// Libraries log what they send, so no filter may admit them. `rmcp` logs every message that it serves.
#[test]
fn no_filter_shows_what_libraries_log() {
    let place = CliFixture::new();
    std::fs::write(place.workspace.join("a.txt"), CANARY).unwrap();
    let mut command = place.toolgate();
    command.args(["--log", "json", "mcp"]).env("RUST_LOG", "trace");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut served = command.spawn().unwrap();
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}});
    let call = json!({"name": "read_file", "arguments": {"path": "a.txt"}});
    let mut stdin = served.stdin.take().unwrap();
    for message in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}),
    ] {
        writeln!(stdin, "{message}").unwrap();
    }
    let mut answers = BufReader::new(served.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(answers.any(|answer| answer.contains(CANARY)));
    drop(stdin);
    let said = String::from_utf8(served.wait_with_output().unwrap().stderr).unwrap();
    assert!(!said.contains(CANARY), "{said}");
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() >= 9, "{said}");
    assert!(targets(&lines).iter().all(|target| target.starts_with("toolgate::")), "{said}");
}

#[test]
fn a_filter_that_cannot_be_read_is_reported_and_not_used() {
    let place = CliFixture::new();
    std::fs::write(place.workspace.join("a.txt"), CANARY).unwrap();
    let mut command = place.aloud(Command::new(env!("CARGO_BIN_EXE_toolgate")));
    command.args(["--log", "text", "call", "read_file", r#"{"path": "a.txt"}"#]);
    let output = command.env("RUST_LOG", "toolgate=loud").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.matches("`RUST_LOG` is not used").count(), 1, "{said}");
    assert_eq!(said.matches("toolgate::call").count(), 1, "{said}");
}
