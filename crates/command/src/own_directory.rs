//! How much a directory of a process holds.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};

use crate::long_running::OwnDirectory;

/// Deeper directories count as over the limit: no honest program nests that far.
const MAX_DEPTH: usize = 128;

/// The bytes of a disk block as `st_blocks` counts them (POSIX `stat`).
const BLOCK_BYTES: u64 = 512;

impl OwnDirectory {
    /// Whether it holds more than `most` bytes, or cannot be measured.
    pub(super) fn is_over(&self, most: u64) -> bool {
        size_of_tree(self.directory.as_fd(), most).is_none_or(|size| size > most)
    }
}

/// The bytes on disk below a directory, symlinks not followed, until more than `most` were found; `None` if it is nested too deeply or cannot be read.
/// Entries that vanish while it is walked count as nothing.
#[must_use]
pub fn size_of_tree(root: BorrowedFd<'_>, most: u64) -> Option<u64> {
    let mut size = 0_u64;
    let mut open: Vec<OwnedFd> = vec![reopen(root)?];
    let mut depths = vec![0_usize];
    while let (Some(directory), Some(depth)) = (open.pop(), depths.pop()) {
        if depth > MAX_DEPTH {
            return None;
        }
        for entry in Dir::read_from(&directory).ok()?.flatten() {
            if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            let Ok(found) = statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            size =
                size.saturating_add(u64::try_from(found.st_blocks).unwrap_or(0).saturating_mul(BLOCK_BYTES));
            if size > most {
                return Some(size);
            }
            if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                if let Ok(below) = openat(&directory, entry.file_name(), flags, Mode::empty()) {
                    open.push(below);
                    depths.push(depth + 1);
                }
            }
        }
    }
    Some(size)
}

fn reopen(root: BorrowedFd<'_>) -> Option<OwnedFd> {
    openat(root, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests arrange files by hand")]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn what_is_on_disk_counts_and_what_a_link_leads_to_does_not() {
        let (scratch, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(scratch.path().join("a/b")).unwrap();
        fs::write(scratch.path().join("a/b/file"), vec![1; 100_000]).unwrap();
        fs::write(other.path().join("large"), vec![1; 10_000_000]).unwrap();
        std::os::unix::fs::symlink(other.path(), scratch.path().join("link")).unwrap();
        let root = File::open(scratch.path()).unwrap();
        let size = size_of_tree(root.as_fd(), u64::MAX).unwrap();
        assert!((100_000..1_000_000).contains(&size), "{size}");
        assert!(size_of_tree(root.as_fd(), 50_000).unwrap() > 50_000);
    }
}
