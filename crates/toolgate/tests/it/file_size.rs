//! The file size limit (`RLIMIT_FSIZE`), a portable stand-in for a full disk.

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use toolgate_attack::litter_below;

use crate::fixture::{CliFixture, finish_call};

/// More than the limit, whether the shell counts in units of 512 or 1024 bytes.
const TOO_LARGE: usize = 400 * 1024;
const SIGXFSZ: i32 = 25;

/// The binary with a file size limit of at most 200 KiB.
fn limited(place: &CliFixture, prelude: &str) -> Command {
    let mut shell = Command::new("sh");
    let script = format!("{prelude} ulimit -f 200; exec \"$@\"");
    shell.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_toolgate")]);
    place.beneath(shell)
}

fn too_large(path: &str) -> Value {
    json!({"path": path, "content": "x".repeat(TOO_LARGE)})
}

fn place_with_a_file() -> CliFixture {
    let place = CliFixture::new();
    std::fs::write(place.workspace.join("old.txt"), "old\n").unwrap();
    place
}

fn is_untouched(place: &CliFixture, what: &str) {
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

/// `SIGXFSZ` must not end the gate for all its callers; a command still gets it.
#[test]
fn the_signal_of_the_limit_ends_a_command_and_not_the_gate() {
    let place = place_with_a_file();
    let mut process = limited(&place, "")
        .args(["mcp", "--trust", "autonomous"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let call = |id: u32, tool: &str, arguments: Value| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
    let fill = "head -c 400000 /dev/zero > big; echo status $?";
    let lines = [
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        call(1, "append_file", too_large("old.txt")),
        call(2, "run_command", json!({"command": fill})),
        call(3, "read_file", json!({"path": "old.txt"})),
    ];
    let sent: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::io::Write::write_all(&mut process.stdin.take().unwrap(), sent.as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), None, "the gate goes on, and ends by itself");
    let answers: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let answer = |id: u32| answers.iter().find(|answer| answer["id"] == id).unwrap()["result"].clone();
    assert!(answer(1)["isError"].as_bool().unwrap(), "{}", answer(1));
    assert_eq!(answer(3)["content"][0]["text"].as_str().unwrap().trim_end(), "old");
    let text = answer(2)["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains(&format!("status {}", 128 + SIGXFSZ)), "{text}");
    std::fs::remove_file(place.workspace.join("big")).unwrap();
    is_untouched(&place, "after the call");
    assert_eq!((place.records().len(), place.pending()), (3, 0));
}

/// A gate without free file descriptors reports that (`EMFILE`), and no change by others. Where it runs out depends on what it has open, so every
/// limit is tried.
#[test]
fn a_gate_that_may_open_no_more_files_says_so() {
    let place = place_with_a_file();
    let mut reported = 0;
    for limit in 4..48 {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {limit}; exec \"$@\""), "sh", env!("CARGO_BIN_EXE_toolgate")]);
        let mut call = place.beneath(shell);
        let output = call
            .args(["call", "write_file", r#"{"path": "old.txt", "content": "old\n"}"#])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("changed by others"), "ulimit -n {limit}: {said}");
        reported += usize::from(said.contains("too many files open") && said.contains("ulimit -n"));
    }
    assert!(reported > 0, "no limit made a call fail");
    is_untouched(&place, "after all of them");
}
