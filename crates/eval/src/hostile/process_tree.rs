//! What a gate has started and what of it still runs, as the kernel lists it.
#![expect(clippy::disallowed_methods, reason = "the kernel lists processes in /proc")]

use std::fs;
use std::time::{Duration, Instant};

/// How often a list that is not empty yet is read again.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Names of the processes below this one.
pub(super) fn descendants(process: u32) -> Vec<String> {
    let mut found = Vec::new();
    for child in children(process) {
        let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        // `pid (name) state …`, where the name may hold anything.
        let Some((name, rest)) = stat.rsplit_once(") ") else { continue };
        if !rest.starts_with('Z') {
            found.push(name.split_once(" (").map_or(name, |(_, name)| name).to_owned());
        }
        found.extend(descendants(child));
    }
    found
}

/// Names of the processes that are still below this one when the time is up, besides so many that were there before.
pub(super) fn left_after(process: u32, before: usize, timeout: Duration) -> Vec<String> {
    let deadline = Instant::now() + timeout;
    loop {
        let left = descendants(process);
        if left.len() <= before {
            return Vec::new();
        }
        if Instant::now() >= deadline {
            return left;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// The most memory that a process ever had, in KiB.
pub(super) fn peak_memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
}

fn children(process: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    let lists = threads
        .flatten()
        .map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<u32>>())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_child_of_a_child_is_seen_until_it_ends() {
        let mut child = Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
        while !descendants(child.id()).iter().any(|name| name == "sleep") {
            std::thread::yield_now();
        }
        assert_eq!(left_after(child.id(), 0, Duration::ZERO), ["sleep"]);
        assert!(left_after(child.id(), 1, Duration::ZERO).is_empty());
        assert!(peak_memory(child.id()) > 0);
        let sleeper = children(child.id())[0];
        let pid = rustix::process::Pid::from_raw(i32::try_from(sleeper).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        child.wait().unwrap();
        assert!(left_after(child.id(), 0, Duration::ZERO).is_empty());
    }
}
