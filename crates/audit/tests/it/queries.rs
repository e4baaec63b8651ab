//! Querying records.

use jiff::Timestamp;
use toolgate_audit::{AuditEntry, AuditError, Denial, RecordFilter, query_records, tail};
use toolgate_types::{Caller, Decision, ErrorCode, Stage};

use crate::fixture::{AuditFixture, alice, allowed, id};

/// Six days of ten records; every second by bob, every third denied, tools in turn.
fn filled() -> AuditFixture {
    let place = AuditFixture::new();
    let log = place.open();
    let bob = Caller { subject: "bob".to_owned(), session: "s2".parse().unwrap(), ..alice() };
    for number in 0..60u64 {
        place.set_clock(&format!("2026-11-{:02}T{:02}:00:00Z", 10 + number / 10, 8 + number % 10));
        let caller = if number % 2 == 0 { alice() } else { bob.clone() };
        let denial =
            Denial { stage: Stage::Permission, code: ErrorCode::NotPermitted, reason: "no", count: 1 };
        let tool = ["read_file", "write_file", "bash", "git_log"][number as usize % 4];
        let denial = (number % 3 == 0).then_some(denial);
        log.append(&AuditEntry { tool, denial, ..allowed(id(number), &caller) }).unwrap();
    }
    place
}

fn found(place: &AuditFixture, filter: RecordFilter) -> Vec<u64> {
    query_records(&place.directory, filter).unwrap().map(|record| record.unwrap().seq - 1).collect()
}

#[test]
fn filters_agree_with_reading_everything() {
    let place = filled();
    let all = place.sound_records();
    let moments =
        [None, Some("2026-11-09T00:00:00Z"), Some("2026-11-12T10:00:00Z"), Some("2026-11-15T17:00:00Z")];
    let moment = |text: Option<&str>| text.map(|text| text.parse::<Timestamp>().unwrap());
    let mut checked = 0;
    for tool in [None, Some("bash"), Some("none")] {
        for caller in [None, Some("bob")] {
            for decision in [None, Some(Decision::Denied)] {
                for (since, until) in
                    moments.iter().flat_map(|since| moments.iter().map(move |until| (*since, *until)))
                {
                    for limit in [None, Some(3)] {
                        let filter = RecordFilter {
                            tool: tool.map(str::to_owned),
                            caller: caller.map(str::to_owned),
                            decision,
                            since: moment(since),
                            until: moment(until),
                            limit,
                            ..RecordFilter::default()
                        };
                        let mut expected: Vec<u64> = all
                            .iter()
                            .rev()
                            .filter(|record| filter.matches(record))
                            .map(|record| record.seq - 1)
                            .collect();
                        expected.truncate(limit.unwrap_or(usize::MAX));
                        checked += expected.len();
                        assert_eq!(found(&place, filter.clone()), expected, "{filter:?}");
                    }
                }
            }
        }
    }
    assert!(checked > 500);
}

#[test]
fn single_conditions() {
    let place = filled();
    let any = RecordFilter::default;
    assert_eq!(
        found(&place, RecordFilter { session: Some("s2".to_owned()), limit: Some(2), ..any() }),
        [59, 57]
    );
    assert_eq!(found(&place, RecordFilter { call: Some(id(7)), ..any() }), [7]);
    assert!(found(&place, RecordFilter { limit: Some(0), ..any() }).is_empty());
    let day = RecordFilter {
        since: "2026-11-12T00:00:00Z".parse().ok(),
        until: "2026-11-12T23:59:59Z".parse().ok(),
        ..any()
    };
    assert_eq!(found(&place, day), (20..30).rev().collect::<Vec<_>>());
}

#[test]
fn tail_is_in_the_order_of_writing() {
    let place = filled();
    let seqs: Vec<u64> = tail(&place.directory, 13).unwrap().iter().map(|record| record.seq).collect();
    assert_eq!(seqs, (48..=60).collect::<Vec<_>>());
    assert_eq!(tail(&place.directory, 1000).unwrap().len(), 60);
}

#[test]
fn only_the_files_that_are_needed_are_read() {
    let place = filled();
    std::fs::write(place.file("2026-11-10.jsonl"), "not a record\n").unwrap();
    assert_eq!(tail(&place.directory, 50).unwrap().len(), 50);
    let mut all = query_records(&place.directory, RecordFilter::default()).unwrap();
    assert!(all.by_ref().take(50).all(|record| record.is_ok()));
    assert!(matches!(all.next(), Some(Err(AuditError::Damaged { .. }))));
    assert!(all.next().is_none());
}

#[test]
fn a_damaged_or_unfinished_line_does_not_hide_the_others() {
    let place = filled();
    let path = place.file("2026-11-15.jsonl");
    let mut lines = place.lines("2026-11-15.jsonl");
    lines[4] = "not a record".to_owned();
    std::fs::write(&path, lines.join("\n") + "\n{\"seq\":61,").unwrap();
    let results: Vec<_> = query_records(&place.directory, RecordFilter::default()).unwrap().collect();
    assert_eq!((results.len(), results.iter().filter(|result| result.is_ok()).count()), (60, 59));
}

#[test]
fn a_missing_directory_is_an_error() {
    let error =
        query_records(std::path::Path::new("/nonexistent/audit"), RecordFilter::default()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::NotFound);
}
