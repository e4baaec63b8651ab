//! Where calls end: each at the first stage that rejects it, each with one record that says so.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_attack::{Bench, BenchOptions, Scratch, Tree, code_of, litter_below, person};
use toolgate_gate::{ApprovalReply, ApprovedCall, AuditMode, CallContext, Tool, ToolFuture, ToolSpec};
use toolgate_tools::{CallResponse, Profile};
use toolgate_types::{Caller, Category, Decision, ErrorCode, Stage, ToolClass, ToolOutput, Trust};

use crate::approval::Scripted;

/// A tool that violates its declaration.
struct Unruly {
    spec: ToolSpec,
    panics: bool,
}

impl Unruly {
    fn new(name: &str, panics: bool) -> Arc<Self> {
        let spec = ToolSpec {
            name: name.parse().unwrap(),
            title: "Unruly".to_owned(),
            description: "Declares a number and answers with something else".to_owned(),
            class: ToolClass::Read,
            category: Category::Search,
            input_schema: json!({"type": "object", "properties": {}, "additionalProperties": false}).into(),
            output_schema: json!({"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}).into(),
            requirements: None,
            output_policy: None,
            timeout: None,
            suspended: None,
        };
        Arc::new(Self { spec, panics })
    }
}

impl Tool for Unruly {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run(self: Arc<Self>, _call: ApprovedCall, _context: CallContext) -> ToolFuture {
        Box::pin(async move {
            assert!(!self.panics, "this tool has a defect");
            Ok(ToolOutput::new("undeclared".to_owned(), json!({"undeclared": true})))
        })
    }
}

const AGENTS: &str = "
agents:
  reader: {}
  writer: {tool_permissions: {write_file: {allowed: true, paths: ['docs/**']}, delete_file: {allowed: false}}}
";

struct Stand {
    workspace: PathBuf,
    approver: Arc<Scripted>,
    // Dropped before its directory, or it would recreate the directory.
    bench: Bench,
    _scratch: Scratch,
}

impl Stand {
    fn new(replies: impl IntoIterator<Item = ApprovalReply>) -> Self {
        let scratch = Scratch::new();
        let workspace = scratch.folder("w");
        std::fs::write(workspace.join("a.txt"), "old\n").unwrap();
        let approver = Scripted::new(replies);
        let bench = BenchOptions::new(Profile::NATIVE, &workspace, &scratch.folder("s"))
            .config(AGENTS)
            .approver(approver.clone(), Duration::from_millis(50))
            .tool(Unruly::new("lies", false))
            .tool(Unruly::new("breaks", true))
            .open();
        Self { _scratch: scratch, workspace, approver, bench }
    }

    fn call(&self, agent: Option<&str>, trust: Trust, tool: &str, arguments: Value) -> CallResponse {
        let agent = agent.map(|agent| agent.parse().unwrap());
        self.bench.call_as(Caller { agent, trust, ..person("s1") }, tool, arguments)
    }
}

/// A call that several stages would reject.
struct Case {
    name: &'static str,
    agent: Option<&'static str>,
    trust: Trust,
    tool: &'static str,
    arguments: Value,
    stage: Stage,
    code: ErrorCode,
}

fn cases() -> Vec<Case> {
    let misfit = || json!({"path": 7, "contents": "x", "depth": true});
    let case = |name, agent, trust, tool, arguments, stage, code| Case {
        name,
        agent,
        trust,
        tool,
        arguments,
        stage,
        code,
    };
    let supervised = Trust::Supervised;
    vec![
        case(
            "no such tool, no such agent, misfit arguments",
            Some("ghost"),
            supervised,
            "wipe_disk",
            misfit(),
            Stage::Registry,
            ErrorCode::UnknownTool,
        ),
        case(
            "no such agent, misfit arguments",
            Some("ghost"),
            supervised,
            "write_file",
            misfit(),
            Stage::Auth,
            ErrorCode::Unauthenticated,
        ),
        case(
            "no such agent that only reads",
            Some("ghost"),
            Trust::Autonomous,
            "read_file",
            json!({"path": "a.txt"}),
            Stage::Auth,
            ErrorCode::Unauthenticated,
        ),
        case(
            "not for readers, misfit arguments",
            Some("reader"),
            supervised,
            "write_file",
            misfit(),
            Stage::Permission,
            ErrorCode::NotPermitted,
        ),
        case(
            "not among the permissions",
            Some("writer"),
            supervised,
            "read_file",
            misfit(),
            Stage::Permission,
            ErrorCode::NotPermitted,
        ),
        case(
            "forbidden by name",
            Some("writer"),
            supervised,
            "delete_file",
            misfit(),
            Stage::Permission,
            ErrorCode::NotPermitted,
        ),
        case(
            "misfit arguments, nobody agrees",
            None,
            supervised,
            "write_file",
            misfit(),
            Stage::Validation,
            ErrorCode::InvalidArguments,
        ),
        case(
            "arguments that are no object",
            None,
            supervised,
            "write_file",
            json!("a.txt"),
            Stage::Validation,
            ErrorCode::InvalidArguments,
        ),
        case(
            "unknown argument",
            None,
            supervised,
            "read_file",
            json!({"path": "a.txt", "pth": "b"}),
            Stage::Validation,
            ErrorCode::InvalidArguments,
        ),
        case(
            "nobody agrees",
            None,
            supervised,
            "write_file",
            json!({"path": "new.txt", "content": "x"}),
            Stage::Approval,
            ErrorCode::ApprovalExpired,
        ),
        case(
            "nobody would agree, path outside",
            None,
            supervised,
            "write_file",
            json!({"path": "../x", "content": "x"}),
            Stage::Execution,
            ErrorCode::OutsideWorkspace,
        ),
        case(
            "path outside",
            None,
            Trust::Autonomous,
            "write_file",
            json!({"path": "../x", "content": "x"}),
            Stage::Execution,
            ErrorCode::OutsideWorkspace,
        ),
        case(
            "path out of scope",
            Some("writer"),
            Trust::Autonomous,
            "write_file",
            json!({"path": "a.txt", "content": "x"}),
            Stage::Execution,
            ErrorCode::OutOfScope,
        ),
        case(
            "nothing there",
            None,
            Trust::Autonomous,
            "read_file",
            json!({"path": "missing.txt"}),
            Stage::Execution,
            ErrorCode::NotFound,
        ),
        case(
            "undeclared answer",
            None,
            Trust::Autonomous,
            "lies",
            json!({}),
            Stage::Output,
            ErrorCode::OutputInvalid,
        ),
    ]
}

#[test]
fn a_call_ends_at_the_first_stage_that_objects() {
    let stand = Stand::new([]);
    let before = Tree::of(&stand.workspace);
    let mut stages = Vec::new();
    for Case { name, agent, trust, tool, arguments, stage, code } in cases() {
        let questions = stand.approver.asked().len();
        let called = stand.call(agent, trust, tool, arguments);
        assert_eq!(code_of(&called), Some(code), "{name}: {}", called.answer.text);
        assert_eq!(called.failed.as_ref().map(|(stage, _)| *stage), Some(stage), "{name}");
        let record = stand.bench.record(called.call);
        let denial = record.denial.as_ref().unwrap();
        assert_eq!((denial.stage, denial.code), (stage, code), "{name}");
        assert_eq!(record.decision, called.decision, "{name}");
        let expected = if code.is_denial() { Decision::Denied } else { Decision::Error };
        assert_eq!(record.decision, expected, "{name}");
        assert_eq!(record.response.is_some(), stage == Stage::Output, "{name}");
        let is_asked = stand.approver.asked().len() > questions;
        assert_eq!(is_asked, stage == Stage::Approval, "{name}: a person was asked too early, or not at all");
        assert_eq!(before.differences(&Tree::of(&stand.workspace)), Vec::<String>::new(), "{name}");
        assert!(!called.answer.text.contains("undeclared"), "{name}: {}", called.answer.text);
        stages.push(stage);
    }
    let all = [
        Stage::Registry,
        Stage::Auth,
        Stage::Permission,
        Stage::Validation,
        Stage::Approval,
        Stage::Execution,
        Stage::Output,
    ];
    assert!(all.iter().all(|stage| stages.contains(stage)), "a stage has no case: {stages:?}");
    let done = stand.call(None, Trust::Autonomous, "read_file", json!({"path": "a.txt"}));
    let record = stand.bench.record(done.call);
    assert_eq!(record.decision, Decision::Allowed);
    assert!(record.denial.is_none() && record.response.is_some());
    assert_eq!(stand.bench.verify_audit(), cases().len() as u64 + 1);
}

#[test]
fn a_refusal_does_not_say_what_would_be_needed() {
    let stand = Stand::new([]);
    for (agent, tool) in [("ghost", "read_file"), ("reader", "write_file"), ("writer", "delete_file")] {
        let called =
            stand.call(Some(agent), Trust::Autonomous, tool, json!({"path": "a.txt", "content": "x"}));
        for secret in [agent, "declared", "tool_permissions", "allowed: false"] {
            assert!(!called.answer.text.contains(secret), "{}", called.answer.text);
        }
        // The operator sees the reason.
        assert!(stand.bench.record(called.call).denial.unwrap().reason.contains(agent));
    }
    // A model does not learn of tools that it may not use.
    let called = stand.call(Some("reader"), Trust::Autonomous, "write_fil", json!({}));
    assert!(!called.answer.text.contains("`write_file`"), "{}", called.answer.text);
}

#[test]
fn a_tool_with_a_defect_leaves_a_record_too() {
    let stand = Stand::new([]);
    let broken = catch_unwind(AssertUnwindSafe(|| stand.call(None, Trust::Autonomous, "breaks", json!({}))));
    assert!(broken.is_err(), "the tool did not break");
    let records = stand.bench.records();
    assert_eq!(records.len(), 1);
    let record = &records.values().next().unwrap()[0];
    assert_eq!((record.tool.name.as_str(), record.decision), ("breaks", Decision::Error));
    assert_eq!(record.denial.as_ref().unwrap().stage, Stage::Execution);
}

#[test]
fn a_caller_that_goes_away_leaves_a_record_too() {
    let stand = Stand::new([]);
    let before = Tree::of(&stand.workspace);
    let caller = Caller { trust: Trust::Guided, ..person("s1") };
    // The person never answers, and the caller gives up.
    stand.bench.abandon(caller, "write_file", json!({"path": "a.txt", "content": "new\n"}));
    assert_eq!(stand.approver.asked().len(), 1);
    let records = stand.bench.records();
    assert_eq!(records.len(), 1);
    let denial = records.values().next().unwrap()[0].denial.clone().unwrap();
    assert_eq!((denial.stage, denial.code), (Stage::Approval, ErrorCode::Cancelled));
    assert_eq!(before.differences(&Tree::of(&stand.workspace)), Vec::<String>::new());
}

/// What happens to an audit directory.
type Calamity = fn(&Path);

/// Ways to lose the audit directory.
fn calamities() -> Vec<(&'static str, Calamity)> {
    vec![
        ("removed", |audit| std::fs::remove_dir_all(audit).unwrap()),
        ("removed and made again", |audit| {
            std::fs::remove_dir_all(audit).unwrap();
            std::fs::create_dir(audit).unwrap();
        }),
        ("replaced by a file", |audit| {
            std::fs::remove_dir_all(audit).unwrap();
            std::fs::write(audit, "").unwrap();
        }),
        ("emptied", |audit| {
            for entry in std::fs::read_dir(audit).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    std::fs::remove_dir_all(path).unwrap()
                } else {
                    std::fs::remove_file(path).unwrap()
                }
            }
        }),
        ("day file replaced by a folder", |audit| {
            for entry in std::fs::read_dir(audit).unwrap() {
                let path = entry.unwrap().path();
                if path.extension().is_some_and(|kind| kind == "jsonl") {
                    std::fs::remove_file(&path).unwrap();
                    std::fs::create_dir(&path).unwrap();
                }
            }
        }),
    ]
}

