//! `toolgate call read_file`, process start to exit, beside `cat`.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark arranges files by hand and prints what it measures"
)]

use std::fs;
use std::process::{Command, Stdio};

use toolgate_benches::{in_turns, release_binary, report};

fn main() {
    let scratch = tempfile::tempdir_in(".").unwrap();
    let folder = scratch.path().canonicalize().unwrap();
    let workspace = folder.join("workspace");
    fs::create_dir(&workspace).unwrap();
    fs::write(workspace.join("small.txt"), "0123456789abcde\n".repeat(64)).unwrap();
    let toolgate = release_binary();
    let run = |command: &mut Command| {
        let status =
            command.current_dir(&workspace).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        assert!(status.success());
    };
    let ours = || {
        let mut command = Command::new(&toolgate);
        run(command.arg("--state-dir").arg(folder.join("state")).args([
            "call",
            "read_file",
            r#"{"path": "small.txt"}"#,
        ]));
    };
    let cat = || run(Command::new("cat").arg("small.txt"));
    ours();
    let (ours, cat) = in_turns(401, ours, cat);
    report("call/read-1KiB", ours, cat, "cat", 3.0);
}
