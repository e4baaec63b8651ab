//! Splits the input into lines.

use memchr::memchr;

/// A buffer up to this size is kept for the next line; a larger one is freed.
const MAX_IDLE_BUFFER_BYTES: usize = 256 * 1024;

/// A line of input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum InputLine<'b> {
    /// A line without its line end.
    Whole(&'b [u8]),
    /// A line above the limit, whose bytes were discarded.
    TooLong,
}

/// Splits the input into lines. A line above the limit is skipped without being buffered.
#[derive(Debug)]
pub(crate) struct InputLines {
    bytes: Vec<u8>,
    /// Start of the next line.
    start: usize,
    /// No line end was found before this index.
    seen: usize,
    max_bytes: usize,
    /// Whether the current line is being skipped.
    skipping: bool,
}

impl InputLines {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { bytes: Vec::new(), start: 0, seen: 0, max_bytes, skipping: false }
    }

    /// The buffer to append input to.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            (self.start, self.seen) = (0, 0);
            if self.bytes.capacity() > MAX_IDLE_BUFFER_BYTES {
                self.bytes = Vec::new();
            }
        } else if self.start >= MAX_IDLE_BUFFER_BYTES {
            self.bytes.drain(..self.start);
            self.seen -= self.start;
            self.start = 0;
        }
        &mut self.bytes
    }

    /// Whether all input has been consumed.
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// The next complete line.
    pub(crate) fn next(&mut self) -> Option<InputLine<'_>> {
        loop {
            let from = self.seen;
            let Some(length) = memchr(b'\n', self.bytes.get(from..).unwrap_or_default()) else {
                self.seen = self.bytes.len();
                if self.bytes.len() - self.start > self.max_bytes {
                    self.skipping = true;
                }
                if self.skipping {
                    self.start = self.bytes.len();
                }
                return None;
            };
            let (start, end) = (self.start, from + length);
            (self.start, self.seen) = (end + 1, end + 1);
            if std::mem::take(&mut self.skipping) || end - start > self.max_bytes {
                return Some(InputLine::TooLong);
            }
            let is_blank = self.bytes.get(start..end).unwrap_or_default().trim_ascii().is_empty();
            if !is_blank {
                return Some(InputLine::Whole(self.bytes.get(start..end).unwrap_or_default().trim_ascii()));
            }
        }
    }

    /// The last line at end of input, without a line end.
    pub(crate) fn rest(&mut self) -> Option<InputLine<'_>> {
        let start = std::mem::replace(&mut self.start, self.bytes.len());
        self.seen = self.bytes.len();
        if std::mem::take(&mut self.skipping) {
            return Some(InputLine::TooLong);
        }
        let line = self.bytes.get(start..).unwrap_or_default().trim_ascii();
        (!line.is_empty()).then_some(InputLine::Whole(line))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq)]
    enum Seen {
        Whole(Vec<u8>),
        TooLong,
    }

    impl From<InputLine<'_>> for Seen {
        fn from(line: InputLine<'_>) -> Self {
            match line {
                InputLine::Whole(line) => Self::Whole(line.to_vec()),
                InputLine::TooLong => Self::TooLong,
            }
        }
    }

    /// The lines that result from these chunks.
    fn cut(pieces: &[Vec<u8>], longest: usize) -> Vec<Seen> {
        let mut lines = InputLines::new(longest);
        let mut seen = Vec::new();
        for piece in pieces {
            lines.buffer().extend_from_slice(piece);
            while let Some(line) = lines.next() {
                seen.push(line.into());
            }
        }
        seen.extend(lines.rest().map(Seen::from));
        seen
    }

    /// The same from the concatenated text.
    fn obviously(pieces: &[Vec<u8>], longest: usize) -> Vec<Seen> {
        let whole = pieces.concat();
        let mut lines: Vec<&[u8]> = whole.split(|byte| *byte == b'\n').collect();
        let last = lines.pop().unwrap_or_default();
        let seen = |line: &[u8]| match line.len() > longest {
            true => Some(Seen::TooLong),
            false => Some(Seen::Whole(line.trim_ascii().to_vec())).filter(|_| !line.trim_ascii().is_empty()),
        };
        lines.into_iter().chain([last]).filter_map(seen).collect()
    }

    proptest! {
        #[test]
        fn lines_are_the_same_however_they_come(
            pieces in prop::collection::vec(prop::collection::vec(prop_oneof![Just(b'\n'), Just(b' '), Just(b'x'), any::<u8>()], 0..12), 0..20),
            longest in 1usize..10,
        ) {
            prop_assert_eq!(cut(&pieces, longest), obviously(&pieces, longest));
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_not_kept() {
        let mut lines = InputLines::new(1024);
        for _ in 0..1000 {
            lines.buffer().extend_from_slice(&[b'x'; 1024]);
            assert_eq!(lines.next(), None);
        }
        assert!(lines.bytes.capacity() < 2 * MAX_IDLE_BUFFER_BYTES, "{}", lines.bytes.capacity());
        lines.buffer().extend_from_slice(b"\n{}\n");
        assert_eq!(lines.next(), Some(InputLine::TooLong));
        assert_eq!(lines.next(), Some(InputLine::Whole(b"{}")));
        assert_eq!(lines.next(), None);
    }
}
