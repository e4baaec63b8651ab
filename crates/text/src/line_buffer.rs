//! Lines out of bytes that come in pieces.

use std::ops::Range;

use memchr::memchr;

/// Capacity that is kept for the next line; more is freed once all lines are taken.
const MAX_IDLE_BYTES: usize = 256 * 1024;

/// Bytes that were read and not yet taken as lines. Every byte is searched for a line feed once, however the pieces come.
///
/// It sets no bound: the owner compares [`LineBuffer::pending_bytes`] with its own.
#[derive(Debug, Default)]
pub struct LineBuffer {
    bytes: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// Up to where there is no line feed.
    scanned: usize,
}

impl LineBuffer {
    /// Where more bytes are appended.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        if self.is_empty() {
            self.bytes.clear();
            (self.start, self.scanned) = (0, 0);
            if self.bytes.capacity() > MAX_IDLE_BYTES {
                self.bytes = Vec::new();
            }
        } else if self.start >= MAX_IDLE_BYTES {
            self.bytes.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
        }
        &mut self.bytes
    }

    /// Whether all bytes were taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// How many bytes were not taken.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// The next line, without its line feed.
    pub fn next_line(&mut self) -> Option<&[u8]> {
        let line = self.next_range()?;
        self.bytes.get(line)
    }

    /// Where the next line is among the bytes, for [`LineBuffer::line`].
    pub fn next_range(&mut self) -> Option<Range<usize>> {
        let Some(length) = self.bytes.get(self.scanned..).and_then(|rest| memchr(b'\n', rest)) else {
            self.scanned = self.bytes.len();
            return None;
        };
        let (start, end) = (self.start, self.scanned + length);
        self.start = end + 1;
        self.scanned = self.start;
        Some(start..end)
    }

    /// A line that was found, as long as nothing is appended.
    #[must_use]
    pub fn line(&self, range: Range<usize>) -> Option<&[u8]> {
        self.bytes.get(range)
    }

    /// Takes what has no line feed, complete or not.
    pub fn take_rest(&mut self) -> &[u8] {
        let start = std::mem::replace(&mut self.start, self.bytes.len());
        self.scanned = self.bytes.len();
        self.bytes.get(start..).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lines_are_the_same_however_the_bytes_come(
            pieces in prop::collection::vec(prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'x')], 0..12), 0..20),
        ) {
            let (mut lines, mut found) = (LineBuffer::default(), Vec::new());
            for piece in &pieces {
                lines.buffer().extend_from_slice(piece);
                while let Some(line) = lines.next_line() {
                    found.push(line.to_vec());
                }
            }
            found.push(lines.take_rest().to_vec());
            let whole = pieces.concat();
            let expected: Vec<Vec<u8>> = whole.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            prop_assert_eq!(found, expected);
            prop_assert!(lines.is_empty());
        }
    }

    #[test]
    fn taken_lines_are_freed() {
        let mut lines = LineBuffer::default();
        for _ in 0..1000 {
            lines.buffer().extend_from_slice(&[b'x'; 1024]);
            lines.buffer().push(b'\n');
            assert_eq!(lines.next_line().map(<[u8]>::len), Some(1024));
            lines.buffer().push(b'y');
            assert_eq!(lines.next_line(), None);
            assert_eq!(lines.pending_bytes(), 1);
            lines.take_rest();
        }
        assert!(lines.buffer().capacity() < 2 * MAX_IDLE_BYTES);
    }
}
