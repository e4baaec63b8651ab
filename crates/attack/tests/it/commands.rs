//! Commands through the whole gate, in a real sandbox: what they answer, what ends them, and what they cannot do.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_attack::{Bench, BenchOptions, Scratch, Tree, code_of, person};
use toolgate_egress::{Dial, Dialing, Resolve};
use toolgate_gate::{CallOptions, PreviewBody, Reply};
use toolgate_sandbox::ResourceLimits;
use toolgate_tools::{Called, Profile};
use toolgate_types::{Caller, Decision, ErrorCode, Stage, ToolCall, Trust};

use crate::approval::Scripted;
use crate::fixture::write;

/// The profiles that have a shell, and what they call it.
const SHELLS: [(Profile, &str); 3] =
    [(Profile::Native, "run_command"), (Profile::Sidecar, "run_command"), (Profile::Studio, "bash")];

struct Desk {
    workspace: PathBuf,
    state: PathBuf,
    tool: &'static str,
    bench: Bench,
    scratch: Scratch,
}

impl Desk {
    fn new(profile: Profile) -> Self {
        Self::with(profile, |options| options)
    }

    fn with(profile: Profile, change: impl FnOnce(BenchOptions) -> BenchOptions) -> Self {
        let scratch = Scratch::new();
        let (workspace, state) = (scratch.folder("w"), scratch.folder("s"));
        let options = BenchOptions::new(profile, &workspace, &state).commands();
        let bench = change(options).open();
        let tool = if profile == Profile::Studio { "bash" } else { "run_command" };
        Self { workspace, state, tool, bench, scratch }
    }

    fn run(&self, command: &str) -> Called {
        self.bench.call(self.tool, json!({"command": command}))
    }

    fn write(&self, path: &str, content: &str) {
        write(&self.workspace.join(path), content);
    }
}

fn structured(called: &Called) -> Value {
    called.structured().unwrap()
}

/// What a native answer says, as text and as data.
fn native(called: &Called) -> (String, Value) {
    assert!(called.failed.is_none(), "{}", called.answer.text);
    (called.answer.text.clone(), structured(called))
}

#[test]
fn every_profile_answers_with_output_and_exit_code() {
    for (profile, _) in SHELLS {
        let desk = Desk::new(profile);
        for (command, code) in [("echo out; echo err >&2", 0), ("echo out; echo err >&2; exit 3", 3)] {
            let called = desk.run(command);
            assert_eq!(called.decision, Decision::Allowed, "{}", called.answer.text);
            let answer = structured(&called);
            match profile {
                Profile::Native => {
                    let ending = if code == 0 { "" } else { "exit code 3\n" };
                    let lines = ["out\nerr\n", "err\nout\n"].map(|lines| format!("{lines}{ending}"));
                    assert!(lines.contains(&called.answer.text), "{}", called.answer.text);
                    assert_eq!((&answer["stdout"], &answer["stderr"]), (&json!("out\n"), &json!("err\n")));
                    assert_eq!((&answer["exit_code"], &answer["timed_out"]), (&json!(code), &json!(false)));
                    assert!(!called.answer.is_error);
                }
                Profile::Sidecar => {
                    assert_eq!(answer["success"], true);
                    let output = &answer["output"];
                    assert_eq!((&output["stdout"], &output["stderr"]), (&json!("out\n"), &json!("err\n")));
                    assert_eq!(output["exit_code"], code);
                }
                _ => {
                    assert_eq!((&answer["isError"], called.answer.is_error), (&json!(code != 0), code != 0));
                    assert_eq!(answer["metadata"]["exitCode"], code);
                    assert!(answer["output"].as_str().unwrap().contains("out\n"));
                }
            }
        }
    }
}

/// The same once more without any rights, where this runs as root.
#[test]
fn an_ordinary_user_can_run_commands_too() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // The test binary lies where only its owner may go, so it is copied to where everybody may.
    let scratch = Scratch::new();
    let copy = scratch.path().join("it");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    for path in [scratch.path(), &copy] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let output = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(&copy)
        .args(["--exact", "commands::every_profile_answers_with_output_and_exit_code"])
        .arg("commands::what_is_left_under_protected_names_is_taken_away")
        .arg("commands::denied_files_are_not_there_for_commands")
        .current_dir("/")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("3 passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_signal_is_named() {
    let desk = Desk::new(Profile::Native);
    let (text, answer) = native(&desk.run("echo before; kill -9 $$"));
    assert_eq!(text, "before\nended by signal SIGKILL\n");
    assert_eq!((&answer["exit_code"], &answer["signal"]), (&Value::Null, &json!("SIGKILL")));
}

#[test]
fn nothing_said_is_said() {
    let desk = Desk::new(Profile::Native);
    assert_eq!(native(&desk.run("true")).0, "exit code 0\n");
    assert_eq!(native(&desk.run("exit 5")).0, "exit code 5\n");
}

#[test]
fn a_program_that_is_not_there_is_told_with_a_remedy_for_the_operator() {
    let desk = Desk::new(Profile::Native);
    let (text, answer) = native(&desk.run("no-such-program 2>/dev/null"));
    assert!(text.starts_with("exit code 127\n[program denied: ") && text.ends_with("]\n"), "{text}");
    let denied = answer["denied"].as_array().unwrap();
    assert_eq!((denied.len(), &denied[0]["what"]), (1, &json!("program")), "{answer}");
    let remedy = denied[0]["remedy"].as_str().unwrap();
    assert!(remedy.contains("`sandbox.read`") && remedy.contains("`sandbox.path`"), "{remedy}");
    for line in ["exit 126", "no-such-program; true", "kill -9 $$"] {
        assert_eq!(native(&desk.run(line)).1["denied"], json!([]), "{line}");
    }
}

