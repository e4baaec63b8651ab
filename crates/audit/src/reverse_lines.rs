//! Reads a file's lines from its end, so that the cost of the newest record does not depend on the file's length.

use rustix::io::Errno;

use crate::directory::{SharedFile, read_at};

/// The first read is small, because most readers want one line.
const FIRST_READ_BYTES: u64 = 4 * 1024;
const READ_BYTES: u64 = 64 * 1024;
/// Later reads double, so that a long line is searched a few times and not once per 64 KiB.
const MAX_READ_BYTES: u64 = 1024 * 1024;

/// Maximum line length. A file without newlines, such as a sparse one, is not read to its start.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// The complete lines of a file, last first.
#[derive(Debug)]
pub(crate) struct ReverseLines {
    file: SharedFile,
    /// The end of the part not read yet.
    unread: u64,
    /// Bytes read and not returned yet, ending in a newline once [`ReverseLines::skip_partial_line`] was called.
    pending: Vec<u8>,
    read_size: u64,
}

impl ReverseLines {
    /// Lines that end at or before `length`.
    pub(crate) fn new(file: SharedFile, length: u64) -> Self {
        Self { file, unread: length, pending: Vec::new(), read_size: FIRST_READ_BYTES }
    }

    /// Skips a partial last line and returns the total length of the complete lines.
    pub(crate) fn skip_partial_line(&mut self) -> Result<u64, Errno> {
        loop {
            if let Some(newline) = last_newline(&self.pending) {
                self.pending.truncate(newline + 1);
                return Ok(self.unread + self.pending.len() as u64);
            }
            if self.unread == 0 {
                self.pending.clear();
                return Ok(0);
            }
            self.read_block()?;
        }
    }

    /// The line before the last one returned, without its newline.
    pub(crate) fn next_line(&mut self) -> Result<Option<Vec<u8>>, Errno> {
        loop {
            let without_newline = self.pending.split_last().map(|(_, rest)| rest);
            if let Some(start) = without_newline.and_then(last_newline) {
                return Ok(Some(self.take_line(start + 1)));
            }
            if self.unread == 0 {
                return Ok((!self.pending.is_empty()).then(|| self.take_line(0)));
            }
            self.read_block()?;
        }
    }

    fn take_line(&mut self, start: usize) -> Vec<u8> {
        let mut line = self.pending.split_off(start.min(self.pending.len()));
        line.pop();
        line
    }

    fn read_block(&mut self) -> Result<(), Errno> {
        if self.pending.len() > MAX_LINE_BYTES {
            return Err(Errno::FBIG);
        }
        let step = self.read_size.min(self.unread);
        let start = self.unread - step;
        let mut bytes = read_at(&self.file, usize::try_from(step).unwrap_or(usize::MAX), start)?;
        bytes.append(&mut self.pending);
        self.pending = bytes;
        self.unread = start;
        self.read_size = (2 * self.read_size).clamp(READ_BYTES, MAX_READ_BYTES);
        Ok(())
    }
}

fn last_newline(bytes: &[u8]) -> Option<usize> {
    bytes.iter().rposition(|byte| *byte == b'\n')
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    fn backwards(content: &[u8]) -> (u64, Vec<Vec<u8>>) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        let mut lines = ReverseLines::new(Arc::new(file), content.len() as u64);
        let complete = lines.skip_partial_line().unwrap();
        let mut all = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            all.push(line);
        }
        (complete, all)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn agrees_with_reading_forwards(
            lines in prop::collection::vec((0usize..9000, prop::bool::weighted(0.2)), 0..12),
            torn in 0usize..9000,
        ) {
            let length_of = |(length, is_long)| if is_long { length * 10 } else { length / 50 };
            let lines: Vec<Vec<u8>> = lines.into_iter().map(|line| vec![b'x'; length_of(line)]).collect();
            let mut content: Vec<u8> = lines.iter().flat_map(|line| [line.as_slice(), b"\n"].concat()).collect();
            let complete = content.len() as u64;
            content.extend(vec![b't'; torn]);
            let expected: Vec<Vec<u8>> = lines.into_iter().rev().collect();
            prop_assert_eq!(backwards(&content), (complete, expected));
        }
    }

    /// A sparse file costs an attacker nothing. Without a newline, at most the longest line plus one read is held in memory.
    #[test]
    fn a_file_without_a_newline_is_not_read_to_its_beginning() {
        let length = 2 * MAX_LINE_BYTES as u64;
        for with_last_line in [false, true] {
            let mut file = tempfile::tempfile().unwrap();
            file.set_len(length).unwrap();
            let end = if with_last_line { b"\nlast\n".as_slice() } else { b"" };
            std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).unwrap();
            file.write_all(end).unwrap();
            let mut lines = ReverseLines::new(Arc::new(file), length + end.len() as u64);
            if with_last_line {
                assert_eq!(lines.skip_partial_line(), Ok(length + end.len() as u64));
                assert_eq!(lines.next_line(), Ok(Some(b"last".to_vec())));
                assert_eq!(lines.next_line(), Err(Errno::FBIG));
            } else {
                assert_eq!(lines.skip_partial_line(), Err(Errno::FBIG));
            }
            let held = lines.pending.len();
            assert!(
                held <= MAX_LINE_BYTES + usize::try_from(MAX_READ_BYTES).unwrap(),
                "{held} bytes in memory"
            );
            assert!(lines.unread > 0);
        }
    }
}
