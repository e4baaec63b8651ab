//! Commands that manifests declare.

use std::sync::{Arc, Mutex};

use serde_json::json;
use toolgate_attack::{Tree, code_of, person};
use toolgate_gate::{CallOptions, ProgressUpdate};
use toolgate_tools::Profile;
use toolgate_types::{Decision, ErrorCode, ToolCall};

use super::{Desk, MAKER, git, holding, proxy, structured};

/// What a developer would write: about fifteen lines.
const GIT_LOG: &str = r#"tool: git_log
description: Recent commits
class: read
permissions: [git:read]
input:
  properties: {count: {type: integer, minimum: 1, maximum: 50}}
  required: [count]
elevated: {when: input.count > 20, permissions: [git:deep]}
command: [git, log, --oneline, "--max-count={count}"]
cwd: "@project"
timeout: 30s
output: {parse: lines, schema: {type: array, items: {type: string}}}
policy: {"*": allow}
"#;

#[test]
fn success_1_a_tool_is_declared_in_about_fifteen_lines() {
    assert!(GIT_LOG.lines().count() <= 15);
    let desk = proxy(GIT_LOG);
    git(&desk.workspace, &["init", "-q"]);
    git(&desk.workspace, &["commit", "-q", "--allow-empty", "-m", "first commit"]);
    let called = desk.bench.must("git_log", json!({"count": 5}));
    let answer = structured(&called);
    assert_eq!(answer["ok"], true);
    assert!(answer["data"][0].as_str().unwrap().ends_with("first commit"), "{answer}");
}

#[test]
fn success_2_nothing_is_called_that_was_not_declared() {
    let desk = proxy(GIT_LOG);
    for tool in ["run_command", "read_file", "git_push", "git_log ", "GIT_LOG", "../git_log", ""] {
        let called = desk.bench.call(tool, json!({"count": 1}));
        let error = &structured(&called)["error"];
        assert_eq!((&error["code"], &error["stage"]), (&json!("unknown_tool"), &json!("REGISTRY")), "{tool}");
    }
}

#[test]
fn success_3_arguments_are_checked_before_any_command_runs() {
    let desk = proxy(MAKER);
    let before = Tree::of(&desk.workspace);
    for arguments in [
        json!({}),
        json!({"name": 7}),
        json!({"name": "../x"}),
        json!({"name": "ok", "more": 1}),
        json!({"name": "a b"}),
        json!([]),
    ] {
        let called = desk.bench.call("make_file", arguments.clone());
        let error = &structured(&called)["error"];
        assert_eq!(
            (&error["code"], &error["stage"]),
            (&json!("invalid_arguments"), &json!("VALIDATION")),
            "{arguments}"
        );
    }
    assert!(before.differences(&Tree::of(&desk.workspace)).is_empty());
    desk.bench.must("make_file", json!({"name": "made", "note": "x"}));
    assert!(desk.workspace.join("made").exists());
}

#[test]
fn success_4_no_shell_reads_an_argument() {
    let desk = proxy(MAKER);
    for note in [
        "$(touch pwned)",
        "`touch pwned`",
        "; touch pwned",
        "&& touch pwned",
        "| touch pwned",
        "> pwned",
        "*",
        "a  b",
        "'\"\\",
    ] {
        let answer = structured(&desk.bench.must("make_file", json!({"name": "made", "note": note})));
        assert_eq!(answer["data"], note);
    }
    assert_eq!(std::fs::read_dir(&desk.workspace).unwrap().count(), 1);
}

#[test]
fn success_5_only_what_was_allowed_of_an_answer_leaves() {
    let desk = proxy(
        r#"tool: customer
description: A customer
class: read
permissions: [customer:read]
input: {properties: {}}
command: [printf, '{{"name": "Ada", "card": "4111-secret", "mail": "ada@example.com", "inner": {{"note": "private"}}}}']
output: {parse: json}
policy: {name: allow, card: redact, mail: mask}
"#,
    );
    let called = desk.bench.must("customer", json!({}));
    assert_eq!(structured(&called)["data"], json!({"name": "Ada", "card": "[redacted]", "mail": "a***m"}));
    for secret in ["4111", "private", "example.com"] {
        assert!(!called.answer.text.contains(secret), "{}", called.answer.text);
    }
}

#[test]
fn success_6_every_call_leaves_one_record() {
    let desk = Desk::with(Profile::PROXY, |options| options.manifest(GIT_LOG).config("agents: {worker: {}}"));
    let calls = [
        (holding(&["git:read"]), "git_log", json!({"count": 5}), Decision::Error, Some("command_failed")),
        (holding(&["git:read"]), "git_log", json!({"count": 30}), Decision::Denied, Some("not_permitted")),
        (holding(&[]), "git_log", json!({"count": 5}), Decision::Denied, Some("not_permitted")),
        (holding(&["git:read"]), "git_log", json!({"count": 0}), Decision::Denied, Some("invalid_arguments")),
        (holding(&["git:read"]), "rm", json!({}), Decision::Denied, Some("unknown_tool")),
        (person("s1"), "git_log", json!({"count": 30}), Decision::Allowed, None),
    ];
    for (index, (caller, tool, arguments, decision, code)) in calls.into_iter().enumerate() {
        if decision == Decision::Allowed {
            git(&desk.workspace, &["init", "-q"]);
            git(&desk.workspace, &["commit", "-q", "--allow-empty", "-m", "first"]);
        }
        let called = desk.bench.call_as(caller, tool, arguments);
        assert_eq!(desk.bench.record(called.call).decision, decision, "{index}: {}", called.answer.text);
        assert_eq!(code_of(&called).map(ErrorCode::as_str), code, "{index}: {}", called.answer.text);
    }
    assert_eq!(desk.bench.verify_audit(), 6);
}

