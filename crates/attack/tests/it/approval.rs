//! Approval: the questions, the effect of the answers, and their scope.

use std::collections::VecDeque;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolgate_attack::{Bench, BenchOptions, Scratch, Tree, code_of, person};
use toolgate_gate::{ApprovalReply, ApprovalRequest, ApprovalUnavailable, Approver, NoApprover, PreviewBody};
use toolgate_tools::{CallResponse, Profile};
use toolgate_types::{Caller, Decision, ErrorCode, Sha256, Stage, ToolClass, Trust};

/// An approver that replies from a list, and never again once it is empty.
#[derive(Default)]
pub(crate) struct Scripted {
    replies: Mutex<VecDeque<ApprovalReply>>,
    asked: Mutex<Vec<ApprovalRequest>>,
    deed: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Scripted {
    pub(crate) fn new(replies: impl IntoIterator<Item = ApprovalReply>) -> Arc<Self> {
        let replies = Mutex::new(replies.into_iter().collect());
        Arc::new(Self { replies, asked: Mutex::default(), deed: Mutex::default() })
    }

    /// The questions so far.
    pub(crate) fn asked(&self) -> Vec<ApprovalRequest> {
        self.asked.lock().unwrap().clone()
    }

    /// What happens between the next question and its answer.
    pub(crate) fn before_answer(&self, deed: impl FnOnce() + Send + 'static) {
        *self.deed.lock().unwrap() = Some(Box::new(deed));
    }

    pub(crate) fn forget_replies(&self) {
        self.replies.lock().unwrap().clear();
    }

    pub(crate) fn will_reply(&self, reply: ApprovalReply) {
        self.replies.lock().unwrap().push_back(reply);
    }
}

impl Approver for Scripted {
    fn ask(&self, question: ApprovalRequest) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>> {
        self.asked.lock().unwrap().push(question);
        if let Some(deed) = self.deed.lock().unwrap().take() {
            deed();
        }
        let reply = self.replies.lock().unwrap().pop_front();
        Box::pin(async move {
            match reply {
                Some(reply) => reply,
                None => std::future::pending().await,
            }
        })
    }
}

const PATIENCE: Duration = Duration::from_millis(50);
const AGENTS: &str = "
agents:
  one: {tool_permissions: {write_file: {allowed: true}, append_file: {allowed: true}, read_file: {allowed: true}}}
  two: {tool_permissions: {write_file: {allowed: true}, append_file: {allowed: true}, read_file: {allowed: true}}}
  writer: {tool_permissions: {write_file: {allowed: true}, edit_file: {allowed: true}, delete_file: {allowed: true}, move_file: {allowed: true}, apply_patch: {allowed: true}, read_file: {allowed: true, paths: ['docs/**']}}}
";

struct Desk {
    workspace: PathBuf,
    // Dropped before its directory, or it would recreate the directory.
    bench: Bench,
    _scratch: Scratch,
}

impl Desk {
    fn new(approver: Arc<dyn Approver>) -> Self {
        let scratch = Scratch::new();
        let workspace = scratch.folder("w");
        std::fs::write(workspace.join("a.txt"), "one\ntwo\nthree\n").unwrap();
        let bench = BenchOptions::new(Profile::NATIVE, &workspace, &scratch.folder("s"))
            .config(AGENTS)
            .approver(approver, PATIENCE)
            .open();
        Self { _scratch: scratch, workspace, bench }
    }

