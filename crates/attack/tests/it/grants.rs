//! Lasting grants: what they answer, and the calls and files that try to pass for one.

use std::future::Future;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use toolgate_attack::{Bench, BenchOptions, Scratch, code_of, person};
use toolgate_gate::{ApprovalReply, ApprovalRequest, Approver, GrantDuration, GrantStore};
use toolgate_tools::{CallResponse, Profile};
use toolgate_types::{Caller, ErrorCode, Trust};

use crate::approval::Scripted;
use crate::fixture::write;

const TIMEOUT: Duration = Duration::from_secs(60);

struct Scene {
    approver: Arc<Scripted>,
    workspace: PathBuf,
    state: PathBuf,
    // Dropped before its directory, or it would recreate the directory.
    bench: Bench,
    scratch: Scratch,
}

fn gate(workspace: &Path, state: &Path, approver: Arc<dyn Approver>) -> BenchOptions {
    BenchOptions::new(Profile::NATIVE, workspace, state).approver(approver, TIMEOUT)
}

impl Scene {
    fn new() -> Self {
        Self::with("")
    }

    fn with(config: &str) -> Self {
        let (scratch, approver) = (Scratch::new(), Scripted::new([]));
        let (workspace, state) = (scratch.folder("w"), scratch.folder("s"));
        for file in ["src/a.txt", "src/deep/b.txt", "docs/c.txt", "top.txt"] {
            write(&workspace.join(file), "old\n");
        }
        let bench = gate(&workspace, &state, approver.clone()).config(config).open();
        Self { approver, workspace, state, bench, scratch }
    }

    /// Another gate over the same state directory and workspace.
    fn other_gate(&self) -> (Arc<Scripted>, Bench) {
        let approver = Scripted::new([]);
        let bench = gate(&self.workspace, &self.state, approver.clone()).open();
        (approver, bench)
    }

    /// Makes a call that is asked about, and answers with a grant.
    fn grant(&self, id: &str, tool: &str, arguments: Value) {
        self.grant_as(&guided(), id, tool, arguments);
    }

    fn grant_as(&self, caller: &Caller, id: &str, tool: &str, arguments: Value) {
        self.approver.will_reply(ApprovalReply::Granted(id.to_owned()));
        let asked = self.approver.asked().len();
        let called = self.bench.call_as(caller.clone(), tool, arguments);
        assert!(!called.answer.is_error, "{}", called.answer.text);
        assert_eq!(self.approver.asked().len(), asked + 1, "{id} was given without a question");
    }

    /// Whether a call is asked about; the answer is no.
    fn is_asked(&self, caller: &Caller, tool: &str, arguments: Value) -> bool {
        is_asked(&self.bench, &self.approver, caller, tool, arguments)
    }

    fn store(&self) -> &GrantStore {
        self.bench.gate().grants()
    }

    fn file(&self) -> PathBuf {
        self.state.join("grants.toolgate/grants.json")
    }
}

fn is_asked(bench: &Bench, approver: &Scripted, caller: &Caller, tool: &str, arguments: Value) -> bool {
    let before = approver.asked().len();
    let denied = Scripted::asked(approver).len();
    approver.will_reply(ApprovalReply::Denied(None));
    let called = bench.call_as(caller.clone(), tool, arguments);
    let asked = approver.asked().len() > before;
    assert_eq!(denied, before);
    if !asked {
        approver.forget_replies();
        assert_ne!(code_of(&called), Some(ErrorCode::ApprovalDenied));
    }
    asked
}

fn guided() -> Caller {
    Caller { trust: Trust::Guided, ..person("s1") }
}

fn text(path: &str) -> Value {
    json!({"path": path, "content": "new\n"})
}

fn command(line: &str) -> Value {
    json!({"command": line})
}

