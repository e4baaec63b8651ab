//! Tools, agents and policies that are reloaded during calls.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;
use toolgate_attack::{Bench, BenchOptions, Scratch, code_of, person};
use toolgate_gate::{
    ApprovalReply, ApprovalRequest, ApprovedCall, Approver, CallContext, Gate, GateConfig, Registry, Tool,
    ToolFuture, ToolSpec,
};
use toolgate_manifest::Config;
use toolgate_policy::{PathInputs, Policies, PolicySource, PolicyTool};
use toolgate_tools::Profile;
use toolgate_types::{Caller, ErrorCode, Failure, Outcome, ToolCall, ToolClass, ToolOutput, Trust};

use crate::approval::Scripted;
use crate::declared::Declared;
use crate::pace::TestClock;

/// The bench's configuration, with other tools of these names.
fn with_tools(bench: &Bench, tools: &[Arc<dyn Tool>]) -> GateConfig {
    let mut registry = Registry::new();
    let names: Vec<&str> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
    for tool in bench.loaded().registry.iter().filter(|tool| !names.contains(&tool.spec().name.as_str())) {
        registry.register(Arc::clone(tool)).unwrap();
    }
    for tool in tools {
        registry.register(Arc::clone(tool)).unwrap();
    }
    GateConfig { registry, ..bench.loaded().clone() }
}

fn forbidding_everything(loaded: &GateConfig) -> Arc<Policies> {
    let tools: Vec<PolicyTool<'_>> = loaded
        .registry
        .iter()
        .map(|tool| tool.spec())
        .map(|spec| PolicyTool {
            name: spec.name.as_str(),
            class: spec.class,
            schema: &spec.input_schema,
            paths: PathInputs::NONE,
        })
        .collect();
    let text = "@id(\"closed\") forbid(principal, action, resource);";
    Arc::new(Policies::load(&[PolicySource { file: "test.cedar", text }], &tools).unwrap())
}

/// A tool that signals its start and waits until it may go on.
struct Slow {
    inner: Arc<Declared>,
    begun: Arc<Notify>,
    may_go_on: Arc<Notify>,
}

impl Tool for Slow {
    fn spec(&self) -> &ToolSpec {
        self.inner.spec()
    }

    fn run(self: Arc<Self>, call: ApprovedCall, context: CallContext) -> ToolFuture {
        Box::pin(async move {
            self.begun.notify_one();
            self.may_go_on.notified().await;
            Arc::clone(&self.inner).run(call, context).await
        })
    }
}

fn saying(words: &'static str) -> Declared {
    Declared::new("slow").answers(move |_| Ok(ToolOutput::new(words.to_owned(), json!(words))))
}

