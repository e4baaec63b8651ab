//! Gates with `on_failure: warn` that go on reading when they cannot audit: a second gate, a new day, a held lock. Every answered call has a record
//! or is counted as one without.

use std::io::BufRead as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use toolgate_attack::{Bench, BenchOptions, code_of};
use toolgate_gate::AuditMode;
use toolgate_tools::Profile;
use toolgate_types::ErrorCode;

use crate::disk::fill;
use crate::record::{disk, options, records, report};

/// More calls than any reserve lasts for.
const MANY: u64 = 20_000;
/// The number of calls that space is reserved for.
const RESERVED: u64 = 40;

/// The results of reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reads {
    answered: u64,
    refused: u64,
}

impl Reads {
    fn read(&mut self, bench: &Bench) {
        let called = bench.call("read_file", json!({"path": "a.txt"}));
        match code_of(&called) {
            None => self.answered += 1,
            Some(code) => {
                assert_eq!(code, ErrorCode::AuditUnavailable, "{}", called.answer.text);
                self.refused += 1;
            }
        }
    }

    /// Reads until no record can be written, and ten times more.
    fn until_missed(&mut self, bench: &Bench) {
        let mut missed = 0;
        for _ in 0..MANY {
            self.read(bench);
            missed += u64::from(!bench.complaints().is_empty());
            if missed > 10 {
                return;
            }
        }
        panic!("{MANY} reads were recorded on a full disk");
    }
}

/// Holds while the disk is full, and if every gate were killed now.
fn every_answer_has_a_trace(disk: &Path, bench: &Bench, reads: Reads) {
    let counted = report(disk).calls_without_record();
    let (recorded, _) = records(bench);
    assert_eq!(recorded + counted, reads.answered, "{recorded} records, {counted} calls counted, {reads:?}");
}

/// Holds when all gates have ended regularly, and another one has started.
fn every_call_is_in_the_record(disk: &Path, reads: Reads) {
    let bench = options(disk, AuditMode::Warn).open();
    let report = report(disk);
    assert!(report.gaps.iter().all(|gap| gap.until.is_some()), "{:?}", report.gaps);
    let (recorded, _) = records(&bench);
    assert_eq!(recorded + report.calls_without_record(), reads.answered + reads.refused, "{reads:?}");
}

pub(crate) fn second_gate(folder: &Path) {
    let disk = disk(folder, 48);
    let (first, mut reads) = (options(&disk, AuditMode::Warn).open(), Reads::default());
    reads.read(&first);
    fill(&disk);
    let second = options(&disk, AuditMode::Warn).open();
    for _ in 0..RESERVED {
        reads.read(&second);
    }
    // The second gate uses the space that the first reserved.
    assert_eq!((reads.refused, second.complaints()), (0, Vec::new()));
    reads.until_missed(&second);
    let before = reads.answered;
    reads.until_missed(&first);
    assert_eq!(reads.answered - before, 11, "the first has no space that the second had not");
    every_answer_has_a_trace(&disk, &first, reads);
    std::fs::remove_file(disk.join("filler")).unwrap();
    drop((first, second));
    every_call_is_in_the_record(&disk, reads);
}

/// Sets the flag on drop.
struct Ends<'o>(&'o AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(crate) fn midnight(folder: &Path) {
    let disk = disk(folder, 48);
    let now = Arc::new(Mutex::new("2026-11-15T23:59:00Z"));
    let told = Arc::clone(&now);
    let clock: toolgate_audit::Clock = Arc::new(move || told.lock().unwrap().parse().unwrap());
    let open = || options(&disk, AuditMode::Warn).audit_clock(Arc::clone(&clock)).open();
    let (running, mut reads) = (open(), Reads::default());
    reads.read(&running);
    let is_over = AtomicBool::new(false);
    let second = std::thread::scope(|scope| {
        // A failed assertion ends the other thread too, which the scope waits for.
        let _ends = Ends(&is_over);
        // Takes whatever is freed.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                fill(&disk);
            }
        });
        while rustix::fs::statvfs(&disk).unwrap().f_bavail > 0 {}
        *now.lock().unwrap() = "2026-11-16T00:00:01Z";
        for _ in 0..RESERVED {
            reads.read(&running);
        }
        assert_eq!(
            (reads.refused, running.complaints()),
            (0, Vec::new()),
            "space was reserved for the new day"
        );
        reads.until_missed(&running);
        every_answer_has_a_trace(&disk, &running, reads);
        // The first gate of another day.
        *now.lock().unwrap() = "2026-11-17T00:00:01Z";
        let second = open();
        reads.until_missed(&second);
        every_answer_has_a_trace(&disk, &running, reads);
        second
    });
    std::fs::remove_file(disk.join("filler")).unwrap();
    drop((running, second));
    every_call_is_in_the_record(&disk, reads);
}

/// Reads once, then again after a line that says that the lock of the audit directory is held; prints how many reads were answered, and ends after
/// another line.
pub(crate) fn held_lock(workspace: &Path, state: &Path) {
    let bench = BenchOptions::new(Profile::NATIVE, workspace, state).open();
    let (mut reads, mut orders) = (Reads::default(), std::io::stdin().lock().lines());
    reads.read(&bench);
    println!("{}", reads.answered);
    orders.next().unwrap().unwrap();
    (0..7).for_each(|_| reads.read(&bench));
    println!("{}", reads.answered);
    orders.next().unwrap().unwrap();
}
