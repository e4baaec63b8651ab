//! Authorisation through the whole gate: permissions, conditions and policies.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_attack::{Bench, BenchOptions, Scratch, code_of, person};
use toolgate_tools::{CallResponse, Profile};
use toolgate_types::{Caller, ErrorCode, Stage, ToolClass};

use crate::declared::Declared;

const AGENTS: &str = "
agents:
  nobody: {}
  reader: {permissions: ['git:read']}
  deep: {permissions: ['git:read', 'git:deep']}
  listed: {permissions: ['git:read', 'git:write'], tool_permissions: {log: {allowed: true}, commit: {allowed: true}, wipe: {allowed: true}}}
  unlisted: {permissions: ['git:read', 'git:write', 'allow_destructive'], tool_permissions: {read_file: {allowed: true}}}
  wiper: {permissions: ['git:write', 'allow_destructive'], tool_permissions: {wipe: {allowed: true}, log: {allowed: false}}}
";

struct Desk {
    tools: Vec<Arc<Declared>>,
    // Dropped before its directory, or it would recreate the directory.
    bench: Bench,
    _scratch: Scratch,
}

impl Desk {
    fn new(policies: &str) -> Self {
        let scratch = Scratch::new();
        let tools = vec![
            Declared::new("log")
                .permissions(&["git:read"])
                .elevated("input has count && input.count * 2 > 40", &["git:deep"])
                .share(),
            Declared::new("commit").class(ToolClass::Write).permissions(&["git:read", "git:write"]).share(),
            Declared::new("wipe").class(ToolClass::Destructive).permissions(&["git:write"]).share(),
            Declared::new("echo").share(),
        ];
        let mut options = BenchOptions::new(Profile::NATIVE, &scratch.folder("w"), &scratch.folder("s"))
            .config(AGENTS)
            .policies(policies);
        for tool in &tools {
            options = options.tool(tool.clone());
        }
        Self { bench: options.open(), tools, _scratch: scratch }
    }

    fn call(&self, agent: &str, granted: &[&str], tool: &str, arguments: Value) -> CallResponse {
        self.bench.call_as(caller(agent, granted), tool, arguments)
    }

    fn runs(&self) -> usize {
        self.tools.iter().map(|tool| tool.runs()).sum()
    }

    /// Fails unless the call is refused for this reason, which only the operator sees.
    fn refused(&self, called: &CallResponse, reason: &str) {
        let (stage, failure) = called.failed.as_ref().expect("the call was allowed");
        assert_eq!((*stage, failure.code), (Stage::Permission, ErrorCode::NotPermitted), "{failure}");
        let told = format!(
            "{} {}",
            called.answer.text,
            failure.details.values().map(Value::to_string).collect::<String>()
        );
        for secret in ["git:", "permission `", "condition", "policy", "allow_destructive", "forbid", reason] {
            assert!(!told.contains(secret), "the model was told {secret:?}: {told}");
        }
        let denial = self.bench.record(called.call).denial.unwrap();
        assert!(denial.reason.contains(reason), "{reason:?} is not in: {}", denial.reason);
    }
}

/// A person acting as an agent, or as none.
fn caller(agent: &str, granted: &[&str]) -> Caller {
    Caller {
        agent: (!agent.is_empty()).then(|| agent.parse().unwrap()),
        permissions: granted.iter().map(|permission| (*permission).to_owned()).collect(),
        ..person("s1")
    }
}

#[test]
fn every_caller_may_use_exactly_what_was_declared() {
    let desk = Desk::new("");
    let tools = ["log", "commit", "wipe", "echo", "read_file"];
    // A person, and agents; with the permissions that they hold besides the declared ones.
    let matrix: [(&str, &[&str], [bool; 5]); 9] = [
        ("", &[], [true, true, true, true, true]),
        ("nobody", &[], [false, false, false, true, true]),
        ("nobody", &["git:read", "git:write", "allow_destructive"], [true, false, false, true, true]),
        ("reader", &[], [true, false, false, true, true]),
        ("deep", &[], [true, false, false, true, true]),
        ("listed", &[], [true, true, false, false, false]),
        ("listed", &["allow_destructive"], [true, true, true, false, false]),
        ("unlisted", &[], [false, false, false, false, true]),
        ("wiper", &["git:read"], [false, false, true, false, false]),
    ];
    for (agent, granted, allowed) in matrix {
        let visible: Vec<String> = desk
            .bench
            .gate()
            .visible_tools(&caller(agent, granted))
            .iter()
            .map(|tool| tool.spec().name.to_string())
            .collect();
        for (tool, is_allowed) in tools.into_iter().zip(allowed) {
            let what = format!("`{agent}` with {granted:?} calls {tool}");
            let arguments = if tool == "read_file" { json!({"path": "."}) } else { json!({}) };
            let before = desk.runs();
            let called = desk.call(agent, granted, tool, arguments);
            let is_refused = code_of(&called) == Some(ErrorCode::NotPermitted);
            assert_eq!(is_refused, !is_allowed, "{what}: {}", called.answer.text);
            assert_eq!(desk.runs() > before, is_allowed && tool != "read_file", "{what}");
            // A model is shown what it may use, and nothing else.
            assert_eq!(visible.iter().any(|name| name == tool), is_allowed, "{what}");
        }
    }
}