#[test]
fn folders_that_cannot_be_renamed_are_told_when_a_command_failed() {
    let desk = Desk::new(Profile::Native);
    desk.write("a/plain.txt", "plain\n");
    let (_, answer) = native(&desk.run("false"));
    assert_eq!(answer.get("pinned_folders"), None, "{answer}");
    desk.write("a/.env", "SECRET=1\n");
    let (text, answer) = native(&desk.run("mv a b"));
    assert!(text.contains("[pinned_folders: 1 that hold protected files cannot be renamed"), "{text}");
    assert_eq!(answer["pinned_folders"], 1, "{answer}");
    let (text, answer) = native(&desk.run("cat a/plain.txt"));
    assert_eq!((text.as_str(), answer.get("pinned_folders")), ("plain\n", None));
}

#[test]
fn time_that_is_up_ends_everything_and_keeps_what_was_said() {
    for (profile, _) in SHELLS {
        let desk = Desk::new(profile);
        let called = desk
            .bench
            .call(desk.tool, json!({"command": "echo begun; sleep 1000 & sleep 1000", "timeout_ms": 300}));
        assert_eq!(code_of(&called), Some(ErrorCode::Timeout), "{}", called.answer.text);
        assert!(
            called.answer.text.contains("begun") && called.answer.text.contains("300 ms"),
            "{}",
            called.answer.text
        );
        let (_, failure) = called.failed.unwrap();
        assert!(failure.help.as_ref().unwrap().contains("`timeout_ms`"), "{failure:?}");
        assert_eq!(
            (&failure.details["timed_out"], &failure.details["output"]),
            (&json!(true), &json!("begun\n"))
        );
    }
}

#[test]
fn a_command_that_ignores_the_signal_is_ended_all_the_same() {
    let desk = Desk::new(Profile::Native);
    let line = "trap '' TERM; echo begun; while :; do sleep 1; done";
    let called = desk.bench.call(desk.tool, json!({"command": line, "timeout_ms": 200}));
    assert_eq!(code_of(&called), Some(ErrorCode::Timeout), "{}", called.answer.text);
}

#[test]
fn cancelling_ends_a_command_and_output_comes_while_it_runs() {
    let desk = Desk::new(Profile::Native);
    let options = CallOptions::default();
    let (token, heard) = (options.cancelled.clone(), Arc::new(Mutex::new(String::new())));
    let listening = Arc::clone(&heard);
    // Nothing but what the command says can end this call.
    let progress = move |piece: &str| {
        let mut heard = listening.lock().unwrap();
        heard.push_str(piece);
        if heard.contains("begun") {
            token.cancel();
        }
    };
    let options = CallOptions { progress: Some(Arc::new(progress)), ..options };
    let call =
        ToolCall::new(desk.tool, json!({"command": "printf '\\033[31mbeg'; printf 'un\\n'; sleep 1000"}));
    let called = desk.bench.wait(desk.bench.front().call(call, person("test"), options));
    assert_eq!(code_of(&called), Some(ErrorCode::Cancelled), "{}", called.answer.text);
    assert_eq!(heard.lock().unwrap().as_str(), "begun\n");
    assert_eq!(desk.bench.record(called.call).decision, Decision::Error);
}

#[test]
fn long_output_is_cut_at_its_limit_with_a_notice() {
    let limit = usize::try_from(Profile::Native.limits().max_output_bytes).unwrap();
    for line in [
        "seq 1 100000",
        "head -c 300000 /dev/zero | tr '\\0' '\"'",
        "seq 1 60000 >&2; seq 1 60000",
        "head -c 200000 /dev/urandom",
    ] {
        for (profile, _) in SHELLS {
            let desk = Desk::new(profile);
            let called = desk.run(line);
            assert!(called.failed.is_none(), "{line}: {}", called.answer.text);
            assert!(
                called.answer.text.len() <= limit,
                "{profile} {line}: {} bytes",
                called.answer.text.len()
            );
            assert!(called.answer.text.contains("truncated"), "{profile} {line}");
            if profile == Profile::Native {
                let (text, answer) = native(&called);
                assert!(answer.to_string().len() <= limit, "{line}: {}", answer.to_string().len());
                assert!(text.contains("\n[truncated: ") && text.ends_with('\n'), "{line}");
                assert_eq!(answer["truncated"], true);
            }
        }
    }
}

#[test]
fn the_whole_of_a_long_output_is_beside_the_answer() {
    let all: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    for (profile, _) in SHELLS {
        let desk = Desk::new(profile);
        assert_eq!(desk.run("echo short").whole, None, "{profile}");
        assert_eq!(desk.run("seq 1 100000; exit 3").whole.as_ref(), Some(&all), "{profile}");
        let both = desk.run("seq 1 50000 >&2; seq 50001 100000").whole.unwrap();
        assert_eq!(both.len(), all.len(), "{profile}");
        // As clean as the answer, and not without end.
        let endless = desk.run("yes \"$(printf 'a\\033[31mb')\" | head -c 6000000").whole.unwrap();
        assert!(endless.starts_with("ab\nab\n") && endless.len() < (4 << 20) + 100, "{profile}");
        assert!(endless.ends_with(" of 6000000 bytes kept]\n"), "{profile}");
    }
}

#[test]
fn a_flood_is_ended() {
    let desk = Desk::new(Profile::Native);
    let called = desk.run("yes");
    assert_eq!(code_of(&called), Some(ErrorCode::ResourceLimit), "{}", called.answer.text);
    assert!(called.answer.text.contains("wrote more than"), "{}", &called.answer.text[..200]);
    assert!(called.answer.text.len() <= 100_000);
}

#[test]
fn limits_of_the_system_are_told_with_a_remedy_for_the_operator() {
    let resources = ResourceLimits { cpu_seconds: 1, file_size: 4096, ..ResourceLimits::default() };
    let desk = Desk::with(Profile::Native, |options| options.resources(resources));
    for (line, words) in [
        ("while :; do :; done", "processor time"),
        ("exec head -c 10000 /dev/zero > big", "bytes in one file"),
    ] {
        let called = desk.run(line);
        assert_eq!(code_of(&called), Some(ErrorCode::ResourceLimit), "{line}: {}", called.answer.text);
        assert!(called.answer.text.contains(words), "{line}: {}", called.answer.text);
        let note = called.failed.unwrap().1.operator_note.unwrap();
        assert!(note.contains("sandbox") && !called.answer.text.contains(&note), "{note}");
    }
}