#[test]
fn a_call_ends_with_the_tools_and_rules_that_it_began_with() {
    let scratch = Scratch::new();
    let (begun, may_go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let old = Slow {
        inner: saying("old")
            .output(json!({"const": "old"}), &[("*", toolgate_policy::OutputRule::Allow)])
            .share(),
        begun: Arc::clone(&begun),
        may_go_on: Arc::clone(&may_go_on),
    };
    let bench = BenchOptions::new(Profile::NATIVE, &scratch.folder("w"), &scratch.folder("s"))
        .config("agents: {one: {}}")
        .tool(Arc::new(old))
        .open();
    let gate = Arc::clone(bench.gate());
    assert_eq!(gate.generation(), 0);
    let caller = || Caller { agent: Some("one".parse().unwrap()), ..person("s1") };
    let call = || gate.call(ToolCall::new("slow", json!({})), caller(), Default::default());
    let new = with_tools(&bench, &[saying("new").output(json!({"const": "new"}), &[]).share()]);
    let (under_way, ()) = bench.wait(async {
        tokio::join!(call(), async {
            begun.notified().await;
            // The tool is replaced, then forbidden, then its caller is unknown.
            assert_eq!(gate.replace_config(new.clone()), 1);
            assert!(
                matches!(call().await.outcome, Outcome::Done(output) if output.structured == Value::Null)
            );
            let policies = forbidding_everything(&new);
            assert_eq!(gate.replace_config(GateConfig { policies, ..new.clone() }), 2);
            assert_eq!(failure(call().await.outcome).code, ErrorCode::NotPermitted);
            gate.replace_config(GateConfig { agents: Vec::new(), ..new.clone() });
            assert_eq!(failure(call().await.outcome).code, ErrorCode::Unauthenticated);
            gate.replace_config(GateConfig::new(Registry::new(), new.limits));
            assert_eq!(failure(call().await.outcome).code, ErrorCode::UnknownTool);
            may_go_on.notify_one();
        })
    });
    assert!(matches!(under_way.outcome, Outcome::Done(output) if output.text == "old"));
    assert_eq!(gate.generation(), 4);
    assert_eq!(bench.verify_audit(), 5);
}

fn failure(outcome: Outcome) -> Failure {
    match outcome {
        Outcome::Failed { failure, .. } => failure,
        Outcome::Done(output) => panic!("the call was let through: {output:?}"),
    }
}

#[test]
fn a_yes_for_the_session_is_to_the_tool_as_it_was() {
    let tool = || Declared::new("push").class(ToolClass::Write).permissions(&["git:push"]);
    type Change = fn(Declared) -> Declared;
    let changes: [(&str, Change, bool); 9] = [
        ("nothing", |tool| tool, true),
        ("its answers", |tool| tool.answers(|_| Err(Failure::new(ErrorCode::Internal, ""))), true),
        ("its description", |tool| tool.description("Does something else"), false),
        ("its arguments", |tool| tool.input(json!({"type": "object"})), false),
        ("its class", |tool| tool.class(ToolClass::Destructive), false),
        ("its permissions", |tool| tool.permissions(&[]), false),
        ("its condition", |tool| tool.elevated("input has count", &["git:deep"]), false),
        ("what it does", |tool| tool.fingerprint(Some("two")), false),
        ("what it does, as far as anybody can tell", |tool| tool.fingerprint(None), false),
    ];
    for (name, change, still_holds) in changes {
        let scratch = Scratch::new();
        let approver = Scripted::new([ApprovalReply::ForSession]);
        let bench = BenchOptions::new(Profile::NATIVE, &scratch.folder("w"), &scratch.folder("s"))
            .approver(approver.clone(), Duration::from_millis(20))
            .tool(tool().share())
            .open();
        let caller = Caller { trust: Trust::Guided, ..person("s1") };
        let call = || bench.call_as(caller.clone(), "push", json!({}));
        assert_eq!((code_of(&call()), code_of(&call())), (None, None));
        bench.gate().replace_config(with_tools(&bench, &[change(tool()).share()]));
        let is_asked = code_of(&call()) == Some(ErrorCode::ApprovalExpired);
        assert_eq!(is_asked, !still_holds, "{name}");
        assert_eq!(approver.asked().len(), if still_holds { 1 } else { 2 }, "{name}");
    }
}

#[test]
fn a_tool_that_cannot_tell_what_it_does_is_asked_about_after_every_reload() {
    let scratch = Scratch::new();
    let approver = Scripted::new([ApprovalReply::ForSession, ApprovalReply::ForSession]);
    let tool = || Declared::new("push").class(ToolClass::Write).fingerprint(None).share();
    let bench = BenchOptions::new(Profile::NATIVE, &scratch.folder("w"), &scratch.folder("s"))
        .approver(approver.clone(), Duration::from_millis(20))
        .tool(tool())
        .open();
    let caller = Caller { trust: Trust::Guided, ..person("s1") };
    for questions in [1, 2] {
        for _ in 0..3 {
            assert_eq!(code_of(&bench.call_as(caller.clone(), "push", json!({}))), None);
        }
        assert_eq!(approver.asked().len(), questions);
        bench.gate().replace_config(with_tools(&bench, &[tool()]));
    }
}

#[test]
fn a_reload_neither_refills_rates_nor_ends_a_rest() {
    let (scratch, clock) = (Scratch::new(), TestClock::new());
    let config = "
rate_limits: [{tool: echo, calls: 1, per: 1h}]
breaker: {failures: 1, within: 1m, rest: 1h}
";
    let echo = || Declared::new("echo").share();
    let broken = || Declared::new("broken").answers(|_| Err(Failure::new(ErrorCode::Internal, "")));
    let bench = BenchOptions::new(Profile::NATIVE, &scratch.folder("w"), &scratch.folder("s"))
        .config(config)
        .clock(clock.read())
        .tool(echo())
        .tool(broken().share())
        .open();
    let code = |tool: &str| code_of(&bench.call(tool, json!({})));
    assert_eq!((code("echo"), code("echo")), (None, Some(ErrorCode::RateLimited)));
    assert_eq!((code("broken"), code("broken")), (Some(ErrorCode::Internal), Some(ErrorCode::ToolSuspended)));
    bench.gate().replace_config(with_tools(&bench, &[echo(), broken().share()]));
    assert_eq!(code("echo"), Some(ErrorCode::RateLimited));
    assert_eq!(code("broken"), Some(ErrorCode::ToolSuspended));
    // A tool with another fingerprint is another tool.
    let mended = Declared::new("broken").fingerprint(Some("mended")).share();
    bench.gate().replace_config(with_tools(&bench, &[echo(), mended]));
    assert_eq!((code("echo"), code("broken")), (Some(ErrorCode::RateLimited), None));
}

#[test]
fn agents_are_those_of_the_latest_load() {
    let scratch = Scratch::new();
    let bench = BenchOptions::new(Profile::NATIVE, &scratch.folder("w"), &scratch.folder("s"))
        .config("agents: {one: {tool_permissions: {write_file: {allowed: true}}}}")
        .open();
    let one = || Caller { agent: Some("one".parse().unwrap()), ..person("s1") };
    let names = || -> Vec<Value> {
        bench.gate().visible_tools(&one()).iter().map(|tool| json!(tool.spec().name)).collect()
    };
    assert_eq!(names(), [json!("write_file")]);
    let config =
        Config::parse("test", "agents: {one: {tool_permissions: {read_file: {allowed: true}}}}").unwrap();
    bench.gate().replace_config(GateConfig { agents: config.agents, ..bench.loaded().clone() });
    assert_eq!(names(), [json!("read_file")]);
    let called = bench.call_as(one(), "write_file", json!({"path": "a", "content": ""}));
    assert_eq!(code_of(&called), Some(ErrorCode::NotPermitted));
}

/// Approves, after a reload while the question is open.
struct Late {
    gate: Mutex<Option<Arc<Gate>>>,
    next: Mutex<Option<GateConfig>>,
}

impl Approver for Late {
    fn ask(&self, _: ApprovalRequest) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>> {
        if let (Some(gate), Some(next)) = (&*self.gate.lock().unwrap(), self.next.lock().unwrap().take()) {
            gate.replace_config(next);
        }
        Box::pin(async { ApprovalReply::Once })
    }
}

#[test]
fn a_yes_is_no_way_around_what_was_loaded_while_the_question_was_open() {
    type Change = fn(GateConfig, &Path) -> GateConfig;
    let changes: [(&str, Change, Option<ErrorCode>); 6] = [
        ("nothing", |loaded, _| loaded, None),
        (
            "a forbid",
            |loaded, _| GateConfig { policies: forbidding_everything(&loaded), ..loaded },
            Some(ErrorCode::NotPermitted),
        ),
        (
            "no agent any more",
            |loaded, _| GateConfig { agents: Vec::new(), ..loaded },
            Some(ErrorCode::Unauthenticated),
        ),
        (
            "an agent that may only read",
            |loaded, _| {
                let config = Config::parse("t.yaml", "agents: {one: {}}").unwrap();
                GateConfig { agents: config.agents, ..loaded }
            },
            Some(ErrorCode::NotPermitted),
        ),
        (
            "no tool any more",
            |loaded, _| GateConfig { registry: Registry::new(), ..loaded },
            Some(ErrorCode::NotPermitted),
        ),
        (
            "a deny of the file",
            |loaded, state| {
                let workspace = state.parent().unwrap().join("w");
                let denying =
                    BenchOptions::new(Profile::NATIVE, &workspace, &state.join("other")).deny(&["a.txt"]);
                GateConfig { registry: denying.open().loaded().registry.clone(), ..loaded }
            },
            Some(ErrorCode::DeniedPath),
        ),
    ];
    for (name, change, expected) in changes {
        let scratch = Scratch::new();
        let (workspace, state) = (scratch.folder("w"), scratch.folder("s"));
        let late = Arc::new(Late { gate: Mutex::default(), next: Mutex::default() });
        let bench = BenchOptions::new(Profile::NATIVE, &workspace, &state)
            .config("agents: {one: {tool_permissions: {write_file: {allowed: true}}}}")
            .approver(Arc::clone(&late) as Arc<dyn Approver>, Duration::from_secs(60))
            .open();
        *late.gate.lock().unwrap() = Some(Arc::clone(bench.gate()));
        *late.next.lock().unwrap() = Some(change(bench.loaded().clone(), &state));
        let caller = Caller { agent: Some("one".parse().unwrap()), trust: Trust::Guided, ..person("s1") };
        let called = bench.call_as(caller, "write_file", json!({"path": "a.txt", "content": "x"}));
        let code = called.failed.as_ref().map(|(_, failure)| failure.code);
        assert_eq!(code, expected, "{name}: {}", called.answer.text);
        assert_eq!(workspace.join("a.txt").exists(), expected.is_none(), "{name}");
        *late.gate.lock().unwrap() = None;
    }
}
