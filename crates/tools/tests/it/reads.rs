//! Reads through a gate that runs short work inline.

use std::path::Path;

use serde_json::{Value, json};
use toolgate_gate::{BlockingStrategy, CallOptions};
use toolgate_tools::{CallResponse, Profile, ProfiledGate};
use toolgate_types::{Caller, ErrorCode, Limits, Sha256, ToolCall, Trust};

use crate::assembled::{assemble, scratch, settings, state_key};

/// A profiled gate over a fixture's workspace, with its state beside it.
fn front(scratch: &Path) -> ProfiledGate {
    front_of(Profile::NATIVE, scratch)
}

pub(crate) fn front_of(profile: Profile, scratch: &Path) -> ProfiledGate {
    let mut settings = settings(profile, scratch, "", &[]);
    settings.limits = Limits { max_read_bytes: 1 << 20, ..profile.limits() };
    assemble(&settings, BlockingStrategy::InlineFirst)
}

fn read(front: &ProfiledGate, path: &str, options: CallOptions) -> CallResponse {
    call(front, "read_file", json!({"path": path}), options)
}

pub(crate) fn call(front: &ProfiledGate, tool: &str, arguments: Value, options: CallOptions) -> CallResponse {
    let caller = Caller {
        subject: "test".to_owned(),
        permissions: std::collections::BTreeSet::new(),
        agent: None,
        session: "test".parse().unwrap(),
        run: None,
        trust: Trust::Autonomous,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(front.call(ToolCall::new(tool, arguments), caller, options))
}

/// The audit records of calls.
pub(crate) fn records(scratch: &Path) -> Vec<Value> {
    let files = std::fs::read_dir(scratch.join("state/audit")).unwrap().map(|entry| entry.unwrap().path());
    let logs = files.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    let lines: Vec<String> = logs.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let records = lines.iter().flat_map(|log| log.lines()).map(|line| serde_json::from_str(line).unwrap());
    records.filter(|record: &Value| record.get("tool").is_some()).collect()
}

fn recorded(scratch: &Path) -> usize {
    records(scratch).len()
}

#[test]
fn a_read_that_takes_long_is_answered_right_and_once() {
    let scratch = scratch();
    let front = front(scratch.path());
    let long = "a line of some text\n".repeat(4 << 20);
    std::fs::write(scratch.path().join("work/long.txt"), &long).unwrap();
    std::fs::write(scratch.path().join("work/short.txt"), "short\n").unwrap();
    for (number, (path, text)) in
        [("short.txt", "short\n"), ("long.txt", &long), ("short.txt", "short\n")].iter().enumerate()
    {
        let called = read(&front, path, CallOptions::default());
        let structured = called.structured().unwrap();
        assert_eq!(structured["sha256"], Sha256::of(text.as_bytes()).to_string(), "{path}");
        assert_eq!(structured["bytes"], text.len());
        assert_eq!(structured["truncated"], text.len() > 1 << 20);
        assert_eq!(recorded(scratch.path()), number + 1);
    }
}

#[test]
fn a_read_that_is_cancelled_is_not_begun_again() {
    let scratch = scratch();
    let front = front(scratch.path());
    std::fs::write(scratch.path().join("work/short.txt"), "short\n").unwrap();
    let options = CallOptions::default();
    options.cancelled.cancel();
    let (_, failure) = read(&front, "short.txt", options).failed.unwrap();
    assert_eq!(failure.code, ErrorCode::Cancelled);
    assert_eq!(recorded(scratch.path()), 1);
}

#[test]
fn a_text_is_held_once_and_told_in_both_parts() {
    let scratch = scratch();
    let front = front(scratch.path());
    for length in [0, 10, 32 * 1024 - 1, 32 * 1024, 1 << 20, (1 << 20) + 1] {
        let text = "é".repeat(length / 2) + if length % 2 == 1 { "x" } else { "" };
        std::fs::write(scratch.path().join("work/file.txt"), &text).unwrap();
        let called = read(&front, "file.txt", CallOptions::default());
        let is_whole = length <= 1 << 20;
        assert_eq!(called.text_field, is_whole.then_some("content"), "{length}");
        let held = called.answer.structured.as_ref().unwrap();
        assert_eq!(held.value().get("content").is_none(), is_whole, "{length}");
        let whole = called.structured().unwrap();
        assert_eq!(whole["content"].as_str().unwrap(), text.get(..length.min(1 << 20)).unwrap(), "{length}");
        assert!(called.answer.text.starts_with(whole["content"].as_str().unwrap()), "{length}");
    }
}

#[test]
fn the_record_of_an_empty_text_is_of_that_text() {
    let scratch = scratch();
    let front = front(scratch.path());
    std::fs::write(scratch.path().join("work/empty.txt"), "").unwrap();
    let called = read(&front, "empty.txt", CallOptions::default());
    assert_eq!((called.answer.text.as_str(), &called.structured().unwrap()["content"]), ("", &json!("")));
    let record = records(scratch.path()).pop().unwrap();
    assert_eq!(record["response"]["outputBytes"], 0);
    assert_eq!(
        record["response"]["outputHash"],
        toolgate_audit::output_digest(&state_key(scratch.path()), Sha256::of(b"")).to_string()
    );
}
