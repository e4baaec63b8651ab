//! Another process swaps files and directories with symlinks that lead outside, during calls.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use toolgate_attack::{Bench, BenchOptions, Scratch, Tree, litter_below};
use toolgate_tools::Profile;

use crate::fixture::{DENIED_SECRET, OUTSIDE_SECRET, write};

const READS: u32 = 80_000;
const WRITES: u32 = 20_000;
const ONLY_OUTSIDE: &str = "only-outside.txt";

/// The process that swaps; it is ended and waited for, however the test ends.
struct Swapper {
    process: Child,
    told: BufReader<ChildStdout>,
}

impl Swapper {
    fn start(scratch: &Scratch) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_toolgate-attacker"))
            .args(["swap".into(), scratch.path().join("w"), scratch.path().join("outside")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        told.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { process, told }
    }

    /// Ends it; returns the number of its rounds.
    fn end(mut self) -> u64 {
        drop(self.process.stdin.take());
        let mut rounds = String::new();
        self.told.read_to_string(&mut rounds).unwrap();
        assert!(self.process.wait().unwrap().success());
        rounds.trim().parse().unwrap()
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

fn arrange() -> Scratch {
    let scratch = Scratch::new();
    let outside = scratch.folder("outside");
    for name in ["secret.txt", "dir/file.txt", "dir/new.txt", "deep/er/file.txt", "deep/er/new.txt"] {
        write(&outside.join(name), OUTSIDE_SECRET);
    }
    for folder in ["dir", "deep", "deep/er"] {
        write(&outside.join(folder).join(ONLY_OUTSIDE), OUTSIDE_SECRET);
    }
    write(&scratch.folder("w").join(".env"), DENIED_SECRET);
    scratch
}

fn reads() -> Vec<(&'static str, Value)> {
    let files = ["dir/file.txt", "leaf.txt", "deep/er/file.txt", "middle/er/file.txt", "alias.txt"];
    let files = files.map(|path| ("read_file", json!({"path": path})));
    let folders = [
        ("list_directory", json!({"path": "dir"})),
        ("search_files", json!({"path": "alias.txt", "pattern": "secret"})),
        ("list_directory", json!({"path": "deep/er"})),
        ("search_files", json!({"path": "dir", "pattern": "secret"})),
        ("find_files", json!({"path": "middle/er", "glob": "*"})),
    ];
    // Walking a directory costs several times as much as opening a file, so there is one walk per round of files.
    folders.into_iter().flat_map(|folder| files.iter().cloned().chain([folder])).collect()
}

fn writes() -> Vec<(&'static str, Value)> {
    let write = |path: &str| ("write_file", json!({"path": path, "content": "inside, written\n"}));
    vec![
        write("dir/file.txt"),
        write("dir/new.txt"),
        write("leaf.txt"),
        write("deep/er/file.txt"),
        write("middle/er/new.txt"),
        write("alias.txt"),
        write("fresh.txt"),
        write("newdir/inner/x.txt"),
        ("append_file", json!({"path": "middle/er/file.txt", "content": "+"})),
        ("append_file", json!({"path": "leaf.txt", "content": "+"})),
        ("edit_file", json!({"path": "dir/file.txt", "old_text": "i", "new_text": "j", "replace_all": true})),
        ("edit_file", json!({"path": "alias.txt", "old_text": "i", "new_text": "j", "replace_all": true})),
        (
            "apply_patch",
            json!({"patch": "--- /dev/null\n+++ dir/patched.txt\n@@ -0,0 +1 @@\n+x\n--- /dev/null\n+++ deep/er/patched.txt\n@@ -0,0 +1 @@\n+x\n"}),
        ),
        ("move_file", json!({"from": "dir/new.txt", "to": "middle/er/moved.txt", "overwrite": true})),
        ("move_file", json!({"from": "middle/er/moved.txt", "to": "deep/er/moved.txt", "overwrite": true})),
        ("delete_file", json!({"path": "deep/er/moved.txt"})),
        ("delete_file", json!({"path": "dir/patched.txt"})),
        ("delete_file", json!({"path": "deep/er/patched.txt"})),
        ("delete_file", json!({"path": "fresh.txt"})),
        ("delete_file", json!({"path": "newdir/inner/x.txt"})),
    ]
}

/// How calls ended, by code.
type Counts = BTreeMap<&'static str, u32>;

fn storm(bench: &Bench, calls: &[(&'static str, Value)], count: u32, counts: &mut Counts) {
    for (tool, arguments) in calls.iter().cycle().take(count as usize) {
        let called = bench.call(tool, arguments.clone());
        let structured = called.structured().map(|structured| structured.to_string()).unwrap_or_default();
        for told in [&called.answer.text, &structured] {
            for secret in [OUTSIDE_SECRET, DENIED_SECRET, ONLY_OUTSIDE] {
                assert!(!told.contains(secret), "{tool} {arguments} let something out: {told}");
            }
        }
        let ended = toolgate_attack::code_of(&called).map_or("ok", |code| code.as_str());
        *counts.entry(ended).or_default() += 1;
    }
}

#[test]
fn a_hundred_thousand_calls_against_a_process_that_swaps_links() {
    let scratch = arrange();
    let (workspace, outside) = (scratch.folder("w"), scratch.folder("outside"));
    let bench = BenchOptions::new(Profile::NATIVE, &workspace, &scratch.folder("s")).open();
    let before = Tree::of(&outside);
    let denied_before = Tree::of(&workspace.join(".env"));
    let swapper = Swapper::start(&scratch);
    let mut counts = [Counts::new(), Counts::new()];
    for _ in 0..100 {
        storm(&bench, &reads(), READS / 100, &mut counts[0]);
        storm(&bench, &writes(), WRITES / 100, &mut counts[1]);
    }
    let rounds = swapper.end();
    println!("{READS} reads: {:?}", counts[0]);
    println!("{WRITES} writes: {:?}", counts[1]);
    println!("{rounds} rounds of swapping");
    assert_eq!(before.differences(&Tree::of(&outside)), Vec::<String>::new(), "something outside changed");
    assert_eq!(
        denied_before.differences(&Tree::of(&workspace.join(".env"))),
        Vec::<String>::new(),
        "a denied file changed"
    );
    // Both sides really raced: otherwise this shows nothing.
    for counts in &counts {
        assert!(counts.get("ok").is_some_and(|count| *count > 1000), "{counts:?}");
        assert!(counts.get("symlink_outside_workspace").is_some_and(|count| *count > 1000), "{counts:?}");
        assert!(counts.get("internal").is_none(), "{counts:?}");
    }
    assert!(rounds > 1000);
    assert_eq!(litter_below(&workspace), Vec::<std::path::PathBuf>::new());
    assert_eq!(bench.verify_audit(), u64::from(READS + WRITES), "records");
}
