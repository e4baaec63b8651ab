//! The format of a line, and that parsing it returns what was recorded.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use toolgate_audit::{AuditEntry, CallDetails, Denial, Record, ResponseSummary};
use toolgate_types::{Caller, Decision, ErrorCode, Sha256, Stage, ToolClass, Trust};

use crate::fixture::{AuditFixture, alice, allowed, id, verdict};

#[test]
fn lines_are_as_documented() {
    let place = AuditFixture::new();
    let log = place.open();
    let agent = Caller {
        agent: Some("reviewer".parse().unwrap()),
        run: Some("run-1".parse().unwrap()),
        trust: Trust::Autonomous,
        ..alice()
    };
    let redacted = ["user.email".to_owned()];
    log.append(&AuditEntry {
        client_call_id: Some("toolu_1"),
        response: Some(ResponseSummary {
            redacted_fields: &redacted,
            output_hash: Sha256::of(b"out"),
            output_bytes: 3,
        }),
        duration: Duration::from_micros(123),
        waited: Duration::ZERO,
        ..allowed(id(1), &agent)
    })
    .unwrap();
    let reason = "missing permission `git:write`";
    log.append(&AuditEntry {
        tool: "git_push",
        class: None,
        denial: Some(Denial { stage: Stage::Permission, code: ErrorCode::NotPermitted, reason, count: 1 }),
        duration: Duration::from_millis(12),
        waited: Duration::ZERO,
        ..allowed(id(2), &alice())
    })
    .unwrap();
    log.close().unwrap();
    insta::assert_snapshot!(std::fs::read_to_string(place.file("2026-11-15.jsonl")).unwrap(), @r#"
    {"v":2,"seq":1,"prev":"0000000000000000000000000000000000000000000000000000000000000000","timestamp":"2026-11-15T12:00:00.000Z","traceId":"01931b2c-0000-7000-8000-000000000001","caller":{"sub":"alice","permissions":["files:read","git:read"],"agent":"reviewer","session":"s1","run":"run-1"},"tool":{"name":"read_file","classification":"read"},"request":{"argsHash":"48fd2849edb8e8042bf54b975ec3d1e93e7e56d5673ebe0d0f3fd1b0a883b9a7","clientCallId":"toolu_1"},"decision":"ALLOWED","response":{"redactedFields":["user.email"],"outputHash":"5dd815840a3531f4754bbe7f6093af360979aaad3dfe8c92e2d25c17fbfaa347","outputBytes":3},"duration":0.123,"hash":"b69f9c2136bacb25d44d9f26fe6710514d9c23aeb62cf192ef28e958142e6c4b"}
    {"v":2,"seq":2,"prev":"b69f9c2136bacb25d44d9f26fe6710514d9c23aeb62cf192ef28e958142e6c4b","timestamp":"2026-11-15T12:00:00.000Z","traceId":"01931b2c-0000-7000-8000-000000000002","caller":{"sub":"alice","permissions":["files:read","git:read"],"session":"s1"},"tool":{"name":"git_push"},"request":{"argsHash":"48fd2849edb8e8042bf54b975ec3d1e93e7e56d5673ebe0d0f3fd1b0a883b9a7"},"decision":"DENIED","denial":{"stage":"PERMISSION","code":"not_permitted","reason":"missing permission `git:write`"},"duration":12.0,"hash":"6ff9ee98c9e21dc97047396d55b36873fe9d6c39bcbe569627e935563008c744"}
    "#);
}

/// Lines of logs from before records said what was touched.
#[test]
fn lines_without_details_are_read_and_verified_and_details_are_part_of_the_chain() {
    let place = AuditFixture::new();
    let log = place.open();
    log.append(&allowed(id(1), &alice())).unwrap();
    let details = CallDetails { deleted: vec!["@project/a".to_owned()], ..CallDetails::default() };
    log.append(&AuditEntry { details: Some(&details), ..allowed(id(2), &alice()) }).unwrap();
    log.append(&AuditEntry { details: Some(&CallDetails::default()), ..allowed(id(3), &alice()) }).unwrap();
    log.close().unwrap();
    let found: Vec<_> = place.sound_records().into_iter().map(|record| record.details).collect();
    assert_eq!(found, [None, Some(details), None]);
    let day = place.file("2026-11-15.jsonl");
    let lines = std::fs::read_to_string(&day).unwrap();
    std::fs::write(&day, lines.replace("@project/a", "@project/b")).unwrap();
    assert_eq!(verdict(&place.verify()), "2026-11-15.jsonl:2 changed");
}

#[test]
fn the_decision_follows_from_the_code() {
    let place = AuditFixture::new();
    let log = place.open();
    let codes =
        [None, Some(ErrorCode::OutsideWorkspace), Some(ErrorCode::ApprovalDenied), Some(ErrorCode::Timeout)];
    for (number, code) in codes.into_iter().enumerate() {
        let denial = code.map(|code| Denial { stage: Stage::Execution, code, reason: "why", count: 1 });
        log.append(&AuditEntry { denial, ..allowed(id(number as u64), &alice()) }).unwrap();
    }
    let decisions: Vec<Decision> = place.sound_records().iter().map(|record| record.decision).collect();
    assert_eq!(decisions, [Decision::Allowed, Decision::Denied, Decision::Denied, Decision::Error]);
}

#[test]
fn a_record_reads_and_writes_the_same() {
    let place = AuditFixture::new();
    let log = place.open();
    log.append(&AuditEntry { class: Some(ToolClass::Destructive), ..allowed(id(1), &alice()) }).unwrap();
    let line = place.lines("2026-11-15.jsonl").remove(0);
    let record: Record = serde_json::from_str(&line).unwrap();
    assert_eq!(serde_json::to_string(&record).unwrap(), line);
    assert_eq!((record.seq, record.prev, record.trace_id), (1, Sha256::from([0; 32]), id(1)));
}

#[test]
fn only_the_owner_may_look() {
    let place = AuditFixture::new();
    let log = place.open();
    log.append(&allowed(id(1), &alice())).unwrap();
    log.close().unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place.directory), 0o700);
    for name in ["2026-11-15.jsonl", "lock", "checkpoints.jsonl", "../keys/audit.key"] {
        assert_eq!(mode(&place.file(name)), 0o600, "{name}");
    }
}
