//! Calls while the audit log cannot be written, and the log afterwards.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use serde_json::json;
use toolgate_attack::{BenchOptions, Scratch, code_of};
use toolgate_audit::VerifyOptions;
use toolgate_gate::AuditMode;
use toolgate_tools::Profile;
use toolgate_types::ErrorCode;

/// A stopped process, or one that is not a gate, holds the lock of the audit directory forever.
#[test]
fn a_held_audit_lock_hangs_no_call() {
    for mode in [AuditMode::Warn, AuditMode::Deny] {
        let scratch = Scratch::new();
        let (workspace, state) = (scratch.folder("w"), scratch.folder("s"));
        std::fs::write(workspace.join("a.txt"), "hello\n").unwrap();
        let bench = BenchOptions::new(Profile::NATIVE, &workspace, &state).audit_mode(mode).open();
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

/// A gate that ends, or is killed, while another process holds the lock leaves the count of calls that it could not audit.
#[test]
fn reads_answered_while_the_lock_is_held_are_counted_whatever_ends_the_gate() {
    for is_killed in [false, true] {
        let scratch = Scratch::new();
        let (workspace, state) = (scratch.folder("w"), scratch.folder("s"));
        std::fs::write(workspace.join("a.txt"), "hello\n").unwrap();
        let mut gate = Command::new(env!("CARGO_BIN_EXE_toolgate-attacker"))
            .arg("read-with-a-held-lock")
            .args([&workspace, &state])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut orders = gate.stdin.take().unwrap();
        let mut answers = BufReader::new(gate.stdout.take().unwrap()).lines();
        assert_eq!(answers.next().unwrap().unwrap(), "1");
        let lock = File::open(state.join("audit/lock")).unwrap();
        lock.lock().unwrap();
        orders.write_all(b"read\n").unwrap();
        assert_eq!(answers.next().unwrap().unwrap(), "8", "reads go on");
        if is_killed {
            gate.kill().unwrap();
        } else {
            orders.write_all(b"end\n").unwrap();
        }
        assert_eq!(gate.wait().unwrap().success(), !is_killed);
        let report = || toolgate_audit::verify(&state.join("audit"), &VerifyOptions::default()).unwrap();
        let counted = report();
        assert_eq!((counted.problem, counted.records), (None, 1));
        let [gap] = counted.gaps.as_slice() else { panic!("killed: {is_killed}: {:?}", counted.gaps) };
        assert_eq!((gap.calls, gap.until), (Some(7), None), "killed: {is_killed}");
        lock.unlock().unwrap();
        for _ in 0..2 {
            drop(BenchOptions::new(Profile::NATIVE, &workspace, &state).open());
            let recorded = report();
            assert_eq!((recorded.problem, recorded.records), (None, 2), "killed: {is_killed}");
            assert_eq!(recorded.gaps.iter().map(|gap| gap.calls).collect::<Vec<_>>(), [Some(7)]);
            assert!(recorded.gaps[0].until.is_some());
        }
        assert_eq!(std::fs::read_dir(state.join("audit/intents")).unwrap().count(), 0);
    }
}

/// With `warn`, reads go on without a record as long as they are counted, and no longer.
#[test]
fn a_read_that_can_neither_be_recorded_nor_counted_is_not_answered() {
    let scratch = Scratch::new();
    let (workspace, state) = (scratch.folder("w"), scratch.folder("s"));
    std::fs::write(workspace.join("a.txt"), "hello\n").unwrap();
    let bench = BenchOptions::new(Profile::NATIVE, &workspace, &state).open();
    let lock = File::open(state.join("audit/lock")).unwrap();
    lock.lock().unwrap();
    let read = || bench.call("read_file", json!({"path": "a.txt"}));
    assert_eq!(read().answer.text, "hello\n");
    std::fs::remove_dir_all(state.join("audit/intents")).unwrap();
    let refused = read();
    assert_eq!(code_of(&refused), Some(ErrorCode::AuditUnavailable), "{}", refused.answer.text);
    assert!(!refused.answer.text.contains("hello"), "{}", refused.answer.text);
    lock.unlock().unwrap();
    assert_eq!(read().answer.text, "hello\n");
    drop(bench);
    let report = toolgate_audit::verify(&state.join("audit"), &VerifyOptions::default()).unwrap();
    assert_eq!((report.calls_without_record(), report.problem), (2, None));
}

/// A completed change stays if only its record is missing, and both the record and the list of changes say so.
#[test]
fn the_record_of_an_interrupted_call_says_that_its_change_stays() {
    let scratch = Scratch::new();
    let (workspace, state) = (scratch.folder("w"), scratch.folder("s"));
    let open = || BenchOptions::new(Profile::NATIVE, &workspace, &state).open();
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
