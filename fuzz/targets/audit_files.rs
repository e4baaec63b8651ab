//! Any bytes as an audit log: verified and queried without a panic.
#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;
use toolgate_audit::{RecordFilter, VerifyOptions, query_records, verify};

fuzz_target!(|input: (&[u8], &[u8])| {
    let (records, checkpoints) = input;
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    fs::write(folder.path().join("2026-11-15.jsonl"), records).unwrap();
    fs::write(folder.path().join("checkpoints.jsonl"), checkpoints).unwrap();
    let _ = verify(folder.path(), &VerifyOptions::default());
    if let Ok(records) = query_records(folder.path(), RecordFilter::default()) {
        records.take(100).for_each(drop);
    }
});
