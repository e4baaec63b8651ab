//! Commands that go on after their call: they belong to one caller and session, are bounded, confined and scanned, and nothing outlives them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolgate_attack::{BenchOptions, code_of, person};
use toolgate_command::BackgroundCommands;
use toolgate_gate::{ApprovalReply, CallOptions};
use toolgate_tools::{CallResponse, Profile};
use toolgate_types::{AgentName, Caller, Decision, ErrorCode, Sha256, ToolCall, Trust};

use super::{Desk, git, native};
use crate::approval::Scripted;

/// A number of seconds that no other process of this machine sleeps for, so that a process is found by it.
fn token() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("7{:07}{:03}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// How many processes of commands have the token in their command line, without process 1 of each namespace.
fn alive(token: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
    lines.filter(|line| line.contains(token) && !line.starts_with("toolgate-init")).count()
}

impl Desk {
    fn start(&self, line: &str) -> CallResponse {
        self.bench.call("run_command", json!({"command": line, "background": true}))
    }

    fn started(&self, line: &str) -> String {
        id_of(&self.start(line))
    }

    fn check(&self, id: &str) -> (String, Value) {
        native(&self.bench.call("check_command", json!({"id": id, "wait_ms": 60_000})))
    }

    /// The same without waiting.
    fn check_now(&self, id: &str) -> (String, Value) {
        native(&self.bench.call("check_command", json!({"id": id})))
    }

    fn stop(&self, id: &str) -> (String, Value) {
        native(&self.bench.call("stop_command", json!({"id": id})))
    }

    /// Starts a command and waits until it says that it is ready.
    fn ready(&self, line: &str) -> String {
        let id = self.started(line);
        let mut output = String::new();
        while !output.contains("ready") {
            let (text, facts) = self.check(&id);
            assert_eq!(facts["state"], "running", "{text}");
            output.push_str(&text);
        }
        id
    }
}

fn id_of(called: &CallResponse) -> String {
    native(called).1["background"].as_str().unwrap().to_owned()
}

fn is_unknown(called: &CallResponse) -> bool {
    code_of(called) == Some(ErrorCode::InvalidArguments)
        && called.answer.text.contains("no background command with this id")
}

#[test]
fn a_command_goes_on_is_polled_and_stopped_and_each_is_on_record() {
    let desk = Desk::new(Profile::NATIVE);
    let token = token();
    let begun = desk.start(&format!("echo ready; read x; echo never; sleep {token}"));
    let id = id_of(&begun);
    assert!(begun.answer.text.contains(&id) && begun.answer.text.contains("check_command"));
    // Its input is empty, so `read` fails and it goes on.
    let mut output = String::new();
    while !output.contains("never") {
        let (_, facts) = desk.check(&id);
        assert_eq!((&facts["state"], &facts["id"]), (&json!("running"), &json!(id)));
        output.push_str(facts["output"].as_str().unwrap());
    }
    assert_eq!(output, "ready\nnever\n", "each look shows what is new");
    let again = native(&desk.bench.call("check_command", json!({"id": id, "after": 6}))).1;
    assert_eq!((&again["output"], &again["after"]), (&json!("never\n"), &json!(12)));
    let (text, facts) = native(&desk.bench.call("check_command", json!({})));
    assert!(text.starts_with(&format!("{id} running")), "{text}");
    assert_eq!(facts["commands"][0]["state"], "running");
    assert!(alive(&token) > 0);
    let stopped = desk.bench.call("stop_command", json!({"id": id}));
    let (text, facts) = native(&stopped);
    assert_eq!(
        (&facts["state"], &facts["stopped"], &facts["signal"]),
        (&json!("ended"), &json!("requested"), &json!("SIGTERM")),
        "{text}"
    );
    assert_eq!(alive(&token), 0, "it is answered when nothing is alive");
    let (text, facts) = desk.check(&id);
    assert_eq!((&facts["state"], &facts["output"]), (&json!("ended"), &json!("")), "{text}");
    for called in [&begun, &stopped] {
        assert_eq!(desk.bench.record(called.call).decision, Decision::Allowed);
    }
    desk.bench.verify_audit();
}

#[test]
fn nothing_that_a_background_command_starts_outlives_it() {
    let desk = Desk::new(Profile::NATIVE);
    for line in [
        "sleep TOKEN & sleep TOKEN & echo ready; wait",
        "(sleep TOKEN & ) ; (setsid sh -c '(sleep TOKEN &) ; sleep TOKEN' &) ; echo ready; sleep TOKEN",
        "setsid sh -c 'trap \"\" TERM HUP INT; while :; do sleep TOKEN; done' & trap '' TERM; echo ready; while :; do sleep TOKEN; done",
    ] {
        let token = token();
        let id = desk.ready(&line.replace("TOKEN", &token));
        assert!(alive(&token) > 0, "{line}");
        let (_, facts) = desk.stop(&id);
        assert_eq!((&facts["state"], alive(&token)), (&json!("ended"), 0), "{line}");
    }
    // One that ends by itself takes its children with it as well.
    let token = token();
    let id = desk.started(&format!("setsid sleep {token} & echo ready; exit 3"));
    let mut facts = desk.check(&id).1;
    while facts["state"] == "running" {
        facts = desk.check(&id).1;
    }
    assert_eq!((&facts["exit_code"], alive(&token)), (&json!(3), 0));
    assert!(facts.get("stopped").is_none());
}

#[test]
fn a_command_belongs_to_one_caller_and_one_session() {
    let agents = "agents: {worker: {tool_permissions: {run_command: {allowed: true}, check_command: {allowed: true}, stop_command: {allowed: true}}}}";
    let desk = Desk::with(Profile::NATIVE, |options| options.config(agents));
    let token = token();
    let id = desk.ready(&format!("echo ready; sleep {token}"));
    let worker: AgentName = "worker".parse().unwrap();
    let strangers = [
        person("another"),
        Caller { subject: "mallory".to_owned(), ..person("test") },
        Caller { agent: Some(worker), ..person("test") },
    ];
    for stranger in strangers {
        for (tool, arguments) in [
            ("check_command", json!({"id": id})),
            ("stop_command", json!({"id": id})),
            // A guessed id is answered with the same words.
            ("stop_command", json!({"id": "bg-000000000000"})),
        ] {
            let called = desk.bench.call_as(stranger.clone(), tool, arguments);
            assert!(is_unknown(&called), "{stranger:?} {tool}: {}", called.answer.text);
        }
        let listed = native(&desk.bench.call_as(stranger, "check_command", json!({}))).1;
        assert_eq!(listed["commands"], json!([]));
    }
    for id in ["", "bg-", "bg-000000000000", "../x", "bg-%", &id.to_uppercase(), &id[..id.len() - 1]] {
        let called = desk.bench.call("stop_command", json!({"id": id}));
        assert_eq!(code_of(&called), Some(ErrorCode::InvalidArguments), "{id}: {}", called.answer.text);
    }
    assert!(alive(&token) > 0, "nothing of this ended it");
    desk.stop(&id);
}

#[test]
fn a_hundred_starts_are_eight_commands() {
    let desk = Desk::new(Profile::NATIVE);
    let token = token();
    let line = format!("exec sleep {token}");
    let mut running = Vec::new();
    for _ in 0..100 {
        let called = desk.start(&line);
        match code_of(&called) {
            None => running.push(id_of(&called)),
            Some(code) => assert_eq!(code, ErrorCode::ResourceLimit, "{}", called.answer.text),
        }
    }
    // A command counts as started before its shell is.
    while alive(&token) < running.len() {}
    assert_eq!((running.len(), alive(&token)), (8, 8));
    // Another session has a share of its own, and one that ended makes room.
    let other =
        desk.bench.call_as(person("other"), "run_command", json!({"command": line, "background": true}));
    assert_eq!(code_of(&other), None);
    desk.stop(&running[0]);
    running.push(desk.started(&line));
    drop(desk);
    assert_eq!(alive(&token), 0, "all of them end with the gate");
}

#[test]
fn many_starts_at_the_same_time_are_bounded_too() {
    let desk = Desk::new(Profile::NATIVE);
    let token = token();
    let started = std::thread::scope(|scope| {
        let start = || code_of(&desk.start(&format!("exec sleep {token}"))).is_none();
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(start)).collect();
        threads.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum::<usize>()
    });
    while alive(&token) < started {}
    assert_eq!((started, alive(&token)), (8, 8));
    drop(desk);
    assert_eq!(alive(&token), 0);
}