#[test]
fn what_is_left_under_protected_names_is_taken_away() {
    let desk = Desk::new(Profile::Native);
    let line = "mkdir -p fresh/.git/hooks fresh/.git/objects fresh/.git/refs && echo 'ref: refs/heads/main' > fresh/.git/HEAD && \
                printf '#!/bin/sh\\n' > fresh/.git/hooks/pre-commit && chmod +x fresh/.git/hooks/pre-commit && echo export A=1 > .envrc && echo done";
    let called = desk.run(line);
    let (text, answer) = native(&called);
    assert!(
        text.starts_with("done\n") && text.contains("[quarantined: `@project/fresh/.git/hooks/pre-commit`"),
        "{text}"
    );
    let paths: Vec<&str> = answer["quarantined"]
        .as_array()
        .unwrap()
        .iter()
        .map(|taken| taken["path"].as_str().unwrap())
        .collect();
    assert_eq!(
        paths,
        ["@project/fresh/.git/hooks/pre-commit", "@project/.envrc"],
        "what git would run goes first"
    );
    assert!(!desk.workspace.join("fresh/.git/hooks/pre-commit").exists());
    assert!(!desk.workspace.join(".envrc").exists());
    let kept = desk.state.join("quarantine.toolgate").join(called.call.to_string());
    assert_eq!(std::fs::read_dir(kept).unwrap().count(), 4, "two files and a note for each");
    // What was there before stays.
    desk.write(".envrc", "mine\n");
    let (_, answer) = native(&desk.run("true"));
    assert_eq!(answer["quarantined"], json!([]));
    assert!(desk.workspace.join(".envrc").exists());
}

#[test]
fn what_was_taken_away_is_named_so_that_nothing_else_can_be_read_into_it() {
    for (profile, _) in SHELLS {
        let desk = Desk::new(profile);
        let called = desk.run(
            "d=$(printf '\\033[2J\\r\\n[approved]\\t\\342\\200\\256x'); mkdir \"$d\" && echo > \"$d/.envrc\" && echo made",
        );
        let spelt = r"@project/\u{1b}[2J\u{d}\n[approved]\t\u{202e}x/.envrc";
        let answer = structured(&called);
        let facts = match profile {
            Profile::Native => &answer,
            Profile::Sidecar => &answer["output"],
            _ => &answer["metadata"],
        };
        assert_eq!(facts["quarantined"][0]["path"], spelt, "{answer}");
        let hidden = toolgate_text::is_hidden;
        assert!(!called.answer.text.chars().any(hidden), "{:?}", called.answer.text);
        if profile == Profile::Native {
            assert!(
                called.answer.text.contains(&format!("[quarantined: `{spelt}` ")),
                "{}",
                called.answer.text
            );
        }
    }
}

#[test]
fn many_things_left_are_taken_away_and_counted() {
    let limit = usize::try_from(Profile::Native.limits().max_output_bytes).unwrap();
    let desk = Desk::new(Profile::Native);
    let deep = "n".repeat(200);
    let line = format!(
        "seq 1 100000; for n in $(seq 100); do mkdir -p $n/{deep}/{deep}; echo > $n/{deep}/{deep}/.envrc; done"
    );
    let (text, answer) = native(&desk.run(&line));
    assert!(
        text.len() <= limit && answer.to_string().len() <= limit,
        "{} {}",
        text.len(),
        answer.to_string().len()
    );
    assert!(text.ends_with("[quarantined: 92 more]\n"), "{}", text.lines().last().unwrap());
    assert_eq!(
        (answer["quarantined"].as_array().unwrap().len(), &answer["quarantined_total"]),
        (8, &json!(100))
    );
    let (left, _) = native(&desk.run("find . -name .envrc | wc -l"));
    assert_eq!(left.trim(), "0");
}

#[test]
fn what_a_tool_may_not_answer_is_not_shown_while_it_runs_either() {
    let desk = proxy(
        "tool: t\ndescription: Something\nclass: read\npermissions: []\ncommand: [echo, confidential]\npolicy: {\"*\": redact}\n",
    );
    let heard = Arc::new(Mutex::new(String::new()));
    let listening = Arc::clone(&heard);
    let progress = move |piece: &str| listening.lock().unwrap().push_str(piece);
    let options = CallOptions { progress: Some(Arc::new(progress)), ..CallOptions::default() };
    let call = ToolCall::new("t", json!({}));
    let called = desk.bench.wait(desk.bench.front().call(call, person("test"), options));
    assert_eq!(structured(&called), json!({"ok": true, "data": "[redacted]"}));
    assert_eq!(heard.lock().unwrap().as_str(), "");
}

#[test]
fn hidden_files_do_not_keep_a_search_from_its_answer() {
    let desk = Desk::new(Profile::Proxy);
    desk.write("a.txt", "needle\n");
    for name in [".env", ".ssh/id_rsa", "deep/key.pem"] {
        desk.write(name, "needle secret\n");
    }
    let answer = structured(&desk.bench.must("search_code", json!({"pattern": "needle"})));
    assert_eq!(answer["data"], json!(["a.txt:1:needle"]));
    desk.bench.must("list_files", json!({}));
    let called = desk.bench.call("read_file", json!({"path": ".env"}));
    assert_eq!(code_of(&called), Some(ErrorCode::DeniedPath));
}

#[test]
fn also_what_a_command_leaves_that_did_not_end_by_itself() {
    let desk = Desk::new(Profile::Native);
    let line = "echo export A=1 > .envrc; echo left; sleep 1000";
    let called = desk.bench.call(desk.tool, json!({"command": line, "timeout_ms": 500}));
    assert_eq!(code_of(&called), Some(ErrorCode::Timeout), "{}", called.answer.text);
    assert!(called.answer.text.contains("left"));
    assert!(!desk.workspace.join(".envrc").exists());
}

