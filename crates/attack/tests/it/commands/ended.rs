//! What terminates a command that does not end by itself.

use std::sync::{Arc, Mutex};

use serde_json::json;
use toolgate_attack::{code_of, person};
use toolgate_gate::{CallOptions, ProgressUpdate};
use toolgate_tools::{CallResponse, Profile};
use toolgate_types::{Decision, ErrorCode, ToolCall};

use super::{Desk, SHELLS};

#[test]
fn time_that_is_up_ends_everything_and_keeps_what_was_said() {
    for (profile, _) in SHELLS {
        let desk = Desk::new(profile);
        let (called, time) = desk.run_out_of_time("echo begun; sleep 1000 & sleep 1000", "begun");
        assert!(called.answer.text.contains(&format!("{time} ms")), "{}", called.answer.text);
        let (_, failure) = called.failed.unwrap();
        assert!(failure.help.as_ref().unwrap().contains("`timeout_ms`"), "{failure:?}");
        assert_eq!(
            (&failure.details["timed_out"], &failure.details["output"]),
            (&json!(true), &json!("begun\n"))
        );
    }
}

#[test]
fn a_command_that_ignores_the_signal_is_ended_all_the_same() {
    let desk = Desk::new(Profile::NATIVE);
    desk.run_out_of_time("trap '' TERM; echo begun; while :; do sleep 1; done", "begun");
}

#[test]
fn cancelling_ends_a_command_and_output_comes_while_it_runs() {
    let desk = Desk::new(Profile::NATIVE);
    let options = CallOptions::default();
    let (token, heard) = (options.cancelled.clone(), Arc::new(Mutex::new(String::new())));
    let listening = Arc::clone(&heard);
    // Only the command's output can end this call.
    let progress = move |said: ProgressUpdate<'_>| {
        let mut heard = listening.lock().unwrap();
        heard.push_str(said.text);
        if heard.contains("begun") {
            token.cancel();
        }
    };
    let options = CallOptions { progress: Some(Arc::new(progress)), ..options };
    let call =
        ToolCall::new(desk.tool, json!({"command": "printf '\\033[31mbeg'; printf 'un\\n'; sleep 1000"}));
    let called = desk.bench.wait(desk.bench.front().call(call, person("test"), options));
    assert_eq!(code_of(&called), Some(ErrorCode::Cancelled), "{}", called.answer.text);
    assert_eq!(heard.lock().unwrap().as_str(), "begun\n");
    assert_eq!(desk.bench.record(called.call).decision, Decision::Error);
}

#[test]
fn a_flood_is_ended() {
    let desk = Desk::new(Profile::NATIVE);
    let called = desk.run("yes");
    assert_eq!(code_of(&called), Some(ErrorCode::ResourceLimit), "{}", called.answer.text);
    assert!(called.answer.text.contains("wrote more than"), "{}", &called.answer.text[..200]);
    assert!(called.answer.text.len() <= 100_000);
}

#[test]
fn limits_of_the_system_are_told_with_a_remedy_for_the_operator() {
    // On a busy machine a second of processor time takes a while.
    let config = "limits: {timeout: 10m}\nsandbox: {cpu_time: 1s, file_size: 4KiB}";
    let desk = Desk::with(Profile::NATIVE, |options| options.config(config));
    for (line, words) in [
        ("while :; do :; done", "processor time"),
        ("exec head -c 10000 /dev/zero > big", "bytes in one file"),
    ] {
        let called = desk.run(line);
        assert_eq!(code_of(&called), Some(ErrorCode::ResourceLimit), "{line}: {}", called.answer.text);
        assert!(called.answer.text.contains(words), "{line}: {}", called.answer.text);
        let note = called.failed.unwrap().1.operator_note.unwrap();
        assert!(note.contains("sandbox") && !called.answer.text.contains(&note), "{note}");
    }
}

/// The timeout of a command that was ended by it, in words, and the longest one in milliseconds.
fn timed_out(called: &CallResponse) -> (String, u64) {
    let (_, failure) = called.failed.clone().unwrap();
    assert_eq!(failure.code, ErrorCode::Timeout, "{failure:?}");
    assert!(failure.operator_note.unwrap().contains("`sandbox.max_timeout`"));
    (failure.help.unwrap(), failure.details["max_timeout_ms"].as_u64().unwrap())
}

#[test]
fn a_line_gets_its_own_timeout_up_to_a_bound() {
    for (profile, config, most) in [
        (Profile::NATIVE, "", 600_000),
        (Profile::NATIVE, "limits: {timeout: 20s}", 20_000),
        (Profile::NATIVE, "limits: {timeout: 20s}\nsandbox: {timeout: 30s}", 30_000),
        (Profile::NATIVE, "sandbox: {timeout: 20m}", 1_200_000),
        (Profile::SIDECAR, "", 60_000),
        (Profile::STUDIO, "", 60_000),
        (Profile::STUDIO, "sandbox: {max_timeout: 5m}", 300_000),
    ] {
        let desk = Desk::with(profile, |options| options.config(config));
        let called = desk.bench.call(desk.tool, json!({"command": "sleep 1000", "timeout_ms": 1000}));
        let (help, max) = timed_out(&called);
        assert_eq!(max, most, "{config}");
        assert!(help.contains(&format!("`timeout_ms` (up to {most})")), "{help}");
    }
    // What is configured counts for lines without a timeout, and bounds those with one.
    let bounded = "sandbox: {timeout: 400ms, max_timeout: 600ms}";
    let desk = Desk::with(Profile::NATIVE, |options| options.config(bounded));
    for (arguments, words) in [
        (json!({"command": "sleep 1000"}), "longer than 400 ms"),
        (json!({"command": "sleep 1000", "timeout_ms": 86_400_000}), "longer than 600 ms"),
    ] {
        let called = desk.bench.call("run_command", arguments);
        assert!(called.answer.text.contains(words), "{}", called.answer.text);
        assert_eq!(timed_out(&called).1, 600);
    }
}