#[test]
fn a_command_ends_with_its_session() {
    let desk = Desk::new(Profile::NATIVE);
    let token = token();
    let ended = CancellationToken::new();
    let options = CallOptions { session_ended: Some(ended.clone()), ..CallOptions::default() };
    let call = ToolCall::new(
        "run_command",
        json!({"command": format!("trap 'echo tidied > tidied; exit 0' TERM; echo ready; while :; do sleep 0.{token}; done"), "background": true}),
    );
    let called = desk.bench.wait(desk.bench.front().call(call, person("test"), options));
    let id = id_of(&called);
    assert!(desk.check(&id).0.contains("ready"));
    ended.cancel();
    while desk.check(&id).1["state"] == "running" {}
    assert_eq!((desk.check(&id).1["stopped"].clone(), alive(&token)), (json!("session_ended"), 0));
    assert_eq!(std::fs::read_to_string(desk.workspace.join("tidied")).unwrap(), "tidied\n");
}

#[test]
fn a_call_that_is_cancelled_while_it_starts_leaves_at_most_what_is_listed() {
    let desk = Desk::new(Profile::NATIVE);
    let token = token();
    for _ in 0..10 {
        let options = CallOptions::default();
        options.cancelled.cancel();
        let call = ToolCall::new(
            "run_command",
            json!({"command": format!("exec sleep {token}"), "background": true}),
        );
        desk.bench.wait(desk.bench.front().call(call, person("test"), options));
    }
    let listed = native(&desk.bench.call("check_command", json!({}))).1;
    let running = listed["commands"].as_array().unwrap().iter().filter(|known| known["state"] == "running");
    let running = running.count();
    while alive(&token) < running {}
    assert_eq!(running, alive(&token));
}

