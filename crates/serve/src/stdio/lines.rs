//! Splits the input into lines.

use toolgate_text::line_buffer::LineBuffer;

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
    lines: LineBuffer,
    max_bytes: usize,
    /// Whether the current line is being skipped.
    skipping: bool,
}

impl InputLines {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { lines: LineBuffer::default(), max_bytes, skipping: false }
    }

    /// The buffer to append input to.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        self.lines.buffer()
    }

    /// Whether all input has been consumed.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The next complete line.
    pub(crate) fn next(&mut self) -> Option<InputLine<'_>> {
        while let Some(range) = self.lines.next_range() {
            if std::mem::take(&mut self.skipping) || range.len() > self.max_bytes {
                return Some(InputLine::TooLong);
            }
            let is_blank = self.lines.line(range.clone()).is_none_or(|line| line.trim_ascii().is_empty());
            if !is_blank {
                return self.lines.line(range).map(|line| InputLine::Whole(line.trim_ascii()));
            }
        }
        self.skipping |= self.lines.pending_bytes() > self.max_bytes;
        if self.skipping {
            self.lines.take_rest();
        }
        None
    }

    /// The last line at end of input, without a line end.
    pub(crate) fn rest(&mut self) -> Option<InputLine<'_>> {
        let line = self.lines.take_rest().trim_ascii();
        if std::mem::take(&mut self.skipping) {
            return Some(InputLine::TooLong);
        }
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
        assert!(lines.buffer().capacity() < 512 * 1024, "{}", lines.buffer().capacity());
        lines.buffer().extend_from_slice(b"\n{}\n");
        assert_eq!(lines.next(), Some(InputLine::TooLong));
        assert_eq!(lines.next(), Some(InputLine::Whole(b"{}")));
        assert_eq!(lines.next(), None);
    }
}
