//! What the binary prints, on which stream, and how it ends on a signal.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

use rustix::fs::FlockOperation;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use toolgate_types::ErrorCode;

use crate::fixture::CliFixture;

/// Runs a command without `--quiet`; returns its exit code and both streams.
fn loud(place: &CliFixture, arguments: &[&str]) -> (i32, String, String) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_toolgate"));
    command
        .current_dir(place.scratch.path())
        .env("XDG_STATE_HOME", place.state_home())
        .arg("--state-dir")
        .arg(&place.state);
    place.configured(&mut command);
    let output = command.arg("--workspace").arg(&place.workspace).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn an_answer_is_printed_as_a_model_is_given_it() {
    let place = CliFixture::new();
    for content in [r#"{"a":1}"#, "no line end", "", "line\n", "{"] {
        std::fs::write(place.workspace.join("a.json"), content).unwrap();
        assert_eq!(place.must(&["call", "read_file", r#"{"path": "a.json"}"#]), content);
    }
    let object = place.must(&["--profile", "studio", "call", "file_read", r#"{"path": "a.json"}"#]);
    assert!(object.ends_with("}\n"), "{object}");
    let failed = place.run(&["call", "read_file", r#"{"path": "missing"}"#]);
    assert!(String::from_utf8(failed.stdout).unwrap().ends_with("is there\n"));
}

#[test]
fn integers_may_be_written_with_a_point() {
    let place = CliFixture::new();
    std::fs::write(place.workspace.join("a.txt"), "one\ntwo\nthree\n").unwrap();
    let read = |line: Value| {
        place.call("read_file", &json!({"path": "a.txt", "start_line": line, "end_line": 1e300}))
    };
    assert_eq!(read(json!(2.0)).1["text"], "two\nthree\n");
    assert_eq!(read(json!(2.5)).1["code"], "invalid_arguments");
    assert_eq!(read(json!(1e300)).1["code"], "invalid_range");
}

#[test]
fn an_interrupted_call_settles() {
    for (signal, tool) in [(Signal::INT, "write_file"), (Signal::TERM, "append_file")] {
        let place = CliFixture::new();
        std::fs::write(place.workspace.join("a.txt"), "old\n").unwrap();
        place.must(&["call", "read_file", r#"{"path": "a.txt"}"#]);
        // Another gate holds the `flock` on the directory, so the call has to wait.
        let folder = File::open(&place.workspace).unwrap();
        rustix::fs::flock(&folder, FlockOperation::LockExclusive).unwrap();
        let mut process = place
            .toolgate()
            .args(["call", tool, r#"{"path": "a.txt", "content": "new\n"}"#, "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        while place.pending() == 0 {
            assert!(process.try_wait().unwrap().is_none(), "the call did not wait");
            std::thread::yield_now();
        }
        kill_process(Pid::from_child(&process), signal).unwrap();
        let output = process.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{tool}");
        let envelope: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(envelope["code"], "cancelled", "{tool}: {envelope}");
        assert_eq!(std::fs::read_to_string(place.workspace.join("a.txt")).unwrap(), "old\n");
        let records = place.records();
        assert_eq!(records.last().unwrap().denial.as_ref().unwrap().code, ErrorCode::Cancelled);
        assert_eq!(place.pending(), 0, "{tool} left something for the next start");
        place.must(&["audit", "verify"]);
    }
}

#[test]
fn a_followed_record_ends_with_its_reader() {
    let place = CliFixture::new();
    place.must(&["call", "list_directory"]);
    let mut process = place.toolgate().args(["audit", "tail", "-f"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut reader = BufReader::new(process.stdout.take().unwrap());
    reader.read_line(&mut line).unwrap();
    assert!(line.contains("list_directory"), "{line}");
    drop(reader);
    assert_eq!(process.wait().unwrap().code(), Some(0));
}

#[test]
fn proof_that_is_not_there_is_missed() {
    let place = CliFixture::new();
    place.must(&["call", "list_directory"]);
    place.must(&["audit", "verify"]);
    let key = std::fs::read_dir(place.state.join("keys")).ok().and_then(|mut keys| {
        keys.find_map(|key| Some(key.ok()?.path()).filter(|key| key.ends_with("audit.pub")))
    });
    let key = key.map_or("0".repeat(64), |key| key.to_str().unwrap().to_owned());
    std::fs::remove_file(place.state.join("audit/checkpoints.jsonl")).ok();
    for options in [vec!["--checkpoints", "missing.jsonl"], vec!["--public-key", &key]] {
        for json in [false, true] {
            let mut arguments = vec!["audit", "verify"];
            arguments.extend(&options);
            arguments.extend(json.then_some("--json"));
            let output = place.run(&arguments);
            assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(text.contains("no checkpoint was found") && !text.starts_with("ok"), "{text}");
            assert!(!json || serde_json::from_str::<Value>(&text).unwrap()["ok"] == false, "{text}");
        }
    }
}

#[test]
fn names_cannot_draw_on_the_terminal() {
    let place = CliFixture::new();
    let name = "a\u{1b}[2J\nfake  line\r.txt";
    place.call("write_file", &json!({"path": name, "content": "x"}));
    let changes = place.must(&["changes"]);
    assert_eq!(changes.lines().count(), 2, "{changes}");
    assert!(!changes.contains(['\u{1b}', '\r']) && changes.contains("\\n"), "{changes}");
    let (_, _, complaint) = loud(&place, &["call", "a\u{1b}[2J", "{}"]);
    assert!(!complaint.contains('\u{1b}'), "{complaint}");
    let (_, _, error) = loud(&place, &["--mount", "x\u{1b}[2J", "tools"]);
    assert!(!error.contains('\u{1b}') && error.contains("\\u{1b}"), "{error}");
    let undone = place.must(&["undo"]);
    assert_eq!(undone.lines().count(), 1, "{undone}");
    assert!(!undone.contains(['\u{1b}', '\r']), "{undone}");
}

#[test]
fn verbose_says_what_is_in_use() {
    let place = CliFixture::new();
    let (code, answer, remarks) = loud(&place, &["-v", "call", "list_directory"]);
    assert_eq!((code, answer.as_str()), (0, "(empty)\n"));
    let expected =
        [place.workspace.to_str().unwrap(), place.state.to_str().unwrap(), "native", "262144", "ALLOWED in"];
    for expected in expected {
        assert!(remarks.contains(expected), "{expected}: {remarks}");
    }
    assert_eq!(loud(&place, &["call", "list_directory"]).2, "");
}

#[test]
fn a_misspelt_tool_is_complained_about() {
    let place = CliFixture::new();
    let config = place.scratch.path().join("toolgate.yaml");
    let agent = "agents:\n  a: {tool_permissions: {raed_file: {allowed: true}}}\n";
    std::fs::write(&config, agent).unwrap();
    for command in [&["call", "list_directory"][..], &["tools"]] {
        let (code, _, complaint) = loud(&place, command);
        assert_eq!(code, 0);
        assert!(complaint.contains("raed_file") && complaint.contains("`read_file`"), "{complaint}");
    }
    for alias in ["@project", "@state"] {
        std::fs::write(&config, format!("mounts:\n  \"{alias}\": {{path: .}}\n")).unwrap();
        let (code, problems, _) = loud(&place, &["check"]);
        assert_eq!(code, 2, "{problems}");
        assert!(problems.contains(&format!("`{alias}`")), "{problems}");
        assert_eq!(loud(&place, &["call", "list_directory"]).0, 2);
    }
}

#[test]
fn a_call_that_nobody_can_answer_tells_the_operator_what_to_do() {
    let place = CliFixture::new();
    let mut command = std::process::Command::new("setsid");
    command
        .arg(env!("CARGO_BIN_EXE_toolgate"))
        .env("XDG_STATE_HOME", place.state_home())
        .arg("--state-dir")
        .arg(&place.state);
    command.arg("--workspace").arg(&place.workspace).args(["--trust", "guided", "call", "write_file"]);
    let output = command.arg(r#"{"path": "a", "content": ""}"#).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let (answer, complaint) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(
        !answer.contains("autonomous") && complaint.contains("--trust autonomous"),
        "{answer}\n{complaint}"
    );
}

/// Makes a call on a pseudo-terminal, types an answer to the question, and returns the exit code and the output.
fn on_a_terminal(place: &CliFixture, call: &str, typed: &[u8]) -> (i32, String) {
    let binary = env!("CARGO_BIN_EXE_toolgate");
    let (state, workspace) = (place.state.display(), place.workspace.display());
    let command = format!(
        "{binary} --state-dir {state} --workspace {workspace} --trust guided call {call} 2>/dev/null"
    );
    let mut script = std::process::Command::new("script");
    script.current_dir(place.scratch.path()).env("XDG_STATE_HOME", place.state_home()).args([
        "--quiet",
        "--return",
        "--command",
        &command,
        "/dev/null",
    ]);
    let mut process = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut keyboard, mut screen) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
    let mut shown = Vec::new();
    while !shown.ends_with(b"answer: ") {
        let mut byte = [0];
        assert_eq!(screen.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&shown));
        shown.extend(byte);
    }
    keyboard.write_all(typed).unwrap();
    screen.read_to_end(&mut shown).unwrap();
    (process.wait().unwrap().code().unwrap(), String::from_utf8(shown).unwrap())
}

#[test]
fn a_person_at_a_terminal_is_shown_the_real_file_and_answers() {
    for (typed, code, content) in [
        (&b"y\n"[..], 0, "x = 2\r\n"),
        (b"n\n", 3, "x = 1\n"),
        // The session is not offered, so that is no answer.
        (b"s\n\x03", 130, "x = 1\n"),
        (b"\x03", 130, "x = 1\n"),
    ] {
        let place = CliFixture::new();
        std::fs::create_dir(place.workspace.join("real")).unwrap();
        std::fs::write(place.workspace.join("real/conf"), "x = 1\n").unwrap();
        std::os::unix::fs::symlink("real/conf", place.workspace.join("innocent.txt")).unwrap();
        let call = r#"write_file '{"path": "innocent.txt", "content": "x = 2\r\n"}'"#;
        let (ended, shown) = on_a_terminal(&place, call, typed);
        assert_eq!(ended, code, "{typed:?}: {shown}");
        assert!(shown.contains("replace real/conf (6 → 7 bytes)"), "{shown}");
        assert!(shown.contains("+ x = 2\\u{d}"), "{shown}");
        assert!(!shown.contains("[s]"), "{shown}");
        assert_eq!(std::fs::read_to_string(place.workspace.join("real/conf")).unwrap(), content, "{typed:?}");
        assert_eq!(place.records().len(), 1, "{typed:?}");
    }
}

#[test]
fn output_is_shown_at_a_terminal_as_it_comes() {
    for (options, shows) in [("", true), ("-q", false)] {
        let place = CliFixture::new();
        let binary = env!("CARGO_BIN_EXE_toolgate");
        let (state, workspace) = (place.state.display(), place.workspace.display());
        // Standard error is the terminal, and the result goes into a file.
        let command = format!(
            r#"{binary} --state-dir {state} --workspace {workspace} {options} call run_command '{{"command": "echo live"}}' > answer"#
        );
        let mut script = std::process::Command::new("script");
        script.current_dir(place.scratch.path()).env("XDG_STATE_HOME", place.state_home()).args([
            "--quiet",
            "--return",
            "--command",
            &command,
            "/dev/null",
        ]);
        let output = script.stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(std::fs::read_to_string(place.scratch.path().join("answer")).unwrap(), "live\n");
        let shown = String::from_utf8(output.stdout).unwrap();
        assert_eq!(shown.contains("live"), shows, "{shown}");
    }
}