#[test]
fn denied_files_are_not_there_for_commands() {
    let desk = Desk::new(Profile::Native);
    const SECRET: &str = "nobody-reads-this";
    for name in [".env", "deep/er/.env.local", "key.pem", ".ssh/id_ed25519", ".git/config"] {
        desk.write(name, SECRET);
    }
    desk.write("plain.txt", "plain\n");
    symlink(".env", desk.workspace.join("link")).unwrap();
    for line in [
        "cat .env deep/er/.env.local key.pem .ssh/id_ed25519 .git/config link",
        "grep -ra nobody . ; grep -ra nobody /work",
        "cp -a . /tmp/copy; grep -ra nobody /tmp/copy",
        "mv deep moved; cat moved/er/.env.local",
        "mv .env visible; cat visible",
        "ln .env hard; cat hard",
        "cat /proc/1/root/mnt/project/.env /proc/self/cwd/.env",
        "tar c . | cat -v",
    ] {
        let called = desk.run(line);
        assert!(!called.answer.text.contains(SECRET), "{line}: {}", called.answer.text);
        let (_, answer) = native(&called);
        assert!(answer["hidden_files"].as_u64().unwrap() >= 4, "{line}: {answer}");
        assert_eq!(std::fs::read_to_string(desk.workspace.join(".env")).unwrap(), SECRET, "{line}");
        assert_eq!(
            std::fs::read_to_string(desk.workspace.join("deep/er/.env.local")).unwrap(),
            SECRET,
            "{line}"
        );
    }
    assert_eq!(native(&desk.run("cat plain.txt")).0, "plain\n");
}

const MOVED_SECRET: &str = "nobody-reads-this";

/// How many of some commands ran while somebody kept moving files; the others were refused, and none saw a secret.
fn ran_while_moving(moves: &'static [(&'static str, &'static str)], command: &str, times: usize) -> usize {
    let desk = Desk::new(Profile::Native);
    desk.write("a/.env", MOVED_SECRET);
    desk.write("a/deep/.env", MOVED_SECRET);
    desk.write("one/key.pem", MOVED_SECRET);
    let (places, done) = (desk.workspace.clone(), Arc::new(AtomicBool::new(false)));
    let over = Arc::clone(&done);
    let mover = std::thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            for (from, to) in moves {
                std::fs::rename(places.join(from), places.join(to)).unwrap();
                std::thread::yield_now();
            }
        }
    });
    let calls: Vec<Called> = (0..times).map(|_| desk.run(command)).collect();
    done.store(true, Ordering::Relaxed);
    mover.join().unwrap();
    for called in &calls {
        assert!(!called.answer.text.contains(MOVED_SECRET), "{}", called.answer.text);
        assert!(
            code_of(called).is_none_or(|code| code == ErrorCode::PreconditionFailed),
            "{}",
            called.answer.text
        );
    }
    // As soon as nothing moves any more, commands run.
    let calm = desk.run(command);
    assert!(code_of(&calm).is_none() && !calm.answer.text.contains(MOVED_SECRET), "{}", calm.answer.text);
    calls.iter().filter(|called| code_of(called).is_none()).count()
}

#[test]
fn files_that_keep_moving_are_never_seen() {
    let moves = &[
        ("a/.env", "a/.env.old"),
        ("one/key.pem", "one/other.pem"),
        ("a/.env.old", "a/.env"),
        ("one/other.pem", "one/key.pem"),
    ];
    let ran = ran_while_moving(moves, "grep -rs nobody . ; cat a/.env a/.env.old one/*; true", 150);
    println!("{ran} of 150 commands ran while files moved");
}

#[test]
fn folders_that_keep_moving_take_no_secret_along() {
    let moves = &[
        ("a", "b"),
        ("one/key.pem", "one/other.pem"),
        ("b/deep", "b/er"),
        ("b/er", "b/deep"),
        ("b", "a"),
        ("one/other.pem", "one/key.pem"),
    ];
    let command = "grep -rs nobody . ; cat a/deep/.env b/deep/.env b/er/.env a/.env b/.env one/*; true";
    let ran = ran_while_moving(moves, command, 150);
    println!("{ran} of 150 commands ran while folders moved");
}

#[test]
fn a_folder_to_run_in_is_judged_like_any_path() {
    let desk = Desk::new(Profile::Native);
    desk.write("src/deep/a.txt", "");
    desk.write("@odd/a.txt", "");
    desk.write(".ssh/config", "");
    symlink("/etc", desk.workspace.join("out")).unwrap();
    symlink("src", desk.workspace.join("in")).unwrap();
    for (cwd, place) in [
        (".", "/mnt/project"),
        ("src", "/mnt/project/src"),
        ("./src/../src/deep/", "/mnt/project/src/deep"),
        ("@project/src", "/mnt/project/src"),
        ("@project", "/mnt/project"),
        ("/mnt/project/src", "/mnt/project/src"),
        ("/mnt/project", "/mnt/project"),
        ("in", "/mnt/project/src"),
        ("./@odd", "/mnt/project/@odd"),
    ] {
        let called = desk.bench.call(desk.tool, json!({"command": "pwd -P", "cwd": cwd}));
        assert_eq!(called.answer.text, format!("{place}\n"), "{cwd}");
    }
    let before = Tree::of(&desk.workspace);
    for (cwd, code) in [
        ("..", ErrorCode::OutsideWorkspace),
        ("src/../../x", ErrorCode::OutsideWorkspace),
        ("/etc", ErrorCode::OutsideWorkspace),
        ("/mnt/../etc", ErrorCode::OutsideWorkspace),
        ("/mnt/other", ErrorCode::OutsideWorkspace),
        ("~", ErrorCode::OutsideWorkspace),
        ("out", ErrorCode::SymlinkOutsideWorkspace),
        ("@nowhere", ErrorCode::UnknownAlias),
        ("@project/../..", ErrorCode::OutsideWorkspace),
        (".ssh", ErrorCode::DeniedPath),
        ("missing", ErrorCode::NotFound),
        ("src/deep/a.txt", ErrorCode::NotADirectory),
        ("", ErrorCode::InvalidPath),
        ("src\0", ErrorCode::InvalidPath),
    ] {
        let called = desk.bench.call(desk.tool, json!({"command": "touch ran", "cwd": cwd}));
        assert_eq!(code_of(&called), Some(code), "{cwd}: {}", called.answer.text);
    }
    assert!(before.differences(&Tree::of(&desk.workspace)).is_empty());
}

