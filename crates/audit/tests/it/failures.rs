//! Directories that cannot be written, and full disks.

use std::fs;

use toolgate_audit::{AuditError, AuditLog, LogOptions};
use toolgate_types::ErrorCode;

use crate::child::{sayings, start_within};
use crate::fixture::{AuditFixture, alice, allowed, id};

fn open_error(options: LogOptions) -> AuditError {
    AuditLog::open(options, &toolgate_types::StateKey::new([7; 32])).unwrap_err()
}

#[test]
fn a_place_that_cannot_be_written_is_a_typed_error_with_a_remedy() {
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("file"), "").unwrap();
    let error = open_error(LogOptions::new(scratch.path().join("file")));
    assert_eq!(error.code(), ErrorCode::NotADirectory);
    let error = open_error(LogOptions::new(scratch.path().join("file/below")));
    assert_eq!(error.code(), ErrorCode::NotADirectory);
    // Not even root can create files there.
    let error = open_error(LogOptions::new("/proc/self/fdinfo"));
    assert!(matches!(error.code(), ErrorCode::PermissionDenied | ErrorCode::NotFound), "{error}");
    assert!(!error.help().is_empty() && error.to_string().contains("`/proc/self/fdinfo/lock`"), "{error}");
}

#[test]
fn something_else_in_the_place_of_a_file_is_not_followed() {
    let place = AuditFixture::new();
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("target");
    fs::create_dir_all(&place.directory).unwrap();
    std::os::unix::fs::symlink(&target, place.file("2026-11-15.jsonl")).unwrap();
    let error = open_error(place.options());
    assert_eq!(error.code(), ErrorCode::NotAFile, "{error}");
    assert!(!target.exists());
    fs::remove_file(place.file("2026-11-15.jsonl")).unwrap();
    fs::create_dir(place.file("2026-11-15.jsonl")).unwrap();
    assert_eq!(open_error(place.options()).code(), ErrorCode::NotAFile);
}

#[test]
fn a_log_that_ends_in_something_else_is_not_continued() {
    let place = AuditFixture::new();
    place.open().append(&allowed(id(1), &alice())).unwrap();
    let path = place.file("2026-11-15.jsonl");
    fs::write(&path, fs::read_to_string(&path).unwrap() + "nonsense\n").unwrap();
    let error = open_error(place.options());
    assert!(matches!(error, AuditError::Damaged { .. }), "{error}");
    assert!(error.help().contains("audit verify"));
}

#[test]
fn a_file_taken_away_under_an_open_log_leaves_a_gap_that_shows() {
    let place = AuditFixture::new();
    let log = place.open();
    log.append(&allowed(id(1), &alice())).unwrap();
    fs::rename(place.file("2026-11-15.jsonl"), place.file("taken")).unwrap();
    log.append(&allowed(id(2), &alice())).unwrap();
    log.close().unwrap();
    assert_eq!(crate::fixture::verdict(&place.verify()), "2026-11-15.jsonl:1 missing");
    // Rejoined, nothing is missing.
    let whole = fs::read_to_string(place.file("taken")).unwrap()
        + &fs::read_to_string(place.file("2026-11-15.jsonl")).unwrap();
    fs::write(place.file("2026-11-15.jsonl"), whole).unwrap();
    assert_eq!(place.sound_records().len(), 2);
}

/// `RLIMIT_FSIZE` in place of a full disk: the write that reaches it is short.
#[test]
fn a_full_disk_is_a_typed_error_and_leaves_no_half_line() {
    let place = AuditFixture::new();
    let prefix = ["sh", "-c", "trap '' XFSZ; ulimit -f 4; exec \"$0\" \"$@\""];
    let mut child = start_within(&prefix, "fill", &place.directory, 0);
    let said: Vec<String> = sayings(&mut child).collect();
    child.wait().unwrap();
    let done: Vec<&str> = said.iter().filter_map(|saying| saying.strip_prefix("did ")).collect();
    assert!(!done.is_empty() && done.len() < 10, "{said:?}");
    assert_eq!(said.len(), 100);
    assert!(said.iter().skip(done.len()).all(|saying| saying == "failed disk_full"), "{said:?}");
    let recorded: Vec<String> =
        place.sound_records().iter().map(|record| record.trace_id.to_string()).collect();
    assert_eq!(recorded, done);
    assert!(
        place
            .verify()
            .notes
            .iter()
            .all(|note| !matches!(note, toolgate_audit::VerifyNote::UnfinishedLine { .. }))
    );
    // The limit affects the records' file, not the count's.
    let missed = (said.len() - done.len()) as u64;
    assert_eq!(place.verify().calls_without_record(), missed);
    // With space again, the log continues.
    place.open().append(&allowed(id(1000), &alice())).unwrap();
    assert_eq!(place.sound_records().len(), done.len() + 2);
    assert_eq!(place.verify().calls_without_record(), missed);
}