#[test]
fn what_it_plants_after_its_start_was_answered_is_taken_away() {
    let desk = Desk::new(Profile::NATIVE);
    git(&desk.workspace, &["init", "--quiet"]);
    let head = desk.workspace.join(".git2/HEAD");
    let plant = "mkdir -p .git2/hooks .git2/objects .git2/refs && echo 'ref: refs/heads/main' > .git2/HEAD && printf '#!/bin/sh\\ntouch PROOF\\n' > .git2/hooks/pre-commit; echo export A=1 > .envrc";
    // While it runs: the next look takes it away.
    let id = desk.ready(&format!("{plant}; echo ready; sleep 1000"));
    let (text, facts) = desk.check_now(&id);
    assert!(text.contains("quarantined") && facts["quarantined_total"].as_u64().unwrap() > 0, "{text}");
    assert!(!desk.workspace.join(".envrc").exists() && !head.exists(), "{text}");
    // Another command's end takes it away too.
    std::fs::remove_dir_all(desk.workspace.join(".git2")).unwrap();
    desk.stop(&id);
    let wait = "echo ready; while [ ! -e go ]; do sleep 0.02; done";
    let id = desk.ready(&format!("{wait}; {plant}; touch planted; sleep 1000"));
    desk.write("go", "");
    while !desk.workspace.join("planted").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let (text, _) = native(&desk.run("true"));
    assert!(
        text.contains("quarantined") && !desk.workspace.join(".envrc").exists() && !head.exists(),
        "{text}"
    );
    desk.stop(&id);
    // At its end, at the latest.
    let id =
        desk.ready("trap 'echo export A=1 > .envrc; exit 0' TERM; echo ready; while :; do sleep 0.1; done");
    let (text, facts) = desk.stop(&id);
    assert!(text.contains("quarantined") && facts["quarantined_total"] == 1, "{text}");
    assert!(!desk.workspace.join(".envrc").exists());
}

#[test]
fn what_it_plants_is_taken_away_while_nothing_asks_about_it() {
    let desk = Desk::new(Profile::NATIVE);
    let wait = "echo ready; while [ ! -e go ]; do sleep 0.02; done";
    // A repository of its own with a hook, whose files no command is denied: what is, ends the command.
    let plant = "mkdir -p .git2/hooks .git2/objects .git2/refs && echo 'ref: refs/heads/main' > .git2/HEAD && printf '#!/bin/sh\\ntouch PROOF\\n' > .git2/hooks/pre-commit";
    let id = desk.ready(&format!("{wait}; {plant}; touch planted; sleep 1000"));
    desk.write("go", "");
    let (head, begun) = (desk.workspace.join(".git2/HEAD"), Instant::now());
    while !desk.workspace.join("planted").exists() || head.exists() {
        assert!(begun.elapsed() < Duration::from_secs(120), "it stays until something asks");
    }
    let (text, facts) = desk.stop(&id);
    assert!(text.contains("quarantined") && facts["quarantined_total"].as_u64() > Some(0), "{text}");
}