#[test]
fn a_grant_answers_what_it_covers_and_every_use_is_on_record() {
    let scene = Scene::new();
    scene.grant("directory-workspace", "write_file", text("src/a.txt"));
    let granted = scene.store().list().unwrap().remove(0);
    assert!(granted.covers.starts_with("every write_file below @project/src/**"), "{}", granted.covers);
    for path in ["src/a.txt", "src/new.txt", "src/deep/b.txt", "src/made/new.txt"] {
        let called = scene.bench.call_as(guided(), "write_file", text(path));
        assert!(!called.answer.is_error, "{path}: {}", called.answer.text);
        assert_eq!(scene.bench.record(called.call).grant.as_deref(), Some(granted.id.as_str()), "{path}");
    }
    assert_eq!(scene.approver.asked().len(), 1);
    // The record of the call that was asked about names none: a person answered.
    assert_eq!(scene.bench.record(granted.given_by).grant, None);
    for (tool, arguments) in [
        ("write_file", text("docs/c.txt")),
        ("write_file", text("top.txt")),
        ("write_file", text("src/Makefile")),
        ("write_file", text("src/AGENTS.md")),
        ("append_file", text("src/a.txt")),
        ("delete_file", json!({"path": "src/a.txt"})),
        ("move_file", json!({"from": "src/a.txt", "to": "src/z.txt"})),
    ] {
        assert!(scene.is_asked(&guided(), tool, arguments.clone()), "{tool} {arguments}");
    }
}

#[test]
fn every_offer_covers_its_own_call_for_as_long_as_it_says() {
    for (tool, arguments, kinds) in [
        ("write_file", text("src/deep/b.txt"), vec!["call", "file", "directory", "directory2"]),
        ("write_file", text("top.txt"), vec!["call", "file"]),
        ("run_command", command("cat top.txt"), vec!["call", "command"]),
        ("run_command", command("cat top.txt | wc"), vec!["call"]),
    ] {
        for kind in kinds {
            for duration in ["session", "day", "week", "month", "workspace"] {
                let (scene, id) = (Scene::new(), format!("{kind}-{duration}"));
                scene.grant(&id, tool, arguments.clone());
                let offers = &scene.approver.asked()[0].grants;
                let offer = offers.iter().find(|offer| offer.id == id).unwrap();
                let days: Option<i64> = match duration {
                    "day" => Some(1),
                    "week" => Some(7),
                    "month" => Some(30),
                    _ => None,
                };
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
                let now = i64::try_from(now).unwrap();
                let ends = days.map(|days: i64| now + days * 24 * 60 * 60 * 1000);
                assert_eq!(offer.lasts == GrantDuration::Session, duration == "session");
                let offered = offer.lasts.expires_at();
                assert_eq!(offered.is_some(), ends.is_some(), "{id}");
                assert!(
                    offered.zip(ends).is_none_or(|(offered, ends)| (0..60_000).contains(&(ends - offered))),
                    "{id}"
                );
                assert!(!scene.is_asked(&guided(), tool, arguments.clone()), "{id}");
                let other_session = Caller { session: "s2".parse().unwrap(), ..guided() };
                let asked = scene.is_asked(&other_session, tool, arguments.clone());
                assert_eq!(asked, duration == "session", "{id} in another session");
                assert_eq!(scene.store().list().unwrap().len(), usize::from(duration != "session"), "{id}");
            }
        }
    }
}