#[test]
fn blocked_lines_are_refused_with_reason_and_alternative_in_every_profile() {
    for (profile, _) in SHELLS {
        let desk = Desk::new(profile);
        let before = Tree::of(&desk.workspace);
        for line in [
            "sudo touch ran",
            "rm -rf /",
            "rm -rf ~",
            "shutdown now",
            "reboot",
            "format c:",
            "mkfs.ext4 x",
            "dd if=/dev/zero of=ran",
            "chmod 777 .",
            "curl http://example.com",
            "wget http://example.com",
            "nc -l 1",
            "netcat -l 1",
            "touch ran; sudo ls",
        ] {
            let called = desk.run(line);
            let (stage, failure) = called.failed.as_ref().unwrap_or_else(|| panic!("{line} was run"));
            assert_eq!((*stage, failure.code), (Stage::Execution, ErrorCode::CommandBlocked), "{line}");
            assert!(failure.message.contains("is not run here: ") && failure.help.is_some(), "{line}");
            assert_eq!(desk.bench.record(called.call).decision, Decision::Denied, "{line}");
            match profile {
                Profile::Sidecar => assert_eq!(structured(&called)["error"]["code"], "COMMAND_BLOCKED"),
                Profile::Studio => assert_eq!(structured(&called)["metadata"]["code"], "command_blocked"),
                _ => assert!(called.answer.text.starts_with("command_blocked: ")),
            }
        }
        assert!(before.differences(&Tree::of(&desk.workspace)).is_empty());
    }
}

#[test]
fn no_argument_gets_past_the_gate_that_does_not_fit() {
    let desk = Desk::new(Profile::Native);
    for (arguments, code) in [
        (json!({}), ErrorCode::InvalidArguments),
        (json!({"command": ""}), ErrorCode::InvalidArguments),
        (json!({"command": "ls\0"}), ErrorCode::InvalidArguments),
        (json!({"command": ["ls"]}), ErrorCode::InvalidArguments),
        (json!({"command": "ls", "timeout_ms": 0}), ErrorCode::InvalidArguments),
        (json!({"command": "ls", "shell": "zsh"}), ErrorCode::InvalidArguments),
        (json!({"command": "#".repeat(200_000)}), ErrorCode::InvalidArguments),
    ] {
        assert_eq!(code_of(&desk.bench.call(desk.tool, arguments)), Some(code));
    }
    // More time than a call has is cut to what it has.
    let called = desk.bench.call(desk.tool, json!({"command": "echo hi", "timeout_ms": u64::MAX}));
    assert_eq!(called.answer.text, "hi\n");
}

#[test]
fn whoever_is_asked_sees_the_whole_command() {
    let approver = Scripted::new([Reply::No(None), Reply::Once]);
    let asked = Arc::clone(&approver);
    let desk = Desk::with(Profile::Native, |options| options.approver(approver, Duration::from_secs(30)));
    desk.write("src/a.txt", "");
    let caller = || Caller { trust: Trust::Guided, ..person("s1") };
    let line = "echo a &&\necho \u{202e}b > ran";
    let arguments = json!({"command": line, "cwd": "src"});
    let called = desk.bench.call_as(caller(), desk.tool, arguments.clone());
    assert_eq!(code_of(&called), Some(ErrorCode::ApprovalDenied));
    assert!(!desk.workspace.join("src/ran").exists());
    let question = asked.asked().remove(0);
    assert_eq!(question.preview.body, PreviewBody::Text("echo a &&\necho \\u{202e}b > ran".to_owned()));
    assert_eq!(question.preview.summary, ["run in src", "may change @project", "network: none"]);
    assert!(!desk.bench.call_as(caller(), desk.tool, arguments).answer.is_error);
    assert!(desk.workspace.join("src/ran").exists());
    // Where there is nothing to ask, nobody is asked.
    let blocked = desk.bench.call_as(caller(), desk.tool, json!({"command": "sudo ls"}));
    assert_eq!((code_of(&blocked), asked.asked().len()), (Some(ErrorCode::CommandBlocked), 2));
}

#[test]
fn an_agent_sees_only_the_paths_that_it_was_granted() {
    const AGENTS: &str = "agents: {writer: {tool_permissions: {run_command: {allowed: true, paths: ['docs/**']}}}, reader: {}}";
    let desk = Desk::with(Profile::Native, |options| options.config(AGENTS));
    desk.write("docs/a.txt", "granted\n");
    desk.write("other/b.txt", "withheld\n");
    let caller = |agent: &str| Caller { agent: Some(agent.parse().unwrap()), ..person("s1") };
    let run =
        |agent: &str, line: &str| desk.bench.call_as(caller(agent), desk.tool, json!({"command": line}));
    let before = Tree::of(&desk.workspace);
    let (text, _) =
        native(&run("writer", "cat docs/a.txt; cat other/b.txt; echo done > /tmp/x && cat /tmp/x"));
    assert!(
        text.starts_with("granted\n") && text.ends_with("done\n") && !text.contains("withheld"),
        "{text}"
    );
    // Names are all that a grant knows, and whoever changes files can change names: nothing is changed, not even what was granted.
    for line in [
        "echo x > other/b.txt",
        "echo y > docs/c.txt",
        "echo y >> docs/a.txt",
        "mv docs other/docs",
        "mkdir -p new && echo z > new/z.txt",
        "ln -s ../other docs/link",
        "chmod 600 docs/a.txt",
    ] {
        let (text, answer) = native(&run("writer", line));
        assert_ne!(answer["exit_code"], 0, "{line}: {text}");
        assert_eq!(answer["denied"][0]["what"], "write", "{line}: {answer}");
        assert!(
            text.contains("this agent was granted only some files, so its commands run read-only"),
            "{text}"
        );
        assert!(before.differences(&Tree::of(&desk.workspace)).is_empty(), "{line}");
    }
    assert_eq!(code_of(&run("reader", "true")), Some(ErrorCode::NotPermitted));
    // Whoever was granted everything changes what he likes.
    native(&desk.run("echo y > docs/c.txt"));
    assert_eq!(std::fs::read_to_string(desk.workspace.join("docs/c.txt")).unwrap(), "y\n");
}

