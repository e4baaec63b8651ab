//! Calls that could not be recorded, locks that are held, and logs that are not the ones that were signed.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use toolgate_audit::{AuditError, AuditLog, AuditRecovery, LogOptions, VerifyOptions, verify};
use toolgate_types::{ErrorCode, StateKey};

use crate::fixture::{AuditFixture, alice, allowed, id, intent};

const TODAY: &str = "2026-11-15.jsonl";

/// Nothing can be written during `work`.
fn without_writing(place: &AuditFixture, work: impl FnOnce()) {
    fs::rename(place.file(TODAY), place.file("aside")).unwrap();
    fs::create_dir(place.file(TODAY)).unwrap();
    work();
    fs::remove_dir(place.file(TODAY)).unwrap();
    fs::rename(place.file("aside"), place.file(TODAY)).unwrap();
}

fn reopened(options: LogOptions) -> Result<AuditRecovery, AuditError> {
    AuditLog::open(options, &StateKey::new([7; 32])).map(|(_, recovered)| recovered)
}

#[test]
fn calls_without_a_record_are_counted_in_the_record() {
    let place = AuditFixture::new();
    let (log, caller) = (place.open(), alice());
    log.append(&allowed(id(1), &caller)).unwrap();
    // A call with an intent is recorded by the next start, so it is not counted.
    log.intent(&intent(id(9), &caller)).unwrap().wait().unwrap();
    without_writing(&place, || {
        for call in [2, 3, 9] {
            log.append(&allowed(id(call), &caller)).unwrap_err();
        }
        place.set_clock("2026-11-15T12:05:00Z");
        log.submit(&allowed(id(4), &caller)).unwrap().wait().unwrap_err();
    });
    place.set_clock("2026-11-15T12:10:00Z");
    log.append(&allowed(id(5), &caller)).unwrap();
    log.close().unwrap();
    assert_eq!(reopened(place.options()).unwrap().interrupted, [id(9)]);
    let records = place.sound_records();
    let gaps: Vec<_> = records.iter().filter_map(|record| record.gap).collect();
    assert_eq!(gaps.iter().map(|gap| gap.calls).collect::<Vec<_>>(), [Some(3)], "{records:?}");
    assert_eq!(records[1].gap, Some(gaps[0]), "it comes before the next record of a call");
    let denial = records[1].denial.as_ref().unwrap();
    assert!(
        denial.reason.starts_with("3 calls have no record since 2026-11-15T12:00:00.000Z: "),
        "{denial:?}"
    );
    let report = place.verify();
    assert_eq!((report.calls_without_record(), report.gaps.len()), (3, 1));
    let said = report.gaps[0].to_string();
    assert_eq!(said, "3 calls have no record, since 2026-11-15T12:00:00.000Z until 2026-11-15T12:10:00.000Z");
}

#[test]
fn a_gap_that_lasts_to_the_end_is_recorded_when_the_log_is_closed() {
    let place = AuditFixture::new();
    let (log, caller) = (place.open(), alice());
    log.append(&allowed(id(1), &caller)).unwrap();
    without_writing(&place, || _ = log.append(&allowed(id(2), &caller)).unwrap_err());
    log.close().unwrap();
    assert_eq!(place.verify().calls_without_record(), 1);
}

/// The files with the counts of calls without a record.
fn count_files(place: &AuditFixture) -> Vec<PathBuf> {
    let paths = fs::read_dir(place.file("intents")).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|ending| ending == "missed")).collect()
}

#[test]
fn a_gap_is_recorded_once_also_where_its_count_outlasts_its_process() {
    let place = AuditFixture::new();
    let (log, caller) = (place.open(), alice());
    log.append(&allowed(id(1), &caller)).unwrap();
    without_writing(&place, || _ = log.append(&allowed(id(2), &caller)).unwrap_err());
    let files = count_files(&place);
    let counted = fs::read(&files[0]).unwrap();
    assert_eq!((files.len(), counted.len()), (1, 512));
    // As after a kill: once before the gap was recorded, once after.
    log.append(&allowed(id(3), &caller)).unwrap();
    assert_eq!(fs::read(&files[0]).unwrap(), counted);
    log.close().unwrap();
    assert_eq!(count_files(&place), Vec::<PathBuf>::new());
    fs::write(&files[0], &counted).unwrap();
    for _ in 0..2 {
        assert_eq!(place.verify().calls_without_record(), 1);
        assert_eq!(reopened(place.options()).unwrap(), AuditRecovery::default());
        assert_eq!((count_files(&place), place.sound_records().len()), (Vec::new(), 3));
    }
    // One whose gap is in no record, and two that no gate of this version wrote.
    let text = String::from_utf8(counted).unwrap();
    let other = text.replacen("\"calls\":1", "\"calls\":5", 1).replacen("\"id\":\"0", "\"id\":\"1", 1);
    fs::write(&files[0], &other).unwrap();
    fs::write(place.file("intents/newer.missed"), text.replacen("\"v\":1", "\"v\":9", 1)).unwrap();
    fs::File::create(place.file("intents/huge.missed")).unwrap().set_len(1 << 43).unwrap();
    assert_eq!(place.verify().calls_without_record(), 6);
    let recovered = reopened(place.options()).unwrap();
    assert_eq!((recovered.calls_without_record, recovered.damaged.len()), (5, 2));
    assert_eq!((place.verify().calls_without_record(), place.sound_records().len()), (6, 4));
}

