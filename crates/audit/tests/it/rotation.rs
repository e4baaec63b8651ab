//! Midnight, and clocks that step.

use crate::fixture::verdict;
use crate::fixture::{AuditFixture, alice, allowed, id};
use toolgate_audit::{ChainStart, VerifyNote, VerifyOptions, verify};

fn seqs(place: &AuditFixture, name: &str) -> Vec<u64> {
    let records =
        place.lines(name).into_iter().map(|line| serde_json::from_str::<serde_json::Value>(&line).unwrap());
    records.map(|record| record["seq"].as_u64().unwrap()).collect()
}

#[test]
fn a_new_day_is_a_new_file_in_the_same_chain() {
    let place = AuditFixture::new();
    let log = place.open();
    let moments = [
        "2026-11-15T23:59:59.998Z",
        "2026-11-15T23:59:59.999Z",
        "2026-11-16T00:00:00.000Z",
        "2026-11-19T08:00:00Z",
    ];
    for (number, moment) in moments.iter().enumerate() {
        place.set_clock(moment);
        log.append(&allowed(id(number as u64), &alice())).unwrap();
    }
    log.close().unwrap();
    assert_eq!(seqs(&place, "2026-11-15.jsonl"), [1, 2]);
    assert_eq!(seqs(&place, "2026-11-16.jsonl"), [3]);
    assert_eq!(seqs(&place, "2026-11-19.jsonl"), [4]);
    let report = place.verify();
    assert_eq!((verdict(&report).as_str(), report.records, report.days), ("sound", 4, 3));
    // One at each of the two rotations, one at the end.
    assert_eq!((report.checkpoints, report.records_after_checkpoint), (3, 0));
}

#[test]
fn a_clock_that_steps_back_keeps_the_newer_file() {
    let place = AuditFixture::new();
    let (one, two) = (place.open(), place.open());
    two.append(&allowed(id(1), &alice())).unwrap();
    place.set_clock("2026-11-16T00:00:01Z");
    one.append(&allowed(id(2), &alice())).unwrap();
    place.set_clock("2026-11-15T23:59:00Z");
    // One that saw the rotation, one that has the old file open, one that was just opened.
    one.append(&allowed(id(3), &alice())).unwrap();
    two.append(&allowed(id(4), &alice())).unwrap();
    place.open().append(&allowed(id(5), &alice())).unwrap();
    place.set_clock("2026-11-16T00:00:02Z");
    two.append(&allowed(id(6), &alice())).unwrap();
    assert_eq!(seqs(&place, "2026-11-15.jsonl"), [1]);
    assert_eq!(seqs(&place, "2026-11-16.jsonl"), [2, 3, 4, 5, 6]);
    assert_eq!(place.sound_records().len(), 6);
}

#[test]
fn the_note_of_the_newest_day_is_only_a_hint() {
    let place = AuditFixture::new();
    place.open().append(&allowed(id(1), &alice())).unwrap();
    place.set_clock("2026-11-17T00:00:00Z");
    place.open().append(&allowed(id(2), &alice())).unwrap();
    for note in ["", "garbage\n", "2026-11-15\n", "2026-11-16\n", "2031-01-01\n", "\u{0}\u{0}"] {
        std::fs::write(place.file("lock"), note).unwrap();
        let number = place.sound_records().len() as u64 + 1;
        place.open().append(&allowed(id(number), &alice())).unwrap();
        assert_eq!(place.sound_records().last().unwrap().seq, number, "{note}");
    }
    assert_eq!(seqs(&place, "2026-11-17.jsonl").len(), 7);
}

#[test]
fn an_empty_file_of_today_does_not_break_the_chain() {
    let place = AuditFixture::new();
    place.open().append(&allowed(id(1), &alice())).unwrap();
    place.set_clock("2026-11-16T00:00:00Z");
    std::fs::write(place.file("2026-11-16.jsonl"), "").unwrap();
    place.open().append(&allowed(id(2), &alice())).unwrap();
    assert_eq!(place.sound_records().len(), 2);
}

#[test]
fn archived_days_are_noticed_and_may_be_allowed() {
    let place = AuditFixture::new();
    let log = place.open();
    for day in 1..=4 {
        place.set_clock(&format!("2026-11-{day:02}T12:00:00Z"));
        log.append(&allowed(id(day), &alice())).unwrap();
    }
    log.close().unwrap();
    std::fs::remove_file(place.file("2026-11-01.jsonl")).unwrap();
    std::fs::remove_file(place.file("2026-11-02.jsonl")).unwrap();
    assert_eq!(verdict(&place.verify()), "2026-11-01.jsonl:1 day_missing");
    let archived = VerifyOptions { start: ChainStart::Checkpoint, ..VerifyOptions::default() };
    let report = verify(&place.directory, &archived).unwrap();
    assert_eq!((verdict(&report).as_str(), report.records), ("sound", 2));
    assert!(report.notes.contains(&VerifyNote::BeginsAtCheckpoint { seq: 3 }));
    // Without the first remaining line, no checkpoint directly precedes the rest.
    let kept = place.lines("2026-11-03.jsonl");
    std::fs::write(place.file("2026-11-03.jsonl"), "").unwrap();
    let report = verify(&place.directory, &archived).unwrap();
    assert_eq!(
        verdict(&report),
        "sound",
        "the checkpoint at the end of that day vouches for its last record"
    );
    std::fs::write(place.file("2026-11-03.jsonl"), kept.join("\n") + "\n").unwrap();
    std::fs::remove_file(place.file("checkpoints.jsonl")).unwrap();
    let report = verify(&place.directory, &archived).unwrap();
    assert_eq!(verdict(&report), "2026-11-03.jsonl:1 missing");
}