#[test]
fn whoever_is_asked_about_an_agent_of_some_files_reads_that_nothing_changes() {
    const AGENTS: &str =
        "agents: {writer: {tool_permissions: {run_command: {allowed: true, paths: ['docs/**']}}}}";
    let approver = Scripted::new([Reply::No(None)]);
    let asked = Arc::clone(&approver);
    let desk = Desk::with(Profile::Native, |options| {
        options.config(AGENTS).approver(approver, Duration::from_secs(30))
    });
    let caller = Caller { agent: Some("writer".parse().unwrap()), trust: Trust::Guided, ..person("s1") };
    desk.bench.call_as(caller, desk.tool, json!({"command": "ls"}));
    assert_eq!(
        asked.asked().remove(0).preview.summary,
        [
            "run in @project",
            "may change nothing: this agent was granted only some files, so its commands run read-only",
            "network: none"
        ]
    );
}

#[test]
fn a_declared_tool_changes_nothing_for_an_agent_of_some_files() {
    const AGENTS: &str = "agents: {worker: {tool_permissions: {make_file: {allowed: true, paths: ['docs/**']}}}, whole: {tool_permissions: {make_file: {allowed: true}}}}";
    let maker = MAKER.replace("cwd: \"@project\"", "cwd: \"@project\"\nmounts: [\"@project:rw\"]");
    let maker = maker.replace("touch \"$1\"; printf", "touch \"$1\" && printf");
    let desk = Desk::with(Profile::Proxy, |options| options.manifest(&maker).config(AGENTS));
    let caller = |agent: &str| Caller { agent: Some(agent.parse().unwrap()), ..holding(&["files:write"]) };
    let call =
        |agent: &str| desk.bench.call_as(caller(agent), "make_file", json!({"name": "made", "note": "x"}));
    let called = call("worker");
    assert_eq!(code_of(&called), Some(ErrorCode::CommandFailed), "{}", called.answer.text);
    let error = structured(&called)["error"].clone();
    assert!(error.to_string().contains("its commands run read-only"), "{error}");
    assert!(!desk.workspace.join("made").exists());
    assert_eq!(code_of(&call("whole")), None);
    assert!(desk.workspace.join("made").exists());
}

#[test]
fn a_commit_is_made_in_a_name() {
    let desk = Desk::new(Profile::Native);
    git(&desk.workspace, &["init", "-q"]);
    git(&desk.workspace, &["init", "-q", "named/inner"]);
    git(&desk.workspace.join("named/inner"), &["config", "user.name", "Inner \"I\" Person"]);
    desk.write("named/inner/sub/a.txt", "a\n");
    desk.write("a.txt", "a\n");
    let line = "git add a.txt && git commit -q -m one && git log -1 --format='%an <%ae> %cn <%ce> %s'";
    for (cwd, said) in [
        (".", "Toolgate <toolgate@localhost> Toolgate <toolgate@localhost> one\n"),
        // What a repository says about itself holds.
        (
            "named/inner/sub",
            "Inner \"I\" Person <toolgate@localhost> Inner \"I\" Person <toolgate@localhost> one\n",
        ),
    ] {
        let called = desk.bench.call(desk.tool, json!({"command": line, "cwd": cwd}));
        assert_eq!(called.answer.text, said, "{cwd}");
    }
}

#[test]
fn what_is_mounted_read_only_stays_as_it_is() {
    let scratch = Scratch::new();
    let package = scratch.folder("p");
    write(&package.join("a.txt"), "as it was\n");
    let desk = Desk::with(Profile::Native, |options| options.package(&package));
    let (text, _) = native(
        &desk.run("cat /mnt/pkg/a.txt; echo x > /mnt/pkg/a.txt; rm -f /mnt/pkg/a.txt; touch /mnt/pkg/b"),
    );
    assert!(text.starts_with("as it was\n") && text.contains("Read-only"), "{text}");
    assert_eq!(std::fs::read_dir(&package).unwrap().count(), 1);
    assert_eq!(std::fs::read_to_string(package.join("a.txt")).unwrap(), "as it was\n");
}

#[test]
fn no_host_path_and_no_secret_of_the_gate_reaches_a_command() {
    let desk = Desk::new(Profile::Native);
    let (text, _) = native(&desk.run("pwd; env; ls -la / /work /proc/self/fd /proc/self/cwd; cat /proc/1/environ /proc/1/cmdline | tr '\\0' '\\n'"));
    let host = desk.scratch.path().to_str().unwrap();
    assert!(!text.contains(host), "{text}");
    assert!(!text.contains("CARGO"), "{text}");
}

#[test]
fn wanting_the_network_is_told_as_data() {
    let desk = Desk::new(Profile::Studio);
    let called = desk.run("exec 3<>/dev/tcp/203.0.113.1/80");
    let metadata = structured(&called)["metadata"].clone();
    assert_eq!(metadata["denied"][0]["what"], "network", "{metadata}");
    assert!(metadata["denied"][0]["remedy"].as_str().unwrap().contains("sandbox.network"), "{metadata}");
    assert_eq!(structured(&desk.run("true"))["metadata"]["denied"], json!([]));
}

/// Leads every name to one server on this machine, by way of an address that the proxy takes for public.
struct ToTest(SocketAddr);

impl Resolve for ToTest {
    fn resolve(&self, _name: &str) -> std::io::Result<Vec<IpAddr>> {
        Ok(vec![IpAddr::V4(Ipv4Addr::new(93, 184, 216, 34))])
    }
}

impl Dial for ToTest {
    fn dial(&self, _address: SocketAddr) -> Dialing {
        let server = self.0;
        Box::pin(tokio::net::TcpStream::connect(server))
    }
}

