//! Reads a file for the searcher: checks for cancellation, and limits the length of lines.

use std::io::{self, Read};
use std::os::fd::BorrowedFd;

use rustix::io::{Errno, pread};
use toolgate_types::{CancellationReason, Deadline};

use crate::pattern::ChunkLimits;

/// Reads a file with `pread`, so that the position of a shared handle does not move.
pub(crate) struct OffsetReader<'a> {
    file: BorrowedFd<'a>,
    offset: u64,
}

impl<'a> OffsetReader<'a> {
    pub(crate) fn new(file: BorrowedFd<'a>) -> Self {
        Self { file, offset: 0 }
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    fn read_once(&mut self, room: &mut [u8]) -> Result<usize, Errno> {
        let read = rustix::io::retry_on_intr(|| pread(self.file, &mut *room, self.offset))?;
        self.offset += read as u64;
        Ok(read)
    }

    /// Fills the buffer, unless the file ends before; returns the length and whether that is the whole file.
    ///
    /// A file of exactly the expected size needs no second read to find its end.
    pub(crate) fn fill(&mut self, room: &mut [u8], expected: u64) -> Result<(usize, bool), Errno> {
        let mut length = 0;
        while let Some(rest) = room.get_mut(length..).filter(|rest| !rest.is_empty()) {
            let read = self.read_once(rest)?;
            length += read;
            if read == 0 || (expected > 0 && length as u64 == expected) {
                return Ok((length, true));
            }
        }
        Ok((length, false))
    }
}

impl Read for OffsetReader<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        Ok(self.read_once(room)?)
    }
}

/// Passes text on in chunks, and drops what a line has beyond its limit.
pub(crate) struct LineLimitReader<'a, R> {
    inner: R,
    stop: &'a Deadline,
    limits: ChunkLimits,
    /// How much of the current line was passed on.
    line: usize,
    pub(crate) stopped: Option<CancellationReason>,
    pub(crate) truncated: bool,
}

impl<'a, R: Read> LineLimitReader<'a, R> {
    pub(crate) fn new(inner: R, stop: &'a Deadline, limits: ChunkLimits) -> Self {
        Self { inner, stop, limits, line: 0, stopped: None, truncated: false }
    }

    /// Truncates the line that these bytes begin with, and returns how many bytes are left. Every other line in them is short enough, because there
    /// are no more bytes than a line may have.
    fn truncate_line(&mut self, bytes: &mut [u8]) -> usize {
        let first_end = memchr::memchr(b'\n', bytes).unwrap_or(bytes.len());
        let room = self.limits.line.saturating_sub(self.line);
        let mut length = bytes.len();
        if first_end > room {
            self.truncated = true;
            bytes.copy_within(first_end.., room);
            length -= first_end - room;
        }
        let rest = bytes.get(..length).unwrap_or_default();
        self.line = match memchr::memrchr(b'\n', rest) {
            Some(last_end) => length - last_end - 1,
            None => self.line + length,
        };
        length
    }
}

impl<R: Read> Read for LineLimitReader<'_, R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let step = room.len().min(self.limits.step);
        let Some(room) = room.get_mut(..step) else { return Ok(0) };
        loop {
            self.stopped = self.stop.reason();
            if self.stopped.is_some() {
                return Ok(0);
            }
            let read = self.inner.read(room)?;
            let left = self.truncate_line(room.get_mut(..read).unwrap_or_default());
            if read == 0 || left > 0 {
                return Ok(left);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns a given number of bytes at a time, over and over.
    struct Drip<'a>(&'a [u8], std::iter::Cycle<std::vec::IntoIter<usize>>);

    impl Read for Drip<'_> {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            let length = self.1.next().unwrap().min(room.len()).min(self.0.len());
            let (now, later) = self.0.split_at(length);
            room[..length].copy_from_slice(now);
            self.0 = later;
            Ok(length)
        }
    }

    proptest! {
        #[test]
        fn every_line_is_cut_to_the_portion(
            text in "[ab\n]{0,60}",
            reads in proptest::collection::vec(1usize..6, 1..5),
            portion in (1usize..4, 0usize..4).prop_map(|(step, more)| ChunkLimits { step, line: step + more }),
        ) {
            let stop = Deadline::never();
            let mut portions = LineLimitReader::new(Drip(text.as_bytes(), reads.into_iter().cycle()), &stop, portion);
            let mut read = String::new();
            portions.read_to_string(&mut read).unwrap();
            let cut = |line: &str| line.chars().take(portion.line).collect::<String>();
            let expected = text.split('\n').map(cut).collect::<Vec<_>>().join("\n");
            prop_assert_eq!(portions.truncated, expected != text);
            prop_assert_eq!(read, expected);
        }
    }

    #[test]
    fn nothing_more_is_read_once_time_is_up() {
        let stop = Deadline::never().with_signal(|| true);
        let mut portions = LineLimitReader::new(b"text".as_slice(), &stop, ChunkLimits { step: 8, line: 8 });
        assert_eq!(portions.read(&mut [0; 8]).unwrap(), 0);
        assert_eq!(portions.stopped, Some(CancellationReason::Cancelled));
    }
}
