//! Watching a log grow.

use std::fs;

use toolgate_audit::{Follower, Record};

use crate::fixture::{AuditFixture, alice, allowed, id};

fn seqs(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.seq).collect()
}

#[test]
fn nothing_is_missed_or_told_twice_across_midnights() {
    let place = AuditFixture::new();
    let log = place.open();
    let add = |number: u64| drop(log.append(&allowed(id(number), &alice())).unwrap());
    (1..=5).for_each(add);
    let (newest, mut follower) = Follower::start(&place.directory, 2).unwrap();
    assert_eq!(seqs(&newest), [4, 5]);
    assert!(follower.poll().unwrap().is_empty());
    (6..=7).for_each(add);
    assert_eq!(seqs(&follower.poll().unwrap()), [6, 7]);
    add(8);
    place.set_clock("2026-11-16T00:00:00Z");
    add(9);
    place.set_clock("2026-11-20T00:00:00Z");
    add(10);
    assert_eq!(seqs(&follower.poll().unwrap()), [8, 9, 10]);
    assert!(follower.poll().unwrap().is_empty());
    let (newest, _) = Follower::start(&place.directory, 100).unwrap();
    assert_eq!(seqs(&newest), (1..=10).collect::<Vec<_>>());
}

#[test]
fn an_empty_log_can_be_followed() {
    let place = AuditFixture::new();
    let log = place.open();
    let (newest, mut follower) = Follower::start(&place.directory, 10).unwrap();
    assert!(newest.is_empty() && follower.poll().unwrap().is_empty());
    log.append(&allowed(id(1), &alice())).unwrap();
    assert_eq!(seqs(&follower.poll().unwrap()), [1]);
}

#[test]
fn a_line_in_the_making_waits_until_it_is_whole() {
    let place = AuditFixture::new();
    let log = place.open();
    log.append(&allowed(id(1), &alice())).unwrap();
    log.append(&allowed(id(2), &alice())).unwrap();
    let path = place.file("2026-11-15.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    let first = whole.find('\n').unwrap() + 1;
    fs::write(&path, &whole[..first + 40]).unwrap();
    let (newest, mut follower) = Follower::start(&place.directory, 10).unwrap();
    assert_eq!(seqs(&newest), [1]);
    assert!(follower.poll().unwrap().is_empty());
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    assert!(follower.poll().unwrap().is_empty());
    fs::write(&path, &whole).unwrap();
    assert_eq!(seqs(&follower.poll().unwrap()), [2]);
}

#[test]
fn a_bad_line_is_told_once_and_passed() {
    let place = AuditFixture::new();
    let log = place.open();
    log.append(&allowed(id(1), &alice())).unwrap();
    let (_, mut follower) = Follower::start(&place.directory, 0).unwrap();
    log.append(&allowed(id(2), &alice())).unwrap();
    log.append(&allowed(id(3), &alice())).unwrap();
    let path = place.file("2026-11-15.jsonl");
    let mut lines = place.lines("2026-11-15.jsonl");
    lines.insert(2, "not a record".to_owned());
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    assert_eq!(seqs(&follower.poll().unwrap()), [2]);
    assert!(follower.poll().is_err());
    assert_eq!(seqs(&follower.poll().unwrap()), [3]);
}