#[test]
fn named_hosts_are_reached_and_others_are_told_with_a_remedy() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = server.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]).unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n")
            .unwrap();
    });
    let desk = Desk::with(Profile::Native, |options| {
        options.network(&["good.example.com"], Arc::new(ToTest(address)))
    });
    let (text, answer) = native(&desk.run(
        "curl -sS http://good.example.com/; curl -sS http://evil.example.com/ -o /dev/null -w '%{http_code}'",
    ));
    serving.join().unwrap();
    assert!(text.starts_with("hello\n403"), "{text}");
    let denied = &answer["denied"][0];
    assert_eq!(
        (&denied["what"], &denied["target"]),
        (&json!("network"), &json!("evil.example.com:80")),
        "{answer}"
    );
    assert_eq!(denied["remedy"], "the operator can add `evil.example.com` to `sandbox.network`");
}

/// What a developer would write: about fifteen lines.
const GIT_LOG: &str = r#"tool: git_log
description: Recent commits
class: read
permissions: [git:read]
input:
  properties: {count: {type: integer, minimum: 1, maximum: 50}}
  required: [count]
elevated: {when: input.count > 20, permissions: [git:deep]}
command: [git, log, --oneline, "--max-count={count}"]
cwd: "@project"
timeout: 30s
output: {parse: lines, schema: {type: array, items: {type: string}}}
policy: {"*": allow}
"#;

const MAKER: &str = r#"tool: make_file
description: Makes an empty file
class: write
permissions: [files:write]
input:
  properties: {name: {type: string, pattern: "^[a-z]+$", maxLength: 20}, note: {type: string}}
  required: [name]
command: [sh, -c, 'touch "$1"; printf %s "$2"', sh, "{name}", "{note}"]
cwd: "@project"
policy: {"*": allow}
"#;

fn proxy(manifest: &str) -> Desk {
    Desk::with(Profile::Proxy, |options| options.manifest(manifest))
}

fn holding(permissions: &[&str]) -> Caller {
    let permissions = permissions.iter().map(|permission| (*permission).to_owned()).collect();
    Caller { permissions, agent: Some("worker".parse().unwrap()), ..person("s1") }
}

#[test]
fn success_1_a_tool_is_declared_in_about_fifteen_lines() {
    assert!(GIT_LOG.lines().count() <= 15);
    let desk = proxy(GIT_LOG);
    git(&desk.workspace, &["init", "-q"]);
    git(&desk.workspace, &["commit", "-q", "--allow-empty", "-m", "first commit"]);
    let called = desk.bench.must("git_log", json!({"count": 5}));
    let answer = structured(&called);
    assert_eq!(answer["ok"], true);
    assert!(answer["data"][0].as_str().unwrap().ends_with("first commit"), "{answer}");
}

#[test]
fn success_2_nothing_is_called_that_was_not_declared() {
    let desk = proxy(GIT_LOG);
    for tool in ["run_command", "read_file", "git_push", "git_log ", "GIT_LOG", "../git_log", ""] {
        let called = desk.bench.call(tool, json!({"count": 1}));
        let error = &structured(&called)["error"];
        assert_eq!((&error["code"], &error["stage"]), (&json!("unknown_tool"), &json!("REGISTRY")), "{tool}");
    }
}

#[test]
fn success_3_arguments_are_checked_before_any_command_runs() {
    let desk = proxy(MAKER);
    let before = Tree::of(&desk.workspace);
    for arguments in [
        json!({}),
        json!({"name": 7}),
        json!({"name": "../x"}),
        json!({"name": "ok", "more": 1}),
        json!({"name": "a b"}),
        json!([]),
    ] {
        let called = desk.bench.call("make_file", arguments.clone());
        let error = &structured(&called)["error"];
        assert_eq!(
            (&error["code"], &error["stage"]),
            (&json!("invalid_arguments"), &json!("VALIDATION")),
            "{arguments}"
        );
    }
    assert!(before.differences(&Tree::of(&desk.workspace)).is_empty());
    desk.bench.must("make_file", json!({"name": "made", "note": "x"}));
    assert!(desk.workspace.join("made").exists());
}

#[test]
fn success_4_no_shell_reads_an_argument() {
    let desk = proxy(MAKER);
    for note in [
        "$(touch pwned)",
        "`touch pwned`",
        "; touch pwned",
        "&& touch pwned",
        "| touch pwned",
        "> pwned",
        "*",
        "a  b",
        "'\"\\",
    ] {
        let answer = structured(&desk.bench.must("make_file", json!({"name": "made", "note": note})));
        assert_eq!(answer["data"], note);
    }
    assert_eq!(std::fs::read_dir(&desk.workspace).unwrap().count(), 1);
}

#[test]
fn success_5_only_what_was_allowed_of_an_answer_leaves() {
    let desk = proxy(
        r#"tool: customer
description: A customer
class: read
permissions: []
command: [printf, '{{"name": "Ada", "card": "4111-secret", "mail": "ada@example.com", "inner": {{"note": "private"}}}}']
output: {parse: json}
policy: {name: allow, card: redact, mail: mask}
"#,
    );
    let called = desk.bench.must("customer", json!({}));
    assert_eq!(structured(&called)["data"], json!({"name": "Ada", "card": "[redacted]", "mail": "a***m"}));
    for secret in ["4111", "private", "example.com"] {
        assert!(!called.answer.text.contains(secret), "{}", called.answer.text);
    }
}

