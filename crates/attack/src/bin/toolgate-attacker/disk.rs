//! Calls on a full or read-only disk. Runs in a mount namespace of its own, as its root.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use toolgate_attack::{Bench, BenchOptions, Tree, code_of, litter_below};
use toolgate_gate::AuditMode;
use toolgate_tools::Profile;
use toolgate_types::ErrorCode;

const KIB: usize = 1024;

fn mount(arguments: &[&str], at: &Path) {
    std::fs::create_dir_all(at).unwrap();
    let done = Command::new("mount").args(arguments).arg(at).status().unwrap();
    assert!(done.success(), "mount {arguments:?} failed");
}

fn tiny_disk(at: &Path) {
    mount(&["-t", "tmpfs", "-o", "size=256k,mode=0755", "tmpfs"], at);
}

/// A call that must fail with this code and change nothing, neither in the workspace nor in the journal.
fn refused(bench: &Bench, workspace: &Path, tool: &str, arguments: Value, code: ErrorCode) {
    let before = Tree::of(workspace);
    let changes = bench.gate().journal().changes().unwrap().len();
    let called = bench.call(tool, arguments);
    assert_eq!(code_of(&called), Some(code), "{tool}: {}", called.answer.text);
    assert_eq!(before.names(), Tree::of(workspace).names(), "{tool} changed something");
    assert_eq!(litter_below(workspace), Vec::<PathBuf>::new(), "{tool} left litter");
    assert_eq!(bench.gate().journal().changes().unwrap().len(), changes, "{tool} is in the journal");
    let root = workspace.parent().unwrap().to_str().unwrap();
    assert!(!called.answer.text.contains(root), "{tool} was told a host path: {}", called.answer.text);
}

fn write(path: &str, size: usize) -> Value {
    json!({"path": path, "content": "x".repeat(size)})
}

fn new_file(path: &str, size: usize) -> String {
    format!("--- /dev/null\n+++ {path}\n@@ -0,0 +1 @@\n+{}\n", "x".repeat(size))
}

pub(crate) fn full(folder: &Path) {
    let (workspace, state) = (folder.join("disk"), folder.join("state"));
    tiny_disk(&workspace);
    std::fs::create_dir(&state).unwrap();
    let bench = BenchOptions::new(Profile::NATIVE, &workspace, &state).open();
    bench.must("write_file", write("old.txt", 100 * KIB));
    bench.must("write_file", write("other.txt", 60 * KIB));
    let full = ErrorCode::DiskFull;
    refused(&bench, &workspace, "write_file", write("old.txt", 200 * KIB), full);
    refused(&bench, &workspace, "write_file", write("new/folder/new.txt", 200 * KIB), full);
    refused(&bench, &workspace, "append_file", write("old.txt", 100 * KIB), full);
    let grow = json!({"path": "other.txt", "old_text": "x", "new_text": "xxx", "replace_all": true});
    refused(&bench, &workspace, "edit_file", grow, full);
    // The first file of the patch would fit.
    let patch = format!("{}{}", new_file("a/one.txt", 30 * KIB), new_file("b/two.txt", 150 * KIB));
    refused(&bench, &workspace, "apply_patch", json!({"patch": patch}), full);
    bench.must("delete_file", json!({"path": "other.txt"}));
    bench.must("write_file", write("old.txt", 110 * KIB));
    bench.verify_audit();
    books_full(folder);
}

/// The gate's own disk is full: nothing is changed without a record.
fn books_full(folder: &Path) {
    for mode in [AuditMode::Deny, AuditMode::Warn] {
        let name = format!("{mode:?}");
        let (workspace, state) = (folder.join(format!("w-{name}")), folder.join(format!("s-{name}")));
        std::fs::create_dir(&workspace).unwrap();
        std::fs::write(workspace.join("old.txt"), "old\n").unwrap();
        tiny_disk(&state);
        let bench = BenchOptions::new(Profile::NATIVE, &workspace, &state).audit_mode(mode).open();
        bench.must("append_file", json!({"path": "old.txt", "content": "more\n"}));
        fill(&state);
        let full = ErrorCode::DiskFull;
        for (tool, arguments) in [
            ("write_file", write("old.txt", 10)),
            ("write_file", write("new/new.txt", 10)),
            ("append_file", write("old.txt", 10)),
            ("edit_file", json!({"path": "old.txt", "old_text": "old", "new_text": "new"})),
            ("move_file", json!({"from": "old.txt", "to": "moved.txt"})),
            ("delete_file", json!({"path": "old.txt"})),
            ("apply_patch", json!({"patch": new_file("a.txt", 10)})),
        ] {
            // A rejected call frees the space that it had taken.
            fill(&state);
            refused(&bench, &workspace, tool, arguments, full);
        }
        // The audit log has a reserve of its own.
        let read = bench.must("read_file", json!({"path": "old.txt"}));
        assert_eq!(read.answer.text, "old\nmore\n", "{name}");
        assert_eq!(bench.record(read.call).denial, None);
        assert_eq!(bench.verify_audit(), 9);
        std::fs::remove_file(state.join("filler")).unwrap();
    }
}

/// Fills the disk to the last byte.
pub(crate) fn fill(disk: &Path) {
    use std::io::Write as _;
    let mut filler = std::fs::File::options().append(true).create(true).open(disk.join("filler")).unwrap();
    for size in [64 * KIB, 4 * KIB, 1] {
        while filler.write_all(&vec![0; size]).is_ok() {}
    }
}

pub(crate) fn read_only(folder: &Path) {
    let (workspace, state) = (folder.join("disk"), folder.join("state"));
    tiny_disk(&workspace);
    std::fs::create_dir(&state).unwrap();
    std::fs::write(workspace.join("old.txt"), "old\n").unwrap();
    mount(&["-o", "remount,ro"], &workspace);
    let bench = BenchOptions::new(Profile::NATIVE, &workspace, &state).open();
    for (tool, arguments) in [
        ("write_file", write("old.txt", 10)),
        ("write_file", write("new.txt", 10)),
        ("write_file", write("new/folder/new.txt", 10)),
        ("append_file", write("old.txt", 10)),
        ("edit_file", json!({"path": "old.txt", "old_text": "old", "new_text": "new"})),
        ("move_file", json!({"from": "old.txt", "to": "moved.txt"})),
        ("delete_file", json!({"path": "old.txt"})),
        ("apply_patch", json!({"patch": new_file("a.txt", 10)})),
    ] {
        refused(&bench, &workspace, tool, arguments, ErrorCode::ReadOnlyFilesystem);
    }
    assert_eq!(bench.must("read_file", json!({"path": "old.txt"})).answer.text, "old\n");
    bench.verify_audit();
}