#[test]
fn a_call_that_cannot_be_counted_either_is_said_to_leave_no_trace() {
    let place = AuditFixture::new();
    let (log, caller) = (place.open(), alice());
    log.append(&allowed(id(9), &caller)).unwrap();
    without_writing(&place, || {
        let error = log.append(&allowed(id(1), &caller)).unwrap_err();
        assert!(matches!(error, AuditError::Io { .. }), "{error}");
        fs::remove_dir_all(place.file("intents")).unwrap();
        fs::write(place.file("intents"), "").unwrap();
        for _ in 0..2 {
            let error = log.append(&allowed(id(2), &caller)).unwrap_err();
            assert!(matches!(error, AuditError::Untraced { .. }), "{error}");
            assert!(!error.help().is_empty());
        }
        fs::remove_file(place.file("intents")).unwrap();
        // A new file is created as soon as possible, with the whole count.
        let error = log.append(&allowed(id(3), &caller)).unwrap_err();
        assert!(matches!(error, AuditError::Io { .. }), "{error}");
    });
    assert_eq!(place.verify().calls_without_record(), 4);
    log.close().unwrap();
    assert_eq!(place.verify().calls_without_record(), 4);
}

#[test]
fn a_caller_cannot_make_a_gap_by_asking_for_its_tool() {
    let place = AuditFixture::new();
    let (log, caller) = (place.open(), alice());
    log.append(&toolgate_audit::AuditEntry { tool: "audit_gap", ..allowed(id(1), &caller) }).unwrap();
    log.close().unwrap();
    assert_eq!(place.verify().gaps, []);
}

#[test]
fn a_held_lock_is_waited_for_once_and_its_holder_is_named() {
    let place = AuditFixture::new();
    let caller = alice();
    let options = LogOptions { lock_timeout: Duration::from_millis(50), ..place.options() };
    let (log, _) = AuditLog::open(options.clone(), &StateKey::new([7; 32])).unwrap();
    log.append(&allowed(id(1), &caller)).unwrap();
    let lock = fs::File::open(place.file("lock")).unwrap();
    lock.lock().unwrap();
    let own = format!("is locked by process {} (", std::process::id());
    for call in [2, 3] {
        let error = log.append(&allowed(id(call), &caller)).unwrap_err();
        assert!(matches!(error, AuditError::Busy { .. }) && error.to_string().contains(&own), "{error}");
        assert_eq!((error.code(), error.help().is_empty()), (ErrorCode::Timeout, false));
    }
    assert!(matches!(log.intent(&intent(id(4), &caller)), Err(AuditError::Busy { .. })));
    assert!(matches!(reopened(options), Err(AuditError::Busy { .. })));
    lock.unlock().unwrap();
    log.append(&allowed(id(5), &caller)).unwrap();
    log.close().unwrap();
    assert_eq!(place.verify().calls_without_record(), 2);
}

/// A closed log of four records.
fn four_records() -> AuditFixture {
    let place = AuditFixture::new();
    let (log, caller) = (place.open(), alice());
    for call in 1..=4 {
        log.append(&allowed(id(call), &caller)).unwrap();
    }
    log.close().unwrap();
    place
}

fn signed_file(place: &AuditFixture) -> PathBuf {
    let keys = place.directory.parent().unwrap().join("keys");
    let mut names = fs::read_dir(keys).unwrap().map(|entry| entry.unwrap().path());
    names.find(|path| path.extension().is_some_and(|ending| ending == "signed")).unwrap()
}

