//! `toolgate call read_file`, process start to exit, beside `cat`.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark arranges files by hand and prints what it measures"
)]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use toolgate_benches::{in_turns, report};

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

/// The binary beside this benchmark, built now so that it is never an old one.
fn release_binary() -> PathBuf {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let built =
        Command::new(cargo).args(["build", "--quiet", "--release", "-p", "toolgate"]).status().unwrap();
    assert!(built.success());
    let this = std::env::current_exe().unwrap();
    this.ancestors().find(|folder| folder.ends_with("release")).unwrap().join("toolgate")
}
