//! Bytes that came, cut into lines.

use memchr::memchr;

/// Kept for the next line; more than this is given back once it is not needed.
const USUAL: usize = 256 * 1024;

/// What came between two line ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'b> {
    /// A line, without its end.
    Whole(&'b [u8]),
    /// A line longer than any message may be. None of it was kept.
    TooLong,
}

/// Cuts lines out of what comes. A line that is too long is passed over without being kept.
#[derive(Debug)]
pub(crate) struct Lines {
    bytes: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// Up to where no line end was found.
    seen: usize,
    longest: usize,
    /// Whether the line that is coming was given up.
    passing: bool,
}

impl Lines {
    pub(crate) fn new(longest: usize) -> Self {
        Self { bytes: Vec::new(), start: 0, seen: 0, longest, passing: false }
    }

    /// Where more bytes go: at the end.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            (self.start, self.seen) = (0, 0);
            if self.bytes.capacity() > USUAL {
                self.bytes = Vec::new();
            }
        } else if self.start >= USUAL {
            self.bytes.drain(..self.start);
            self.seen -= self.start;
            self.start = 0;
        }
        &mut self.bytes
    }

    /// Whether all that came has been taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// The next line that is there.
    pub(crate) fn next(&mut self) -> Option<Line<'_>> {
        loop {
            let from = self.seen;
            let Some(length) = memchr(b'\n', self.bytes.get(from..).unwrap_or_default()) else {
                self.seen = self.bytes.len();
                if self.bytes.len() - self.start > self.longest {
                    self.passing = true;
                }
                if self.passing {
                    self.start = self.bytes.len();
                }
                return None;
            };
            let (start, end) = (self.start, from + length);
            (self.start, self.seen) = (end + 1, end + 1);
            if std::mem::take(&mut self.passing) || end - start > self.longest {
                return Some(Line::TooLong);
            }
            let is_blank = self.bytes.get(start..end).unwrap_or_default().trim_ascii().is_empty();
            if !is_blank {
                return Some(Line::Whole(self.bytes.get(start..end).unwrap_or_default().trim_ascii()));
            }
        }
    }

    /// What is left when nothing more will come: a last line without an end.
    pub(crate) fn rest(&mut self) -> Option<Line<'_>> {
        let start = std::mem::replace(&mut self.start, self.bytes.len());
        self.seen = self.bytes.len();
        if std::mem::take(&mut self.passing) {
            return Some(Line::TooLong);
        }
        let line = self.bytes.get(start..).unwrap_or_default().trim_ascii();
        (!line.is_empty()).then_some(Line::Whole(line))
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

    impl From<Line<'_>> for Seen {
        fn from(line: Line<'_>) -> Self {
            match line {
                Line::Whole(line) => Self::Whole(line.to_vec()),
                Line::TooLong => Self::TooLong,
            }
        }
    }

    /// What comes out when these pieces come one after the other.
    fn cut(pieces: &[Vec<u8>], longest: usize) -> Vec<Seen> {
        let mut lines = Lines::new(longest);
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

    /// The same, from the whole text at once.
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
        let mut lines = Lines::new(1024);
        for _ in 0..1000 {
            lines.buffer().extend_from_slice(&[b'x'; 1024]);
            assert_eq!(lines.next(), None);
        }
        assert!(lines.bytes.capacity() < 2 * USUAL, "{}", lines.bytes.capacity());
        lines.buffer().extend_from_slice(b"\n{}\n");
        assert_eq!(lines.next(), Some(Line::TooLong));
        assert_eq!(lines.next(), Some(Line::Whole(b"{}")));
        assert_eq!(lines.next(), None);
    }
}
