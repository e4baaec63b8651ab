//! Folds white space in untrusted text for the person who approves a call, so that it cannot push the rest out of sight.
//!
//! An approval card shows the whole call. A hundred blank lines, a thousand spaces or as many zero-width characters before the line that matters
//! would move that line off the screen, or below the part that a client shows. Such runs are folded into a count. Nothing else is: all visible text
//! stays. A run of different characters also shows its digest, so that no two texts are shown as the same one.

use std::fmt::Write as _;

use toolgate_types::Sha256;

use crate::confusables::{Charset, Escaping, TAB_COLUMNS, TextKind};
use crate::is_invisible;

/// Longer runs of blank lines are folded.
const MAX_BLANK_LINES: usize = 2;

/// White space inside a line that would be shown wider than this is folded.
const MAX_BLANK_COLUMNS: usize = 40;

/// Digits of the digest that stands for a run: 128 bits, so that finding two runs with the same digits is infeasible.
const DIGEST_DIGITS: usize = 32;

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// A line of a text.
    Text,
    /// A line before the hunks of a diff: names the file.
    Header,
    /// The header of a hunk.
    Hunk,
    /// An unchanged line.
    Context,
    /// An added line.
    Added,
    /// A removed line.
    Removed,
    /// The note that a file does not end with a line end.
    Note,
}

impl RowKind {
    /// Its name for programs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Header => "header",
            Self::Hunk => "hunk",
            Self::Context => "context",
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Note => "note",
        }
    }

    /// The sign before the text of such a line, separated from it: a removed `-- x` is not the header `--- x`.
    fn sign(self) -> &'static str {
        match self {
            Self::Text | Self::Header | Self::Hunk | Self::Note => "",
            Self::Context => "  ",
            Self::Added => "+ ",
            Self::Removed => "- ",
        }
    }

    fn content(self, text: TextKind) -> TextKind {
        match self {
            Self::Text => text,
            // File names; the gate's own words.
            Self::Header | Self::Hunk | Self::Note => TextKind::Command,
            Self::Context | Self::Added | Self::Removed => TextKind::Prose,
        }
    }

    /// Whether lines of this kind hold untrusted text, and can be blank.
    fn may_be_blank(self) -> bool {
        matches!(self, Self::Text | Self::Context | Self::Added | Self::Removed)
    }
}

/// A line as it is shown, or a count of blank ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoldedRow {
    /// Its kind.
    pub kind: RowKind,
    /// The text without the diff sign.
    pub text: String,
}

impl FoldedRow {
    /// The line with the sign of its kind.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{}{}", self.kind.sign(), self.text).trim_end().to_owned()
    }
}

/// A text as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folded {
    /// The lines. A run of blank lines is one of them.
    pub rows: Vec<FoldedRow>,
    /// How many lines the text has.
    pub lines: usize,
    /// How many bytes it has, including a final line end.
    pub bytes: usize,
    /// How many of its lines are counted instead of shown.
    pub blank_lines: usize,
    /// How many runs inside lines are counted instead of shown.
    pub runs: usize,
}

impl Folded {
    /// A command, arguments, or another text in which every character matters.
    #[must_use]
    pub fn command(text: &str, charset: Charset) -> Self {
        Self::new(text, |_| (RowKind::Text, 0), Escaping { content: TextKind::Command, charset })
    }

    /// A text that is not subject to the approval.
    #[must_use]
    pub fn remark(text: &str, charset: Charset) -> Self {
        Self::new(text, |_| (RowKind::Text, 0), Escaping { content: TextKind::Remark, charset })
    }

    /// A unified diff.
    #[must_use]
    pub fn diff(diff: &str, charset: Charset) -> Self {
        let mut hunk = HunkCounter::default();
        Self::new(diff, |line| hunk.kind(line), Escaping { content: TextKind::Prose, charset })
    }

    /// The size of the text: `3 lines, 2,140 bytes`.
    #[must_use]
    pub fn size(&self) -> String {
        format!("{}, {}", pluralize(self.lines, "line"), pluralize(self.bytes, "byte"))
    }

