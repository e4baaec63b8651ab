//! Names and ids chosen by a hostile model.

use toolgate_audit::{AuditEntry, Denial, RecordFilter, query_records};
use toolgate_types::{Caller, ErrorCode, Stage};

use crate::fixture::{AuditFixture, alice, allowed, id};

/// Strings that would end a line, a string or a record if they were not escaped.
fn nasty() -> Vec<String> {
    let line = r#"x"}}
{"seq":2,"prev":"00","timestamp":"2026-11-15T12:00:00.000Z","decision":"ALLOWED","hash":"00"}"#;
    vec![
        line.to_owned(),
        "a\nb\r\nc".to_owned(),
        "\",\"hash\":\"0000000000000000000000000000000000000000000000000000000000000000\"}".to_owned(),
        "\0\u{1b}[2J\u{202e}\u{2028}\u{7f}".to_owned(),
        "\\u0022\\".to_owned(),
        String::new(),
        "é".repeat(1_000_000),
        "\n".repeat(1_000_000),
    ]
}

#[test]
fn no_string_makes_a_second_line_or_another_record() {
    let place = AuditFixture::new();
    let log = place.open();
    for (number, text) in nasty().iter().enumerate() {
        let caller = Caller { subject: text.clone(), permissions: [text.clone()].into(), ..alice() };
        let denial = Denial { stage: Stage::Registry, code: ErrorCode::UnknownTool, reason: text, count: 1 };
        let entry = allowed(id(number as u64), &caller);
        log.append(&AuditEntry { tool: text, client_call_id: Some(text), denial: Some(denial), ..entry })
            .unwrap();
    }
    log.close().unwrap();
    let lines = place.lines("2026-11-15.jsonl");
    assert_eq!(lines.len(), nasty().len());
    for (line, text) in lines.iter().zip(nasty()) {
        assert!(line.len() < 32_000, "{} bytes", line.len());
        assert!(!line.chars().any(|character| character.is_control() || character == '\u{202e}'));
        let record: toolgate_audit::Record = serde_json::from_str(line).unwrap();
        if text.chars().count() <= 256 {
            assert_eq!((&record.tool.name, &record.caller.sub), (&text, &text));
            assert_eq!(
                (record.request.client_call_id.as_ref(), &record.denial.unwrap().reason),
                (Some(&text), &text)
            );
        }
    }
    assert_eq!(place.sound_records().len(), nasty().len());
}

#[test]
fn a_caller_with_a_thousand_permissions_gets_a_bounded_line() {
    let place = AuditFixture::new();
    let log = place.open();
    let permissions = (0..1000).map(|number| format!("{number:04}{}", "\n".repeat(1000))).collect();
    log.append(&allowed(id(1), &Caller { permissions, ..alice() })).unwrap();
    let record = query_records(&place.directory, RecordFilter::default()).unwrap().next().unwrap().unwrap();
    assert_eq!(record.caller.permissions.len(), 64);
    assert_eq!(record.caller.permissions[63], "…[937 more]");
    assert!(place.lines("2026-11-15.jsonl")[0].len() < 64 * 1024);
}
