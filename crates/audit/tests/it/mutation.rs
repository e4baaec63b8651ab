//! Any byte of the day files changed to any other: `verify` names the line of that byte.

use std::path::PathBuf;
use std::sync::OnceLock;

use proptest::prelude::*;
use toolgate_audit::{AuditEntry, Denial, VerifyOptions, verify};
use toolgate_types::{ErrorCode, Stage};

use crate::fixture::{AuditFixture, alice, allowed, id, verdict};

struct Log {
    _place: AuditFixture,
    directory: PathBuf,
    files: Vec<(&'static str, Vec<u8>)>,
    others: Vec<(&'static str, Vec<u8>)>,
}

fn log() -> &'static Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    LOG.get_or_init(|| {
        let place = AuditFixture::new();
        let log = place.open();
        for number in 0..12 {
            place.set_clock(if number < 7 { "2026-11-15T12:00:00Z" } else { "2026-11-16T00:00:00Z" });
            let denial = Denial {
                stage: Stage::Auth,
                code: ErrorCode::Unauthenticated,
                reason: "no \"token\" — é",
                count: 1,
            };
            let denial = (number % 3 == 0).then_some(denial);
            log.append(&AuditEntry { denial, ..allowed(id(number), &alice()) }).unwrap();
        }
        log.close().unwrap();
        let read = |name: &'static str| (name, std::fs::read(place.file(name)).unwrap());
        let files = vec![read("2026-11-15.jsonl"), read("2026-11-16.jsonl")];
        let others = vec![read("checkpoints.jsonl")];
        Log { directory: place.directory.clone(), _place: place, files, others }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn a_changed_byte_is_found_in_its_line(place in any::<prop::sample::Index>(), flip in 1u8..=255) {
        let log = log();
        let total: usize = log.files.iter().map(|(_, bytes)| bytes.len()).sum();
        let mut offset = place.index(total);
        let scratch = tempfile::tempdir_in(&log.directory).unwrap();
        let mut expected = String::new();
        for (name, bytes) in log.files.iter().chain(&log.others) {
            let mut bytes = bytes.clone();
            if expected.is_empty() && offset < bytes.len() {
                let line = bytes[..offset].iter().filter(|byte| **byte == b'\n').count() + 1;
                bytes[offset] ^= flip;
                expected = format!("{name}:{line} ");
            } else if expected.is_empty() {
                offset -= bytes.len();
            }
            std::fs::write(scratch.path().join(name), bytes).unwrap();
        }
        let found = verdict(&verify(scratch.path(), &VerifyOptions::default()).unwrap());
        prop_assert!(found.starts_with(&expected), "expected {expected}, found {found}");
    }
}