    /// How much of it is shown: `3 lines shown of 3, 2,140 bytes`.
    #[must_use]
    pub fn shown(&self) -> String {
        let shown = self.lines.saturating_sub(self.blank_lines);
        let mut told = format!(
            "{} shown of {}, {}",
            pluralize(shown, "line"),
            group_digits(self.lines),
            pluralize(self.bytes, "byte")
        );
        let folded = [(self.blank_lines, "blank line"), (self.runs, "run of white space")];
        let folded = folded.into_iter().filter(|(count, _)| *count > 0);
        let folded: Vec<String> = folded.map(|(count, one)| pluralize_runs(count, one)).collect();
        if !folded.is_empty() {
            let _ = write!(told, "; folded: {}", folded.join(", "));
        }
        told
    }

    /// Folds a text; `kind` returns the kind of each line and the length of its sign.
    fn new(text: &str, mut kind: impl FnMut(&str) -> (RowKind, usize), escaping: Escaping) -> Self {
        let bytes = text.len();
        let lines = text.strip_suffix('\n').unwrap_or(text).split('\n').map(|line| {
            let (kind, sign) = kind(line);
            let line = line.get(sign..).unwrap_or_default();
            // A trailing tab terminates a name that contains blanks, as `patch` requires; a tab inside a name is escaped.
            let line = line.strip_suffix('\t').filter(|_| kind == RowKind::Header).unwrap_or(line);
            (kind, line)
        });
        let lines: Vec<(RowKind, &str)> = lines.collect();
        let mut folded = Self { rows: Vec::new(), lines: lines.len(), bytes, blank_lines: 0, runs: 0 };
        let is_blank_line =
            |(kind, line): &(RowKind, &str)| kind.may_be_blank() && line.chars().all(is_blank);
        let run_on = |one: &(RowKind, &str), next: &(RowKind, &str)| {
            one.0 == next.0 && is_blank_line(one) && is_blank_line(next)
        };
        for run in lines.chunk_by(run_on) {
            let Some((kind, _)) = run.first().filter(|_| run.len() > MAX_BLANK_LINES) else {
                run.iter().for_each(|(kind, line)| folded.push(*kind, line, escaping));
                continue;
            };
            folded.blank_lines += run.len();
            let blanks: Vec<&str> = run.iter().map(|(_, line)| *line).collect();
            let count = pluralize(run.len(), "blank line");
            let count = match blanks.iter().all(|line| line.is_empty()) {
                true => count,
                false => format!("{count}, sha256 {}", digest(&blanks.join("\n"))),
            };
            folded.rows.push(FoldedRow { kind: *kind, text: bracketed(&count, escaping.charset) });
        }
        folded
    }

    fn push(&mut self, kind: RowKind, line: &str, escaping: Escaping) {
        let escaping = Escaping { content: kind.content(escaping.content), ..escaping };
        let pieces = pieces(line);
        self.runs += pieces.iter().filter(|piece| matches!(piece, LineSegment::Run(_))).count();
        self.rows.push(FoldedRow { kind, text: joined(pieces, escaping) });
    }
}

/// How many lines of a diff's hunk are still to come. A line is a header because it lies outside of every hunk, not because of how it begins.
#[derive(Default)]
struct HunkCounter {
    old: usize,
    new: usize,
}

impl HunkCounter {
    fn kind(&mut self, line: &str) -> (RowKind, usize) {
        if line.starts_with('\\') {
            return (RowKind::Note, 0);
        }
        if self.old == 0 && self.new == 0 {
            let Some(hunk) = line.strip_prefix("@@ -").and_then(Self::read) else {
                return (RowKind::Header, 0);
            };
            *self = hunk;
            return (RowKind::Hunk, 0);
        }
        let kind = match line.as_bytes().first() {
            Some(b'+') => RowKind::Added,
            Some(b'-') => RowKind::Removed,
            _ => RowKind::Context,
        };
        self.old = self.old.saturating_sub(usize::from(kind != RowKind::Added));
        self.new = self.new.saturating_sub(usize::from(kind != RowKind::Removed));
        (kind, usize::from(line.starts_with([' ', '+', '-'])))
    }

    /// The counts of `@@ -1,2 +3 @@`, after its first sign.
    fn read(line: &str) -> Option<Self> {
        let mut ranges = line.split(' ');
        let mut count = || {
            let range = ranges.next()?;
            range.split_once(',').map_or(Some(1), |(_, count)| count.parse().ok())
        };
        Some(Self { old: count()?, new: count()? })
    }
}

