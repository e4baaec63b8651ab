//! Where in a text something almost stands, and what keeps it from standing there exactly.
//!
//! A model that misses by a tab or a line end can repair its call in one step when it is told so. The search is
//! advice only: nothing is ever changed at a place that was found here. Its cost grows with the text, not with the
//! product of text and wanted text.

use std::collections::HashMap;
use std::fmt;

use serde_json::{Map, Value};

use crate::window::{Lines, truncate_at_char_boundary};

/// Only so much of a text is searched for a near place.
const SEARCHED_BYTES: usize = 4 << 20;
/// Only so many lines of what was wanted are compared.
const WANTED_LINES: usize = 200;
/// Lines shown of a near place.
const SHOWN_LINES: usize = 20;
/// Bytes shown of a near place.
const SHOWN_BYTES: usize = 2000;
/// Bytes shown of a single line.
const SHOWN_LINE_BYTES: usize = 160;
/// Below this, two texts have nothing to do with each other.
const LEAST_SIMILARITY: usize = 50;
/// A line of what was wanted votes for so many places at most; `}` votes for none in particular.
const VOTES_PER_LINE: usize = 4;

/// The place in a text that comes nearest to what was wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its first line, counted from 1.
    pub first_line: usize,
    /// Its last line.
    pub last_line: usize,
    /// The lines as they stand, or the beginning of them.
    pub text: String,
    /// Whether `text` is only the beginning.
    pub cut: bool,
    /// What keeps it from being what was wanted.
    pub difference: Difference,
    /// The first line that differs.
    pub mismatch: Option<Mismatch>,
}

/// What distinguishes two texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The text ends lines with CRLF, the wanted text with LF.
    TextHasCrlf,
    /// The wanted text ends lines with CRLF, the text with LF.
    WantedHasCrlf,
    /// The wanted text ends with a line end where the text just ends.
    FinalNewline,
    /// Spaces or tabs at the ends of lines.
    TrailingSpace,
    /// Tabs here, spaces there.
    TabsAndSpaces,
    /// Spaces at the beginnings of lines.
    Indentation,
    /// Spaces or line breaks anywhere.
    Whitespace,
    /// Upper and lower case.
    Case,
    /// Typographic quotes, dashes or spaces instead of the plain ones.
    Typography,
    /// Words; this much is the same.
    Similar {
        /// Hundredths.
        percent: usize,
    },
}

/// One line as it is and as it was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Its number in the text.
    pub line: usize,
    /// How it stands there; `None` past the end.
    pub found: Option<String>,
    /// How it was expected.
    pub wanted: String,
}

impl Difference {
    /// A stable word for programs.
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

impl fmt::Display for Difference {
    /// What comes after `differs` or `differ`.
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

impl Place {
    /// The place in `text` nearest to `wanted`, or `None` when nothing there resembles it.
    pub(crate) fn nearest(text: &str, wanted: &str) -> Option<Self> {
        let text = truncate_at_char_boundary(text, SEARCHED_BYTES);
        if wanted.trim().is_empty() || wanted.len() > SEARCHED_BYTES {
            return None;
        }
        let lines = Lines::new(text);
        let (first, last, difference) =
            same_but_for(text, wanted).or_else(|| similar_lines(&lines, text, wanted))?;
        Some(Self::describe(&lines, wanted, first, last, difference))
    }

