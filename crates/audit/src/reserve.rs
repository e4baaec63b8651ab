//! Space for records, reserved before they are written, so that a full disk does not keep calls from being recorded.
//!
//! `fallocate` with `FALLOC_FL_KEEP_SIZE` gives the day's file blocks beyond its end. The next piece is reserved while half of the last one is still
//! free. Where the filesystem has no `fallocate` (EOPNOTSUPP), lines are written as they come.

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::folder::Handle;

/// Reserved at a time: about 1,500 records.
const PIECE_BYTES: u64 = 1024 * 1024;
/// Reserved at a time where there is no room for more.
const SMALL_PIECE_BYTES: u64 = 64 * 1024;
/// The last part of what is reserved is for records of gaps alone.
const GAP_BYTES: u64 = 8 * 1024;
/// How much is written before a reservation that failed is tried again: ext4 commits its journal before it says ENOSPC.
const RETRY_BYTES: u64 = 16 * 1024;
/// `st_blocks` counts blocks of the extent tree too, which hold no lines.
const METADATA_BYTES: u64 = 64 * 1024;

/// What space is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Records of calls.
    Records,
    /// The record of a gap, which may use the part that is kept for it.
    Gap,
}

/// How far a file has blocks.
#[derive(Debug)]
pub(crate) struct Reserve {
    end: u64,
    /// The length of the file below which nothing more is tried to be reserved.
    retry_at: u64,
    is_supported: bool,
}

impl Reserve {
    /// What a file of this length, which has no holes, has by now.
    pub(crate) fn of(file: &Handle, length: u64) -> Self {
        let blocks = rustix::fs::fstat(file).map_or(0, |stat| u64::try_from(stat.st_blocks).unwrap_or(0));
        let end = blocks.saturating_mul(512).saturating_sub(METADATA_BYTES).max(length);
        Self { end, retry_at: 0, is_supported: true }
    }

    /// Makes sure that `more` bytes fit behind the first `length`.
    ///
    /// ENOSPC comes from here rather than from the write, so that no part of a line is written: taking it back (`ftruncate`) would give up all that is
    /// reserved.
    pub(crate) fn ensure(
        &mut self,
        file: &Handle,
        length: u64,
        more: u64,
        purpose: Purpose,
    ) -> Result<(), Errno> {
        let kept_back = if purpose == Purpose::Gap { 0 } else { GAP_BYTES };
        let wanted = length.saturating_add(more).saturating_add(kept_back);
        if !self.is_supported || wanted.saturating_add(PIECE_BYTES / 2) <= self.end {
            return Ok(());
        }
        if length >= self.retry_at || wanted > self.end {
            for piece in [PIECE_BYTES, SMALL_PIECE_BYTES] {
                match self.extend_to(file, wanted.saturating_add(piece)) {
                    Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => {}
                    // What else is wrong with the file, the write will say.
                    _ => return Ok(()),
                }
            }
            self.retry_at = length.saturating_add(RETRY_BYTES);
        }
        // The last blocks of a full disk are not gathered one by one: ext4 needs some to write into unwritten extents.
        if wanted <= self.end { Ok(()) } else { Err(Errno::NOSPC) }
    }

    fn extend_to(&mut self, file: &Handle, end: u64) -> Result<(), Errno> {
        let Some(more) = end.checked_sub(self.end).filter(|more| *more > 0) else { return Ok(()) };
        let flags = FallocateFlags::KEEP_SIZE;
        match rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, flags, self.end, more)) {
            Ok(()) => self.end = end,
            Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => return Err(error),
            Err(_) => self.is_supported = false,
        }
        Ok(())
    }
}