#[test]
fn a_log_that_contradicts_what_was_signed_is_not_continued() {
    type Attack = fn(&AuditFixture, &[String]);
    let write = |place: &AuditFixture, lines: &[String]| {
        fs::write(place.file(TODAY), lines.iter().map(|line| format!("{line}\n")).collect::<String>())
            .unwrap();
    };
    let attacks: [(&str, Attack); 5] = [
        ("cut", |place, lines| fs::write(place.file(TODAY), lines[..3].join("\n") + "\n").unwrap()),
        ("cut, with its checkpoints", |place, lines| {
            fs::write(place.file(TODAY), lines[..3].join("\n") + "\n").unwrap();
            fs::remove_file(place.file("checkpoints.jsonl")).unwrap();
        }),
        ("taken away", |place, _| fs::remove_file(place.file(TODAY)).unwrap()),
        ("another directory in its place", |place, _| {
            fs::remove_dir_all(&place.directory).unwrap();
            fs::create_dir(&place.directory).unwrap();
        }),
        ("rewritten, and continued", |place, _| {
            let other = AuditFixture::new();
            let (log, caller) = (other.open(), alice());
            (11..=16).for_each(|call| _ = log.append(&allowed(id(call), &caller)).unwrap());
            drop(log);
            fs::copy(other.file(TODAY), place.file(TODAY)).unwrap();
        }),
    ];
    for (name, attack) in attacks {
        let place = four_records();
        let lines = place.lines(TODAY);
        attack(&place, &lines);
        let error = reopened(place.options()).expect_err(name);
        assert!(matches!(error, AuditError::Contradiction { .. }), "{name}: {error}");
        // What every start refuses, `verify` finds too.
        let options = VerifyOptions { key: Some(place.options().key_path()), ..VerifyOptions::default() };
        let found = verify(&place.directory, &options).unwrap().problem;
        assert!(found.is_some(), "{name}");
        if name == "cut, with its checkpoints" || name == "another directory in its place" {
            let (found, note) = (found.unwrap(), signed_file(&place));
            assert_eq!(found.kind.as_str(), "contradicts_signed", "{name}: {found}");
            let said = found.to_string();
            assert!(
                said.contains("record 4 was signed") && said.contains(note.to_str().unwrap()),
                "{name}: {said}"
            );
            // Without a day file, the directory is named.
            let is_empty = name == "another directory in its place";
            let named = format!("`{}`:", place.directory.display());
            assert_eq!(said.starts_with(&named), is_empty, "{name}: {said}");
        }
        assert!(
            error.help().contains("audit verify") && error.to_string().contains("record 4"),
            "{name}: {error}"
        );
        // Restored, it continues.
        fs::create_dir_all(&place.directory).unwrap();
        write(&place, &lines);
        reopened(place.options()).unwrap();
        // With both moved aside, a new log starts.
        fs::remove_dir_all(&place.directory).unwrap();
        fs::remove_file(signed_file(&place)).unwrap();
        reopened(place.options()).unwrap();
    }
    let place = four_records();
    reopened(place.options()).unwrap();
    fs::write(signed_file(&place), "{\"v\":9,\"seq\":4}").unwrap();
    assert!(matches!(reopened(place.options()), Err(AuditError::Damaged { .. })));
}

/// Another path to the same directory must not bypass the comparison with the last signed record.
#[test]
fn a_symlink_to_the_directory_is_compared_with_what_was_signed_there() {
    let place = four_records();
    let lines = place.lines(TODAY);
    let link = place.directory.with_file_name("link");
    std::os::unix::fs::symlink(&place.directory, &link).unwrap();
    let through_link =
        || LogOptions { directory: link.clone(), key: Some(place.options().key_path()), ..place.options() };
    reopened(through_link()).unwrap();
    fs::write(place.file(TODAY), lines[..3].join("\n") + "\n").unwrap();
    fs::remove_file(place.file("checkpoints.jsonl")).unwrap();
    assert!(matches!(reopened(through_link()), Err(AuditError::Contradiction { .. })));
}

/// What a gate signs when it closes must not contradict the log that the next one starts.
#[test]
fn a_directory_that_was_deleted_while_a_log_was_open_begins_anew() {
    let place = AuditFixture::new();
    let (log, caller) = (place.open(), alice());
    (1..=3).for_each(|call| _ = log.append(&allowed(id(call), &caller)).unwrap());
    let state = place.directory.parent().unwrap();
    fs::remove_dir_all(state).unwrap();
    log.append(&allowed(id(4), &caller)).unwrap_err();
    log.close().unwrap_err();
    assert!(!state.exists(), "what was deleted stays deleted");
    reopened(place.options()).unwrap();
    assert_eq!(place.sound_records().len(), 0);
}

