//! Commands that are refused: by their directory, their line, their arguments, or by the approver.

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use toolgate_attack::{Tree, code_of, person};
use toolgate_gate::ApprovalReply;
use toolgate_text::confusables::Charset;
use toolgate_tools::Profile;
use toolgate_types::{Caller, Decision, ErrorCode, Stage, Trust};

use super::{Desk, SHELLS, structured};
use crate::approval::Scripted;

#[test]
fn a_folder_to_run_in_is_judged_like_any_path() {
    let desk = Desk::new(Profile::NATIVE);
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
            "nc -l 1",
            "netcat -l 1",
            "touch ran; sudo ls",
        ] {
            let called = desk.run(line);
            let (stage, failure) = called.failed.as_ref().unwrap_or_else(|| panic!("{line} was run"));
            assert_eq!((*stage, failure.code), (Stage::Execution, ErrorCode::CommandBlocked), "{line}");
            assert!(failure.message.contains("is not run here: ") && failure.help.is_some(), "{line}");
            assert_eq!(desk.bench.record(called.call).decision, Decision::Denied, "{line}");
            match profile.name() {
                "sidecar" => assert_eq!(structured(&called)["error"]["code"], "COMMAND_BLOCKED"),
                "studio" => assert_eq!(structured(&called)["metadata"]["code"], "command_blocked"),
                _ => assert!(called.answer.text.starts_with("command_blocked: ")),
            }
        }
        for line in ["curl http://example.com", "wget http://example.com"] {
            // In `native` the proxy refuses the host by its name instead.
            let refused = code_of(&desk.run(line)) == Some(ErrorCode::CommandBlocked);
            assert_eq!(refused, profile != Profile::NATIVE, "{line}");
        }
        assert!(before.differences(&Tree::of(&desk.workspace)).is_empty());
    }
}

#[test]
fn no_argument_gets_past_the_gate_that_does_not_fit() {
    let desk = Desk::new(Profile::NATIVE);
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
    // A timeout beyond the call's own is reduced to it.
    let called = desk.bench.call(desk.tool, json!({"command": "echo hi", "timeout_ms": u64::MAX}));
    assert_eq!(called.answer.text, "hi\n");
}

#[test]
fn whoever_is_asked_sees_the_whole_command() {
    let approver = Scripted::new([ApprovalReply::Denied(None), ApprovalReply::Once]);
    let asked = Arc::clone(&approver);
    let desk = Desk::with(Profile::NATIVE, |options| options.approver(approver, Duration::from_secs(30)));
    desk.write("src/a.txt", "");
    let caller = || Caller { trust: Trust::Guided, ..person("s1") };
    let line = "echo a &&\necho \u{202e}b > ran";
    let arguments = json!({"command": line, "cwd": "src"});
    let called = desk.bench.call_as(caller(), desk.tool, arguments.clone());
    assert_eq!(code_of(&called), Some(ErrorCode::ApprovalDenied));
    assert!(!desk.workspace.join("src/ran").exists());
    let question = asked.asked().remove(0);
    let card = question.card(Charset::Unicode);
    let rows: Vec<&str> = card.body.iter().flat_map(|body| &body.rows).map(|row| &*row.text).collect();
    assert_eq!(rows, ["echo a &&", "echo \\u{202e}b > ran"]);
    assert_eq!(card.summary, ["run in src", "may change @project", "network: none"]);
    assert!(!desk.bench.call_as(caller(), desk.tool, arguments).answer.is_error);
    assert!(desk.workspace.join("src/ran").exists());
    // Without a reason to ask, there is no question.
    let blocked = desk.bench.call_as(caller(), desk.tool, json!({"command": "sudo ls"}));
    assert_eq!((code_of(&blocked), asked.asked().len()), (Some(ErrorCode::CommandBlocked), 2));
}
