//! Preallocates disk space for records, so that a full disk does not prevent recording.
//!
//! `fallocate` with `FALLOC_FL_KEEP_SIZE` allocates blocks beyond the end of the day's file. The next chunk is allocated while half of the last is
//! still free. If the filesystem does not support `fallocate` (`EOPNOTSUPP`), lines are written without it. The allocated end is stored in the lock
//! file for other processes. The file of the next day has its first chunk ahead of time ([`NEXT_DAY_FILE`]).

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::AuditError;
use crate::directory::{DirHandle, SharedFile, fstat_state};

/// Chunk size: about 1,500 records.
const RESERVE_BYTES: u64 = 1024 * 1024;
/// Chunk size when a full chunk does not fit.
const SMALL_RESERVE_BYTES: u64 = 64 * 1024;
/// How much is written before a failed allocation is retried: ext4 commits its journal before it returns `ENOSPC`, which is slow.
const RETRY_AFTER_BYTES: u64 = 16 * 1024;
/// `st_blocks` also counts extent-tree blocks, which hold no lines.
const METADATA_BYTES: u64 = 64 * 1024;
/// An empty file with a small preallocated chunk, renamed to the next day's file when that day starts: on a full disk no space could be allocated
/// then.
const NEXT_DAY_FILE: &str = "next";

/// How far a file has allocated blocks.
#[derive(Debug)]
pub(crate) struct Preallocation {
    end: u64,
    /// No allocation is attempted while the file is shorter than this.
    retry_at: u64,
    is_supported: bool,
}

/// The result of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReserveOutcome {
    /// None: there was enough, or no more was available.
    No,
    /// A small chunk.
    Partly,
    /// A full chunk.
    Fully,
}

impl Preallocation {
    /// The current allocation of a file of this length without holes; `noted` is the end stored by the process that allocated it.
    pub(crate) fn of(file: &SharedFile, length: u64, noted: Option<u64>) -> Self {
        let blocks = allocated_bytes(file);
        // A file truncated since then has no more than its blocks, whatever is noted.
        let end = noted.map_or(blocks.saturating_sub(METADATA_BYTES), |noted| noted.min(blocks));
        Self { end: end.max(length), retry_at: 0, is_supported: true }
    }

    /// The end of the allocated blocks.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Ensures that `more` bytes fit after the first `length`.
    ///
    /// `ENOSPC` is returned here rather than by the write, so that no partial line is written: removing one with `ftruncate` would also free
    /// everything preallocated.
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
                    // Any other problem with the file is reported by the write.
                    _ => return Ok(extended),
                }
            }
            self.retry_at = length.saturating_add(RETRY_AFTER_BYTES);
        }
        // The last blocks of a full disk are not used up one by one: ext4 needs some to convert unwritten extents.
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

/// Creates the next day's file and preallocates its first chunk. Failure is harmless while there is space. Call it with the directory lock held.
pub(crate) fn preallocate_next(folder: &DirHandle) -> Result<(), AuditError> {
    let file = folder.append_to(NEXT_DAY_FILE)?;
    if allocated_bytes(&file) < SMALL_RESERVE_BYTES {
        allocate(&file, 0, SMALL_RESERVE_BYTES)
            .map_err(|cause| folder.error("reserve space in", NEXT_DAY_FILE, cause))?;
    }
    Ok(())
}

/// Renames the prepared file to this name unless that exists, and returns its allocated end. Call it with the directory lock held.
pub(crate) fn start_from_next(folder: &DirHandle, name: &str) -> Option<u64> {
    let file = folder.read(NEXT_DAY_FILE).ok()??;
    let is_empty = fstat_state(&file).is_ok_and(|state| state.length == 0);
    if !is_empty || allocated_bytes(&file) < SMALL_RESERVE_BYTES {
        return None;
    }
    folder.rename_if_absent(NEXT_DAY_FILE, name).ok().map(|()| SMALL_RESERVE_BYTES)
}