#[test]
fn success_6_every_call_leaves_one_record() {
    let desk = Desk::with(Profile::Proxy, |options| options.manifest(GIT_LOG).config("agents: {worker: {}}"));
    let calls = [
        (holding(&["git:read"]), "git_log", json!({"count": 5}), Decision::Error, Some("command_failed")),
        (holding(&["git:read"]), "git_log", json!({"count": 30}), Decision::Denied, Some("not_permitted")),
        (holding(&[]), "git_log", json!({"count": 5}), Decision::Denied, Some("not_permitted")),
        (holding(&["git:read"]), "git_log", json!({"count": 0}), Decision::Denied, Some("invalid_arguments")),
        (holding(&["git:read"]), "rm", json!({}), Decision::Denied, Some("unknown_tool")),
        (person("s1"), "git_log", json!({"count": 30}), Decision::Allowed, None),
    ];
    for (index, (caller, tool, arguments, decision, code)) in calls.into_iter().enumerate() {
        if decision == Decision::Allowed {
            git(&desk.workspace, &["init", "-q"]);
            git(&desk.workspace, &["commit", "-q", "--allow-empty", "-m", "first"]);
        }
        let called = desk.bench.call_as(caller, tool, arguments);
        assert_eq!(desk.bench.record(called.call).decision, decision, "{index}: {}", called.answer.text);
        assert_eq!(code_of(&called).map(ErrorCode::as_str), code, "{index}: {}", called.answer.text);
    }
    assert_eq!(desk.bench.verify_audit(), 6);
}

#[test]
fn a_failed_command_tells_the_model_its_exit_code_and_the_operator_the_rest() {
    let desk = proxy(
        "tool: fails\ndescription: Fails\nclass: read\npermissions: []\n\
         command: [sh, -c, 'echo partial; echo confidential reason >&2; exit 7']\npolicy: {\"*\": allow}\n",
    );
    let called = desk.bench.call("fails", json!({}));
    let error = structured(&called)["error"].clone();
    assert_eq!((&error["code"], &error["stage"]), (&json!("command_failed"), &json!("EXECUTION")));
    assert_eq!(error["details"]["exit_code"], 7);
    assert!(
        !called.answer.text.contains("confidential") && !called.answer.text.contains("partial"),
        "{}",
        called.answer.text
    );
    // The operator sees what it said; the record, which never quotes arguments, does not keep it.
    assert!(called.failed.unwrap().1.aside.unwrap().contains("confidential reason"));
    let reason = desk.bench.record(called.call).denial.unwrap().reason;
    assert_eq!(reason, "the command ended with exit code 7");
}

#[test]
fn a_manifest_is_held_to_what_it_declares() {
    let cases = [
        ("success_codes: [0, 7]", "exit 7", None),
        ("timeout: 300ms", "echo begun; sleep 1000", Some(ErrorCode::Timeout)),
        ("limits: {output: 1KiB}", "seq 1 100000", Some(ErrorCode::ResourceLimit)),
        ("limits: {cpu_time: 1s}", "while :; do :; done", Some(ErrorCode::ResourceLimit)),
        ("output: {parse: json}", "echo not json", Some(ErrorCode::OutputInvalid)),
        (
            "output: {parse: lines, schema: {type: array, maxItems: 1}}",
            "echo a; echo b",
            Some(ErrorCode::OutputInvalid),
        ),
        ("cwd: \"@project\"", "touch made", Some(ErrorCode::CommandFailed)),
        ("cwd: \"@project\"\nmounts: [\"@project:rw\"]", "echo x > .envrc", Some(ErrorCode::DeniedPath)),
        ("cwd: \"@project/missing\"", "true", Some(ErrorCode::NotFound)),
        ("cwd: \"@project/.ssh\"", "true", Some(ErrorCode::DeniedPath)),
        ("environment: {GREETING: hello}", "test \"$GREETING\" = hello", None),
        ("", "test $(pwd) = /tmp && test ! -e /mnt/project", None),
    ];
    for (rest, line, code) in cases {
        let desk = proxy(&format!(
            "tool: t\ndescription: Something\nclass: read\npermissions: []\ncommand: [sh, -c, '{line}']\npolicy: {{\"*\": allow}}\n{rest}\n"
        ));
        desk.write(".ssh/config", "");
        let called = desk.bench.call("t", json!({}));
        assert_eq!(code_of(&called), code, "{rest}: {line}: {}", called.answer.text);
        assert!(!called.answer.text.contains("begun"), "{}", called.answer.text);
        assert!(!desk.workspace.join("made").exists() && !desk.workspace.join(".envrc").exists());
    }
    let desk = proxy(
        "tool: t\ndescription: Something\nclass: read\npermissions: []\ncommand: [no-such-program]\npolicy: {\"*\": allow}\n",
    );
    assert_eq!(code_of(&desk.bench.call("t", json!({}))), Some(ErrorCode::CommandNotFound));
}

#[test]
fn a_history_shows_no_more_than_the_workspace() {
    let desk = Desk::new(Profile::Proxy);
    git(&desk.workspace, &["init", "-q"]);
    git(&desk.workspace, &["commit", "-q", "--allow-empty", "-m", "first"]);
    for name in [
        ".env",
        "a/.ENV.local",
        ".env~",
        "id_rsa.bak",
        "deep/er/key.pem.orig",
        "key.pem.old",
        ".ssh/known_hosts",
        "a/.kube/cache/x",
        "odd.key/inner.txt",
        "credentials.json~",
    ] {
        desk.write(name, "nobody-reads-this\n");
    }
    let shown = ["plain.txt", "credentials.go", "credentials/google.go", "monkey.rs", "keys.bak"];
    for name in shown {
        desk.write(name, "everybody reads this\n");
    }
    git(&desk.workspace, &["add", "-A", "-f"]);
    git(&desk.workspace, &["commit", "-q", "-m", "second"]);
    for stat in [false, true] {
        let called = desk.bench.must("git_diff", json!({"from": "HEAD~1", "to": "HEAD", "stat": stat}));
        let text = called.answer.text;
        for name in shown {
            assert!(text.contains(name), "{name}: {text}");
        }
        for hidden in ["nobody-reads-this", ".env", "id_rsa", "pem", ".ssh", ".kube", "odd.key", ".json"] {
            assert!(!text.to_lowercase().contains(hidden), "{hidden}: {text}");
        }
    }
}

/// Git on the host, as the person whose repository it is.
pub(crate) fn git(repository: &std::path::Path, arguments: &[&str]) {
    let status = std::process::Command::new("git")
        .arg("-C")
        .arg(repository)
        .args([
            "-c",
            "user.name=tester",
            "-c",
            "user.email=tester@example.com",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .status()
        .unwrap();
    assert!(status.success(), "git {arguments:?}");
}