#[test]
fn commands_that_look_like_the_granted_one_are_asked_about() {
    let scene = Scene::new();
    scene.grant("command-workspace", "run_command", command("cat top.txt"));
    for line in ["cat src/a.txt", "cat -n top.txt", "cat top.txt; cat src/a.txt", "cat 'top.txt'"] {
        assert!(!scene.is_asked(&guided(), "run_command", command(line)), "{line}");
    }
    for line in [
        "cat top.txt; touch x",
        "cat top.txt && touch x",
        "cat top.txt | sh",
        "cat top.txt & touch x",
        "cat $(touch x)",
        "cat `touch x`",
        "cat \"$(touch x)\"",
        "cat top.txt > x",
        "cat <(touch x)",
        "cat top.txt\ntouch x",
        "cat\ttop.txt",
        "cat\u{a0}top.txt",
        "c\u{430}t top.txt",
        "'cat' top.txt",
        "c\\at top.txt",
        "./cat top.txt",
        "env cat top.txt",
        "X=1 cat top.txt",
        "cat *",
        "cat top.txt # touch",
        "catx top.txt",
        "cat() { touch x; }; cat",
    ] {
        assert!(
            scene.is_asked(&guided(), "run_command", command(line)),
            "{line:?} passed for the granted one"
        );
    }
    let elsewhere = json!({"command": "cat a.txt", "cwd": "src"});
    assert!(scene.is_asked(&guided(), "run_command", elsewhere), "another directory");
    assert!(!scene.workspace.join("x").exists());
}

#[test]
fn a_symlink_does_not_carry_a_granted_path_elsewhere() {
    let scene = Scene::new();
    scene.grant("directory-workspace", "write_file", text("src/a.txt"));
    scene.grant("call-workspace", "write_file", text("docs/c.txt"));
    // A link in the granted directory, the directory itself, and a file of an exact grant.
    symlink("../docs/c.txt", scene.workspace.join("src/link")).unwrap();
    assert!(scene.is_asked(&guided(), "write_file", text("src/link")));
    symlink("../docs", scene.workspace.join("src/out")).unwrap();
    assert!(scene.is_asked(&guided(), "write_file", text("src/out/new.txt")));
    std::fs::rename(scene.workspace.join("src"), scene.workspace.join("moved")).unwrap();
    symlink("docs", scene.workspace.join("src")).unwrap();
    assert!(scene.is_asked(&guided(), "write_file", text("src/a.txt")));
    std::fs::rename(scene.workspace.join("docs/c.txt"), scene.workspace.join("docs/d.txt")).unwrap();
    symlink("../top.txt", scene.workspace.join("docs/c.txt")).unwrap();
    assert!(scene.is_asked(&guided(), "write_file", text("docs/c.txt")));
    assert_eq!(std::fs::read_to_string(scene.workspace.join("top.txt")).unwrap(), "old\n");
    // The other way round, a path from elsewhere that leads into the granted directory is covered: the location counts.
    std::fs::remove_file(scene.workspace.join("src")).unwrap();
    std::fs::rename(scene.workspace.join("moved"), scene.workspace.join("src")).unwrap();
    symlink("src/a.txt", scene.workspace.join("inwards")).unwrap();
    assert!(!scene.is_asked(&guided(), "write_file", text("inwards")));
}

#[test]
fn a_grant_gives_no_rights() {
    let agents = "agents: {one: {tool_permissions: {write_file: {allowed: true, paths: ['src/*']}}}}";
    let scene = Scene::with(agents);
    let agent = Caller { agent: Some("one".parse().unwrap()), ..guided() };
    scene.grant_as(&agent, "directory-workspace", "write_file", text("src/a.txt"));
    let before = scene.approver.asked().len();
    for path in ["src/.env", "src/deep/b.txt", "src/../top.txt", "src/.git/config"] {
        let called = scene.bench.call_as(agent.clone(), "write_file", text(path));
        assert!(code_of(&called).unwrap().is_denial(), "{path}: {}", called.answer.text);
        assert_eq!(scene.bench.record(called.call).grant, None);
    }
    scene.grant("command-workspace", "run_command", command("cat top.txt"));
    let blocked = scene.bench.call_as(guided(), "run_command", command("cat /dev/sda"));
    assert!(!blocked.answer.text.contains("passed"), "{}", blocked.answer.text);
    assert_eq!(scene.approver.asked().len(), before + 1);
}