#[test]
fn a_call_that_was_decided_under_another_configuration_starts_nothing() {
    let commands = Arc::new(BackgroundCommands::default());
    let supplied = Arc::clone(&commands);
    let desk = Desk::with(Profile::NATIVE, |options| options.background(supplied));
    desk.started("sleep 1000");
    // A reload names its configuration before the gate takes it: until then calls are decided under the old one.
    commands.keep_definition(Sha256::of(b"newer"));
    let called = desk.start("sleep 1000");
    assert_eq!(code_of(&called), Some(ErrorCode::NotPermitted), "{}", called.answer.text);
    while native(&desk.bench.call("check_command", json!({}))).1["commands"][0]["state"] == "running" {}
}

#[test]
fn one_caller_leaves_room_for_others() {
    let desk = Desk::new(Profile::NATIVE);
    let start = |caller: Caller| {
        let line = json!({"command": "sleep 1000", "background": true});
        code_of(&desk.bench.call_as(caller, "run_command", line))
    };
    for session in ["s1", "s2"] {
        for _ in 0..8 {
            assert_eq!(start(person(session)), None);
        }
    }
    assert_eq!(start(person("s3")), Some(ErrorCode::ResourceLimit), "its sessions have one share");
    assert_eq!(start(Caller { subject: "another".to_owned(), ..person("s4") }), None);
}

#[test]
fn what_it_leaves_when_the_gate_ends_is_taken_away_and_told() {
    let desk = Desk::new(Profile::NATIVE);
    let (bench, workspace) = (desk.bench, desk.workspace);
    let call = json!({"command": "trap 'echo export A=1 > .envrc; exit 0' TERM; echo ready; while :; do sleep 0.1; done", "background": true});
    let id = id_of(&bench.call("run_command", call));
    let (text, _) = native(&bench.call("check_command", json!({"id": id, "wait_ms": 60_000})));
    assert!(text.contains("ready"), "{text}");
    drop(bench);
    assert!(!workspace.join(".envrc").exists());
    drop(desk.scratch);
}

#[test]
fn secrets_stay_hidden_and_one_that_appears_ends_it() {
    let desk = Desk::new(Profile::NATIVE);
    desk.write(".env", "TOKEN=hidden\n");
    let id = desk.ready("cat .env; echo ready; while :; do cat .env.local 2>/dev/null; sleep 0.1; done");
    assert!(!desk.bench.call("check_command", json!({"id": id, "after": 0})).answer.text.contains("hidden"));
    // Sockets are masked as well, and a server makes its own.
    let listener = std::os::unix::net::UnixListener::bind(desk.workspace.join("own.sock")).unwrap();
    desk.write("sub/.env", "TOKEN=hidden\n");
    let begun = Instant::now();
    while desk.check_now(&id).1["state"] == "running" {
        assert!(begun.elapsed() < Duration::from_secs(120), "it goes on beside a secret that is not masked");
    }
    assert_eq!(desk.check(&id).1["stopped"], "denied_file_appeared");
    drop(listener);
}

#[test]
fn files_are_moved_and_put_back_beside_a_command_that_writes() {
    let desk = Desk::new(Profile::NATIVE);
    desk.write("a.txt", "one\n");
    desk.write("busy/log", "");
    let id = desk.ready(
        "echo ready; while :; do echo x >> busy/log; mv busy/log busy/log2; mv busy/log2 busy/log; done",
    );
    for _ in 0..20 {
        let edited =
            desk.bench.must("edit_file", json!({"path": "a.txt", "old_text": "one", "new_text": "two"}));
        let moved = desk.bench.must("move_file", json!({"from": "a.txt", "to": "busy/b.txt"}));
        desk.bench.undo(moved.call, Default::default()).unwrap();
        desk.bench.undo(edited.call, Default::default()).unwrap();
        assert_eq!(std::fs::read_to_string(desk.workspace.join("a.txt")).unwrap(), "one\n");
        assert!(!desk.workspace.join("busy/b.txt").exists());
    }
    desk.stop(&id);
    assert!(toolgate_attack::litter_below(&desk.workspace).is_empty());
    desk.bench.verify_audit();
}

