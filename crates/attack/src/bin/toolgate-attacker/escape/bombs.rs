//! Attacks by resource exhaustion. Each stops at a harmless number, and reports how far it came.

use std::io::Read as _;
use std::time::Duration;

use super::{Tried, number, raw, stopped};

pub(super) fn run(words: &[&str]) -> Option<Tried> {
    Some(match words {
        ["forks", count] => forks(number(count)),
        ["threads", count] => threads(number(count)),
        ["memory", mebibytes] => memory(number(mebibytes)),
        ["descriptors", count] => descriptors(number(count)),
        ["files", folder, count] => files(folder, number(count)),
        ["burn", milliseconds] => burn(Duration::from_millis(number(milliseconds))),
        _ => return None,
    })
}

fn reached(got: usize, count: usize, why: impl std::fmt::Display) -> Tried {
    if got == count { Ok(()) } else { Err(format!("{got} of {count}: {why}")) }
}

/// All of them wait for a pipe to close, and so end with the first of them.
fn forks(count: usize) -> Tried {
    let (wait, hold) = std::io::pipe().map_err(stopped)?;
    let mut hold = Some(hold);
    let mut got = 0;
    let mut why = 0;
    while got < count {
        match raw::fork() {
            Ok(0) => {
                drop(hold.take());
                let _ = (&wait).read(&mut [0]);
                std::process::exit(0);
            }
            Ok(_) => got += 1,
            Err(error) => {
                why = error;
                break;
            }
        }
    }
    drop(hold);
    reached(got, count, std::io::Error::from_raw_os_error(why))
}

fn threads(count: usize) -> Tried {
    let mut started = Vec::new();
    let mut why = String::new();
    let gate = std::sync::Arc::new(std::sync::RwLock::new(()));
    let held = gate.write();
    while started.len() < count {
        let gate = std::sync::Arc::clone(&gate);
        let thread = std::thread::Builder::new().stack_size(64 * 1024);
        match thread.spawn(move || gate.read().is_ok()) {
            Ok(thread) => started.push(thread),
            Err(error) => {
                why = error.to_string();
                break;
            }
        }
    }
    drop(held);
    reached(started.len(), count, why)
}

fn memory(mebibytes: usize) -> Tried {
    const MEBIBYTE: usize = 1 << 20;
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for got in 0..mebibytes {
        let mut piece = Vec::new();
        if let Err(error) = piece.try_reserve_exact(MEBIBYTE) {
            return reached(got, mebibytes, error);
        }
        piece.resize(MEBIBYTE, 1);
        kept.push(piece);
    }
    Ok(())
}

fn descriptors(count: usize) -> Tried {
    let mut kept = Vec::new();
    for got in 0..count {
        match std::fs::File::open("/dev/null") {
            Ok(file) => kept.push(file),
            Err(error) => return reached(got, count, error),
        }
    }
    Ok(())
}

fn files(folder: &str, count: usize) -> Tried {
    for got in 0..count {
        if let Err(error) = std::fs::File::create(format!("{folder}/file-{got}")) {
            return reached(got, count, error);
        }
    }
    Ok(())
}

/// Uses this much processor time, however long it takes.
fn burn(time: Duration) -> Tried {
    let clock = rustix::time::ClockId::ProcessCPUTime;
    loop {
        let used = rustix::time::clock_gettime(clock);
        let used = Duration::new(used.tv_sec.unsigned_abs(), u32::try_from(used.tv_nsec).unwrap());
        if used >= time {
            return Ok(());
        }
    }
}
