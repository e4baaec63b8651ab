//! Finds the nearest match of a text, and how it differs.
//!
//! A model that misses by a tab or a line end can repair its call in one step when the error says so. The search is advice only: nothing is ever
//! changed at a place that was found here. Its cost grows with the text, not with the product of text and wanted text.

mod similarity;
mod normalize;

use std::fmt;

use serde_json::{Map, Value};

use crate::line_index::{LineIndex, truncate_at_char_boundary};

/// How much of a text is searched for a near match.
const MAX_SEARCHED_BYTES: usize = 4 << 20;
/// Lines shown of a near match.
const MAX_SHOWN_LINES: usize = 20;
/// Bytes shown of a near match.
const MAX_SHOWN_BYTES: usize = 2000;
/// Bytes shown of a single line.
const MAX_SHOWN_LINE_BYTES: usize = 160;

/// The place in a text that comes nearest to the wanted text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearestMatch {
    /// Its first line, counted from 1.
    pub first_line: usize,
    /// Its last line.
    pub last_line: usize,
    /// The lines as they are, or the beginning of them.
    pub text: String,
    /// Whether `text` is only the beginning.
    pub cut: bool,
    /// How it differs from the wanted text.
    pub difference: MatchDifference,
    /// The first line that differs.
    pub mismatch: Option<Mismatch>,
}

/// How two texts differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchDifference {
    /// The text ends lines with CRLF, the wanted text with LF.
    TextHasCrlf,
    /// The wanted text ends lines with CRLF, the text with LF.
    WantedHasCrlf,
    /// The wanted text ends with a line end, the text does not.
    FinalNewline,
    /// Spaces or tabs at the ends of lines.
    TrailingSpace,
    /// Tabs versus spaces.
    TabsAndSpaces,
    /// Spaces at the beginnings of lines.
    Indentation,
    /// Spaces or line breaks anywhere.
    Whitespace,
    /// Upper and lower case.
    Case,
    /// Typographic quotes, dashes or spaces instead of ASCII ones.
    Typography,
    /// Words; this much is the same.
    Similar {
        /// Percent.
        percent: usize,
    },
}

/// One line as it is and as it was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Its number in the text.
    pub line: usize,
    /// The line in the text; `None` past the end.
    pub found: Option<String>,
    /// The expected line.
    pub wanted: String,
}

impl MatchDifference {
    /// A stable name for programs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TextHasCrlf | Self::WantedHasCrlf => "line_endings",
            Self::FinalNewline => "final_newline",
            Self::TrailingSpace => "trailing_space",
            Self::TabsAndSpaces => "tabs_and_spaces",
            Self::Indentation => "indentation",
            Self::Whitespace => "whitespace",
            Self::Case => "case",
            Self::Typography => "typography",
            Self::Similar { .. } => "similar",
        }
    }
}

impl fmt::Display for MatchDifference {
    /// The text after `differs` or `differ`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::TextHasCrlf => "only in line ends: the file has CRLF (`\\r\\n`) where LF (`\\n`) was sent",
            Self::WantedHasCrlf => {
                "only in line ends: the file has LF (`\\n`) where CRLF (`\\r\\n`) was sent"
            }
            Self::FinalNewline => "only in the last line end: the file ends without one",
            Self::TrailingSpace => "only in spaces at the ends of lines",
            Self::TabsAndSpaces => "only in tabs and spaces",
            Self::Indentation => "only in indentation",
            Self::Whitespace => "only in spaces or line breaks",
            Self::Case => "only in upper and lower case",
            Self::Typography => "only in typographic quotes, dashes or spaces",
            Self::Similar { percent } => return write!(formatter, "in words ({percent} % the same)"),
        })
    }
}

impl NearestMatch {
    /// The place in `text` nearest to `wanted`, or `None` when nothing there resembles it.
    pub(crate) fn nearest(text: &str, wanted: &str) -> Option<Self> {
        let text = truncate_at_char_boundary(text, MAX_SEARCHED_BYTES);
        if wanted.trim().is_empty() || wanted.len() > MAX_SEARCHED_BYTES {
            return None;
        }
        let lines = LineIndex::new(text);
        let (first, last, difference) = normalize::find_normalized(text, wanted)
            .or_else(|| similarity::similar_lines(&lines, text, wanted))?;
        Some(Self::describe(&lines, wanted, first, last, difference))
    }

    fn describe(
        lines: &LineIndex<'_>,
        wanted: &str,
        first: usize,
        last: usize,
        difference: MatchDifference,
    ) -> Self {
        let whole = lines.slice(first, last).unwrap_or_default();
        let shown =
            lines.slice(first, last.min(first.saturating_add(MAX_SHOWN_LINES - 1))).unwrap_or_default();
        let shown = truncate_at_char_boundary(shown, MAX_SHOWN_BYTES);
        Self {
            first_line: first,
            last_line: last,
            text: shown.to_owned(),
            cut: shown.len() < whole.len(),
            difference,
            mismatch: Mismatch::first(lines, first, wanted.split_inclusive('\n')),
        }
    }

    /// `line 3` or `lines 3-5`.
    pub(crate) fn name(&self) -> String {
        if self.first_line == self.last_line {
            format!("line {}", self.first_line)
        } else {
            format!("lines {}-{}", self.first_line, self.last_line)
        }
    }

