//! What a line looks like, and that reading it gives back what was put in.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use toolgate_audit::{Denial, Entry, Record, Response};
use toolgate_types::{Caller, Decision, ErrorCode, Sha256, Stage, ToolClass, Trust};

use crate::support::{Place, alice, allowed, id};

#[test]
fn lines_are_as_documented() {
    let place = Place::new();
    let log = place.open();
    let agent = Caller {
        agent: Some("reviewer".parse().unwrap()),
        run: Some("run-1".parse().unwrap()),
        trust: Trust::Autonomous,
        ..alice()
    };
    let redacted = ["user.email".to_owned()];
    log.append(&Entry {
        client_call_id: Some("toolu_1"),
        response: Some(Response {
            redacted_fields: &redacted,
            output_hash: Sha256::of(b"out"),
            output_bytes: 3,
        }),
        duration: Duration::from_micros(123),
        ..allowed(id(1), &agent)
    })
    .unwrap();
    let reason = "missing permission `git:write`";
    log.append(&Entry {
        tool: "git_push",
        class: None,
        denial: Some(Denial { stage: Stage::Permission, code: ErrorCode::NotPermitted, reason }),
        duration: Duration::from_millis(12),
        ..allowed(id(2), &alice())
    })
    .unwrap();
    log.close().unwrap();
    insta::assert_snapshot!(std::fs::read_to_string(place.file("2026-11-15.jsonl")).unwrap(), @r#"
    {"v":2,"seq":1,"prev":"0000000000000000000000000000000000000000000000000000000000000000","timestamp":"2026-11-15T12:00:00.000Z","traceId":"01931b2c-0000-7000-8000-000000000001","caller":{"sub":"alice","permissions":["files:read","git:read"],"agent":"reviewer","session":"s1","run":"run-1"},"tool":{"name":"read_file","classification":"read"},"request":{"argsHash":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","clientCallId":"toolu_1"},"decision":"ALLOWED","response":{"redactedFields":["user.email"],"outputHash":"762069bc07a6e1b5df123a5ae7bd91c10daa04694fbaa17fba0cd6a8dcce8f22","outputBytes":3},"duration":0.123,"hash":"7e0a3af3c82559f771127cec804c595cd68f3920e188924e08bc4912e5a6319d"}
    {"v":2,"seq":2,"prev":"7e0a3af3c82559f771127cec804c595cd68f3920e188924e08bc4912e5a6319d","timestamp":"2026-11-15T12:00:00.000Z","traceId":"01931b2c-0000-7000-8000-000000000002","caller":{"sub":"alice","permissions":["files:read","git:read"],"session":"s1"},"tool":{"name":"git_push"},"request":{"argsHash":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"},"decision":"DENIED","denial":{"stage":"PERMISSION","code":"not_permitted","reason":"missing permission `git:write`"},"duration":12.0,"hash":"8dfe115a51e314304cfee500ad090bf5cc47dba4ff4e9f1cf14c94613f80af74"}
    "#);
}

#[test]
fn the_decision_follows_from_the_code() {
    let place = Place::new();
    let log = place.open();
    let codes =
        [None, Some(ErrorCode::OutsideWorkspace), Some(ErrorCode::ApprovalDenied), Some(ErrorCode::Timeout)];
    for (number, code) in codes.into_iter().enumerate() {
        let denial = code.map(|code| Denial { stage: Stage::Execution, code, reason: "why" });
        log.append(&Entry { denial, ..allowed(id(number as u64), &alice()) }).unwrap();
    }
    let decisions: Vec<Decision> = place.sound_records().iter().map(|record| record.decision).collect();
    assert_eq!(decisions, [Decision::Allowed, Decision::Denied, Decision::Denied, Decision::Error]);
}

#[test]
fn a_record_reads_and_writes_the_same() {
    let place = Place::new();
    let log = place.open();
    log.append(&Entry { class: Some(ToolClass::Destructive), ..allowed(id(1), &alice()) }).unwrap();
    let line = place.lines("2026-11-15.jsonl").remove(0);
    let record: Record = serde_json::from_str(&line).unwrap();
    assert_eq!(serde_json::to_string(&record).unwrap(), line);
    assert_eq!((record.seq, record.prev, record.trace_id), (1, Sha256::from([0; 32]), id(1)));
}

#[test]
fn only_the_owner_may_look() {
    let place = Place::new();
    let log = place.open();
    log.append(&allowed(id(1), &alice())).unwrap();
    log.close().unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place.directory), 0o700);
    for name in ["2026-11-15.jsonl", "lock", "checkpoints.jsonl", "../keys/audit.key"] {
        assert_eq!(mode(&place.file(name)), 0o600, "{name}");
    }
}
