//! How close group commit comes to the bare disk, and the cost of a record without a waiter.
//!
//! Everything is measured in one run on one disk, and the two that are compared alternate in short rounds, because the speed of a shared disk varies.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a benchmark may stop at the first failure")]
#![allow(clippy::disallowed_methods, reason = "the bare loop writes its own file")]

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use toolgate_audit::{AuditEntry, AuditLog, LogOptions};
use toolgate_types::{CallId, Caller, Sha256, ToolClass, Trust};

const CALLERS: usize = 64;
const ROUNDS: usize = 20;
const TURNS: usize = 60;

fn main() {
    let scratch = tempfile::tempdir_in(".").unwrap();
    let directory = |name: &str| scratch.path().join(name).join("audit");
    let mut file = File::create_new(scratch.path().join("bare")).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let log = Arc::new(
        AuditLog::open(LogOptions::new(directory("b")), &toolgate_types::StateKey::new([7; 32])).unwrap().0,
    );
    let (mut bare, mut grouped) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        bare.push(bare_loop(&mut file));
        grouped.push(tasks(&runtime, &log));
    }
    let ratios = bare.iter().zip(&grouped).map(|(bare, grouped)| grouped / bare).collect();
    let (bare, grouped, ratio) = (median(bare), median(grouped), median(ratios));
    let unawaited = unawaited(&directory("c"));
    let (open, close) = one_shot(&directory("d"));
    println!("(a) bare loop, 64 lines of 300 bytes per fdatasync {bare:>9.0} lines/s");
    println!("(b) 64 tasks that wait for their records           {grouped:>9.0} lines/s, b/a = {ratio:.2}");
    println!(
        "RATIO audit/64-callers ours={grouped:.0}/s peer={bare:.0}/s(batched_append+fdatasync) ratio={:.3} bound=2",
        1.0 / ratio
    );
    println!("(c) a record that nobody waits for                 {unawaited:>9.2} µs");
    println!("(d) opening a log and adding one record            {open:>9.2} µs, closing it {close:.2} µs");
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn lines_per_second(began: Instant) -> f64 {
    (CALLERS * ROUNDS) as f64 / began.elapsed().as_secs_f64()
}

fn bare_loop(file: &mut File) -> f64 {
    let batch = vec![b'x'; 300 * CALLERS];
    let began = Instant::now();
    for _ in 0..ROUNDS {
        file.write_all(&batch).unwrap();
        file.sync_data().unwrap();
    }
    lines_per_second(began)
}

fn tasks(runtime: &Runtime, log: &Arc<AuditLog>) -> f64 {
    let ids: Vec<Vec<CallId>> =
        (0..CALLERS).map(|_| (0..ROUNDS).map(|_| CallId::fresh()).collect()).collect();
    let began = Instant::now();
    runtime.block_on(async {
        let mut callers = tokio::task::JoinSet::new();
        for ids in ids {
            let log = Arc::clone(log);
            callers.spawn(async move {
                let caller = caller();
                for id in ids {
                    log.submit(&entry(id, &caller)).unwrap().await.unwrap();
                }
            });
        }
        callers.join_all().await;
    });
    lines_per_second(began)
}

fn unawaited(directory: &Path) -> f64 {
    let (log, _) = AuditLog::open(
        LogOptions { checkpoint_every: u64::MAX, ..LogOptions::new(directory) },
        &toolgate_types::StateKey::new([7; 32]),
    )
    .unwrap();
    let caller = caller();
    let batch = || {
        let ids: Vec<CallId> = (0..200).map(|_| CallId::fresh()).collect();
        let began = Instant::now();
        ids.into_iter().for_each(|id| drop(log.append(&entry(id, &caller)).unwrap()));
        began.elapsed().as_secs_f64() * 1e6 / 200.0
    };
    median((0..50).map(|_| batch()).collect())
}

fn one_shot(directory: &Path) -> (f64, f64) {
    let caller = caller();
    let (mut opened, mut closed) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        let began = Instant::now();
        let (log, _) =
            AuditLog::open(LogOptions::new(directory), &toolgate_types::StateKey::new([7; 32])).unwrap();
        log.append(&entry(CallId::fresh(), &caller)).unwrap();
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

fn entry(call: CallId, caller: &Caller) -> AuditEntry<'_> {
    AuditEntry {
        call,
        client_call_id: Some("call_1"),
        caller,
        tool: "read_file",
        class: Some(ToolClass::Read),
        version: None,
        args_hash: Sha256::from([7; 32]),
        changed_from: None,
        escalation: &[],
        repairs: &[],
        grant: None,
        denial: None,
        response: None,
        details: None,
        flow: None,
        duration: Duration::from_micros(1234),
        waited: Duration::ZERO,
    }
}
