//! Space for records, reserved before they are written, so that a full disk does not keep calls from being recorded.
//!
//! `fallocate` with `FALLOC_FL_KEEP_SIZE` gives the day's file blocks beyond its end. The next piece is reserved while half of the last one is still
//! free. Where the filesystem has no `fallocate` (EOPNOTSUPP), lines are written as they come. How far the blocks go stands in the lock file, for other
//! processes. The file of the next day has its first piece ahead too ([`NEXT_DAY_FILE`]).

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::AuditError;
use crate::directory::{DirHandle, SharedFile, fstat_state};

/// Reserved at a time: about 1,500 records.
const RESERVE_BYTES: u64 = 1024 * 1024;
/// Reserved at a time where there is no room for more.
const SMALL_RESERVE_BYTES: u64 = 64 * 1024;
/// How much is written before a reservation that failed is tried again: ext4 commits its journal before it says ENOSPC.
const RETRY_AFTER_BYTES: u64 = 16 * 1024;
/// `st_blocks` counts blocks of the extent tree too, which hold no lines.
const METADATA_BYTES: u64 = 64 * 1024;
/// An empty file with a small piece reserved, which takes the name of the next day when that begins: on a full disk no space could be had for it then.
const NEXT_DAY_FILE: &str = "next";

/// How far a file has blocks.
#[derive(Debug)]
pub(crate) struct Preallocation {
    end: u64,
    /// The length of the file below which nothing more is tried to be reserved.
    retry_at: u64,
    is_supported: bool,
}

/// What was reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReserveOutcome {
    /// Nothing: there was enough, or there is no more.
    No,
    /// As much as there was room for.
    Partly,
    /// A whole piece.
    Fully,
}

impl Preallocation {
    /// What a file of this length, which has no holes, has by now; `noted` is how far the process that reserved it last says that it goes.
    pub(crate) fn of(file: &SharedFile, length: u64, noted: Option<u64>) -> Self {
        let blocks = allocated_bytes(file);
        // Whatever is noted, a file that was cut since has no more than its blocks.
        let end = noted.map_or(blocks.saturating_sub(METADATA_BYTES), |noted| noted.min(blocks));
        Self { end: end.max(length), retry_at: 0, is_supported: true }
    }

    /// How far it goes.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Makes sure that `more` bytes fit behind the first `length`.
    ///
    /// ENOSPC comes from here rather than from the write, so that no part of a line is written: taking it back (`ftruncate`) would give up all that is
    /// reserved.
    pub(crate) fn ensure(
        &mut self,
        file: &SharedFile,
        length: u64,
        more: u64,
    ) -> Result<ReserveOutcome, Errno> {
        let wanted = length.saturating_add(more);
        if !self.is_supported || wanted.saturating_add(RESERVE_BYTES / 2) <= self.end {
            return Ok(ReserveOutcome::No);
        }
        if length >= self.retry_at || wanted > self.end {
            for (piece, extended) in
                [(RESERVE_BYTES, ReserveOutcome::Fully), (SMALL_RESERVE_BYTES, ReserveOutcome::Partly)]
            {
                match self.extend_to(file, wanted.saturating_add(piece)) {
                    Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => {}
                    // What else is wrong with the file, the write will say.
                    _ => return Ok(extended),
                }
            }
            self.retry_at = length.saturating_add(RETRY_AFTER_BYTES);
        }
        // The last blocks of a full disk are not gathered one by one: ext4 needs some to write into unwritten extents.
        if wanted <= self.end { Ok(ReserveOutcome::No) } else { Err(Errno::NOSPC) }
    }

    fn extend_to(&mut self, file: &SharedFile, end: u64) -> Result<(), Errno> {
        let Some(more) = end.checked_sub(self.end).filter(|more| *more > 0) else { return Ok(()) };
        match allocate(file, self.end, more) {
            Ok(()) => self.end = end,
            Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => return Err(error),
            Err(_) => self.is_supported = false,
        }
        Ok(())
    }
}

fn allocated_bytes(file: &SharedFile) -> u64 {
    let blocks = rustix::fs::fstat(file).map_or(0, |stat| u64::try_from(stat.st_blocks).unwrap_or(0));
    blocks.saturating_mul(512)
}

fn allocate(file: &SharedFile, offset: u64, length: u64) -> Result<(), Errno> {
    rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, offset, length))
}

/// Makes the file of the next day and reserves its first piece. Nothing depends on it as long as there is space. To be called under the lock of the directory.
pub(crate) fn preallocate_next(folder: &DirHandle) -> Result<(), AuditError> {
    let file = folder.append_to(NEXT_DAY_FILE)?;
    if allocated_bytes(&file) < SMALL_RESERVE_BYTES {
        allocate(&file, 0, SMALL_RESERVE_BYTES)
            .map_err(|cause| folder.error("reserve space in", NEXT_DAY_FILE, cause))?;
    }
    Ok(())
}

/// Gives the prepared file this name, unless there is one of it; says how far it has blocks. To be called under the lock of the directory.
pub(crate) fn start_from_next(folder: &DirHandle, name: &str) -> Option<u64> {
    let file = folder.read(NEXT_DAY_FILE).ok()??;
    let is_empty = fstat_state(&file).is_ok_and(|state| state.length == 0);
    if !is_empty || allocated_bytes(&file) < SMALL_RESERVE_BYTES {
        return None;
    }
    folder.rename_if_absent(NEXT_DAY_FILE, name).ok().map(|()| SMALL_RESERVE_BYTES)
}