#[test]
fn a_refusal_names_what_is_missing_to_the_operator_alone() {
    let desk = Desk::new("");
    for (agent, tool, reason) in [
        ("nobody", "log", "lacks permission `git:read`"),
        (
            "listed",
            "wipe",
            "lacks permission `allow_destructive`, because the tool is of class `destructive`",
        ),
        ("unlisted", "log", "not among the `tool_permissions`"),
        ("wiper", "log", "`allowed: false`"),
    ] {
        desk.refused(&desk.call(agent, &[], tool, json!({})), reason);
    }
    assert_eq!(desk.runs(), 0);
}

#[test]
fn a_condition_that_holds_or_cannot_be_told_demands_more() {
    let desk = Desk::new("");
    let too_large = 9_000_000_000_000_000_000_u64;
    for (count, is_elevated, reason) in [
        (20, false, ""),
        (21, true, "lacks permission `git:deep`, because the condition"),
        (too_large, true, "could not be evaluated"),
        (u64::MAX, true, "could not be evaluated"),
    ] {
        let ordinary = desk.call("reader", &[], "log", json!({"count": count}));
        match is_elevated {
            true => desk.refused(&ordinary, reason),
            false => assert_eq!(ordinary.failed, None, "{count}"),
        }
        let deep = desk.call("deep", &[], "log", json!({"count": count}));
        assert_eq!(deep.failed, None, "{count}: {}", deep.answer.text);
    }
    // Invalid arguments are evaluated before they are validated, and never to the caller's advantage.
    desk.refused(&desk.call("reader", &[], "log", json!({"count": "many"})), "could not be evaluated");
    desk.refused(&desk.call("reader", &[], "log", json!([])), "could not be evaluated");
    // The condition hides no tool: some calls of it are ordinary.
    let visible = desk.bench.gate().visible_tools(&caller("reader", &[]));
    assert!(visible.iter().any(|tool| tool.spec().name.as_str() == "log"));
}

#[test]
fn a_forbid_stops_whoever_may() {
    let desk = Desk::new(
        r#"
        @id("quiet") forbid(principal, action == Action::"echo", resource)
            when { context.input has text && context.input.text like "*secret*" };
        @id("not-deep") forbid(principal == Agent::"deep", action, resource);
        @id("no-wiping") forbid(principal, action in Action::"class:destructive", resource);
        "#,
    );
    assert_eq!(desk.call("", &[], "echo", json!({"text": "hello"})).failed, None);
    let before = desk.runs();
    desk.refused(&desk.call("", &[], "echo", json!({"text": "a secret"})), "`quiet`");
    desk.refused(&desk.call("nobody", &[], "echo", json!({"text": "a secret"})), "`quiet`");
    desk.refused(&desk.call("deep", &[], "log", json!({})), "`not-deep`");
    desk.refused(&desk.call("deep", &[], "read_file", json!({"path": "a"})), "`not-deep`");
    desk.refused(&desk.call("", &[], "wipe", json!({})), "`no-wiping`");
    desk.refused(&desk.call("listed", &["allow_destructive"], "wipe", json!({})), "`no-wiping`");
    assert_eq!(desk.runs(), before);
    assert_eq!(desk.call("reader", &[], "log", json!({})).failed, None);
}

#[test]
fn a_policy_that_cannot_be_evaluated_denies() {
    let desk = Desk::new(
        r#"@id("sum") forbid(principal, action == Action::"echo", resource)
            when { context.input has count && context.input.count + 1 < 0 };"#,
    );
    assert_eq!(desk.call("", &[], "echo", json!({"count": 1})).failed, None);
    let called = desk.call("", &[], "echo", json!({"count": i64::MAX}));
    desk.refused(&called, "`sum` could not be evaluated");
    desk.refused(&desk.call("", &[], "echo", json!({"count": "one"})), "could not be evaluated");
    assert_eq!(desk.runs(), 1);
}

#[test]
fn a_permit_closes_the_tool_to_everybody_else_and_grants_nothing() {
    let desk =
        Desk::new(r#"@id("only") permit(principal == Agent::"reader", action == Action::"log", resource);"#);
    assert_eq!(desk.call("reader", &[], "log", json!({})).failed, None);
    desk.refused(&desk.call("deep", &[], "log", json!({})), "`only`");
    desk.refused(&desk.call("", &[], "log", json!({})), "`only`");
    // A permit does not grant what permissions withhold.
    desk.refused(&desk.call("reader", &[], "log", json!({"count": 21})), "git:deep");
    assert_eq!(desk.call("nobody", &[], "echo", json!({})).failed, None);
}

#[test]
fn policies_know_how_many_calls_a_session_made() {
    let desk = Desk::new(
        r#"@id("three") forbid(principal, action == Action::"echo", resource) when { context.session.calls >= 3 };"#,
    );
    for _ in 0..2 {
        assert_eq!(desk.call("", &[], "echo", json!({})).failed, None);
    }
    // Every call counts, however it ended.
    assert!(desk.call("nobody", &[], "wipe", json!({})).failed.is_some());
    desk.refused(&desk.call("", &[], "echo", json!({})), "`three`");
    let other = Caller { session: "s2".parse().unwrap(), ..caller("", &[]) };
    assert_eq!(desk.bench.call_as(other, "echo", json!({})).failed, None);
}