#[test]
fn a_grant_belongs_to_one_caller() {
    let agents = "agents: {one: {tool_permissions: {write_file: {allowed: true}}}}";
    let scene = Scene::with(agents);
    scene.grant("file-workspace", "write_file", text("src/a.txt"));
    let agent = Caller { agent: Some("one".parse().unwrap()), ..guided() };
    let subject = Caller { subject: "other".to_owned(), ..guided() };
    for other in [agent, subject] {
        assert!(scene.is_asked(&other, "write_file", text("src/a.txt")), "{other:?}");
    }
    let permissions = Caller { permissions: ["x".to_owned()].into(), ..guided() };
    assert!(!scene.is_asked(&permissions, "write_file", text("src/a.txt")));
}

#[test]
fn a_grant_belongs_to_one_workspace_by_the_identity_of_its_root() {
    let scene = Scene::new();
    scene.grant("file-workspace", "write_file", text("src/a.txt"));
    let other = scene.scratch.folder("other");
    write(&other.join("src/a.txt"), "old\n");
    let approver = Scripted::new([]);
    let bench = gate(&other, &scene.state, approver.clone()).open();
    assert!(is_asked(&bench, &approver, &guided(), "write_file", text("src/a.txt")));
    drop(bench);
    // The same path, and another directory.
    std::fs::rename(&scene.workspace, scene.scratch.path().join("before")).unwrap();
    std::fs::rename(&other, &scene.workspace).unwrap();
    let (approver, bench) = scene.other_gate();
    assert!(is_asked(&bench, &approver, &guided(), "write_file", text("src/a.txt")));
}

#[test]
fn trust_supervised_asks_unless_the_grant_was_given_under_it() {
    let scene = Scene::new();
    let supervised = Caller { trust: Trust::Supervised, ..guided() };
    scene.grant("file-workspace", "write_file", text("src/a.txt"));
    assert!(scene.is_asked(&supervised, "write_file", text("src/a.txt")));
    scene.grant_as(&supervised, "file-workspace", "write_file", text("docs/c.txt"));
    assert!(!scene.is_asked(&supervised, "write_file", text("docs/c.txt")));
    assert!(!scene.is_asked(&guided(), "write_file", text("docs/c.txt")));
}

#[test]
fn an_operator_can_switch_grants_off() {
    let scene = Scene::new();
    scene.grant("file-workspace", "write_file", text("src/a.txt"));
    let approver = Scripted::new([]);
    let options = gate(&scene.workspace, &scene.state, approver.clone());
    let bench = options.config("approval: {grants: false}").open();
    assert!(is_asked(&bench, &approver, &guided(), "write_file", text("src/a.txt")));
    assert!(approver.asked()[0].grants.is_empty());
}

#[test]
fn a_grant_that_was_not_offered_is_no_approval() {
    let scene = Scene::new();
    for id in ["tool-workspace", "directory3-workspace", "call-forever", "", "session"] {
        scene.approver.will_reply(ApprovalReply::Granted(id.to_owned()));
        let called = scene.bench.call_as(guided(), "write_file", text("src/a.txt"));
        assert_eq!(code_of(&called), Some(ErrorCode::ApprovalDenied), "{id:?}");
    }
    assert_eq!(std::fs::read_to_string(scene.workspace.join("src/a.txt")).unwrap(), "old\n");
    assert!(scene.store().list().unwrap().is_empty());
}

