//! Calls that a dead process left.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use toolgate_audit::AuditLog;
use toolgate_types::{Decision, ErrorCode, Stage};

use crate::child::{sayings, start};
use crate::fixture::{AuditFixture, alice, allowed, id, intent};

const ANNOUNCED: u64 = 10;

/// A directory in which a process wrote intents, recorded every third call, and died.
fn after_a_death() -> AuditFixture {
    let place = AuditFixture::new();
    start("announce", &place.directory, ANNOUNCED).wait().unwrap();
    place
}

fn intent_files(place: &AuditFixture) -> Vec<String> {
    let names = fs::read_dir(place.file("intents")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains(".jsonl")).collect()
}

#[test]
fn each_call_without_a_record_gets_one() {
    let place = after_a_death();
    let (log, recovered) = AuditLog::open(
        toolgate_audit::LogOptions::new(&place.directory),
        &toolgate_types::StateKey::new([7; 32]),
    )
    .unwrap();
    assert_eq!(recovered.interrupted, (0..ANNOUNCED).filter(|n| n % 3 != 0).map(id).collect::<Vec<_>>());
    drop(log);
    let records = place.sound_records();
    assert_eq!(
        records.iter().map(|record| record.trace_id).collect::<BTreeSet<_>>(),
        (0..ANNOUNCED).map(id).collect()
    );
    let record = records.iter().find(|record| record.trace_id == id(1)).unwrap();
    let denial = record.denial.as_ref().unwrap();
    assert_eq!(
        (record.decision, denial.stage, denial.code),
        (Decision::Error, Stage::Execution, ErrorCode::Interrupted)
    );
    assert_eq!((record.tool.name.as_str(), record.caller.sub.as_str()), ("write_file", "alice"));
    assert_eq!(record.request.client_call_id.as_deref(), Some("call_7"));
    assert_eq!(record.details.as_ref().unwrap().paths, ["@project/a"]);
    assert!(intent_files(&place).is_empty());
    let (_, recovered) = AuditLog::open(
        toolgate_audit::LogOptions::new(&place.directory),
        &toolgate_types::StateKey::new([7; 32]),
    )
    .unwrap();
    assert!(recovered.interrupted.is_empty());
}

#[test]
fn a_recoverer_that_dies_adds_nothing_twice() {
    // The clock is read once when the log opens and once for each of the six records.
    for nth in 1..=7 {
        let place = after_a_death();
        start("recover", &place.directory, nth).wait().unwrap();
        assert_eq!(intent_files(&place).len(), 1, "the dead recoverer {nth} had not finished");
        drop(place.open());
        let calls: Vec<_> = place.sound_records().iter().map(|record| record.trace_id).collect();
        assert_eq!(
            (calls.len(), calls.into_iter().collect()),
            (10, (0..ANNOUNCED).map(id).collect::<BTreeSet<_>>())
        );
        assert!(intent_files(&place).is_empty());
    }
}

#[test]
fn recoverers_do_not_get_into_each_others_way() {
    let place = after_a_death();
    let children: Vec<_> = (0..6).map(|_| start("recover", &place.directory, 0)).collect();
    let mut recovered = 0;
    for mut child in children {
        recovered += sayings(&mut child)
            .map(|saying| saying.strip_prefix("recovered ").unwrap().parse::<u64>().unwrap())
            .sum::<u64>();
        assert!(child.wait().unwrap().success());
    }
    assert_eq!((recovered, place.sound_records().len()), (6, 10));
}

#[test]
fn what_a_living_process_intends_is_left_alone() {
    let place = AuditFixture::new();
    let log = place.open();
    log.intent(&intent(id(1), &alice())).unwrap().wait().unwrap();
    let (other, recovered) =
        AuditLog::open(place.options(), &toolgate_types::StateKey::new([7; 32])).unwrap();
    assert!(recovered.interrupted.is_empty());
    drop(other);
    assert_eq!(intent_files(&place).len(), 1);
    log.append(&allowed(id(1), &alice())).unwrap();
    log.close().unwrap();
    assert!(intent_files(&place).is_empty());
    assert_eq!(place.sound_records().len(), 1);
}

#[test]
fn a_log_that_is_closed_too_early_leaves_its_intents_to_the_next() {
    let place = AuditFixture::new();
    let log = place.open();
    log.intent(&intent(id(1), &alice())).unwrap();
    log.intent(&intent(id(2), &alice())).unwrap();
    log.append(&allowed(id(1), &alice())).unwrap();
    log.close().unwrap();
    let (_, recovered) = AuditLog::open(place.options(), &toolgate_types::StateKey::new([7; 32])).unwrap();
    assert_eq!(recovered.interrupted, [id(2)]);
    assert_eq!(place.sound_records().len(), 2);
}

/// Closes the log, but leaves its intents as if the process had died before removing them.
fn die(place: &AuditFixture, log: AuditLog) {
    let path = place.file("intents").join(intent_files(place).remove(0));
    let kept = fs::read(&path).unwrap();
    log.close().unwrap();
    fs::write(&path, kept).unwrap();
}

