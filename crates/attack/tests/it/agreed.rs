//! An approval covers exactly what was shown: the preview omits nothing, and the call does nothing else.

use std::future::Future;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_attack::{Bench, BenchOptions, Scratch, Tree, code_of, person};
use toolgate_gate::{ApprovalReply, ApprovalRequest, Approver, Preview, PreviewBody};
use toolgate_tools::{CallResponse, Profile};
use toolgate_types::{Caller, ErrorCode, Stage, Trust};

type Deed = Box<dyn Fn(&Path) + Send + Sync>;

/// Approves everything, after changing the workspace while the question is open.
struct Meddler {
    workspace: PathBuf,
    deed: Deed,
    asked: Mutex<Vec<ApprovalRequest>>,
}

impl Approver for Meddler {
    fn ask(&self, question: ApprovalRequest) -> Pin<Box<dyn Future<Output = ApprovalReply> + Send + '_>> {
        (self.deed)(&self.workspace);
        self.asked.lock().unwrap().push(question);
        Box::pin(async { ApprovalReply::Once })
    }
}

struct Desk {
    workspace: PathBuf,
    meddler: Arc<Meddler>,
    bench: Bench,
    _scratch: Scratch,
}

impl Desk {
    fn new(profile: Profile, deed: impl Fn(&Path) + Send + Sync + 'static) -> Self {
        let scratch = Scratch::new();
        let workspace = scratch.folder("w");
        std::fs::write(workspace.join("a.txt"), "one\ntwo\nthree\n").unwrap();
        std::fs::write(workspace.join("b.txt"), "other\n").unwrap();
        std::fs::write(workspace.join("empty.txt"), "").unwrap();
        std::fs::write(workspace.join("picture.png"), b"\x89PNG\0\0").unwrap();
        std::fs::create_dir(workspace.join("real")).unwrap();
        std::fs::write(workspace.join("real/conf"), "x = 1\n").unwrap();
        symlink("real/conf", workspace.join("innocent.txt")).unwrap();
        let deed: Deed = Box::new(deed);
        let meddler = Arc::new(Meddler { workspace: workspace.clone(), deed, asked: Mutex::default() });
        let approver = Arc::clone(&meddler) as Arc<dyn Approver>;
        let bench = BenchOptions::new(profile, &workspace, &scratch.folder("s"))
            .approver(approver, Duration::from_secs(60))
            .open();
        Self { _scratch: scratch, workspace, meddler, bench }
    }

    fn call(&self, trust: Trust, tool: &str, arguments: Value) -> CallResponse {
        self.bench.call_as(Caller { trust, ..person("s1") }, tool, arguments)
    }

    fn shown(&self, tool: &str, arguments: Value) -> Preview {
        let called = self.call(Trust::Guided, tool, arguments);
        assert!(!called.answer.is_error, "{tool}: {}", called.answer.text);
        self.meddler.asked.lock().unwrap().pop().unwrap().preview
    }
}

#[test]
fn the_question_names_the_real_file_and_its_size() {
    let rename = "diff --git a/a.txt b/c.txt\nsimilarity index 100%\nrename from a.txt\nrename to c.txt\n";
    let delete = "diff --git a/empty.txt b/empty.txt\ndeleted file mode 100644\n";
    let same = "one\ntwo\nthree\n";
    for (tool, arguments, summary) in [
        ("write_file", json!({"path": "new/x.txt", "content": "12345"}), vec!["create new/x.txt (5 bytes)"]),
        ("write_file", json!({"path": "x.txt", "content": ""}), vec!["create x.txt (0 bytes)"]),
        (
            "write_file",
            json!({"path": "innocent.txt", "content": "x = 2\n"}),
            vec!["replace real/conf (6 → 6 bytes)"],
        ),
        (
            "write_file",
            json!({"path": "a.txt", "content": same}),
            vec!["replace a.txt (14 → 14 bytes)", "the content stays the same"],
        ),
        ("write_file", json!({"path": "a.txt", "content": ""}), vec!["replace a.txt (14 → 0 bytes)"]),
        (
            "append_file",
            json!({"path": "innocent.txt", "content": "y = 2\n"}),
            vec!["append 6 bytes to real/conf (6 → 12 bytes)"],
        ),
        (
            "edit_file",
            json!({"path": "a.txt", "old_text": "two", "new_text": "2"}),
            vec!["edit a.txt (14 → 12 bytes)"],
        ),
        ("apply_patch", json!({"patch": rename}), vec!["rename a.txt → c.txt"]),
        ("apply_patch", json!({"patch": delete}), vec!["delete empty.txt (0 bytes)"]),
        ("move_file", json!({"from": "a.txt", "to": "real/a.txt"}), vec!["rename a.txt → real/a.txt"]),
        (
            "move_file",
            json!({"from": "a.txt", "to": "b.txt", "overwrite": true}),
            vec!["delete b.txt (6 bytes)", "rename a.txt → b.txt"],
        ),
        ("delete_file", json!({"path": "a.txt"}), vec!["delete a.txt (14 bytes)"]),
    ] {
        let shown = Desk::new(Profile::NATIVE, |_| {}).shown(tool, arguments.clone());
        assert_eq!(shown.summary, summary, "{tool} {arguments}");
    }
}