#[test]
fn a_checkpoint_between_records_is_compared_with_its_own() {
    let place = AuditFixture::new();
    let caller = alice();
    let options = || LogOptions { checkpoint_every: 3, ..place.options() };
    let (log, _) = AuditLog::open(options(), &StateKey::new([7; 32])).unwrap();
    for call in 1..=5 {
        log.append(&allowed(id(call), &caller)).unwrap().wait().unwrap();
    }
    // Not closed: the newest checkpoint is of record 3.
    std::mem::forget(log);
    reopened(options()).unwrap();
}

#[test]
fn state_of_another_version_is_not_obeyed_and_not_continued() {
    let place = four_records();
    let newer = place.lines(TODAY)[3].replacen("{\"v\":2,", "{\"v\":9,", 1);
    let lines = place.lines(TODAY)[..3].join("\n") + "\n" + &newer + "\n";
    fs::write(place.file(TODAY), &lines).unwrap();
    let error = reopened(place.options()).unwrap_err();
    assert!(
        matches!(&error, AuditError::Damaged { .. }) && error.to_string().contains("version 9"),
        "{error}"
    );
    assert_eq!(fs::read_to_string(place.file(TODAY)).unwrap(), lines);

    let place = four_records();
    fs::create_dir_all(place.file("intents")).unwrap();
    let line = r#"{"v":9,"call":"01931b2c-0000-7000-8000-000000000063","at":"2026-11-15T12:00:00.000Z","caller":{"sub":"a","permissions":[],"session":"s"},"tool":{"name":"t"},"request":{"argsHash":"0000000000000000000000000000000000000000000000000000000000000000"}}"#;
    fs::write(place.file("intents/newer.jsonl"), format!("{line}\n")).unwrap();
    let recovered = reopened(place.options()).unwrap();
    assert_eq!((recovered.interrupted, recovered.damaged.len()), (vec![], 1));
    assert_eq!(place.sound_records().len(), 4);
    // A line without a version is of the first.
    fs::write(place.file("intents/first.jsonl"), format!("{line}\n").replace("\"v\":9,", "")).unwrap();
    assert_eq!(reopened(place.options()).unwrap().interrupted, [id(0x63)]);
}

#[test]
fn a_huge_sparse_file_of_intents_is_kept_aside_and_not_read() {
    let place = four_records();
    fs::create_dir_all(place.file("intents")).unwrap();
    fs::File::create(place.file("intents/huge.jsonl")).unwrap().set_len(1 << 43).unwrap();
    let recovered = reopened(place.options()).unwrap();
    assert_eq!(recovered.damaged, [place.file("intents/huge.jsonl.damaged")]);
    assert_eq!(reopened(place.options()).unwrap(), AuditRecovery::default());
}

/// An attacker who has the log and guesses short arguments must not be able to confirm a guess.
#[test]
fn digests_cannot_be_guessed_without_the_key() {
    let place = AuditFixture::new();
    let (log, caller) = (place.open(), alice());
    log.append(&allowed(id(1), &caller)).unwrap();
    log.close().unwrap();
    let recorded = place.sound_records()[0].request.args_hash;
    let plain = allowed(id(1), &caller).args_hash;
    assert_ne!(recorded, plain);
    assert_eq!(recorded, toolgate_audit::args_digest(&StateKey::new([7; 32]), plain));
    assert_ne!(recorded, toolgate_audit::args_digest(&StateKey::new([8; 32]), plain));
}

#[test]
fn a_group_that_cannot_be_written_counts_each_of_its_calls() {
    let place = AuditFixture::new();
    let (log, caller) = (place.open(), alice());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    log.append(&allowed(id(1), &caller)).unwrap();
    without_writing(&place, || {
        let group: Vec<_> =
            (2..5).map(|call| log.append_grouped(&allowed(id(call), &caller)).unwrap()).collect();
        group.into_iter().for_each(|write| _ = runtime.block_on(write).unwrap_err());
        drop(log.append_grouped(&allowed(id(5), &caller)).unwrap());
    });
    runtime.block_on(log.append_grouped(&allowed(id(6), &caller)).unwrap()).unwrap();
    log.close().unwrap();
    assert_eq!((place.verify().calls_without_record(), place.sound_records().len()), (4, 3));
}