/// Folds one line, such as a summary or a path.
#[must_use]
pub fn line(line: &str, escaping: Escaping) -> String {
    joined(pieces(line), escaping)
}

fn joined(pieces: Vec<LineSegment<'_>>, escaping: Escaping) -> String {
    let mut text = String::new();
    for piece in pieces {
        let shown = match piece {
            LineSegment::Text(piece) => {
                escaping.line(piece, text.chars().map(crate::confusables::width).sum())
            }
            LineSegment::Run(run) => bracketed(&describe_run(run), escaping.charset),
        };
        text.push_str(&shown);
    }
    text
}

/// A count in brackets, which are escaped where they occur in a text.
fn bracketed(count: &str, charset: Charset) -> String {
    match charset {
        Charset::Unicode => format!("⟦{count}⟧"),
        Charset::Ascii => format!("\\{{{count}}}"),
    }
}

fn digest(text: &str) -> String {
    Sha256::of(text.as_bytes()).to_string().chars().take(DIGEST_DIGITS).collect()
}

/// A part of a line.
enum LineSegment<'t> {
    Text(&'t str),
    /// Blank characters, or a repeated invisible character.
    Run(&'t str),
}

/// The content of a run.
fn describe_run(run: &str) -> String {
    let count = run.chars().count();
    let first = run.chars().next().unwrap_or(' ');
    match (run.chars().all(|character| character == first), first) {
        (true, ' ') => pluralize(count, "space"),
        (true, '\t') => pluralize(count, "tab"),
        (true, other) => format!("{} times {}", group_digits(count), other.escape_unicode()),
        (false, _) => format!("{}, sha256 {}", pluralize(count, "blank character"), digest(run)),
    }
}

/// Splits a line into runs to be folded and the text between them.
fn pieces(line: &str) -> Vec<LineSegment<'_>> {
    let (mut pieces, mut text_start, mut rest_start) = (Vec::new(), 0, 0);
    while let Some(rest) = line.get(rest_start..).filter(|rest| !rest.is_empty()) {
        let length = run_length(rest);
        let run = rest.get(..length).unwrap_or_default();
        if columns(run) > MAX_BLANK_COLUMNS {
            let text = line.get(text_start..rest_start).unwrap_or_default();
            pieces.extend((!text.is_empty()).then_some(LineSegment::Text(text)));
            pieces.push(LineSegment::Run(run));
            text_start = rest_start + length;
        }
        // A character that begins no run is text.
        rest_start += length.max(rest.chars().next().map_or(1, char::len_utf8));
    }
    let text = line.get(text_start..).unwrap_or_default();
    pieces.extend((!text.is_empty()).then_some(LineSegment::Text(text)));
    pieces
}

/// The length in bytes of the run that a text begins with: blank characters, or a repeated invisible one.
fn run_length(text: &str) -> usize {
    let blank = text.chars().take_while(|character| is_blank(*character)).map(char::len_utf8).sum();
    match text.chars().next() {
        Some(first) if blank == 0 && is_invisible(first) => {
            text.chars().take_while(|character| *character == first).map(char::len_utf8).sum()
        }
        _ => blank,
    }
}

/// The minimum number of columns of a run: invisible characters are shown as escapes.
fn columns(run: &str) -> usize {
    let columns = |character: char| match character {
        '\t' => TAB_COLUMNS,
        hidden if is_invisible(hidden) => hidden.escape_unicode().count(),
        '\u{3000}' => 2,
        _ => 1,
    };
    run.chars().map(columns).sum()
}

/// Whether a character is blank: Unicode white space, blank letters, and characters without a width. Tags (U+E0000) and bidirectional controls are
/// not blank: they may carry a message.
fn is_blank(character: char) -> bool {
    match character {
        blank if blank.is_whitespace() => true,
        // Braille pattern blank; Hangul fillers.
        '\u{2800}' | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => true,
        // Soft hyphen, grapheme joiner, zero-width space and joiners, invisible operators, byte order mark, variation selectors.
        '\u{ad}' | '\u{34f}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}' => true,
        '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{fe00}'..='\u{fe0f}' => true,
        _ => false,
    }
}