    fn describe(lines: &Lines<'_>, wanted: &str, first: usize, last: usize, difference: Difference) -> Self {
        let whole = lines.pick(first, last).unwrap_or_default();
        let shown = lines.pick(first, last.min(first.saturating_add(SHOWN_LINES - 1))).unwrap_or_default();
        let shown = truncate_at_char_boundary(shown, SHOWN_BYTES);
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

    /// The place as facts for programs.
    pub(crate) fn details(&self) -> Value {
        let mut details = Map::new();
        details.insert("start_line".to_owned(), self.first_line.into());
        details.insert("end_line".to_owned(), self.last_line.into());
        details.insert("text".to_owned(), self.text.as_str().into());
        details.insert("difference".to_owned(), self.difference.as_str().into());
        if let Difference::Similar { percent } = self.difference {
            details.insert("similarity_percent".to_owned(), percent.into());
        }
        Value::Object(details)
    }
}

impl Mismatch {
    /// The first of the wanted lines that does not stand in the text from line `first` on.
    pub(crate) fn first<'a>(
        lines: &Lines<'_>,
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

/// A line without its line feed, cut when it is long; a carriage return and tabs are made visible.
pub(crate) fn shown_line(line: &str) -> String {
    let line = line.strip_suffix('\n').unwrap_or(line);
    let start = truncate_at_char_boundary(line, SHOWN_LINE_BYTES);
    let mut shown = start.replace('\r', "\\r").replace('\t', "\\t");
    if start.len() < line.len() {
        shown.push('…');
    }
    shown
}

/// Looks for `wanted` while closing one eye after the other.
fn same_but_for(text: &str, wanted: &str) -> Option<(usize, usize, Difference)> {
    let without_end = wanted.trim_end_matches(['\n', '\r']);
    if without_end.len() < wanted.len() && !text.ends_with('\n') && text.ends_with(without_end) {
        let lines = Lines::new(text);
        let first = lines.number_at(text.len() - without_end.len());
        return Some((first, lines.count(), Difference::FinalNewline));
    }
    let readings: [(Reading, Difference); 6] = [
        (without_carriage_returns, line_end_difference(wanted)),
        (without_trailing_space, Difference::TrailingSpace),
        (without_indentation, Difference::Indentation),
        (in_plain_characters, Difference::Typography),
        (without_space, Difference::Whitespace),
        (in_lower_case, Difference::Case),
    ];
    readings.into_iter().find_map(|(reading, difference)| {
        let (first, last) = find_read(text, wanted, reading)?;
        Some((first, last, refine(difference, text, wanted, first, last)))
    })
}

fn line_end_difference(wanted: &str) -> Difference {
    if wanted.contains("\r\n") { Difference::WantedHasCrlf } else { Difference::TextHasCrlf }
}

/// Says tabs where the difference in space is one of tabs.
fn refine(difference: Difference, text: &str, wanted: &str, first: usize, last: usize) -> Difference {
    let in_space = matches!(difference, Difference::Indentation | Difference::Whitespace);
    let there = Lines::new(text).pick(first, last).unwrap_or_default();
    if in_space && there.contains('\t') != wanted.contains('\t') {
        return Difference::TabsAndSpaces;
    }
    difference
}

/// Writes a line (with its line end) in a form in which some differences disappear.
type Reading = fn(&str, &mut String);

fn without_carriage_returns(line: &str, out: &mut String) {
    match line.strip_suffix("\r\n") {
        Some(line) => out.extend([line, "\n"]),
        None => out.push_str(line),
    }
}

fn without_trailing_space(line: &str, out: &mut String) {
    out.push_str(line.trim_end());
    out.push_str(line_feed(line));
}

fn without_indentation(line: &str, out: &mut String) {
    out.push_str(line.trim());
    out.push_str(line_feed(line));
}

fn without_space(line: &str, out: &mut String) {
    out.extend(line.split_whitespace());
}

fn in_lower_case(line: &str, out: &mut String) {
    out.extend(line.chars().flat_map(char::to_lowercase));
}

fn in_plain_characters(line: &str, out: &mut String) {
    out.extend(line.chars().map(|character| match character {
        '‘' | '’' | '‛' | '′' => '\'',
        '“' | '”' | '„' | '″' => '"',
        '‐'..='―' | '−' => '-',
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{3000}' => ' ',
        other => other,
    }));
}

fn line_feed(line: &str) -> &'static str {
    if line.ends_with('\n') { "\n" } else { "" }
}

/// The first and last line of the first place where text and wanted text read the same.
fn find_read(text: &str, wanted: &str, reading: Reading) -> Option<(usize, usize)> {
    let (wanted, _) = read(wanted, reading);
    if wanted.trim().is_empty() {
        return None;
    }
    let (text, starts) = read(text, reading);
    let start = text.find(&wanted)?;
    let line_of = |offset: usize| starts.partition_point(|start| *start <= offset);
    Some((line_of(start), line_of(start + wanted.len() - 1)))
}

fn read(text: &str, reading: Reading) -> (String, Vec<usize>) {
    let mut out = String::with_capacity(text.len());
    let mut starts = Vec::new();
    for line in text.split_inclusive('\n') {
        starts.push(out.len());
        reading(line, &mut out);
    }
    (out, starts)
}

/// The window of lines that shares most with the wanted lines.
fn similar_lines(lines: &Lines<'_>, text: &str, wanted: &str) -> Option<(usize, usize, Difference)> {
    let wanted_lines: Vec<&str> = wanted.split_inclusive('\n').take(WANTED_LINES).collect();
    let height = wanted_lines.len();
    let mut pairs = Pairs::of(wanted_lines.concat().trim());
    [most_votes(text, &wanted_lines), like_longest_line(text, &wanted_lines)]
        .into_iter()
        .flatten()
        .filter_map(|first| {
            let last = (first + height - 1).min(lines.count());
            let percent = pairs.similarity(lines.pick(first, last).ok()?.trim());
            (percent >= LEAST_SIMILARITY).then_some((first, last, Difference::Similar { percent }))
        })
        .max_by_key(|(first, _, difference)| match difference {
            Difference::Similar { percent } => (*percent, usize::MAX - first),
            _ => (0, 0),
        })
}

/// The first line of the window in which most lines are exactly wanted ones, at the right distance.
fn most_votes(text: &str, wanted: &[&str]) -> Option<usize> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, line) in wanted.iter().enumerate().filter(|(_, line)| line.trim().len() >= 3) {
        let indexes = places.entry(line.trim()).or_default();
        if indexes.len() < VOTES_PER_LINE {
            indexes.push(index);
        }
    }
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (number, line) in (1usize..).zip(text.split_inclusive('\n')) {
        for index in places.get(line.trim()).into_iter().flatten() {
            *votes.entry(number.saturating_sub(*index).max(1)).or_default() += 1;
        }
    }
    votes.into_iter().max_by_key(|(first, votes)| (*votes, usize::MAX - first)).map(|(first, _)| first)
}

/// Where the window would begin if the line most like the longest wanted line were that line.
fn like_longest_line(text: &str, wanted: &[&str]) -> Option<usize> {
    let (index, longest) = wanted.iter().enumerate().max_by_key(|(_, line)| line.trim().len())?;
    let mut pairs = Pairs::of(longest.trim());
    let (number, percent) = (1usize..)
        .zip(text.split_inclusive('\n'))
        .map(|(number, line)| (number, pairs.similarity(line.trim())))
        .max_by_key(|(number, percent)| (*percent, usize::MAX - number))?;
    (percent > 0).then(|| number.saturating_sub(index).max(1))
}

/// How often each pair of neighbouring bytes occurs in a text.
struct Pairs {
    counts: HashMap<[u8; 2], u32>,
    total: usize,
}

impl Pairs {
    fn of(text: &str) -> Self {
        let mut counts = HashMap::new();
        for pair in pairs(text) {
            *counts.entry(pair).or_default() += 1;
        }
        Self { counts, total: text.len().saturating_sub(1) }
    }