    fn call(&self, caller: &Caller, tool: &str, arguments: Value) -> CallResponse {
        self.bench.call_as(caller.clone(), tool, arguments)
    }
}

fn caller(trust: Trust) -> Caller {
    Caller { trust, ..person("s1") }
}

fn write() -> (&'static str, Value) {
    ("write_file", json!({"path": "a.txt", "content": "one\nTWO\nthree\n"}))
}

#[test]
fn who_is_asked_about_what() {
    let calls = [
        ("read_file", json!({"path": "a.txt"}), ToolClass::Read),
        ("append_file", json!({"path": "a.txt", "content": "four\n"}), ToolClass::Write),
        ("delete_file", json!({"path": "a.txt"}), ToolClass::Destructive),
    ];
    for (trust, asked) in [
        (Trust::Supervised, [true, true, true]),
        (Trust::Guided, [false, true, true]),
        (Trust::Autonomous, [false, false, false]),
    ] {
        for ((tool, arguments, class), is_asked) in calls.iter().zip(asked) {
            let scripted = Scripted::new([ApprovalReply::Once]);
            let desk = Desk::new(scripted.clone());
            let called = desk.call(&caller(trust), tool, arguments.clone());
            assert!(!called.answer.is_error, "{trust} {tool}: {}", called.answer.text);
            let questions = scripted.asked();
            assert_eq!(questions.len(), usize::from(is_asked), "{trust} {tool}");
            for question in questions {
                assert_eq!(
                    (question.call, question.tool.as_str(), question.class),
                    (called.call, *tool, *class)
                );
                assert_eq!(question.caller, caller(trust));
                assert_eq!(question.timeout, PATIENCE);
            }
        }
    }
}

#[test]
fn without_a_yes_nothing_is_touched() {
    type Person = fn() -> Arc<dyn Approver>;
    let cases: [(&str, Person, ErrorCode, &str); 5] = [
        (
            "no",
            || Scripted::new([ApprovalReply::Denied(None)]),
            ErrorCode::ApprovalDenied,
            "a person refused",
        ),
        (
            "no with words",
            || Scripted::new([ApprovalReply::Denied(Some("not on a Friday".to_owned()))]),
            ErrorCode::ApprovalDenied,
            "not on a Friday",
        ),
        ("silence", || Scripted::new([]), ErrorCode::ApprovalExpired, "nobody approved"),
        (
            "nobody",
            || Arc::new(NoApprover { remedy: "open the page".to_owned() }),
            ErrorCode::ApprovalUnavailable,
            "nobody to ask",
        ),
        (
            "nobody any more",
            || Scripted::new([ApprovalReply::Unavailable(ApprovalUnavailable::for_operator("come back"))]),
            ErrorCode::ApprovalUnavailable,
            "nobody to ask",
        ),
    ];
    for (name, person, code, words) in cases {
        for trust in [Trust::Supervised, Trust::Guided] {
            for (tool, arguments) in [
                write(),
                ("edit_file", json!({"path": "a.txt", "old_text": "two", "new_text": "TWO"})),
                ("append_file", json!({"path": "new/b.txt", "content": "x"})),
                ("move_file", json!({"from": "a.txt", "to": "b.txt"})),
                ("delete_file", json!({"path": "a.txt"})),
                ("apply_patch", json!({"patch": "--- /dev/null\n+++ c.txt\n@@ -0,0 +1 @@\n+x\n"})),
            ] {
                let what = format!("{name}, {trust}, {tool}");
                let desk = Desk::new(person());
                let before = Tree::of(&desk.workspace);
                let called = desk.call(&caller(trust), tool, arguments);
                assert_eq!(code_of(&called), Some(code), "{what}: {}", called.answer.text);
                assert!(called.answer.text.contains(words), "{what}: {}", called.answer.text);
                assert_eq!(before.differences(&Tree::of(&desk.workspace)), Vec::<String>::new(), "{what}");
                assert!(desk.bench.gate().journal().changes().unwrap().is_empty(), "{what}");
                let record = desk.bench.record(called.call);
                let denial = record.denial.unwrap();
                assert_eq!(
                    (record.decision, denial.stage, denial.code),
                    (Decision::Denied, Stage::Approval, code)
                );
            }
        }
    }
}

#[test]
fn the_question_shows_what_would_change() {
    let scripted = Scripted::new([]);
    let desk = Desk::new(scripted.clone());
    let patch = "--- a.txt\n+++ a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n";
    for (tool, arguments) in [
        write(),
        ("edit_file", json!({"path": "a.txt", "old_text": "two", "new_text": "TWO"})),
        ("apply_patch", json!({"patch": patch})),
    ] {
        desk.call(&caller(Trust::Guided), tool, arguments);
        let question = scripted.asked().pop().unwrap();
        let PreviewBody::Diff(diff) = question.preview.body else { panic!("{tool}: {:?}", question.preview) };
        assert!(diff.contains("\n-two\n+TWO\n") && diff.contains("a.txt"), "{tool}: {diff}");
    }
    // A new file is all addition; a change without a diff is shown by its summary.
    desk.call(&caller(Trust::Guided), "write_file", json!({"path": "b.txt", "content": "new\n"}));
    let PreviewBody::Diff(diff) = scripted.asked().pop().unwrap().preview.body else { panic!("no diff") };
    assert!(diff.contains("+new"), "{diff}");
    desk.call(&caller(Trust::Guided), "move_file", json!({"from": "a.txt", "to": "elsewhere.txt"}));
    let summary = scripted.asked().pop().unwrap().preview.summary;
    assert_eq!(summary, ["rename a.txt → elsewhere.txt"]);
    for (path, mark) in [
        ("Makefile", "run when the project is built or tested: Makefile"),
        ("sub/package.json", "run when the project is built or tested: sub/package.json"),
        ("sub/.bashrc", "run by shells that start here: sub/.bashrc"),
        ("AGENTS.md", "read by other agents as instructions: AGENTS.md"),
        (".github/workflows/ci.yml", "run when the project is built or tested: .github/workflows/ci.yml"),
    ] {
        desk.call(&caller(Trust::Guided), "write_file", json!({"path": path, "content": "new\n"}));
        let summary = scripted.asked().pop().unwrap().preview.summary;
        assert_eq!(summary.get(1).map(String::as_str), Some(mark), "{summary:?}");
        desk.call(&caller(Trust::Guided), "move_file", json!({"from": "a.txt", "to": path}));
        let summary = scripted.asked().pop().unwrap().preview.summary;
        assert_eq!(summary.get(1).map(String::as_str), Some(mark), "{summary:?}");
    }
    let header = |name: &str| format!("--- /dev/null\n+++ {name}\n@@ -0,0 +1 @@\n+x\n");
    let many =
        ["z.txt", "Makefile", "x/Makefile", "y/Makefile", "z/Makefile", "CLAUDE.md"].map(header).concat();
    desk.call(&caller(Trust::Guided), "apply_patch", json!({"patch": many}));
    let summary = scripted.asked().pop().unwrap().preview.summary;
    assert!(summary.len() > 2, "{summary:?}");
    assert!(summary[1].starts_with("run when") && summary[1].ends_with("and 1 more"), "{summary:?}");
    assert_eq!(summary[2], "read by other agents as instructions: CLAUDE.md");
    // The question itself has changed nothing.
    assert_eq!(std::fs::read_to_string(desk.workspace.join("a.txt")).unwrap(), "one\ntwo\nthree\n");
    assert!(!desk.workspace.join("b.txt").exists());
}

#[test]
fn another_call_is_another_question() {
    let base = caller(Trust::Guided);
    let with = |change: fn(&mut Caller)| {
        let mut other = caller(Trust::Guided);
        change(&mut other);
        other
    };
    let (tool, arguments) = write();
    let calls = [
        ("the call", base.clone(), tool, arguments.clone()),
        ("another tool", base.clone(), "append_file", arguments.clone()),
        ("another path", base.clone(), tool, json!({"path": "b.txt", "content": "one\nTWO\nthree\n"})),
        ("other content", base.clone(), tool, json!({"path": "a.txt", "content": "one\nTWO\nthree"})),
        (
            "one more argument",
            base.clone(),
            tool,
            json!({"path": "a.txt", "content": "one\nTWO\nthree\n", "if_match_sha256": Sha256::of(b"one\nTWO\nthree\n")}),
        ),
        ("another subject", with(|caller| caller.subject.push('x')), tool, arguments.clone()),
        ("an agent", with(|caller| caller.agent = Some("one".parse().unwrap())), tool, arguments.clone()),
        (
            "another agent",
            with(|caller| caller.agent = Some("two".parse().unwrap())),
            tool,
            arguments.clone(),
        ),
        ("another session", with(|caller| caller.session = "s2".parse().unwrap()), tool, arguments.clone()),
        ("a run", with(|caller| caller.run = Some("r1".parse().unwrap())), tool, arguments.clone()),
        (
            "other rights",
            with(|caller| caller.permissions = ["x".to_owned()].into()),
            tool,
            arguments.clone(),
        ),
    ];
    let scripted = Scripted::new([ApprovalReply::Once]);
    let desk = Desk::new(scripted.clone());
    let agreed = desk.call(&base, tool, arguments);
    assert!(!agreed.answer.is_error, "{}", agreed.answer.text);
    let before = Tree::of(&desk.workspace);
    for (asked, (name, caller, tool, arguments)) in (2..).zip(calls) {
        let called = desk.call(&caller, tool, arguments);
        assert_eq!(code_of(&called), Some(ErrorCode::ApprovalExpired), "{name}: the yes was to another call");
        assert_eq!(scripted.asked().len(), asked, "{name}");
    }
    assert_eq!(Tree::of(&desk.workspace), before);
}

/// Answers every question when all of them are open, the last one first: yes to those about `b.txt`, no to the others.
struct OutOfOrder {
    answers: Vec<tokio::sync::Notify>,
    asked: Mutex<usize>,
}

impl Approver for OutOfOrder {
    fn ask(&self, question: ApprovalRequest) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>> {
        let own = {
            let mut asked = self.asked.lock().unwrap();
            *asked += 1;
            *asked - 1
        };
        if let (true, Some(last)) = (own + 1 == self.answers.len(), self.answers.last()) {
            last.notify_one();
        }
        let agrees = question.preview.summary.concat().contains("b.txt");
        Box::pin(async move {
            self.answers[own].notified().await;
            if let Some(before) = own.checked_sub(1) {
                self.answers[before].notify_one();
            }
            if agrees { ApprovalReply::Once } else { ApprovalReply::Denied(None) }
        })
    }
}

#[test]
fn of_questions_that_are_open_together_each_answer_decides_its_own_call() {
    let names = ["a.txt", "b.txt", "c.txt"];
    let answers = names.map(|_| tokio::sync::Notify::new()).into();
    let scratch = Scratch::new();
    let workspace = scratch.folder("w");
    let bench = BenchOptions::new(Profile::NATIVE, &workspace, &scratch.folder("s"))
        .approver(Arc::new(OutOfOrder { answers, asked: Mutex::default() }), Duration::from_secs(60))
        .open();
    let codes = std::thread::scope(|scope| {
        let calls = names.map(|name| {
            let bench = &bench;
            scope.spawn(move || {
                let arguments = json!({"path": name, "content": "new"});
                code_of(&bench.call_as(caller(Trust::Guided), "write_file", arguments))
            })
        });
        calls.map(|call| call.join().unwrap())
    });
    let denied = Some(ErrorCode::ApprovalDenied);
    assert_eq!(codes, [denied, None, denied]);
    assert_eq!(names.map(|name| workspace.join(name).exists()), [false, true, false]);
}

#[test]
fn a_yes_for_the_session_reaches_no_further() {
    let scripted = Scripted::new([ApprovalReply::ForSession]);
    let desk = Desk::new(scripted.clone());
    let agent = |name: &str, session: &str| Caller {
        agent: Some(name.parse().unwrap()),
        session: session.parse().unwrap(),
        ..caller(Trust::Guided)
    };
    let write = |number: u32| json!({"path": "a.txt", "content": format!("{number}\n")});
    let granted = agent("one", "s1");
    for number in 0..3 {
        let called = desk.call(&granted, "write_file", write(number));
        assert!(!called.answer.is_error, "{}", called.answer.text);
    }
    assert_eq!(scripted.asked().len(), 1, "asked again within the session");
    let before = Tree::of(&desk.workspace);
    for (name, caller, tool) in [
        ("another tool", agent("one", "s1"), "append_file"),
        ("another session", agent("one", "s2"), "write_file"),
        ("another agent", agent("two", "s1"), "write_file"),
        ("another agent and session", agent("two", "s2"), "write_file"),
        ("a person in the session", caller(Trust::Guided), "write_file"),
        ("another subject", Caller { subject: "somebody".to_owned(), ..agent("one", "s1") }, "write_file"),
    ] {
        let questions = scripted.asked().len();
        scripted.will_reply(ApprovalReply::Denied(None));
        let called = desk.call(&caller, tool, write(7));
        assert_eq!(code_of(&called), Some(ErrorCode::ApprovalDenied), "{name}: {}", called.answer.text);
        assert_eq!(scripted.asked().len(), questions + 1, "{name} was not asked about");
    }
    assert_eq!(before.differences(&Tree::of(&desk.workspace)), Vec::<String>::new());
    // A refusal to others does not revoke the grant.
    assert!(!desk.call(&granted, "write_file", write(8)).answer.is_error);
}

#[test]
fn a_yes_once_is_for_one_call() {
    let scripted = Scripted::new([ApprovalReply::Once, ApprovalReply::Denied(None)]);
    let desk = Desk::new(scripted.clone());
    let (tool, arguments) = write();
    assert!(!desk.call(&caller(Trust::Guided), tool, arguments.clone()).answer.is_error);
    let again = desk.call(&caller(Trust::Guided), tool, arguments);
    assert_eq!(code_of(&again), Some(ErrorCode::ApprovalDenied));
    assert_eq!(scripted.asked().len(), 2);
}

#[test]
fn a_yes_gives_no_rights() {
    let scripted = Scripted::new([ApprovalReply::ForSession]);
    let desk = Desk::new(scripted.clone());
    std::fs::write(desk.workspace.join(".env"), "secret").unwrap();
    for path in [".env", "../outside.txt", "/etc/passwd"] {
        let called =
            desk.call(&caller(Trust::Supervised), "write_file", json!({"path": path, "content": "x"}));
        assert!(code_of(&called).unwrap().is_violation(), "{path}: {}", called.answer.text);
        // There is nothing to ask about.
        assert_eq!(called.failed.unwrap().0, Stage::Execution);
        assert_eq!(scripted.asked().len(), 0, "{path} was asked about");
    }
}

#[test]
fn a_call_that_would_fail_is_answered_and_not_asked_about() {
    let patch = "--- a.txt\n+++ a.txt\n@@ -1,1 +1,1 @@\n-absent\n+new\n";
    let calls = [
        (
            "edit_file",
            json!({"path": "a.txt", "old_text": "absent", "new_text": "x"}),
            ErrorCode::EditNotFound,
        ),
        ("edit_file", json!({"path": "absent.txt", "old_text": "a", "new_text": "x"}), ErrorCode::NotFound),
        ("delete_file", json!({"path": "absent.txt"}), ErrorCode::NotFound),
        ("move_file", json!({"from": "absent.txt", "to": "b.txt"}), ErrorCode::NotFound),
        ("apply_patch", json!({"patch": patch}), ErrorCode::PatchConflict),
        (
            "write_file",
            json!({"path": "a.txt", "content": "x", "if_match_sha256": "0".repeat(64)}),
            ErrorCode::PreconditionFailed,
        ),
    ];
    for (tool, arguments, code) in calls {
        let scripted = Scripted::new([]);
        let desk = Desk::new(scripted.clone());
        let called = desk.call(&caller(Trust::Guided), tool, arguments.clone());
        assert_eq!(code_of(&called), Some(code), "{tool}: {}", called.answer.text);
        assert_eq!(scripted.asked().len(), 0, "{tool} was asked about");
        let record = desk.bench.record(called.call);
        let denial = record.denial.unwrap();
        assert_eq!((record.decision, denial.stage, denial.code), (Decision::Error, Stage::Execution, code));
        // The answer would say what the file holds, and reading it needs an approval, or is not allowed at all.
        let writer = Caller { agent: Some("writer".parse().unwrap()), ..caller(Trust::Guided) };
        for other in [caller(Trust::Supervised), writer] {
            let asked = scripted.asked().len();
            scripted.will_reply(ApprovalReply::Denied(None));
            let called = desk.call(&other, tool, arguments.clone());
            let is_asked = scripted.asked().len() > asked;
            assert!(is_asked, "{tool}: {}", called.answer.text);
            assert_eq!(code_of(&called), Some(ErrorCode::ApprovalDenied), "{tool}");
            assert!(!called.answer.text.contains("nearest"), "{tool}: {}", called.answer.text);
        }
    }
}

/// A person who takes a while to say yes.
#[derive(Default)]
struct Slow(Mutex<Duration>);

impl Approver for Slow {
    fn ask(&self, _question: ApprovalRequest) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>> {
        Box::pin(async move {
            let asked = Instant::now();
            while asked.elapsed() < LIMIT {
                std::thread::yield_now();
            }
            *self.0.lock().unwrap() = asked.elapsed();
            ApprovalReply::Once
        })
    }
}

/// The time limit of the call below, which the person alone takes.
const LIMIT: Duration = Duration::from_millis(400);

#[test]
fn the_time_of_a_person_is_not_the_time_of_the_call() {
    let approver = Arc::new(Slow::default());
    let scratch = Scratch::new();
    let workspace = scratch.folder("w");
    let bench = BenchOptions::new(Profile::NATIVE, &workspace, &scratch.folder("s"))
        .config(&format!("limits: {{timeout: {}ms}}", LIMIT.as_millis()))
        .approver(approver.clone(), Duration::from_secs(600))
        .open();
    let begun = Instant::now();
    let called = bench.call_as(caller(Trust::Guided), "write_file", json!({"path": "a", "content": "a"}));
    let whole = begun.elapsed();
    assert!(!called.answer.is_error, "the limit counts from the answer: {}", called.answer.text);
    let thought = *approver.0.lock().unwrap();
    assert!(called.waited >= thought && called.duration <= whole - thought, "{called:?}");
    let record = bench.records()[&called.call][0].clone();
    let millis = |time: Duration| time.as_micros() as f64 / 1000.0;
    assert_eq!(
        (record.waited_ms, record.duration <= millis(whole - thought)),
        (Some(millis(called.waited)), true)
    );
    // A call without a question waits for no one.
    let called = bench.call_as(caller(Trust::Guided), "read_file", json!({"path": "a"}));
    assert_eq!((called.waited, bench.records()[&called.call][0].waited_ms), (Duration::ZERO, None));
}

/// What a person leaves is run, and judged as if the model had asked for it; the record names both calls.
#[test]
fn a_changed_call_passes_every_stage_and_is_recorded_as_changed() {
    let changed = |arguments: Value| Scripted::new([ApprovalReply::Changed(arguments)]);
    let original = write().1;
    for (arguments, code, expected) in [
        (json!({"path": "b.txt", "content": "left by a person\n"}), None, "left by a person\n"),
        (json!({"path": ".env", "content": "x"}), Some(ErrorCode::DeniedPath), ""),
        (json!({"path": "../outside", "content": "x"}), Some(ErrorCode::OutsideWorkspace), ""),
        (json!({"path": "b.txt"}), Some(ErrorCode::InvalidArguments), ""),
        (json!({"path": "b.txt", "content": "x", "force": true}), Some(ErrorCode::InvalidArguments), ""),
    ] {
        let scripted = changed(arguments.clone());
        let desk = Desk::new(scripted.clone());
        let called = desk.call(&caller(Trust::Guided), "write_file", original.clone());
        assert_eq!(code_of(&called), code, "{arguments}: {}", called.answer.text);
        assert_eq!(called.changed.as_ref(), Some(&arguments));
        assert_eq!(scripted.asked().len(), 1, "a person who changed it has approved it as it is now");
        assert_eq!(scripted.asked()[0].input, original);
        assert_eq!(std::fs::read_to_string(desk.workspace.join("b.txt")).unwrap_or_default(), expected);
        assert_eq!(std::fs::read_to_string(desk.workspace.join("a.txt")).unwrap(), "one\ntwo\nthree\n");
        let records = desk.bench.records();
        let request = &records[&called.call][0].request;
        assert_eq!(records[&called.call].len(), 1, "one record");
        let other = Desk::new(Scripted::new([ApprovalReply::Once, ApprovalReply::Once]));
        let digest = |arguments: &Value| {
            let called = other.call(&caller(Trust::Guided), "write_file", arguments.clone());
            other.bench.records()[&called.call][0].request.args_hash
        };
        assert_eq!((request.args_hash, request.changed_from), (digest(&arguments), Some(digest(&original))));
    }
    // The same arguments are no change.
    let desk = Desk::new(changed(original.clone()));
    let called = desk.call(&caller(Trust::Guided), "write_file", original);
    assert!(!called.answer.is_error && called.changed.is_none(), "{}", called.answer.text);
    assert_eq!(desk.bench.records()[&called.call][0].request.changed_from, None);
}
