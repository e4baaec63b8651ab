//! A process that dies at one exact step of a change. Kills hit these steps by chance; here each is arranged by hand.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolgate_attack::{Bench, BenchOptions, Scratch, Tree, litter_below, unfinish};
use toolgate_gate::{ChangeSet, UndoOptions};
use toolgate_tools::Profile;

/// How far a change had come.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The new content has a temporary name, and new directories exist, but nothing was exchanged.
    Named,
    /// Old and new were exchanged; the old content has the temporary name.
    Swapped,
    /// The old content is gone too; only the entry was not finished.
    Cleared,
}

type Files = BTreeMap<PathBuf, String>;

fn files(root: &Path) -> Files {
    let mut found = Files::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.clone(), std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

/// Restores the files, leaving directories alone.
fn rewind(root: &Path, before: &Files) {
    for path in files(root).keys().filter(|path| !before.contains_key(*path)) {
        std::fs::remove_file(path).unwrap();
    }
    for (path, content) in before {
        std::fs::write(path, content).unwrap();
    }
}

struct Crash {
    scratch: Scratch,
}

impl Crash {
    fn new() -> Self {
        let scratch = Scratch::new();
        for (name, content) in
            [("a.txt", "a\n"), ("b.txt", "b\n"), ("d/c.txt", "c\n"), (&long_name(), "long\n")]
        {
            crate::fixture::write(&scratch.folder("w").join(name), content);
        }
        Self { scratch }
    }

    fn root(&self) -> PathBuf {
        self.scratch.folder("w")
    }

    fn start(&self) -> Bench {
        BenchOptions::new(Profile::NATIVE, &self.root(), &self.scratch.folder("s")).open()
    }

    fn journal(&self, folder: &str) -> PathBuf {
        self.scratch.path().join("s/journal.toolgate").join(folder)
    }

    /// Turns the entry of a finished change into that of a process that died.
    fn unfinish(&self, set: &ChangeSet) {
        unfinish(&self.scratch.path().join("s/journal.toolgate"), set.call);
    }

    /// Arranges what the process would have left.
    fn arrange(&self, set: &ChangeSet, before: &Files, step: Step) {
        let after = files(&self.root());
        if matches!(step, Step::Named) {
            rewind(&self.root(), before);
        }
        for change in &set.changes {
            let path = Path::new(&change.root).join(&change.path);
            let temporary = change.temporary.as_ref().unwrap();
            assert!(
                !temporary.contains('\u{fffd}'),
                "a name that was not written down as it is: {temporary}"
            );
            let temporary = path.with_file_name(temporary);
            let left = match step {
                Step::Named => after.get(&path),
                Step::Swapped => before.get(&path),
                Step::Cleared => None,
            };
            // A move has no content of its own.
            if let (Some(content), None) = (left, &change.moved_to) {
                std::fs::write(temporary, content).unwrap();
            }
        }
        self.unfinish(set);
    }

    fn is_clean(&self, what: &str) {
        assert_eq!(litter_below(&self.root()), Vec::<PathBuf>::new(), "{what}");
        for folder in ["pending", "blobs"] {
            let left = std::fs::read_dir(self.journal(folder)).unwrap().count();
            assert_eq!(left, 0, "{what}: left in {folder}");
        }
    }
}

/// The longest possible name, in characters of two bytes.
fn long_name() -> String {
    format!("x{}", "é".repeat(125))
}

fn calls() -> Vec<(&'static str, Value)> {
    let patch = "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-a\n+A\n--- d/c.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-c\n--- /dev/null\n+++ e/f/g.txt\n@@ -0,0 +1 @@\n+g\n";
    vec![
        ("write_file", json!({"path": "a.txt", "content": "A\n"})),
        ("write_file", json!({"path": "new.txt", "content": "new\n"})),
        ("write_file", json!({"path": "e/f/g.txt", "content": "g\n"})),
        ("write_file", json!({"path": long_name(), "content": "LONG\n"})),
        ("append_file", json!({"path": "a.txt", "content": "more\n"})),
        ("edit_file", json!({"path": "d/c.txt", "old_text": "c", "new_text": "C"})),
        ("delete_file", json!({"path": "d/c.txt"})),
        ("move_file", json!({"from": "a.txt", "to": "m.txt"})),
        ("move_file", json!({"from": "a.txt", "to": "e/f/m.txt"})),
        ("move_file", json!({"from": "a.txt", "to": "b.txt", "overwrite": true})),
        ("apply_patch", json!({"patch": patch})),
    ]
}

#[test]
fn a_start_puts_back_what_a_dead_process_left_at_any_step() {
    for (tool, arguments) in calls() {
        for step in [Step::Named, Step::Swapped, Step::Cleared] {
            let what = format!("{tool} {arguments} {step:?}");
            let crash = Crash::new();
            let (before, names) = (files(&crash.root()), Tree::of(&crash.root()).names());
            let bench = crash.start();
            bench.must(tool, arguments.clone());
            let set = bench.gate().journal().changes().unwrap().remove(0);
            drop(bench);
            crash.arrange(&set, &before, step);
            let bench = crash.start();
            assert_eq!(Tree::of(&crash.root()).names(), names, "{what}");
            crash.is_clean(&what);
            assert!(bench.gate().journal().changes().unwrap().is_empty(), "{what}");
        }
    }
}

#[test]
fn what_others_did_since_the_crash_is_left_alone() {
    for (tool, arguments, path) in [
        ("write_file", json!({"path": "a.txt", "content": "A\n"}), "a.txt"),
        ("write_file", json!({"path": "new.txt", "content": "new\n"}), "new.txt"),
        ("delete_file", json!({"path": "d/c.txt"}), "d/c.txt"),
        ("move_file", json!({"from": "a.txt", "to": "m.txt"}), "a.txt"),
        // Under the new name as well: what was written there since is not moved to the old name.
        ("move_file", json!({"from": "a.txt", "to": "m.txt"}), "m.txt"),
    ] {
        let crash = Crash::new();
        let bench = crash.start();
        bench.must(tool, arguments);
        let set = bench.gate().journal().changes().unwrap().remove(0);
        drop(bench);
        crash.unfinish(&set);
        std::fs::write(crash.root().join(path), "somebody else's\n").unwrap();
        let before = Tree::of(&crash.root()).names();
        drop(crash.start());
        assert_eq!(Tree::of(&crash.root()).names(), before, "{tool} {path}");
        crash.is_clean(tool);
    }
}

#[test]
fn an_undoing_that_died_is_not_in_force() {
    let crash = Crash::new();
    let bench = crash.start();
    let call = bench.must("write_file", json!({"path": "a.txt", "content": "A\n"})).call;
    let undoing = bench.undo(call, UndoOptions::default()).unwrap().undo_call;
    let set = bench.gate().journal().change_set(undoing).unwrap();
    drop(bench);
    crash.unfinish(&set);
    let bench = crash.start();
    assert_eq!(std::fs::read_to_string(crash.root().join("a.txt")).unwrap(), "A\n");
    // So it can be undone, and the undo undone, as if nothing had happened.
    let undoing = bench.undo(call, UndoOptions::default()).unwrap().undo_call;
    assert_eq!(std::fs::read_to_string(crash.root().join("a.txt")).unwrap(), "a\n");
    bench.undo(undoing, UndoOptions::default()).unwrap();
    assert_eq!(std::fs::read_to_string(crash.root().join("a.txt")).unwrap(), "A\n");
}

#[test]
fn content_kept_for_a_call_that_never_began_goes() {
    let crash = Crash::new();
    let bench = crash.start();
    bench.must("write_file", json!({"path": "a.txt", "content": "A\n"}));
    let set = bench.gate().journal().changes().unwrap().remove(0);
    drop(bench);
    // As if it had died while it was saving the old content: an empty entry, and the blob.
    std::fs::write(crash.root().join("a.txt"), "a\n").unwrap();
    std::fs::remove_file(crash.journal("done").join(format!("{}.json", set.call))).unwrap();
    std::fs::write(crash.journal("pending").join(format!(".{}.json", set.call)), "").unwrap();
    let names = Tree::of(&crash.root()).names();
    drop(crash.start());
    assert_eq!(Tree::of(&crash.root()).names(), names);
    crash.is_clean("never began");
}
