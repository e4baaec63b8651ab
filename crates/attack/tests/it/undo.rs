//! Undo against a reference model: whatever a session did, undoing it newest first leads back to the beginning.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::FileFailurePersistence;
use serde_json::{Value, json};
use toolgate_attack::{Bench, BenchOptions, Scratch, Tree};
use toolgate_gate::{UndoError, UndoOptions};
use toolgate_tools::Profile;
use toolgate_types::{CallId, ErrorCode};

/// Files and their content. Directories are what the files need, and what was there at the beginning.
type Model = BTreeMap<String, String>;

const PATHS: &[&str] =
    &["a.txt", "b.txt", "d/c.txt", "d/e/f.txt", "new/g.txt", "new/h/i.txt", "odd\\name.txt"];

#[derive(Clone, Debug)]
enum Act {
    Write(&'static str, String),
    Append(&'static str, String),
    Edit(&'static str),
    Move(&'static str, &'static str, bool),
    Delete(&'static str),
    Patch(Vec<(&'static str, PatchAct)>),
}

#[derive(Clone, Copy, Debug)]
enum PatchAct {
    /// Creates the file, or replaces its first line.
    Put,
    Delete,
}

fn act() -> impl Strategy<Value = Act> {
    let path = || select(PATHS);
    let text = || "[xyz]{1,8}\n([xyz]{0,8}\n){0,3}";
    let patch =
        prop::collection::btree_map(path(), prop_oneof![Just(PatchAct::Put), Just(PatchAct::Delete)], 1..4);
    prop_oneof![
        (path(), text()).prop_map(|(path, text)| Act::Write(path, text)),
        (path(), text()).prop_map(|(path, text)| Act::Append(path, text)),
        path().prop_map(Act::Edit),
        (path(), path(), any::<bool>()).prop_map(|(from, to, overwrite)| Act::Move(from, to, overwrite)),
        path().prop_map(Act::Delete),
        patch.prop_map(|files| Act::Patch(files.into_iter().collect())),
    ]
}

impl Act {
    fn call(&self, model: &Model) -> (&'static str, Value) {
        match self {
            Self::Write(path, content) => ("write_file", json!({"path": path, "content": content})),
            Self::Append(path, content) => ("append_file", json!({"path": path, "content": content})),
            Self::Edit(path) => (
                "edit_file",
                json!({"path": path, "old_text": "x", "new_text": "edited", "replace_all": true}),
            ),
            Self::Move(from, to, overwrite) => {
                ("move_file", json!({"from": from, "to": to, "overwrite": overwrite}))
            }
            Self::Delete(path) => ("delete_file", json!({"path": path})),
            Self::Patch(files) => {
                let hunks: Vec<String> = files.iter().map(|(path, act)| hunk(path, *act, model)).collect();
                ("apply_patch", json!({"patch": hunks.concat()}))
            }
        }
    }

    /// The reference: the new state, or `None` if the call must fail and change nothing.
    fn apply(&self, model: &Model) -> Option<Model> {
        let mut after = model.clone();
        match self {
            Self::Write(path, content) => {
                after.insert((*path).to_owned(), content.clone());
            }
            Self::Append(path, content) => after.entry((*path).to_owned()).or_default().push_str(content),
            Self::Edit(path) => {
                let text = after.get_mut(*path).filter(|text| text.contains('x'))?;
                *text = text.replace('x', "edited");
            }
            Self::Move(from, to, overwrite) => {
                if from == to || (after.contains_key(*to) && !overwrite) {
                    return None;
                }
                let content = after.remove(*from)?;
                after.insert((*to).to_owned(), content);
            }
            Self::Delete(path) => {
                after.remove(*path)?;
            }
            Self::Patch(files) => {
                for (path, act) in files {
                    match (act, after.get_mut(*path)) {
                        (PatchAct::Put, Some(text)) => {
                            *text =
                                format!("patched\n{}", text.split_once('\n').map_or("", |(_, rest)| rest));
                        }
                        (PatchAct::Put, None) => {
                            after.insert((*path).to_owned(), "created\n".to_owned());
                        }
                        (PatchAct::Delete, Some(_)) => {
                            after.remove(*path);
                        }
                        (PatchAct::Delete, None) => return None,
                    }
                }
            }
        }
        Some(after)
    }
}

/// One file's part of a patch, made from the model's state.
fn hunk(path: &str, act: PatchAct, model: &Model) -> String {
    let quoted =
        if path.contains('\\') { format!("\"{}\"", path.replace('\\', "\\\\")) } else { path.to_owned() };
    let lines: Vec<&str> = model.get(path).map(|text| text.lines().collect()).unwrap_or_default();
    let count = lines.len();
    match act {
        PatchAct::Put if model.contains_key(path) => {
            let rest: Vec<String> = lines.iter().skip(1).map(|line| format!(" {line}\n")).collect();
            format!(
                "--- {quoted}\n+++ {quoted}\n@@ -1,{count} +1,{count} @@\n-{}\n+patched\n{}",
                lines[0],
                rest.concat()
            )
        }
        PatchAct::Put => format!("--- /dev/null\n+++ {quoted}\n@@ -0,0 +1 @@\n+created\n"),
        PatchAct::Delete => {
            let gone: Vec<String> = lines.iter().map(|line| format!("-{line}\n")).collect();
            format!("--- {quoted}\n+++ /dev/null\n@@ -1,{count} +0,0 @@\n{}", gone.concat())
        }
    }
}

/// The actual files and directories.
fn look(root: &Path) -> (Model, BTreeSet<PathBuf>) {
    let (mut files, mut folders) = (Model::new(), BTreeSet::new());
    let mut pending = vec![root.to_path_buf()];
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let relative = path.strip_prefix(root).unwrap().to_path_buf();
            if path.is_dir() {
                folders.insert(relative);
                pending.push(path);
            } else {
                files.insert(relative.to_str().unwrap().to_owned(), std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    (files, folders)
}

struct Playground {
    // Dropped before its directory, or it would recreate the directory.
    bench: Bench,
    scratch: Scratch,
}

impl Playground {
    fn new(initial: &Model) -> Self {
        let scratch = Scratch::new();
        let workspace = scratch.folder("w");
        for (path, content) in initial {
            crate::fixture::write(&workspace.join(path), content);
        }
        let bench = BenchOptions::new(Profile::NATIVE, &workspace, &scratch.folder("s")).open();
        Self { scratch, bench }
    }

    fn root(&self) -> PathBuf {
        self.scratch.path().join("w")
    }

    fn files(&self) -> Model {
        look(&self.root()).0
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }
}

fn initial() -> Model {
    [("a.txt", "xa\nya\n"), ("d/c.txt", "xc\n"), ("d/e/f.txt", "zf\nzz\nx\n")]
        .map(|(path, text)| (path.to_owned(), text.to_owned()))
        .into()
}

const GENTLY: UndoOptions = UndoOptions { force: false };
const BY_FORCE: UndoOptions = UndoOptions { force: true };

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_session_put_back_newest_first_was_never_there(acts in prop::collection::vec(act(), 1..12)) {
        let playground = Playground::new(&initial());
        let bench = &playground.bench;
        let (_, folders) = look(&playground.root());
        let mut states = vec![initial()];
        let mut calls: Vec<CallId> = Vec::new();
        for act in &acts {
            let model = states.last().unwrap();
            let (tool, arguments) = act.call(model);
            let called = bench.call(tool, arguments);
            match act.apply(model) {
                Some(after) => {
                    prop_assert!(!called.answer.is_error, "{act:?}: {}", called.answer.text);
                    states.push(after);
                    calls.push(called.call);
                }
                None => prop_assert!(called.answer.is_error, "{act:?}: {}", called.answer.text),
            }
            prop_assert_eq!(&playground.files(), states.last().unwrap(), "after {:?}", act);
        }
        // Undo, redo and undo again: an undo is a change like any other.
        let mut undoings = Vec::new();
        for (call, state) in calls.iter().zip(&states).rev() {
            undoings.push(bench.undo(*call, GENTLY).unwrap().undo_call);
            prop_assert_eq!(&playground.files(), state, "after undoing {}", call);
        }
        prop_assert_eq!(look(&playground.root()), (initial(), folders.clone()), "after undoing everything");
        for (undoing, state) in undoings.iter().rev().zip(&states[1..]) {
            bench.undo(*undoing, GENTLY).unwrap();
            prop_assert_eq!(&playground.files(), state, "after undoing the undoing {}", undoing);
        }
        for call in calls.iter().rev() {
            bench.undo(*call, GENTLY).unwrap();
        }
        prop_assert_eq!(look(&playground.root()), (initial(), folders), "after undoing everything again");
        // Every undo is audited like a call.
        let records = bench.records();
        prop_assert_eq!(records.len(), acts.len() + 3 * calls.len());
        prop_assert!(records.values().all(|of_call| of_call.len() == 1));
        bench.verify_audit();
    }
}

/// A call, what another process does to its files afterwards, and what a forced undo leaves.
struct Conflict {
    name: &'static str,
    tool: &'static str,
    arguments: Value,
    meddle: fn(&Playground),
    code: ErrorCode,
    forced: Option<Model>,
}

fn with(changes: &[(&str, Option<&str>)]) -> Model {
    let mut model = initial();
    for (path, content) in changes {
        match content {
            Some(content) => model.insert((*path).to_owned(), (*content).to_owned()),
            None => model.remove(*path),
        };
    }
    model
}

fn conflicts() -> Vec<Conflict> {
    let overwrite_a: fn(&Playground) = |place| std::fs::write(place.path("a.txt"), "somebody else").unwrap();
    let remove_a: fn(&Playground) = |place| std::fs::remove_file(place.path("a.txt")).unwrap();
    let changed = ErrorCode::PreconditionFailed;
    let back = || Some(initial());
    let patch = "--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n-xa\n+patched\n ya\n--- d/c.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-xc\n";
    vec![
        Conflict {
            name: "written, then changed by somebody",
            tool: "write_file",
            arguments: json!({"path": "a.txt", "content": "mine"}),
            meddle: overwrite_a,
            code: changed,
            forced: back(),
        },
        Conflict {
            name: "written, then deleted by somebody",
            tool: "write_file",
            arguments: json!({"path": "a.txt", "content": "mine"}),
            meddle: remove_a,
            code: changed,
            forced: back(),
        },
        Conflict {
            name: "edited, then changed by somebody",
            tool: "edit_file",
            arguments: json!({"path": "a.txt", "old_text": "xa", "new_text": "mine"}),
            meddle: overwrite_a,
            code: changed,
            forced: back(),
        },
        Conflict {
            name: "appended, then changed by somebody",
            tool: "append_file",
            arguments: json!({"path": "a.txt", "content": "mine"}),
            meddle: overwrite_a,
            code: changed,
            forced: back(),
        },
        Conflict {
            name: "made, then changed by somebody",
            tool: "write_file",
            arguments: json!({"path": "new/n.txt", "content": "mine"}),
            meddle: |place| std::fs::write(place.path("new/n.txt"), "somebody else").unwrap(),
            code: changed,
            forced: back(),
        },
        Conflict {
            name: "deleted, then made again by somebody",
            tool: "delete_file",
            arguments: json!({"path": "a.txt"}),
            meddle: overwrite_a,
            code: changed,
            forced: back(),
        },
        Conflict {
            name: "moved, then the old name was taken",
            tool: "move_file",
            arguments: json!({"from": "a.txt", "to": "moved.txt"}),
            meddle: overwrite_a,
            code: ErrorCode::AlreadyExists,
            forced: back(),
        },
        Conflict {
            name: "moved, then deleted by somebody",
            tool: "move_file",
            arguments: json!({"from": "a.txt", "to": "moved.txt"}),
            meddle: |place| std::fs::remove_file(place.path("moved.txt")).unwrap(),
            code: ErrorCode::NotFound,
            forced: None,
        },
        Conflict {
            name: "moved over another file, then the old name was taken",
            tool: "move_file",
            arguments: json!({"from": "a.txt", "to": "d/c.txt", "overwrite": true}),
            meddle: overwrite_a,
            code: ErrorCode::AlreadyExists,
            forced: back(),
        },
        Conflict {
            name: "one of two patched files was changed by somebody",
            tool: "apply_patch",
            arguments: json!({"patch": patch}),
            meddle: overwrite_a,
            code: changed,
            forced: back(),
        },
        Conflict {
            name: "the other of two patched files was made again by somebody",
            tool: "apply_patch",
            arguments: json!({"patch": patch}),
            meddle: |place| std::fs::write(place.path("d/c.txt"), "somebody else").unwrap(),
            code: changed,
            forced: back(),
        },
    ]
}

#[test]
fn what_others_changed_since_is_left_alone_unless_forced() {
    for Conflict { name, tool, arguments, meddle, code, forced } in conflicts() {
        let playground = Playground::new(&initial());
        let bench = &playground.bench;
        let call = bench.must(tool, arguments).call;
        meddle(&playground);
        let before = Tree::of(&playground.root());
        let refused = bench.undo(call, GENTLY).expect_err(name);
        assert!(matches!(refused, UndoError::Conflict { .. }), "{name}: {refused}");
        assert_eq!(refused.code(), code, "{name}: {refused}");
        assert_eq!(before.differences(&Tree::of(&playground.root())), Vec::<String>::new(), "{name}");
        match forced {
            Some(forced) => {
                let undone = bench.undo(call, BY_FORCE).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(playground.files(), forced, "{name}");
                // What was there before the forced undo can be restored.
                bench.undo(undone.undo_call, GENTLY).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(Tree::of(&playground.root()).names(), before.names(), "{name}");
            }
            None => {
                bench.undo(call, BY_FORCE).expect_err(name);
                assert_eq!(before.differences(&Tree::of(&playground.root())), Vec::<String>::new(), "{name}");
            }
        }
    }
}

#[test]
fn an_undone_call_is_undone_once() {
    let playground = Playground::new(&initial());
    let bench = &playground.bench;
    let call = bench.must("write_file", json!({"path": "a.txt", "content": "mine"})).call;
    bench.undo(call, GENTLY).unwrap();
    let again = bench.undo(call, BY_FORCE).expect_err("undone already");
    assert!(matches!(again, UndoError::AlreadyUndone { .. }), "{again}");
    let unknown = bench.undo(CallId::fresh(), GENTLY).expect_err("no such call");
    assert!(matches!(unknown, UndoError::Unknown(_)), "{unknown}");
    assert_eq!(playground.files(), with(&[]));
}

#[test]
fn a_failed_call_leaves_nothing_to_undo() {
    let playground = Playground::new(&initial());
    let bench = &playground.bench;
    let call = bench.call("edit_file", json!({"path": "a.txt", "old_text": "absent", "new_text": "n"})).call;
    assert!(matches!(bench.undo(call, GENTLY), Err(UndoError::Unknown(_))));
    assert!(bench.gate().journal().changes().unwrap().is_empty());
}
