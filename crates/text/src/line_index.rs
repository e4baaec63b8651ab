//! Parts of a text: truncated at a character boundary, or selected by line.
//!
//! Only `\n` ends a line; a `\r` before it belongs to the line. A selection keeps its line ends exactly, so that it can be written back.

use thiserror::Error;
use toolgate_types::{ErrorCode, Failure};

/// The longest prefix of `text` that fits into `max_bytes` and ends at a character boundary.
#[must_use]
pub fn truncate_at_char_boundary(text: &str, max_bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(max_bytes)).unwrap_or_default()
}

/// A text whose lines can be selected by number.
#[derive(Clone, Debug)]
pub struct LineIndex<'a> {
    text: &'a str,
    /// The start of each line.
    starts: Vec<usize>,
}

impl<'a> LineIndex<'a> {
    /// Indexes the lines of `text`. An empty text has none, and a final line end does not begin another line.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        let mut starts = Vec::new();
        let mut offset = 0;
        for line in text.split_inclusive('\n') {
            starts.push(offset);
            offset += line.len();
        }
        Self { text, starts }
    }

    /// How many lines there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.starts.len()
    }

    /// The line with this number, counted from 1, with its line end.
    #[must_use]
    pub fn get(&self, number: usize) -> Option<&'a str> {
        let start = *self.starts.get(number.checked_sub(1)?)?;
        self.text.get(start..self.end_of(number))
    }

    /// The number of the line that contains the byte at `offset`; past the end, the last line.
    #[must_use]
    pub fn number_at(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset)
    }

    /// The lines `first..=last`, counted from 1, unchanged. A `last` past the end means the end.
    ///
    /// # Errors
    /// When the lines do not exist or the range is inverted. Line 1 of an empty text is the empty text.
    pub fn slice(&self, first: usize, last: usize) -> Result<&'a str, RangeError> {
        if first == 0 || last == 0 {
            return Err(RangeError::Zero);
        }
        if last < first {
            return Err(RangeError::Backwards { first, last });
        }
        if first > self.count().max(1) {
            return Err(RangeError::PastEnd { first, count: self.count() });
        }
        let start = self.starts.get(first - 1).copied().unwrap_or(self.text.len());
        self.text.get(start..self.end_of(last)).ok_or(RangeError::PastEnd { first, count: self.count() })
    }

    fn end_of(&self, number: usize) -> usize {
        self.starts.get(number).copied().unwrap_or(self.text.len())
    }
}

/// Why lines cannot be selected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RangeError {
    /// Lines are counted from 1.
    #[error("there is no line 0")]
    Zero,
    /// The last line comes before the first.
    #[error("line `{last}` comes before line `{first}`")]
    Backwards {
        /// The first requested line.
        first: usize,
        /// The last requested line.
        last: usize,
    },
    /// The first line lies past the end.
    #[error("line `{first}` is past the end: the file has {count} lines")]
    PastEnd {
        /// The first requested line.
        first: usize,
        /// How many lines there are.
        count: usize,
    },
}

impl RangeError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode::InvalidRange
    }

    fn help(&self) -> String {
        match self {
            Self::Zero => "count lines from 1".to_owned(),
            Self::Backwards { .. } => "give the smaller number first".to_owned(),
            Self::PastEnd { count, .. } => format!("ask for lines between 1 and {}", count.max(&1)),
        }
    }
}

impl From<RangeError> for Failure {
    fn from(error: RangeError) -> Self {
        let failure = Self::new(error.code(), error.to_string()).help(error.help());
        match error {
            RangeError::PastEnd { count, .. } => failure.detail("total_lines", count),
            RangeError::Zero | RangeError::Backwards { .. } => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_lines_with_their_ends() {
        let lines = LineIndex::new("a\r\nb\n\nlast");
        for (first, last, wanted) in [
            (1, 1, "a\r\n"),
            (1, 2, "a\r\nb\n"),
            (2, 3, "b\n\n"),
            (4, 4, "last"),
            (3, usize::MAX, "\nlast"),
            (1, 4, "a\r\nb\n\nlast"),
        ] {
            assert_eq!(lines.slice(first, last).unwrap(), wanted, "{first}..={last}");
        }
        assert_eq!(lines.count(), 4);
        assert_eq!((lines.get(0), lines.get(2), lines.get(5)), (None, Some("b\n"), None));
        assert_eq!([0, 2, 3, 5, 6, 99].map(|offset| lines.number_at(offset)), [1, 1, 2, 3, 4, 4]);
    }

    #[test]
    fn refuses_lines_that_do_not_exist() {
        let lines = LineIndex::new("a\nb\n");
        assert_eq!(lines.slice(0, 1), Err(RangeError::Zero));
        assert_eq!(lines.slice(1, 0), Err(RangeError::Zero));
        assert_eq!(lines.slice(2, 1), Err(RangeError::Backwards { first: 2, last: 1 }));
        assert_eq!(lines.slice(3, 3), Err(RangeError::PastEnd { first: 3, count: 2 }));
        assert_eq!(LineIndex::new("").slice(1, 5), Ok(""));
        assert_eq!(LineIndex::new("").slice(2, 5), Err(RangeError::PastEnd { first: 2, count: 0 }));
    }

    #[test]
    fn never_cuts_a_character() {
        for (max, wanted) in [(0, ""), (1, "a"), (2, "a"), (3, "aé"), (6, "aé"), (7, "aé😀"), (99, "aé😀")]
        {
            assert_eq!(truncate_at_char_boundary("aé😀", max), wanted);
        }
    }

    #[test]
    fn says_what_to_ask_for() {
        let texts: Vec<String> = [
            RangeError::Zero,
            RangeError::Backwards { first: 9, last: 2 },
            RangeError::PastEnd { first: 9, count: 2 },
        ]
        .map(|error| Failure::from(error).to_string())
        .into();
        insta::assert_snapshot!(texts.join("\n"), @r"
        there is no line 0; count lines from 1
        line `2` comes before line `9`; give the smaller number first
        line `9` is past the end: the file has 2 lines; ask for lines between 1 and 2
        ");
    }
}