/// Whatever its class says, a command can do more than a gate can know.
const COMMAND_OF_CLASS_READ: &str = "tool: says_it_reads\ndescription: Writes\nclass: read\npermissions: []\n\
    command: [cp, a.txt, b.txt]\ncwd: \"@project\"\nmounts: [\"@project:rw\"]\npolicy: {\"*\": allow}\n";

#[test]
fn without_a_record_nothing_is_changed() {
    for (name, calamity) in calamities() {
        for earlier_calls in [0, 1] {
            let what = format!("{name}, after {earlier_calls} calls");
            let scratch = Scratch::new();
            let (workspace, state) = (scratch.folder("w"), scratch.folder("s"));
            std::fs::write(workspace.join("a.txt"), "old\n").unwrap();
            let bench = BenchOptions::new(Profile::NATIVE, &workspace, &state)
                .audit_mode(AuditMode::Deny)
                .commands()
                .manifest(COMMAND_OF_CLASS_READ)
                .open();
            for _ in 0..earlier_calls {
                bench.must("append_file", json!({"path": "a.txt", "content": "more\n"}));
            }
            calamity(&state.join("audit"));
            let before = Tree::of(&workspace);
            for (tool, arguments) in [
                ("write_file", json!({"path": "a.txt", "content": "new\n"})),
                ("write_file", json!({"path": "new/b.txt", "content": "new\n"})),
                ("append_file", json!({"path": "a.txt", "content": "new\n"})),
                ("edit_file", json!({"path": "a.txt", "old_text": "old", "new_text": "new"})),
                ("move_file", json!({"from": "a.txt", "to": "b.txt"})),
                ("delete_file", json!({"path": "a.txt"})),
                ("run_command", json!({"command": "echo new > a.txt"})),
                ("says_it_reads", json!({})),
            ] {
                let called = bench.call(tool, arguments);
                match code_of(&called) {
                    Some(code) => {
                        assert_eq!(
                            code,
                            ErrorCode::AuditUnavailable,
                            "{what}, {tool}: {}",
                            called.answer.text
                        );
                        let changed = before.differences(&Tree::of(&workspace));
                        assert_eq!(changed, Vec::<String>::new(), "{what}: {tool} changed something");
                        let root = scratch.path().to_str().unwrap();
                        assert!(!called.answer.text.contains(root), "{what}: {}", called.answer.text);
                    }
                    // A gate may repair its audit log; then the call is in it.
                    None => {
                        assert_eq!(bench.record(called.call).decision, Decision::Allowed, "{what}, {tool}");
                        break;
                    }
                }
            }
            assert_eq!(litter_below(&workspace), Vec::<PathBuf>::new(), "{what}");
        }
    }
}