const MANIFEST: &str = "
tool: show
description: shows a file
class: write
permissions: []
input: {properties: {path: {type: string}}, required: [path]}
command: [cat, \"{path}\"]
cwd: \"@project\"
output: {parse: text}
policy: {\"*\": allow}
";

#[test]
fn a_tool_that_is_redefined_is_asked_about_again() {
    let (scratch, approver) =
        (Scratch::new(), Scripted::new([ApprovalReply::Granted("call-workspace".to_owned())]));
    let (workspace, state) = (scratch.folder("w"), scratch.folder("s"));
    write(&workspace.join("a.txt"), "old\n");
    let arguments = json!({"path": "a.txt"});
    let open = |manifest: &str| gate(&workspace, &state, approver.clone()).manifest(manifest).open();
    let bench = open(MANIFEST);
    let called = bench.call_as(guided(), "show", arguments.clone());
    assert!(!called.answer.is_error, "{}", called.answer.text);
    assert!(!is_asked(&bench, &approver, &guided(), "show", arguments.clone()));
    drop(bench);
    assert!(!is_asked(&open(MANIFEST), &approver, &guided(), "show", arguments.clone()), "the same tool");
    for changed in [MANIFEST.replace("[cat", "[cp"), MANIFEST.replace("shows a file", "shows a FILE")] {
        assert!(is_asked(&open(&changed), &approver, &guided(), "show", arguments.clone()));
    }
}

#[test]
fn what_one_gate_gives_or_revokes_counts_in_the_other() {
    let scene = Scene::new();
    let (approver, bench) = scene.other_gate();
    let call = || ("write_file", text("src/a.txt"));
    assert!(is_asked(&bench, &approver, &guided(), call().0, call().1));
    scene.grant("file-workspace", call().0, call().1);
    assert!(!is_asked(&bench, &approver, &guided(), call().0, call().1));
    let id = scene.store().list().unwrap().remove(0).id;
    assert!(bench.gate().grants().revoke(&id).unwrap().is_some());
    assert!(scene.is_asked(&guided(), call().0, call().1));
    assert!(bench.gate().grants().revoke(&id).unwrap().is_none(), "once");
    // A grant of a session stays in its gate.
    scene.grant("file-session", call().0, call().1);
    assert!(is_asked(&bench, &approver, &guided(), call().0, call().1));
}

/// Revokes all grants while the question is open, and says yes.
struct Revoking(Mutex<Option<Arc<GrantStore>>>);

impl Approver for Revoking {
    fn ask(&self, question: ApprovalRequest) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>> {
        let store = self.0.lock().unwrap().take();
        let reply = match store {
            Some(store) => {
                store.revoke_all().unwrap();
                ApprovalReply::Once
            }
            None if question.preview.summary.concat().contains("docs") => ApprovalReply::Once,
            None => ApprovalReply::Granted("file-workspace".to_owned()),
        };
        Box::pin(async move { reply })
    }
}

#[test]
fn a_grant_that_is_revoked_while_another_call_waits_is_gone_for_the_next() {
    let scratch = Scratch::new();
    let (workspace, state) = (scratch.folder("w"), scratch.folder("s"));
    let approver = Arc::new(Revoking(Mutex::default()));
    let bench = gate(&workspace, &state, approver.clone()).open();
    let write = |path: &str| bench.call_as(guided(), "write_file", text(path));
    let granted = |called: CallResponse| bench.record(called.call).grant;
    assert_eq!(granted(write("src/a.txt")), None);
    assert!(granted(write("src/a.txt")).is_some());
    *approver.0.lock().unwrap() = Some(Arc::clone(bench.gate().grants()));
    assert_eq!(granted(write("docs/c.txt")), None);
    assert_eq!(granted(write("src/a.txt")), None, "revoked meanwhile");
}

#[test]
fn gates_that_give_grants_together_lose_none() {
    const GATES: usize = 4;
    const GRANTS: usize = 5;
    let scratch = Scratch::new();
    let (workspace, state) = (scratch.folder("w"), scratch.folder("s"));
    let always = || Scripted::new(vec![ApprovalReply::Granted("file-workspace".to_owned()); GRANTS]);
    let benches: Vec<Bench> = (0..GATES).map(|_| gate(&workspace, &state, always()).open()).collect();
    std::thread::scope(|scope| {
        for (number, bench) in benches.iter().enumerate() {
            scope.spawn(move || {
                for grant in 0..GRANTS {
                    let called =
                        bench.call_as(guided(), "write_file", text(&format!("src/{number}.{grant}")));
                    assert!(!called.answer.is_error, "{}", called.answer.text);
                }
            });
        }
    });
    for bench in &benches {
        assert_eq!(bench.gate().grants().list().unwrap().len(), GATES * GRANTS);
        assert_eq!(bench.complaints(), Vec::<String>::new());
    }
}

#[test]
fn files_that_were_forged_damaged_or_put_back_give_no_grant() {
    let scene = Scene::new();
    let call = || ("write_file", text("src/a.txt"));
    scene.grant("file-workspace", call().0, call().1);
    let (file, kept) = (scene.file(), scene.scratch.path().join("kept"));
    let good = std::fs::read(&file).unwrap();
    let expect = |name: &str, asked: bool| {
        let complaints = scene.bench.complaints().len();
        assert_eq!(scene.is_asked(&guided(), call().0, call().1), asked, "{name}");
        assert_eq!(scene.bench.complaints().len() > complaints, asked, "{name} is not reported");
        assert_eq!(scene.store().list().is_err(), asked, "{name}");
        // A gate that was just started knows of no generation.
        let (approver, bench) = scene.other_gate();
        assert_eq!(is_asked(&bench, &approver, &guided(), call().0, call().1), asked, "{name}, new gate");
    };
    expect("as it was written", false);
    let body = good.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let edited = String::from_utf8(good.clone()).unwrap().replace("src/a.txt", "src/b.txt").into_bytes();
    let forged: Vec<(&str, Vec<u8>)> = vec![
        ("empty", Vec::new()),
        ("cut", good[..good.len() - 2].to_vec()),
        ("without a seal", good[body..].to_vec()),
        ("edited", edited),
        ("zeroes", vec![0; good.len()]),
        ("too long", vec![b' '; 2 << 20]),
    ];
    std::fs::hard_link(&file, &kept).unwrap();
    for (name, bytes) in forged {
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, bytes).unwrap();
        expect(name, true);
    }
    // The same bytes in another file: a copy from a backup, or of an earlier time.
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, &good).unwrap();
    expect("a copy", true);
    // From another state directory, sealed with the same key.
    let twin = Scene::new();
    std::fs::create_dir_all(twin.state.join("keys")).unwrap();
    std::fs::copy(scene.state.join("keys/state.key"), twin.state.join("keys/state.key")).unwrap();
    std::fs::rename(&file, scene.scratch.path().join("copy")).unwrap();
    std::fs::rename(&kept, twin.file().parent().unwrap().join("grants.json")).unwrap();
    assert!(twin.store().list().is_err(), "a file of another state directory");
    // What cannot be believed is not written over, and can be revoked.
    std::fs::write(&file, "x").unwrap();
    scene.approver.will_reply(ApprovalReply::Granted("file-workspace".to_owned()));
    assert!(!scene.bench.call_as(guided(), call().0, call().1).answer.is_error, "the person said yes");
    assert!(scene.bench.complaints().iter().any(|said| said.contains("the grant was not kept")));
    assert_eq!(std::fs::read(&file).unwrap(), b"x");
    scene.store().revoke_all().unwrap();
    assert!(scene.store().list().unwrap().is_empty());
    scene.grant("file-workspace", call().0, call().1);
    expect("given anew", false);
}

#[test]
fn a_revoked_grant_does_not_return_with_the_file_that_held_it() {
    let scene = Scene::new();
    let call = || ("write_file", text("src/a.txt"));
    scene.grant("file-workspace", call().0, call().1);
    // A hard link keeps the inode and the birth time, so only the generation differs.
    let kept = scene.scratch.path().join("kept");
    std::fs::hard_link(scene.file(), &kept).unwrap();
    let id = scene.store().list().unwrap().remove(0).id;
    scene.store().revoke(&id).unwrap();
    std::fs::rename(&kept, scene.file()).unwrap();
    assert!(scene.is_asked(&guided(), call().0, call().1));
    assert!(scene.bench.complaints().iter().any(|said| said.contains("an older file was put back")));
}