#[test]
fn nobody_is_asked_about_a_command_that_cannot_run() {
    let guided = || Caller { trust: Trust::Guided, ..person("test") };
    let asked = |reply: Option<ApprovalReply>, change: &dyn Fn(BenchOptions) -> BenchOptions| {
        let person = Scripted::new(reply);
        let approver = Arc::clone(&person);
        let change = |options| change(options).approver(approver, Duration::from_secs(600));
        (Desk::with(Profile::NATIVE, change), person)
    };
    let one = |options: BenchOptions| options.config("sandbox: {background: 1}");
    let (desk, person_of_one) = asked(Some(ApprovalReply::Once), &one);
    let sleep = json!({"command": "sleep 1000", "background": true});
    let first = desk.bench.call_as(guided(), "run_command", sleep.clone());
    let second = desk.bench.call_as(guided(), "run_command", sleep);
    assert_eq!(code_of(&second), Some(ErrorCode::ResourceLimit), "{}", second.answer.text);
    assert_eq!(person_of_one.asked().len(), 1);
    desk.stop(&id_of(&first));
    let (desk, nobody) = asked(None, &BenchOptions::without_sandbox);
    let called = desk.bench.call_as(guided(), "run_command", json!({"command": "true"}));
    assert_eq!(code_of(&called), Some(ErrorCode::SandboxUnavailable), "{}", called.answer.text);
    assert!(nobody.asked().is_empty());
}

#[test]
fn the_number_is_the_operators_and_off_means_none() {
    let desk = Desk::with(Profile::NATIVE, |options| options.config("sandbox: {background: 1}"));
    let id = desk.started("sleep 1000");
    assert_eq!(code_of(&desk.start("sleep 1000")), Some(ErrorCode::ResourceLimit));
    desk.stop(&id);
    let off = Desk::with(Profile::NATIVE, |options| options.config("sandbox: {background: off}"));
    assert_eq!(code_of(&off.start("true")), Some(ErrorCode::InvalidArguments));
    assert_eq!(code_of(&off.bench.call("check_command", json!({}))), Some(ErrorCode::UnknownTool));
    for profile in [Profile::SIDECAR, Profile::STUDIO] {
        let desk = Desk::new(profile);
        let called = desk.bench.call(desk.tool, json!({"command": "true", "background": true}));
        assert_eq!(code_of(&called), Some(ErrorCode::InvalidArguments), "{}", called.answer.text);
    }
}

#[test]
fn output_is_kept_up_to_a_bound_and_sanitised() {
    let desk = Desk::new(Profile::NATIVE);
    let id = desk.started("printf '\\033]0;title\\007red\\033[31m\\342\\200\\256\\n'; yes 0123456789abcdef | head -n 100000; echo end; sleep 1000");
    let (mut seen, mut lost) = (String::new(), 0);
    while !seen.ends_with("end\n") {
        let facts = desk.check(&id).1;
        seen.push_str(facts["output"].as_str().unwrap());
        lost += facts["lost"].as_u64().unwrap();
    }
    assert!(!seen.contains(['\u{1b}', '\u{202e}', '\u{7}']));
    assert_eq!(seen.len() as u64 + lost, 4 + 17 * 100_000 + 4, "what is gone is counted");
    desk.stop(&id);
}

#[test]
fn a_grant_by_leading_words_starts_nothing_in_the_background() {
    let approver = Scripted::new([ApprovalReply::Denied(None)]);
    let asked = Arc::clone(&approver);
    let desk = Desk::with(Profile::NATIVE, |options| options.approver(approver, Duration::from_secs(30)));
    let caller = || Caller { trust: Trust::Guided, ..person("test") };
    let run = |arguments: Value| desk.bench.call_as(caller(), "run_command", arguments);
    run(json!({"command": "git status"}));
    let offers = asked.asked().remove(0).grants;
    let words = offers.iter().find(|offer| offer.id.starts_with("command-")).unwrap();
    asked.will_reply(ApprovalReply::Granted(words.id.clone()));
    assert_eq!(code_of(&run(json!({"command": "git status"}))), None);
    assert_eq!(code_of(&run(json!({"command": "git status --short"}))), None, "the grant covers this");
    let before = asked.asked().len();
    asked.will_reply(ApprovalReply::Denied(None));
    let called = run(json!({"command": "git status --short", "background": true}));
    assert_eq!(code_of(&called), Some(ErrorCode::ApprovalDenied), "{}", called.answer.text);
    let question = asked.asked().remove(before);
    assert!(question.preview.summary.iter().any(|line| line.starts_with("in the background: goes on")));
    // No question is asked about looking at one and stopping it.
    asked.will_reply(ApprovalReply::Once);
    let id = id_of(&run(json!({"command": "sleep 1000", "background": true})));
    for tool in ["check_command", "stop_command"] {
        assert_eq!(code_of(&desk.bench.call_as(caller(), tool, json!({"id": id}))), None, "{tool}");
    }
    assert_eq!(asked.asked().len(), before + 2);
}
