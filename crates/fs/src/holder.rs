//! Finds the process that holds a lock.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;

/// How much of `/proc/locks` is read.
const MAX_LOCKS_BYTES: u64 = 1024 * 1024;
/// The kernel keeps no longer process name.
const MAX_NAME_BYTES: u64 = 64;

/// The process that holds a lock, as far as the system reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its id.
    pub pid: u32,
    /// Its name (`/proc/PID/comm`), where it can be read.
    pub name: Option<String>,
}

impl Holder {
    /// Looks for the `flock` of a file in `/proc/locks`. `None` where `/proc` is not mounted, or the holder is in a PID namespace that is not
    /// visible.
    #[must_use]
    pub fn of(lock: &File) -> Option<Self> {
        let pid = holder_in(&read("/proc/locks", MAX_LOCKS_BYTES)?, lock.metadata().ok()?.ino())?;
        let name = read(&format!("/proc/{pid}/comm"), MAX_NAME_BYTES);
        let is_plain = |name: &String| {
            !name.is_empty() && name.chars().all(|sign| sign.is_ascii_graphic() || sign == ' ')
        };
        Some(Self { pid, name: name.map(|name| name.trim().to_owned()).filter(is_plain) })
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(formatter, "process {} (`{name}`)", self.pid),
            None => write!(formatter, "process {}", self.pid),
        }
    }
}

fn read(path: &str, length: u64) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "a file of the kernel's, by its own name")]
    let file = File::open(path).ok()?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A row is `1: FLOCK  ADVISORY  WRITE 123 fe:00:4567 0 EOF`: process, device and inode. The device is not compared: on btrfs and overlayfs, `fstat`
/// reports another one. Rows of waiting processes begin with `->`.
fn holder_in(locks: &str, inode: u64) -> Option<u32> {
    locks.lines().find_map(|row| {
        let mut words = row.split_ascii_whitespace().skip(1);
        if words.next()? != "FLOCK" {
            return None;
        }
        let pid = words.nth(2)?;
        let place = words.next()?.rsplit(':').next()?;
        if place.parse() == Ok(inode) { pid.parse().ok().filter(|pid| *pid > 0) } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_the_process_of_the_flock_on_that_inode() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 fe:00:4567 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 12 fe:00:4568 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 13 fe:00:4567 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 14 fe:00:4567 0 EOF\n";
        assert_eq!(holder_in(locks, 4567), Some(13));
        for (locks, inode) in
            [(locks, 4569), ("", 1), ("1: FLOCK", 1), ("1: FLOCK ADVISORY WRITE 0 fe:00:1 0 EOF", 1)]
        {
            assert_eq!(holder_in(locks, inode), None, "{locks}");
        }
    }
}