    /// Twice the shared pairs in hundredths of all pairs (the Sørensen–Dice coefficient).
    fn similarity(&mut self, other: &str) -> usize {
        let mut taken = Vec::new();
        for pair in pairs(other) {
            if let Some(count) = self.counts.get_mut(&pair).filter(|count| **count > 0) {
                *count -= 1;
                taken.push(pair);
            }
        }
        for pair in &taken {
            self.counts.entry(*pair).and_modify(|count| *count += 1);
        }
        let all = self.total + other.len().saturating_sub(1);
        (taken.len() * 200).checked_div(all).unwrap_or(0)
    }
}

fn pairs(text: &str) -> impl Iterator<Item = [u8; 2]> {
    text.bytes().zip(text.bytes().skip(1)).map(|(first, second)| [first, second])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nearest(text: &str, wanted: &str) -> Option<(usize, usize, Difference)> {
        Place::nearest(text, wanted).map(|place| (place.first_line, place.last_line, place.difference))
    }

    #[test]
    fn names_the_difference() {
        let code = "fn main() {\n    let total = add(1, 2);\n    print(total);\n}\n";
        for (text, wanted, expected) in [
            ("x\r\na\r\nb\r\n", "a\nb\n", (2, 3, Difference::TextHasCrlf)),
            ("x\na\nb\n", "a\r\nb\r\n", (2, 3, Difference::WantedHasCrlf)),
            ("x\na\nb", "a\nb\n", (2, 3, Difference::FinalNewline)),
            ("a  \nb\n", "a\nb\n", (1, 2, Difference::TrailingSpace)),
            ("a\nb\n", "a \nb\n", (1, 2, Difference::TrailingSpace)),
            (code, "  let total = add(1, 2);\n  print(total);", (2, 3, Difference::Indentation)),
            (code, "\tlet total = add(1, 2);\n", (2, 2, Difference::TabsAndSpaces)),
            (code, "add( 1,2 )", (2, 2, Difference::Whitespace)),
            (code, "main() { let total", (1, 2, Difference::Whitespace)),
            (code, "LET Total = add", (2, 2, Difference::Case)),
            ("say \"it's\"\n", "say “it’s”", (1, 1, Difference::Typography)),
            ("a\u{a0}b\n", "a b", (1, 1, Difference::Typography)),
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
        assert!(matches!(difference, Difference::Similar { percent: 85..=99 }), "{difference:?}");
        let place = Place::nearest(text, "fn beta(value: u64) {\n").unwrap();
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
        let place = Place::nearest(&text, &wanted).unwrap();
        assert!(place.cut && place.text.len() <= SHOWN_BYTES);
        assert_eq!(shown_line(&"é".repeat(200)).chars().count(), 81);
        assert_eq!(shown_line("a\tb\r\n"), "a\\tb\\r");
    }
}
