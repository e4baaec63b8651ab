//! The answers of commands in each profile.

use serde_json::{Value, json};
use toolgate_attack::Scratch;
use toolgate_tools::Profile;
use toolgate_types::Decision;

use super::{Desk, SHELLS, git, native, structured};
use crate::fixture::copy_program;

#[test]
fn every_profile_answers_with_output_and_exit_code() {
    for (profile, _) in SHELLS {
        let desk = Desk::new(profile);
        for (command, code) in [("echo out; echo err >&2", 0), ("echo out; echo err >&2; exit 3", 3)] {
            let called = desk.run(command);
            assert_eq!(called.decision, Decision::Allowed, "{}", called.answer.text);
            let answer = structured(&called);
            match profile.name() {
                "native" => {
                    let ending = if code == 0 { "" } else { "exit code 3\n" };
                    let lines = ["out\nerr\n", "err\nout\n"].map(|lines| format!("{lines}{ending}"));
                    assert!(lines.contains(&called.answer.text), "{}", called.answer.text);
                    assert_eq!((&answer["stdout"], &answer["stderr"]), (&json!("out\n"), &json!("err\n")));
                    assert_eq!((&answer["exit_code"], &answer["timed_out"]), (&json!(code), &json!(false)));
                    assert!(!called.answer.is_error);
                }
                "sidecar" => {
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

/// The same as an unprivileged user, if this runs as root.
#[test]
fn an_ordinary_user_can_run_commands_too() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // Only its owner can reach the test binary's directory, so it is copied to one that is accessible to all.
    let scratch = Scratch::new();
    let copy = scratch.path().join("it");
    copy_program(&std::env::current_exe().unwrap(), &copy);
    for path in [scratch.path(), &copy] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let output = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(&copy)
        .args(["--exact", "commands::answers::every_profile_answers_with_output_and_exit_code"])
        .arg("commands::left_behind::what_is_left_under_protected_names_is_taken_away")
        .arg("commands::hidden::denied_files_are_not_there_for_commands")
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
    let desk = Desk::new(Profile::NATIVE);
    let (text, answer) = native(&desk.run("echo before; kill -9 $$"));
    assert_eq!(text, "before\nended by signal SIGKILL\n");
    assert_eq!((&answer["exit_code"], &answer["signal"]), (&Value::Null, &json!("SIGKILL")));
}

#[test]
fn nothing_said_is_said() {
    let desk = Desk::new(Profile::NATIVE);
    assert_eq!(native(&desk.run("true")).0, "exit code 0\n");
    assert_eq!(native(&desk.run("exit 5")).0, "exit code 5\n");
}

#[test]
fn a_program_that_is_not_there_is_told_with_a_remedy_for_the_operator() {
    let desk = Desk::new(Profile::NATIVE);
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
    let desk = Desk::new(Profile::NATIVE);
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
fn long_output_is_cut_at_its_limit_with_a_notice() {
    let limit = usize::try_from(Profile::NATIVE.limits().max_output_bytes).unwrap();
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
            let bytes = match profile.name() {
                // The studio limits the output itself, whatever its size as JSON; a notice gives both sizes.
                "studio" => {
                    let answer: Value = serde_json::from_str(&called.answer.text).unwrap();
                    let output = answer["output"].as_str().unwrap();
                    output[..output.find("[truncated: ").unwrap()].trim_end_matches('\n').len()
                }
                _ => called.answer.text.len(),
            };
            assert!(bytes <= limit, "{profile} {line}: {bytes} bytes");
            assert!(called.answer.text.contains("truncated"), "{profile} {line}");
            if profile == Profile::NATIVE {
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
        assert_eq!(desk.run("echo short").full_text, None, "{profile}");
        assert_eq!(desk.run("seq 1 100000; exit 3").full_text.as_ref(), Some(&all), "{profile}");
        let both = desk.run("seq 1 50000 >&2; seq 50001 100000").full_text.unwrap();
        assert_eq!(both.len(), all.len(), "{profile}");
        // As sanitised as the answer, and bounded.
        let endless = desk.run("yes \"$(printf 'a\\033[31mb')\" | head -c 6000000").full_text.unwrap();
        assert!(endless.starts_with("ab\nab\n") && endless.len() < (4 << 20) + 100, "{profile}");
        assert!(endless.ends_with(" of 6000000 bytes kept]\n"), "{profile}");
    }
}

#[test]
fn a_commit_is_made_in_a_name() {
    let desk = Desk::new(Profile::NATIVE);
    git(&desk.workspace, &["init", "-q"]);
    git(&desk.workspace, &["init", "-q", "named/inner"]);
    git(&desk.workspace.join("named/inner"), &["config", "user.name", "Inner \"I\" Person"]);
    desk.write("named/inner/sub/a.txt", "a\n");
    desk.write("a.txt", "a\n");
    let line = "git add a.txt && git commit -q -m one && git log -1 --format='%an <%ae> %cn <%ce> %s'";
    for (cwd, said) in [
        (".", "Toolgate <toolgate@localhost> Toolgate <toolgate@localhost> one\n"),
        // A repository's own settings take precedence.
        (
            "named/inner/sub",
            "Inner \"I\" Person <toolgate@localhost> Inner \"I\" Person <toolgate@localhost> one\n",
        ),
    ] {
        let called = desk.bench.call(desk.tool, json!({"command": line, "cwd": cwd}));
        assert_eq!(called.answer.text, said, "{cwd}");
    }
}