    /// `line 3 comes nearest and differs only in indentation`.
    pub(crate) fn sentence(&self) -> String {
        let verbs = if self.first_line == self.last_line { ["comes", "differs"] } else { ["come", "differ"] };
        let [comes, differs] = verbs;
        format!("{} {comes} nearest and {differs} {}", self.name(), self.difference)
    }

    /// The match as machine-readable details.
    pub(crate) fn details(&self) -> Value {
        let mut details = Map::new();
        details.insert("start_line".to_owned(), self.first_line.into());
        details.insert("end_line".to_owned(), self.last_line.into());
        details.insert("text".to_owned(), self.text.as_str().into());
        details.insert("difference".to_owned(), self.difference.as_str().into());
        if let MatchDifference::Similar { percent } = self.difference {
            details.insert("similarity_percent".to_owned(), percent.into());
        }
        Value::Object(details)
    }
}

impl Mismatch {
    /// The first wanted line that is not in the text, from line `first` on.
    pub(crate) fn first<'a>(
        lines: &LineIndex<'_>,
        first: usize,
        wanted: impl IntoIterator<Item = &'a str>,
    ) -> Option<Self> {
        (first..).zip(wanted).find(|(number, wanted)| lines.get(*number) != Some(*wanted)).map(
            |(number, wanted)| Self {
                line: number,
                found: lines.get(number).map(shown_line),
                wanted: shown_line(wanted),
            },
        )
    }
}

/// A line without its line feed, truncated when it is long; a carriage return and tabs are made visible.
pub(crate) fn shown_line(line: &str) -> String {
    let line = line.strip_suffix('\n').unwrap_or(line);
    let start = truncate_at_char_boundary(line, MAX_SHOWN_LINE_BYTES);
    let mut shown = start.replace('\r', "\\r").replace('\t', "\\t");
    if start.len() < line.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nearest(text: &str, wanted: &str) -> Option<(usize, usize, MatchDifference)> {
        NearestMatch::nearest(text, wanted).map(|place| (place.first_line, place.last_line, place.difference))
    }

    #[test]
    fn names_the_difference() {
        let code = "fn main() {\n    let total = add(1, 2);\n    print(total);\n}\n";
        for (text, wanted, expected) in [
            ("x\r\na\r\nb\r\n", "a\nb\n", (2, 3, MatchDifference::TextHasCrlf)),
            ("x\na\nb\n", "a\r\nb\r\n", (2, 3, MatchDifference::WantedHasCrlf)),
            ("x\na\nb", "a\nb\n", (2, 3, MatchDifference::FinalNewline)),
            ("a  \nb\n", "a\nb\n", (1, 2, MatchDifference::TrailingSpace)),
            ("a\nb\n", "a \nb\n", (1, 2, MatchDifference::TrailingSpace)),
            (code, "  let total = add(1, 2);\n  print(total);", (2, 3, MatchDifference::Indentation)),
            (code, "\tlet total = add(1, 2);\n", (2, 2, MatchDifference::TabsAndSpaces)),
            (code, "add( 1,2 )", (2, 2, MatchDifference::Whitespace)),
            (code, "main() { let total", (1, 2, MatchDifference::Whitespace)),
            (code, "LET Total = add", (2, 2, MatchDifference::Case)),
            ("say \"it's\"\n", "say “it’s”", (1, 1, MatchDifference::Typography)),
            ("a\u{a0}b\n", "a b", (1, 1, MatchDifference::Typography)),
        ] {
            assert_eq!(nearest(text, wanted), Some(expected), "{wanted:?}");
        }
    }

    #[test]
    fn finds_similar_lines() {
        let text = "one\n\nfn alpha() {\n    body();\n}\n\nfn beta(value: u32) {\n    other(value);\n}\n";
        let (first, last, difference) =
            nearest(text, "fn beta(value: u64) {\n    other(value)\n}\n").unwrap();
        assert_eq!((first, last), (7, 9));
        assert!(matches!(difference, MatchDifference::Similar { percent: 85..=99 }), "{difference:?}");
        let (first, ..) = nearest("abcdefgh and much more\nabcdefgh\n", "abcdefghi").unwrap();
        assert_eq!(first, 2);
        let place = NearestMatch::nearest(text, "fn beta(value: u64) {\n").unwrap();
        let mismatch = place.mismatch.unwrap();
        assert_eq!(mismatch.line, 7);
        assert_eq!(mismatch.found.as_deref(), Some("fn beta(value: u32) {"));
    }

    #[test]
    fn finds_nothing_where_nothing_is_near() {
        for (text, wanted) in [("", "a"), ("abc\n", "zzzzzz qqqq"), ("abc\n", " \n"), ("a\n", "")] {
            assert_eq!(nearest(text, wanted), None, "{wanted:?}");
        }
    }

    #[test]
    fn shows_a_bounded_part() {
        let text = "some quite long line of text\n".repeat(500);
        let wanted = "some quite long line of texts\n".repeat(300);
        let place = NearestMatch::nearest(&text, &wanted).unwrap();
        assert!(place.cut && place.text.len() <= MAX_SHOWN_BYTES);
        assert_eq!(shown_line(&"é".repeat(200)).chars().count(), 81);
        assert_eq!(shown_line("a\tb\r\n"), "a\\tb\\r");
    }
}
