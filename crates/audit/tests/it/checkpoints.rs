//! When checkpoints are signed, with which key, and where they go.

use std::sync::{Arc, Mutex};

use toolgate_audit::{AuditLog, AuditWarning, LogOptions, PublicKey, VerifyOptions, public_key_path, verify};

use crate::fixture::{AuditFixture, alice, allowed, id, verdict};

fn seqs(place: &AuditFixture) -> Vec<u64> {
    let lines = place.lines("checkpoints.jsonl").into_iter();
    lines
        .map(|line| serde_json::from_str::<serde_json::Value>(&line).unwrap()["seq"].as_u64().unwrap())
        .collect()
}

#[test]
fn every_so_many_records_and_at_the_end() {
    let place = AuditFixture::new();
    let (log, _) = AuditLog::open(
        LogOptions { checkpoint_every: 4, ..place.options() },
        &toolgate_types::StateKey::new([7; 32]),
    )
    .unwrap();
    for number in 1..=10 {
        log.append(&allowed(id(number), &alice())).unwrap().wait().unwrap();
    }
    log.close().unwrap();
    assert_eq!(seqs(&place), [4, 8, 10]);
    let report = place.verify();
    assert_eq!((report.checkpoints, report.records_after_checkpoint), (3, 0));
    // A log that appends nothing signs nothing.
    place.open().close().unwrap();
    assert_eq!(seqs(&place), [4, 8, 10]);
}

#[test]
fn a_dropped_log_signs_too() {
    let place = AuditFixture::new();
    drop(place.open().append(&allowed(id(1), &alice())).unwrap());
    assert_eq!(seqs(&place), [1]);
}

#[test]
fn they_and_the_key_can_be_kept_elsewhere() {
    let place = AuditFixture::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let options = LogOptions {
        checkpoints: Some(elsewhere.path().join("far/away.jsonl")),
        key: Some(elsewhere.path().join("secret/signing.key")),
        ..place.options()
    };
    let (log, _) = AuditLog::open(options.clone(), &toolgate_types::StateKey::new([7; 32])).unwrap();
    log.append(&allowed(id(1), &alice())).unwrap();
    log.close().unwrap();
    assert!(!place.file("checkpoints.jsonl").exists() && !place.file("../keys").exists());
    let trusted = vec![PublicKey::read(&public_key_path(&options.key_path())).unwrap()];
    let check = || {
        let checkpoints = Some(options.checkpoints_path());
        verify(
            &place.directory,
            &VerifyOptions { checkpoints, trusted: trusted.clone(), ..Default::default() },
        )
        .unwrap()
    };
    assert_eq!((verdict(&check()).as_str(), check().checkpoints), ("sound", 1));
    std::fs::write(place.file("2026-11-15.jsonl"), "").unwrap();
    assert_eq!(verdict(&check()), "2026-11-15.jsonl:1 cut");
}

#[test]
fn a_key_that_cannot_be_used_does_not_lose_records() {
    let place = AuditFixture::new();
    std::fs::create_dir_all(place.file("../keys")).unwrap();
    std::fs::write(place.file("../keys/audit.key"), "short").unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let listener = Arc::clone(&heard);
    let warn = Arc::new(move |warning: AuditWarning| listener.lock().unwrap().push(warning));
    let (log, _) = AuditLog::open(
        LogOptions { checkpoint_every: 2, warn, ..place.options() },
        &toolgate_types::StateKey::new([7; 32]),
    )
    .unwrap();
    for number in 1..=3 {
        log.append(&allowed(id(number), &alice())).unwrap().wait().unwrap();
    }
    let error = log.close().unwrap_err();
    assert!(matches!(error, toolgate_audit::AuditError::Key { .. }), "{error}");
    assert!(matches!(heard.lock().unwrap()[..], [AuditWarning::Checkpoint(_)]));
    assert_eq!(place.sound_records().len(), 3);
}

#[test]
fn an_unfinished_checkpoint_is_replaced() {
    let place = AuditFixture::new();
    place.open().append(&allowed(id(1), &alice())).unwrap();
    let path = place.file("checkpoints.jsonl");
    std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + "{\"seq\":2,\"ha").unwrap();
    place.open().append(&allowed(id(2), &alice())).unwrap();
    assert_eq!(seqs(&place), [1, 2]);
    assert_eq!(verdict(&place.verify()), "sound");
}
