//! What becomes of calls while the record cannot be written, and of it when it can again.

use std::fs::File;

use serde_json::json;
use toolgate_attack::{BenchOptions, Scratch, code_of};
use toolgate_audit::VerifyOptions;
use toolgate_gate::AuditMode;
use toolgate_tools::Profile;
use toolgate_types::ErrorCode;

/// A process that was stopped, or that is no gate, holds the lock of the audit directory for good.
#[test]
fn a_held_audit_lock_hangs_no_call() {
    for mode in [AuditMode::Warn, AuditMode::Deny] {
        let scratch = Scratch::new();
        let (workspace, state) = (scratch.folder("w"), scratch.folder("s"));
        std::fs::write(workspace.join("a.txt"), "hello\n").unwrap();
        let bench = BenchOptions::new(Profile::Native, &workspace, &state).audit_mode(mode).open();
        bench.must("append_file", json!({"path": "a.txt", "content": "more\n"}));
        let lock = File::open(state.join("audit/lock")).unwrap();
        lock.lock().unwrap();
        let read = bench.call("read_file", json!({"path": "a.txt"}));
        let changes = [
            ("write_file", json!({"path": "a.txt", "content": "changed"})),
            ("delete_file", json!({"path": "a.txt"})),
        ];
        for (tool, arguments) in changes {
            let changed = bench.call(tool, arguments);
            assert_eq!(
                code_of(&changed),
                Some(ErrorCode::AuditUnavailable),
                "{mode:?}: {}",
                changed.answer.text
            );
        }
        assert_eq!(std::fs::read_to_string(workspace.join("a.txt")).unwrap(), "hello\nmore\n");
        match mode {
            AuditMode::Warn => assert_eq!(read.answer.text, "hello\nmore\n"),
            AuditMode::Deny => {
                assert_eq!(code_of(&read), Some(ErrorCode::AuditUnavailable), "{}", read.answer.text);
            }
        }
        let own = format!("process {}", std::process::id());
        assert!(
            bench.complaints().iter().any(|told| told.contains(&own)),
            "{mode:?}: {:?}",
            bench.complaints()
        );
        lock.unlock().unwrap();
        bench.must("write_file", json!({"path": "a.txt", "content": "changed"}));
        drop(bench);
        let report = toolgate_audit::verify(&state.join("audit"), &VerifyOptions::default()).unwrap();
        assert_eq!(
            (report.problem.clone(), report.calls_without_record()),
            (None, 3),
            "{mode:?}: {report:?}"
        );
    }
}

/// A change that was made stays where only its record is missing, and both the record and the list of changes say so.
#[test]
fn the_record_of_an_interrupted_call_says_that_its_change_stays() {
    let scratch = Scratch::new();
    let (workspace, state) = (scratch.folder("w"), scratch.folder("s"));
    let open = || BenchOptions::new(Profile::Native, &workspace, &state).open();
    let bench = open();
    let call = bench.must("write_file", json!({"path": "a.txt", "content": "new\n"})).call;
    drop(bench);
    // As after a power cut: the intent is on the disk, and the record is not.
    std::fs::remove_dir_all(state.join("audit")).unwrap();
    std::fs::remove_dir_all(state.join("keys")).unwrap();
    std::fs::create_dir_all(state.join("audit/intents")).unwrap();
    let line = json!({
        "v": 1, "call": call, "at": "2026-11-15T12:00:00.000Z",
        "caller": {"sub": "tester", "permissions": [], "session": "test"},
        "tool": {"name": "write_file", "classification": "write"}, "request": {"argsHash": "0".repeat(64)},
    });
    std::fs::write(state.join("audit/intents/dead.jsonl"), format!("{line}\n")).unwrap();
    let bench = open();
    assert_eq!(bench.interrupted(), [call]);
    let denial = bench.record(call).denial.unwrap();
    assert_eq!(denial.code, ErrorCode::Interrupted);
    assert!(denial.reason.ends_with("its changes were complete and stay"), "{denial:?}");
    assert!(bench.gate().journal().changes().unwrap().iter().any(|set| set.call == call));
    assert_eq!(std::fs::read_to_string(workspace.join("a.txt")).unwrap(), "new\n");
}
