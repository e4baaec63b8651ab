//! The processes that tests start and kill: this test binary again, with its role in the environment.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use toolgate_audit::{AuditLog, LogOptions};
use toolgate_types::CallId;

use crate::fixture::{alice, allowed, id, intent};

const PART: &str = "TOOLGATE_AUDIT_TEST_PART";

/// Starts a process in a role.
pub(crate) fn start(part: &str, directory: &Path, number: u64) -> Child {
    command(Command::new(std::env::current_exe().unwrap()), part, directory, number).spawn().unwrap()
}

/// The same in an environment that `prefix` sets up for the command that follows it.
pub(crate) fn start_within(prefix: &[&str], part: &str, directory: &Path, number: u64) -> Child {
    let mut process = Command::new(prefix[0]);
    process.args(&prefix[1..]).arg(std::env::current_exe().unwrap());
    command(process, part, directory, number).spawn().unwrap()
}

fn command(mut process: Command, part: &str, directory: &Path, number: u64) -> Command {
    process
        .args(["child::plays_its_part", "--exact", "--nocapture", "--test-threads=1"])
        .env(PART, format!("{part} {number} {}", directory.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    process
}

/// A child's output, line by line, until it exits.
pub(crate) fn sayings(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("says ").map(str::to_owned))
}

fn say(words: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\nsays {words}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Passes immediately unless this process was started in a role.
#[test]
fn plays_its_part() {
    let Ok(part) = std::env::var(PART) else { return };
    let mut words = part.splitn(3, ' ');
    let (part, number, directory) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
    let (number, directory) = (number.parse().unwrap(), Path::new(directory));
    match part {
        "append" => append(directory, number),
        "work" => work(directory),
        "announce" => announce(directory, number),
        "recover" => recover(directory, number),
        "fill" => fill(directory),
        other => panic!("there is no part {other}"),
    }
}

/// Four threads append 250 records each, in every way.
fn append(directory: &Path, process: u64) {
    let (log, _) =
        AuditLog::open(LogOptions::new(directory), &toolgate_types::StateKey::new([7; 32])).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let log = &log;
            scope.spawn(move || {
                for number in 0..250 {
                    let caller = alice();
                    let entry = allowed(id(process * 1000 + thread * 250 + number), &caller);
                    match number % 50 {
                        0 => log.append(&entry).unwrap().wait().unwrap(),
                        1 => log.submit(&entry).unwrap().wait().unwrap(),
                        2..10 => drop(log.submit(&entry).unwrap()),
                        _ => drop(log.append(&entry).unwrap()),
                    }
                }
            });
        }
    });
    log.close().unwrap();
}

/// Works until it is killed, and prints each step once it is on disk.
fn work(directory: &Path) {
    let (log, _) = AuditLog::open(
        LogOptions { checkpoint_every: 8, ..LogOptions::new(directory) },
        &toolgate_types::StateKey::new([7; 32]),
    )
    .unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let log = &log;
            scope.spawn(move || {
                loop {
                    let (call, caller) = (CallId::fresh(), alice());
                    if thread > 0 {
                        log.intent(&intent(call, &caller)).unwrap().wait().unwrap();
                        say(&format!("intends {call}"));
                    }
                    let entry = allowed(call, &caller);
                    let ticket = if thread == 1 { log.append(&entry) } else { log.submit(&entry) };
                    ticket.unwrap().wait().unwrap();
                    say(&format!("did {call}"));
                }
            });
        }
    });
}

/// Writes intents, writes the record of every third, and exits without closing the log.
fn announce(directory: &Path, count: u64) {
    let (log, _) =
        AuditLog::open(LogOptions::new(directory), &toolgate_types::StateKey::new([7; 32])).unwrap();
    let caller = alice();
    for number in 0..count {
        log.intent(&intent(id(number), &caller)).unwrap().wait().unwrap();
        if number % 3 == 0 {
            log.append(&allowed(id(number), &caller)).unwrap();
        }
    }
    kill_self();
}

/// Opens the log with a clock that kills the process at its nth reading: in the middle of recovery, with the locks held.
fn recover(directory: &Path, nth: u64) {
    let asked = Arc::new(AtomicU64::new(0));
    let clock = move || {
        if asked.fetch_add(1, Ordering::Relaxed) + 1 == nth {
            kill_self();
        }
        Timestamp::now()
    };
    let (_log, recovered) = AuditLog::open(
        LogOptions { clock: Arc::new(clock), ..LogOptions::new(directory) },
        &toolgate_types::StateKey::new([7; 32]),
    )
    .unwrap();
    say(&format!("recovered {}", recovered.interrupted.len()));
}

/// Appends records until the disk is full, and prints the result of each.
fn fill(directory: &Path) {
    let (log, _) =
        AuditLog::open(LogOptions::new(directory), &toolgate_types::StateKey::new([7; 32])).unwrap();
    let caller = alice();
    for number in 0..100 {
        let entry = allowed(id(number), &caller);
        let result = if number % 2 == 0 {
            log.append(&entry).map(drop)
        } else {
            log.submit(&entry).and_then(|ticket| ticket.wait())
        };
        match result {
            Ok(()) => say(&format!("did {}", id(number))),
            Err(error) => say(&format!("failed {}", error.code().as_str())),
        }
    }
}

fn kill_self() {
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
}