#[test]
fn records_of_the_same_day_and_of_later_days_are_found() {
    let place = AuditFixture::new();
    let log = place.open();
    log.append(&allowed(id(9), &alice())).unwrap();
    log.intent(&intent(id(1), &alice())).unwrap();
    log.intent(&intent(id(2), &alice())).unwrap();
    log.append(&allowed(id(1), &alice())).unwrap();
    place.set_clock("2026-11-16T00:00:01Z");
    log.append(&allowed(id(2), &alice())).unwrap();
    die(&place, log);
    assert!(
        AuditLog::open(place.options(), &toolgate_types::StateKey::new([7; 32]))
            .unwrap()
            .1
            .interrupted
            .is_empty()
    );
    assert_eq!(place.sound_records().len(), 3);
}

#[test]
fn a_record_is_found_even_if_the_clock_stepped_back_behind_the_intent() {
    let place = AuditFixture::new();
    let log = place.open();
    place.set_clock("2026-11-18T00:00:01Z");
    log.intent(&intent(id(1), &alice())).unwrap();
    place.set_clock("2026-11-15T00:00:01Z");
    log.append(&allowed(id(1), &alice())).unwrap();
    die(&place, log);
    assert!(
        AuditLog::open(place.options(), &toolgate_types::StateKey::new([7; 32]))
            .unwrap()
            .1
            .interrupted
            .is_empty()
    );
    assert_eq!(place.sound_records().len(), 1);
}

#[test]
fn an_unfinished_intent_never_began_and_a_damaged_one_is_kept() {
    let place = AuditFixture::new();
    let log = place.open();
    log.intent(&intent(id(1), &alice())).unwrap();
    let name = intent_files(&place).remove(0);
    let line = place.lines(&format!("intents/{name}")).remove(0);
    log.append(&allowed(id(1), &alice())).unwrap();
    log.close().unwrap();
    let other = line.replace(&id(1).to_string(), &id(2).to_string());
    let begun = format!("{}\0\0", &other[..50]);
    let ended = "\0\0\"}\n\0\0";
    for (number, after) in [(2, ""), (4, &other[..50]), (5, "\0\0\0\0"), (6, &*begun), (7, ended)] {
        let other = line.replace(&id(1).to_string(), &id(number).to_string());
        fs::write(place.file("intents/a.jsonl"), format!("{other}\n{after}")).unwrap();
        let (_, recovered) =
            AuditLog::open(place.options(), &toolgate_types::StateKey::new([7; 32])).unwrap();
        assert_eq!((recovered.interrupted, recovered.damaged.len()), (vec![id(number)], 0));
    }
    for (number, before) in [(3, "nonsense"), (8, "\0\0\"}")] {
        let after = line.replace(&id(1).to_string(), &id(number).to_string());
        fs::write(place.file("intents/b.jsonl"), format!("{before}\n{after}\n")).unwrap();
        let (_, recovered) =
            AuditLog::open(place.options(), &toolgate_types::StateKey::new([7; 32])).unwrap();
        assert_eq!(recovered.interrupted, [id(number)]);
        assert_eq!(recovered.damaged, [place.file("intents/b.jsonl.damaged")]);
        assert_eq!(intent_files(&place), ["b.jsonl.damaged"]);
    }
    let (_, recovered) = AuditLog::open(place.options(), &toolgate_types::StateKey::new([7; 32])).unwrap();
    assert_eq!(recovered, toolgate_audit::AuditRecovery::default());
}

/// How many files below a directory this process has open, including removed ones.
fn open_in(folder: &Path) -> usize {
    let open = fs::read_dir("/proc/self/fd").unwrap();
    let paths = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    paths.filter(|path| path.starts_with(folder) && path.to_string_lossy().contains(".jsonl")).count()
}

#[test]
fn many_intents_do_not_pile_up() {
    let place = AuditFixture::new();
    let log = place.open();
    let caller = alice();
    log.intent(&intent(id(0), &caller)).unwrap();
    for number in 1..=20_000 {
        log.intent(&intent(id(number), &caller)).unwrap();
        let ticket = log.append(&allowed(id(number), &caller)).unwrap();
        if number % 1000 == 0 {
            ticket.wait().unwrap();
        }
    }
    // No ticket is waited for here, and the handles of removed files are closed all the same.
    assert_eq!(open_in(&place.file("intents")), intent_files(&place).len());
    let sizes: Vec<u64> = intent_files(&place)
        .iter()
        .map(|name| fs::metadata(place.file("intents").join(name)).unwrap().len())
        .collect();
    // The first one stays for the call that has not ended.
    assert!(sizes.len() <= 3 && sizes.iter().all(|size| *size < 1_120_000), "{sizes:?}");
    log.append(&allowed(id(0), &caller)).unwrap();
    log.close().unwrap();
    assert!(intent_files(&place).is_empty());
}

#[test]
fn an_unfinished_record_is_removed_and_told() {
    let place = AuditFixture::new();
    place.open().append(&allowed(id(1), &alice())).unwrap();
    let path = place.file("2026-11-15.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{whole}{}", &whole[..100])).unwrap();
    let (log, recovered) = AuditLog::open(place.options(), &toolgate_types::StateKey::new([7; 32])).unwrap();
    assert_eq!(recovered.truncated_bytes, 100);
    assert_eq!(fs::read_to_string(&path).unwrap(), whole);
    // Also when it appears while the log is open.
    fs::write(&path, format!("{whole}{}", &whole[..77])).unwrap();
    log.append(&allowed(id(2), &alice())).unwrap();
    assert_eq!(place.sound_records().len(), 2);
}