#[test]
fn every_profile_shows_what_it_would_change() {
    for (profile, tool, arguments) in [
        (Profile::CLAW, "write_file", json!({"path": "a.txt", "content": "one\nTWO\nthree\n"})),
        (Profile::CLAW, "append_file", json!({"path": "a.txt", "content": "TWO\n"})),
        (Profile::CLAW, "edit_file", json!({"path": "a.txt", "old_text": "two", "new_text": "TWO"})),
        (Profile::CREW, "fs.write", json!({"path": "@project/a.txt", "content": "one\nTWO\nthree\n"})),
        (Profile::SIDECAR, "write_file", json!({"path": "a.txt", "content": "one\nTWO\nthree\n"})),
        (Profile::STUDIO, "file_write", json!({"path": "a.txt", "content": "one\nTWO\nthree\n"})),
    ] {
        let shown = Desk::new(profile, |_| {}).shown(tool, arguments);
        let PreviewBody::Diff(diff) = shown.body else { panic!("{profile} {tool}: {:?}", shown.body) };
        assert!(diff.contains("\n+TWO\n") && diff.contains("a.txt"), "{profile} {tool}: {diff}");
        assert!(shown.summary[0].contains("a.txt (14 → "), "{profile} {tool}: {:?}", shown.summary);
        assert_eq!(shown.expected_changes.map(|changes| changes.len()), Some(1), "{profile} {tool}");
    }
}

#[test]
fn old_content_that_cannot_be_shown_is_told_by_its_size() {
    let desk = Desk::new(Profile::NATIVE, |_| {});
    let long = "x\n".repeat(700_000);
    std::fs::write(desk.workspace.join("long.txt"), &long).unwrap();
    // The beginning is the same: a preview of only the beginning would show a small change.
    let cut = "x\n".repeat(1000) + "y\n";
    for (path, content, sizes) in
        [("long.txt", cut.as_str(), "(1400000 → 2002 bytes)"), ("picture.png", "text\n", "(6 → 5 bytes)")]
    {
        let shown = desk.shown("write_file", json!({"path": path, "content": content}));
        assert_eq!(shown.summary[0], format!("replace {path} {sizes}"));
        assert_eq!(shown.body, PreviewBody::Text(content.to_owned()), "{path}");
    }
    // A file beyond the read limit still has a diff of the whole.
    std::fs::write(desk.workspace.join("middling.txt"), "x\n".repeat(200_000)).unwrap();
    let shown = desk.shown("write_file", json!({"path": "middling.txt", "content": "x\n".repeat(131_072)}));
    let PreviewBody::Diff(diff) = shown.body else { panic!("{:?}", shown.summary) };
    assert_eq!(diff.lines().filter(|line| *line == "-x").count(), 200_000 - 131_072);
}

/// What other processes do while the question is open, to the files that it is about.
fn deeds() -> Vec<(&'static str, Deed)> {
    let deed = |name, deed: fn(&Path)| (name, Box::new(deed) as Deed);
    vec![
        deed("changed", |w| std::fs::write(w.join("a.txt"), "ONE\ntwo\nthree\n").unwrap()),
        deed("grown", |w| std::fs::write(w.join("a.txt"), "one\ntwo\nthree\nfour\n").unwrap()),
        deed("replaced by a link", |w| {
            std::fs::remove_file(w.join("a.txt")).unwrap();
            std::fs::write(w.join("c.txt"), "one\ntwo\nthree\n").unwrap();
            symlink("c.txt", w.join("a.txt")).unwrap();
        }),
        deed("removed", |w| std::fs::remove_file(w.join("a.txt")).unwrap()),
    ]
}

#[test]
fn files_that_changed_while_the_question_was_open_are_left_alone() {
    let patch = "--- a.txt\n+++ a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n";
    for (tool, arguments) in [
        ("write_file", json!({"path": "a.txt", "content": "new\n"})),
        ("append_file", json!({"path": "a.txt", "content": "new\n"})),
        ("edit_file", json!({"path": "a.txt", "old_text": "two", "new_text": "TWO"})),
        ("apply_patch", json!({"patch": patch})),
        ("move_file", json!({"from": "a.txt", "to": "z.txt"})),
        ("delete_file", json!({"path": "a.txt"})),
    ] {
        for (name, deed) in deeds() {
            let after = Arc::new(Mutex::new(None));
            let seen = Arc::clone(&after);
            let desk = Desk::new(Profile::NATIVE, move |workspace| {
                deed(workspace);
                *seen.lock().unwrap() = Some(Tree::of(workspace));
            });
            let called = desk.call(Trust::Guided, tool, arguments.clone());
            let code = code_of(&called).unwrap_or_else(|| panic!("{tool}, {name}: {}", called.answer.text));
            // A file that is missing or a symlink now, or whose text no longer matches, may be reported as such.
            let expected = [
                ErrorCode::PreconditionFailed,
                ErrorCode::NotFound,
                ErrorCode::NotAFile,
                ErrorCode::PatchConflict,
            ];
            assert!(expected.contains(&code), "{tool}, {name}: {}", called.answer.text);
            if name == "changed" && tool != "apply_patch" {
                assert_eq!(code, ErrorCode::PreconditionFailed, "{tool}: {}", called.answer.text);
                assert!(called.answer.text.contains("while the question was open"), "{}", called.answer.text);
            }
            let expected = after.lock().unwrap().take().unwrap();
            let differences = expected.differences(&Tree::of(&desk.workspace));
            assert_eq!(differences, Vec::<String>::new(), "{tool}, {name}");
            assert!(desk.bench.gate().journal().changes().unwrap().is_empty(), "{tool}, {name}");
        }
    }
}