#[test]
fn a_failed_command_tells_the_model_its_exit_code_and_the_operator_the_rest() {
    let desk = proxy(
        "tool: fails\ndescription: Fails\nclass: read\npermissions: [t:use]\ninput: {properties: {}}\n\
         command: [sh, -c, 'echo partial; echo confidential reason >&2; exit 7']\npolicy: {\"*\": allow}\n",
    );
    let called = desk.bench.call("fails", json!({}));
    let error = structured(&called)["error"].clone();
    assert_eq!((&error["code"], &error["stage"]), (&json!("command_failed"), &json!("EXECUTION")));
    assert_eq!(error["details"]["exit_code"], 7);
    assert!(
        !called.answer.text.contains("confidential") && !called.answer.text.contains("partial"),
        "{}",
        called.answer.text
    );
    // The operator sees the output; the audit record, which never quotes arguments, does not contain it.
    assert!(called.failed.unwrap().1.terminal_note.unwrap().contains("confidential reason"));
    let reason = desk.bench.record(called.call).denial.unwrap().reason;
    assert_eq!(reason, "the command ended with exit code 7");
}

#[test]
fn what_a_tool_may_not_answer_is_not_shown_while_it_runs_either() {
    let desk = proxy(
        "tool: t\ndescription: Something\nclass: read\npermissions: [t:use]\ninput: {properties: {}}\ncommand: [echo, confidential]\npolicy: {\"*\": redact}\n",
    );
    let heard = Arc::new(Mutex::new(String::new()));
    let listening = Arc::clone(&heard);
    let progress = move |said: ProgressUpdate<'_>| listening.lock().unwrap().push_str(said.text);
    let options = CallOptions { progress: Some(Arc::new(progress)), ..CallOptions::default() };
    let call = ToolCall::new("t", json!({}));
    let called = desk.bench.wait(desk.bench.front().call(call, person("test"), options));
    assert_eq!(structured(&called), json!({"ok": true, "data": "[redacted]"}));
    assert_eq!(heard.lock().unwrap().as_str(), "");
}

#[test]
fn a_manifest_is_held_to_what_it_declares() {
    let cases = [
        ("success_codes: [0, 7]", "exit 7", None),
        ("timeout: 300ms", "echo begun; sleep 1000", Some(ErrorCode::Timeout)),
        ("limits: {output: 1KiB}", "seq 1 100000", Some(ErrorCode::ResourceLimit)),
        // On a busy machine a second of processor time takes a while.
        ("timeout: 10m\nlimits: {cpu_time: 1s}", "while :; do :; done", Some(ErrorCode::ResourceLimit)),
        ("output: {parse: json}", "echo not json", Some(ErrorCode::OutputInvalid)),
        (
            "output: {parse: lines, schema: {type: array, maxItems: 1}}",
            "echo a; echo b",
            Some(ErrorCode::OutputInvalid),
        ),
        ("cwd: \"@project\"", "touch made", Some(ErrorCode::CommandFailed)),
        ("cwd: \"@project\"\nmounts: [\"@project:rw\"]", "echo x > .envrc", Some(ErrorCode::DeniedPath)),
        ("cwd: \"@project/missing\"", "true", Some(ErrorCode::NotFound)),
        ("cwd: \"@project/.ssh\"", "true", Some(ErrorCode::DeniedPath)),
        ("environment: {GREETING: hello}", "test \"$GREETING\" = hello", None),
        ("", "test $(pwd) = /tmp && test ! -e /mnt/project", None),
    ];
    for (rest, line, code) in cases {
        let desk = proxy(&format!(
            "tool: t\ndescription: Something\nclass: read\npermissions: [t:use]\ninput: {{properties: {{}}}}\ncommand: [sh, -c, '{line}']\npolicy: {{\"*\": allow}}\n{rest}\n"
        ));
        desk.write(".ssh/config", "");
        let called = desk.bench.call("t", json!({}));
        assert_eq!(code_of(&called), code, "{rest}: {line}: {}", called.answer.text);
        assert!(!called.answer.text.contains("begun"), "{}", called.answer.text);
        assert!(!desk.workspace.join("made").exists() && !desk.workspace.join(".envrc").exists());
    }
    let desk = proxy(
        "tool: t\ndescription: Something\nclass: read\npermissions: [t:use]\ninput: {properties: {}}\ncommand: [no-such-program]\npolicy: {\"*\": allow}\n",
    );
    assert_eq!(code_of(&desk.bench.call("t", json!({}))), Some(ErrorCode::CommandNotFound));
}
