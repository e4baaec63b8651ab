//! A limit on the size of files, which every system has: the portable part of running out of room.

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use toolgate_attack::litter_below;

use crate::place::{Place, finish_call};

/// More than the limit, whether a shell counts it in units of 512 or of 1024 bytes.
const TOO_LARGE: usize = 400 * 1024;
const SIGXFSZ: i32 = 25;

/// The binary, with a limit of at most 200 KiB on the files that it writes.
fn limited(place: &Place, prelude: &str) -> Command {
    let mut shell = Command::new("sh");
    let script = format!("{prelude} ulimit -f 200; exec \"$@\"");
    shell.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_toolgate")]);
    place.beneath(shell)
}

fn too_large(path: &str) -> Value {
    json!({"path": path, "content": "x".repeat(TOO_LARGE)})
}

fn place_with_a_file() -> Place {
    let place = Place::new();
    std::fs::write(place.workspace.join("old.txt"), "old\n").unwrap();
    place
}

fn is_untouched(place: &Place, what: &str) {
    assert_eq!(std::fs::read_to_string(place.workspace.join("old.txt")).unwrap(), "old\n", "{what}");
    assert!(!place.workspace.join("new").exists(), "{what}");
    assert_eq!(litter_below(&place.workspace), Vec::<PathBuf>::new(), "{what}");
}

#[test]
fn a_file_that_may_not_grow_keeps_its_content() {
    let place = place_with_a_file();
    for (tool, path) in
        [("write_file", "old.txt"), ("append_file", "old.txt"), ("write_file", "new/file.txt")]
    {
        let (code, envelope) = finish_call(limited(&place, "trap '' XFSZ;"), tool, &too_large(path));
        assert_eq!((code, &envelope["code"]), (1, &json!("write_limit")), "{tool} {path}: {envelope}");
        assert_eq!(envelope["decision"], "ERROR");
        is_untouched(&place, tool);
        assert_eq!(place.pending(), 0, "{tool} {path}");
    }
    let (code, envelope) = place.call("write_file", &too_large("old.txt"));
    assert_eq!(code, 0, "without the limit: {envelope}");
}

#[test]
fn a_process_that_dies_of_the_limit_leaves_the_old_content_and_a_record() {
    let place = place_with_a_file();
    let mut process = limited(&place, "")
        .args(["call", "append_file", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let arguments = too_large("old.txt").to_string();
    std::io::Write::write_all(&mut process.stdin.take().unwrap(), arguments.as_bytes()).unwrap();
    assert_eq!(process.wait().unwrap().signal(), Some(SIGXFSZ));
    is_untouched(&place, "after the signal");
    place.must(&["changes"]);
    let records = place.records();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].denial.as_ref().unwrap().code.as_str(), "interrupted");
    is_untouched(&place, "after the next start");
    assert_eq!(place.pending(), 0);
}
