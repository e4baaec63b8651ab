//! How close group commit comes to the bare disk, and what a record costs when nobody waits for the disk.
//!
//! Everything is measured in one run, on one disk, in turns: figures of different runs are not compared.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop at the first failure")]
#![allow(clippy::disallowed_methods, reason = "the bare loop writes its own file")]

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use toolgate_audit::{AuditLog, Entry, LogOptions};
use toolgate_types::{CallId, Caller, Sha256, ToolClass, Trust};

const CALLERS: usize = 64;
const ROUNDS: usize = 40;
const TURNS: usize = 25;

fn main() {
    let scratch = tempfile::tempdir_in(std::env::var("BENCH_DIR").unwrap_or(env!("CARGO_TARGET_TMPDIR").into())).unwrap();
    let (mut bare, mut grouped) = (Vec::new(), Vec::new());
    for turn in 0..TURNS {
        bare.push(bare_loop(&scratch.path().join(format!("bare-{turn}"))));
        grouped.push(tasks(&scratch.path().join(format!("log-{turn}/audit"))));
        println!("{:.0} {:.0} {:.2}", bare[turn], grouped[turn], grouped[turn]/bare[turn]);
    }
    let (bare, grouped) = (median(bare), median(grouped));
    println!("(a) bare loop, 64 lines of 300 bytes per fdatasync: {bare:>9.0} lines/s");
    println!("(b) 64 tasks that wait for their records:           {grouped:>9.0} lines/s   b/a = {:.2}", grouped / bare);
    println!("(c) a record that nobody waits for:                 {:>9.2} µs", unawaited(&scratch.path().join("c/audit")));
    let (cold, with_close) = one_shot(&scratch.path().join("d/audit"));
    println!("(d) open + one record, then close with a signature: {cold:>9.2} µs + {with_close:.2} µs");
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn bare_loop(path: &Path) -> f64 {
    let mut file = File::options().create(true).append(true).open(path).unwrap();
    let batch = vec![b'x'; 300 * CALLERS];
    let began = Instant::now();
    for _ in 0..ROUNDS {
        file.write_all(&batch).unwrap();
        file.sync_data().unwrap();
    }
    (CALLERS * ROUNDS) as f64 / began.elapsed().as_secs_f64()
}

fn tasks(directory: &Path) -> f64 {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let (log, _) = AuditLog::open(LogOptions::new(directory)).unwrap();
    let (log, left) = (Arc::new(log), Arc::new(AtomicUsize::new(CALLERS * ROUNDS)));
    let began = Instant::now();
    runtime.block_on(async {
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..CALLERS {
            let (log, left) = (Arc::clone(&log), Arc::clone(&left));
            callers.spawn(async move {
                let caller = caller();
                let mut entry = entry(&caller);
                let mut ids: Vec<CallId> = (0..ROUNDS * 2).map(|_| CallId::fresh()).collect();
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                    entry.call = ids.pop().unwrap_or_else(CallId::fresh);
                    log.submit(&entry).unwrap().await.unwrap();
                }
            });
        }
        callers.join_all().await;
    });
    (CALLERS * ROUNDS) as f64 / began.elapsed().as_secs_f64()
}

fn unawaited(directory: &Path) -> f64 {
    let options = LogOptions { checkpoint_every: u64::MAX, ..LogOptions::new(directory) };
    let (log, _) = AuditLog::open(options).unwrap();
    let caller = caller();
    let mut batches = Vec::new();
    for _ in 0..50 {
        let began = Instant::now();
        for _ in 0..200 {
            log.append(&entry(&caller)).unwrap();
        }
        batches.push(began.elapsed().as_secs_f64() * 1e6 / 200.0);
    }
    median(batches)
}

fn one_shot(directory: &Path) -> (f64, f64) {
    let caller = caller();
    let (mut opened, mut closed) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        let began = Instant::now();
        let (log, _) = AuditLog::open(LogOptions::new(directory)).unwrap();
        log.append(&entry(&caller)).unwrap();
        let written = began.elapsed();
        log.close().unwrap();
        opened.push(written.as_secs_f64() * 1e6);
        closed.push((began.elapsed() - written).as_secs_f64() * 1e6);
    }
    (median(opened), median(closed))
}

fn caller() -> Caller {
    Caller {
        subject: "alice".to_owned(),
        permissions: ["files:read".to_owned()].into(),
        agent: None,
        session: "bench".parse().unwrap(),
        run: None,
        trust: Trust::Guided,
    }
}

fn entry(caller: &Caller) -> Entry<'_> {
    Entry {
        call: CallId::fresh(),
        client_call_id: Some("call_1"),
        caller,
        tool: "read_file",
        class: Some(ToolClass::Read),
        args_hash: Sha256::of(b"{}"),
        denial: None,
        response: None,
        duration: Duration::from_micros(1234),
    }
}
