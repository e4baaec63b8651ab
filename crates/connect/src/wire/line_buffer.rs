//! Splits bytes into lines, buffering at most one line.

use super::MAX_MESSAGE_BYTES;

/// A larger buffer is freed once it is empty.
const MAX_RETAINED_BYTES: usize = 256 << 10;

/// Bytes that are not consumed yet.
#[derive(Debug, Default)]
pub(super) struct LineBuffer {
    bytes: Vec<u8>,
    /// Start of the next line.
    start: usize,
    /// No line end was found before this index.
    scanned: usize,
}

impl LineBuffer {
    /// The buffer to append to, with room for `more` bytes.
    pub(super) fn spare_capacity(&mut self, more: usize) -> &mut Vec<u8> {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.scanned = self.scanned.saturating_sub(self.start);
            self.start = 0;
        }
        if self.bytes.is_empty() && self.bytes.capacity() > MAX_RETAINED_BYTES {
            self.bytes = Vec::new();
        }
        self.bytes.reserve(more);
        &mut self.bytes
    }

    /// The next complete line, without its end.
    pub(super) fn next_line(&mut self) -> Option<&[u8]> {
        let unread = self.bytes.get(self.scanned..).unwrap_or_default();
        let Some(length) = memchr::memchr(b'\n', unread) else {
            self.scanned = self.bytes.len();
            return None;
        };
        let (start, end) = (self.start, self.scanned + length);
        self.start = end + 1;
        self.scanned = self.start;
        self.bytes.get(start..end)
    }

    /// Whether the current line exceeds the limit.
    pub(super) fn is_too_long(&self) -> bool {
        self.bytes.len().saturating_sub(self.start) > MAX_MESSAGE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lines_are_the_same_however_the_bytes_come(text in prop::collection::vec(prop::sample::select(b"ab\n".to_vec()), 0..200), pieces in prop::collection::vec(1usize..20, 1..200)) {
            let mut wanted: Vec<Vec<u8>> = text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            wanted.pop();
            let (mut lines, mut found, mut rest) = (LineBuffer::default(), Vec::new(), text.as_slice());
            for piece in pieces.into_iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (now, later) = rest.split_at(piece.min(rest.len()));
                lines.spare_capacity(now.len()).extend_from_slice(now);
                rest = later;
                while let Some(line) = lines.next_line() {
                    found.push(line.to_vec());
                }
            }
            prop_assert_eq!(found, wanted);
        }
    }

    #[test]
    fn a_line_that_never_ends_is_noticed() {
        let mut lines = LineBuffer::default();
        lines.spare_capacity(0).extend_from_slice(b"first\n");
        assert_eq!(lines.next_line(), Some(b"first".as_slice()));
        lines.spare_capacity(0).extend(std::iter::repeat_n(b'x', MAX_MESSAGE_BYTES));
        assert!(lines.next_line().is_none() && !lines.is_too_long());
        lines.spare_capacity(0).push(b'x');
        assert!(lines.next_line().is_none() && lines.is_too_long());
    }
}