#[test]
fn a_file_that_appears_while_the_question_was_open_is_left_alone() {
    let desk = Desk::new(Profile::NATIVE, |w| std::fs::write(w.join("new.txt"), "theirs\n").unwrap());
    let called = desk.call(Trust::Guided, "write_file", json!({"path": "new.txt", "content": "ours\n"}));
    assert_eq!(code_of(&called), Some(ErrorCode::PreconditionFailed), "{}", called.answer.text);
    assert_eq!(std::fs::read_to_string(desk.workspace.join("new.txt")).unwrap(), "theirs\n");
    // A call that would have failed is not let through because it would work by now.
    let desk = Desk::new(Profile::NATIVE, |w| std::fs::write(w.join("a.txt"), "one\nTWO\n").unwrap());
    let edit = json!({"path": "a.txt", "old_text": "TWO", "new_text": "2"});
    let called = desk.call(Trust::Supervised, "edit_file", edit);
    assert_eq!(code_of(&called), Some(ErrorCode::PreconditionFailed), "{}", called.answer.text);
    let asked = desk.meddler.asked.lock().unwrap().pop().unwrap();
    assert!(asked.preview.summary[0].contains("would fail"), "{:?}", asked.preview);
    assert_eq!(std::fs::read_to_string(desk.workspace.join("a.txt")).unwrap(), "one\nTWO\n");
}

#[test]
fn what_is_refused_anyway_is_not_asked_about() {
    for (tool, arguments) in [
        ("read_file", json!({"path": ".env"})),
        ("read_file", json!({"path": "../outside.txt"})),
        ("list_directory", json!({"path": "/etc"})),
        ("search_files", json!({"pattern": "x", "path": ".ssh"})),
        ("write_file", json!({"path": ".env", "content": "x"})),
        ("append_file", json!({"path": "../x", "content": "x"})),
        ("edit_file", json!({"path": ".env", "old_text": "s", "new_text": "t"})),
        ("delete_file", json!({"path": ".env"})),
        ("move_file", json!({"from": "a.txt", "to": ".git/hooks/pre-commit"})),
        ("apply_patch", json!({"patch": "--- /dev/null\n+++ .env.local\n@@ -0,0 +1 @@\n+x\n"})),
        ("edit_file", json!({"path": "a.txt"})),
    ] {
        let desk = Desk::new(Profile::NATIVE, |_| {});
        std::fs::write(desk.workspace.join(".env"), "secret").unwrap();
        std::fs::create_dir(desk.workspace.join(".ssh")).unwrap();
        let called = desk.call(Trust::Supervised, tool, arguments.clone());
        let (stage, failure) = called.failed.unwrap_or_else(|| panic!("{tool} {arguments} was done"));
        let is_unfit = failure.code == ErrorCode::InvalidArguments;
        let expected = if is_unfit { Stage::Validation } else { Stage::Execution };
        assert!(stage == expected && failure.code.is_denial(), "{tool} {arguments}: {failure:?}");
        assert_eq!(desk.meddler.asked.lock().unwrap().len(), 0, "{tool} {arguments} was asked about");
    }
}

#[test]
fn a_reading_is_asked_about_by_where_it_leads() {
    let desk = Desk::new(Profile::NATIVE, |_| {});
    for (tool, arguments, summary) in [
        ("read_file", json!({"path": "innocent.txt"}), "read real/conf"),
        ("list_directory", json!({"path": "real"}), "look into real"),
    ] {
        assert!(!desk.call(Trust::Supervised, tool, arguments).answer.is_error);
        assert_eq!(desk.meddler.asked.lock().unwrap().pop().unwrap().preview.summary, [summary]);
    }
}

#[test]
fn how_somebody_could_be_asked_is_told_to_the_operator_alone() {
    let scratch = Scratch::new();
    let workspace = scratch.folder("w");
    let bench = BenchOptions::new(Profile::NATIVE, &workspace, &scratch.folder("s")).open();
    let caller = Caller { trust: Trust::Guided, ..person("s1") };
    let called = bench.call_as(caller, "write_file", json!({"path": "a", "content": ""}));
    assert_eq!(code_of(&called), Some(ErrorCode::ApprovalUnavailable));
    assert!(!called.answer.text.contains("ask in a test"), "{}", called.answer.text);
    assert!(bench.record(called.call).denial.unwrap().reason.contains("ask in a test"));
}