/// A number with its noun.
fn pluralize(count: usize, one: &str) -> String {
    format!("{} {one}{}", group_digits(count), if count == 1 { "" } else { "s" })
}

/// The same for a noun whose plural is formed inside.
fn pluralize_runs(count: usize, one: &str) -> String {
    match one.strip_prefix("run") {
        Some(rest) if count != 1 => format!("{} runs{rest}", group_digits(count)),
        _ => pluralize(count, one),
    }
}

/// A whole number without a sign, with a comma before every third digit.
#[must_use]
pub fn group_digits(number: impl std::fmt::Display) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows(folded: &Folded) -> Vec<String> {
        folded.rows.iter().map(FoldedRow::line).collect()
    }

    #[test]
    fn padding_is_counted_and_text_stays() {
        let (lines, spaces, tabs) = ("\n".repeat(2000), " ".repeat(3000), "\t".repeat(300));
        let (wide, braille, joiners) = ("\u{3000}".repeat(90), "\u{2800}".repeat(90), "\u{200b}".repeat(90));
        for (text, shown) in [
            (format!("ls{lines}rm -rf x"), vec!["ls", "⟦1,999 blank lines⟧", "rm -rf x"]),
            (format!("ls{spaces}; rm"), vec!["ls⟦3,000 spaces⟧; rm"]),
            (format!("ls{tabs}; rm{spaces}"), vec!["ls⟦300 tabs⟧; rm⟦3,000 spaces⟧"]),
            (format!("ls;{wide}rm"), vec!["ls;⟦90 times \\u{3000}⟧rm"]),
            (format!("ls;{braille}rm"), vec!["ls;⟦90 times \\u{2800}⟧rm"]),
            (format!("ls;{joiners}rm"), vec!["ls;⟦90 times \\u{200b}⟧rm"]),
            (format!("ls;{}rm", "\u{7}".repeat(500)), vec!["ls;⟦500 times \\u{7}⟧rm"]),
            (format!("one{spaces}"), vec!["one⟦3,000 spaces⟧"]),
            ("a\n\n\nb  c\t\td".to_owned(), vec!["a", "", "", "b  c⇥   ⇥       d"]),
            ("a\u{200b}\u{e0041}b".to_owned(), vec!["a\\u{200b}\\u{e0041}b"]),
            (String::new(), vec![""]),
        ] {
            assert_eq!(rows(&Folded::command(&text, Charset::Unicode)), shown, "{text:?}");
        }
        let ascii = Folded::command(&format!("a{spaces}\n\\{{9 spaces}}"), Charset::Ascii);
        assert_eq!(rows(&ascii), ["a\\{3,000 spaces}", "\\u{5c}{9 spaces}"]);
    }

    #[test]
    fn runs_of_several_blanks_are_told_apart() {
        let shown = |text: &str| rows(&Folded::command(text, Charset::Unicode)).join("\n");
        let (one, other) = (" \t".repeat(40), "\t ".repeat(40));
        assert!(shown(&format!("a{one}b")).starts_with("a⟦80 blank characters, sha256 "), "{}", shown(&one));
        assert_ne!(shown(&format!("a{one}b")), shown(&format!("a{other}b")));
        assert!(shown("a\n\n \n\nb").contains("⟦3 blank lines, sha256 "));
        assert_ne!(shown("a\n\n \n\nb"), shown("a\n\n\n \nb"));
    }

    #[test]
    fn lines_of_a_diff_are_folded_by_their_sign() {
        let diff = "--- a\n+++ a\n@@ -1,8 +1,9 @@\n-\n-\n-\n+\n+\n+\n+\n+x\n \n \n\n \n-y\n\\ No newline at end of file\n";
        let shown = ["--- a", "+++ a", "@@ -1,8 +1,9 @@", "- ⟦3 blank lines⟧", "+ ⟦4 blank lines⟧", "+ x"];
        let end = ["  ⟦4 blank lines⟧", "- y", "\\ No newline at end of file"];
        assert_eq!(rows(&Folded::diff(diff, Charset::Unicode)), [&shown[..], &end[..]].concat());
    }

    /// A file that contains lines of a diff does not begin another file in the card.
    #[test]
    fn no_line_of_a_file_is_taken_for_a_header() {
        let diff =
            "--- a\n+++ a\n@@ -1,2 +1,2 @@\n--- b\n+++ b\n @@ -1 +1 @@\n--- c\n+++ c\n@@ -1 +1 @@\n-x\n+y\n";
        let folded = Folded::diff(diff, Charset::Unicode);
        let headers = folded.rows.iter().filter(|row| row.kind == RowKind::Header).map(FoldedRow::line);
        assert_eq!(headers.collect::<Vec<_>>(), ["--- a", "+++ a", "--- c", "+++ c"]);
        assert_eq!(rows(&folded)[3..6], ["- -- b", "+ ++ b", "  @@ -1 +1 @@"]);
    }

    #[test]
    fn the_tab_that_ends_a_name_with_blanks_is_not_shown() {
        let diff = crate::diff::unified("", "x\n", "/dev/null", "a b", 3);
        assert!(diff.contains("+++ a b\t\n"), "{diff:?}");
        assert_eq!(rows(&Folded::diff(&diff, Charset::Unicode))[..2], ["--- /dev/null", "+++ a b"]);
    }

    #[test]
    fn what_is_shown_is_said_with_its_size() {
        let small = Folded::command("one\ntwo", Charset::Unicode);
        assert_eq!(small.size(), "2 lines, 7 bytes");
        assert_eq!(small.shown(), "2 lines shown of 2, 7 bytes");
        assert_eq!(Folded::command("one\ntwo\n", Charset::Unicode).size(), "2 lines, 8 bytes");
        let padded =
            Folded::command(&format!("a{}b{}c", "\n".repeat(1200), " ".repeat(90)), Charset::Unicode);
        assert_eq!(
            padded.shown(),
            "2 lines shown of 1,201, 1,293 bytes; folded: 1,199 blank lines, 1 run of white space"
        );
    }

    proptest! {
        /// All visible text stays, in its order, and no line is lost.
        #[test]
        fn nothing_but_blank_characters_is_folded(text in "([a-d\\n\\t \u{3000}]|\\n{3,9}| {41,60}){0,80}") {
            let folded = Folded::command(&text, Charset::Unicode);
            let visible = |text: &str| text.chars().filter(|c| matches!(c, 'a'..='d')).collect::<String>();
            let shown = rows(&folded).join("\n");
            let outside: String = shown.split('⟦').map(|part| part.split_once('⟧').map_or(part, |(_, after)| after)).collect();
            let outside = outside.replace("\\u{20}", "").replace("\\u{3000}", "");
            prop_assert_eq!(visible(&outside), visible(&text));
            prop_assert_eq!(folded.lines, text.strip_suffix('\n').unwrap_or(&text).split('\n').count());
            let counts = folded.rows.iter().filter(|row| row.text.contains("blank line")).count();
            prop_assert_eq!(folded.rows.len() - counts + folded.blank_lines, folded.lines);
        }

        #[test]
        fn no_row_holds_a_long_run(text in "([ab\\n\\t ]| {1,60}|\u{200b}{1,60}){0,40}") {
            for row in rows(&Folded::command(&text, Charset::Unicode)) {
                let longest = row.split(|c| c != ' ' && c != '⇥').map(|run| run.chars().count()).max().unwrap_or(0);
                prop_assert!(longest <= MAX_BLANK_COLUMNS + TAB_COLUMNS, "{row:?}");
            }
        }

        /// Different texts of white space are shown as different too.
        #[test]
        fn no_two_texts_are_shown_as_the_same(one in "(a|[ \\t\\n\u{a0}]{0,3}|[ \\t]{39,43}|\\n{2,4}){0,6}", other in "(a|[ \\t\\n\u{a0}]{0,3}|[ \\t]{39,43}|\\n{2,4}){0,6}") {
            prop_assume!(one != other);
            for charset in [Charset::Unicode, Charset::Ascii] {
                let shown = |text: &str| { let folded = Folded::command(text, charset); (rows(&folded), folded.size()) };
                prop_assert_ne!(shown(&one), shown(&other));
            }
        }
    }
}
