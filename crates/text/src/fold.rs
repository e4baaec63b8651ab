//! Text of a stranger for a person who decides about it: white space that would push the rest out of sight is counted instead of shown.
//!
//! A card that asks for an approval shows the whole call. A hundred blank lines, a thousand spaces or as many zero-width characters before the line
//! that matters would move that line off the screen, or below the part that a client shows. Such runs are folded into a count. Nothing else is: text
//! that can be seen stays, all of it, so what a folded text means can be told from what is shown.

use std::fmt::Write as _;

use crate::is_hidden;

/// More blank lines than this in a row are folded.
const MAX_BLANK_LINES: usize = 2;

/// White space inside a line that is wider than this, as it would be shown, is folded.
const MAX_BLANK_COLUMNS: usize = 40;

/// The columns of a tab, at most.
const TAB_COLUMNS: usize = 8;

/// Whether the first column of every line is a sign of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// Lines are text.
    Text,
    /// Lines of a unified diff: what is behind the sign is text.
    Diff,
}

/// The brackets that a count stands in. A door escapes them where they occur in the text, so that no text is taken for a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Brackets {
    /// Before a count.
    pub open: &'static str,
    /// After it.
    pub close: &'static str,
}

/// Brackets that are rare in text.
pub const BRACKETS: Brackets = Brackets { open: "⟦", close: "⟧" };

/// The same for terminals without Unicode.
pub const ASCII_BRACKETS: Brackets = Brackets { open: "<<", close: ">>" };

/// A text as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folded {
    /// The lines, without line ends. A run of blank lines is one of them.
    pub rows: Vec<String>,
    /// How many lines the text has.
    pub lines: usize,
    /// How many bytes it has.
    pub bytes: usize,
    /// How many of its lines are counted and not shown.
    pub blank_lines: usize,
    /// How many runs inside lines are counted and not shown.
    pub runs: usize,
}

impl Folded {
    /// How large the text is: `3 lines, 2,140 bytes`.
    #[must_use]
    pub fn size(&self) -> String {
        format!("{}, {}", counted(self.lines, "line"), counted(self.bytes, "byte"))
    }

    /// How much of it is shown: `3 lines shown of 3, 2,140 bytes`.
    #[must_use]
    pub fn shown(&self) -> String {
        let shown = self.lines.saturating_sub(self.blank_lines);
        let mut told = format!(
            "{} shown of {}, {}",
            counted(shown, "line"),
            grouped(self.lines),
            counted(self.bytes, "byte")
        );
        let folded = [(self.blank_lines, "blank line"), (self.runs, "run of white space")];
        let folded = folded.into_iter().filter(|(count, _)| *count > 0);
        let folded: Vec<String> = folded.map(|(count, one)| counted_runs(count, one)).collect();
        if !folded.is_empty() {
            let _ = write!(told, "; folded: {}", folded.join(", "));
        }
        told
    }
}

/// Folds a text. What remains of each line is given to `escape`, which returns it as it can be shown.
#[must_use]
pub fn fold(text: &str, kind: LineKind, brackets: Brackets, escape: impl Fn(&str) -> String) -> Folded {
    let mut folded = Folded {
        rows: Vec::new(),
        lines: text.split('\n').count(),
        bytes: text.len(),
        blank_lines: 0,
        runs: 0,
    };
    let mut lines = text.split('\n').peekable();
    while let Some(line) = lines.next() {
        let Some(sign) = blank_sign(line, kind) else {
            folded.push(line, brackets, &escape);
            continue;
        };
        let mut run = vec![line];
        while let Some(next) = lines.next_if(|next| blank_sign(next, kind) == Some(sign)) {
            run.push(next);
        }
        if run.len() <= MAX_BLANK_LINES {
            run.iter().for_each(|line| folded.push(line, brackets, &escape));
            continue;
        }
        folded.blank_lines += run.len();
        let count = counted(run.len(), "blank line");
        folded.rows.push(format!("{sign}{}{count}{}", brackets.open, brackets.close));
    }
    folded
}

/// Folds one line, such as a summary or a path.
#[must_use]
pub fn fold_line(line: &str, brackets: Brackets, escape: impl Fn(&str) -> String) -> String {
    pieces(line).into_iter().map(|piece| piece.shown(brackets, &escape)).collect()
}

impl Folded {
    fn push(&mut self, line: &str, brackets: Brackets, escape: &impl Fn(&str) -> String) {
        let pieces = pieces(line);
        self.runs += pieces.iter().filter(|piece| matches!(piece, Piece::Run(_))).count();
        self.rows.push(pieces.into_iter().map(|piece| piece.shown(brackets, escape)).collect());
    }
}

/// The sign that stands before nothing but white space; `None` for a line in which there is something.
fn blank_sign(line: &str, kind: LineKind) -> Option<&str> {
    let sign = match kind {
        LineKind::Text => "",
        LineKind::Diff => ["+", "-"].into_iter().find(|sign| line.starts_with(sign)).unwrap_or(""),
    };
    let text = line.strip_prefix(sign).unwrap_or(line);
    text.chars().all(is_blank).then_some(sign)
}

/// A part of a line.
enum Piece<'t> {
    Text(&'t str),
    /// Blank characters, or the same invisible character many times.
    Run(&'t str),
}

impl Piece<'_> {
    fn shown(&self, brackets: Brackets, escape: &impl Fn(&str) -> String) -> String {
        match self {
            Self::Text(text) => escape(text),
            Self::Run(run) => format!("{}{}{}", brackets.open, named(run), brackets.close),
        }
    }
}

/// What a run consists of.
fn named(run: &str) -> String {
    let count = run.chars().count();
    let first = run.chars().next().unwrap_or(' ');
    match (run.chars().all(|character| character == first), first) {
        (true, ' ') => counted(count, "space"),
        (true, '\t') => counted(count, "tab"),
        (true, other) => format!("{} times {}", grouped(count), other.escape_unicode()),
        (false, _) => counted(count, "blank character"),
    }
}

/// A line in parts: runs that are folded, and what is between them.
fn pieces(line: &str) -> Vec<Piece<'_>> {
    let (mut pieces, mut text_start, mut rest_start) = (Vec::new(), 0, 0);
    while let Some(rest) = line.get(rest_start..).filter(|rest| !rest.is_empty()) {
        let length = run_length(rest);
        let run = rest.get(..length).unwrap_or_default();
        if columns(run) > MAX_BLANK_COLUMNS {
            let text = line.get(text_start..rest_start).unwrap_or_default();
            pieces.extend((!text.is_empty()).then_some(Piece::Text(text)));
            pieces.push(Piece::Run(run));
            text_start = rest_start + length;
        }
        // A character that begins no run is text.
        rest_start += length.max(rest.chars().next().map_or(1, char::len_utf8));
    }
    let text = line.get(text_start..).unwrap_or_default();
    pieces.extend((!text.is_empty()).then_some(Piece::Text(text)));
    pieces
}

/// The bytes of the run that a text begins with: blank characters, or the same invisible one again and again.
fn run_length(text: &str) -> usize {
    let blank = text.chars().take_while(|character| is_blank(*character)).map(char::len_utf8).sum();
    match text.chars().next() {
        Some(first) if blank == 0 && is_hidden(first) => {
            text.chars().take_while(|character| *character == first).map(char::len_utf8).sum()
        }
        _ => blank,
    }
}

/// The columns that a run takes at least where it is shown: what is invisible is written out.
fn columns(run: &str) -> usize {
    let columns = |character: char| match character {
        '\t' => TAB_COLUMNS,
        hidden if is_hidden(hidden) => hidden.escape_unicode().count(),
        '\u{3000}' => 2,
        _ => 1,
    };
    run.chars().map(columns).sum()
}

/// Whether a character leaves its place empty: white space of Unicode, blank letters, and characters without a width. Tags (U+E0000) and controls of
/// direction are not among these: they may say something.
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
fn counted(count: usize, one: &str) -> String {
    format!("{} {one}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// The same for what has its plural inside.
fn counted_runs(count: usize, one: &str) -> String {
    match one.strip_prefix("run") {
        Some(rest) if count != 1 => format!("{} runs{rest}", grouped(count)),
        _ => counted(count, one),
    }
}

/// A number with a comma before every third digit.
fn grouped(number: usize) -> String {
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

    fn folded(text: &str, kind: LineKind) -> Folded {
        fold(text, kind, BRACKETS, |text| {
            let spell = |c: char| if is_hidden(c) { c.escape_unicode().to_string() } else { c.to_string() };
            text.chars().map(spell).collect()
        })
    }

    #[test]
    fn padding_is_counted_and_text_stays() {
        let (lines, spaces, tabs) = ("\n".repeat(2000), " ".repeat(3000), "\t".repeat(300));
        let (wide, braille, joiners) = ("\u{3000}".repeat(90), "\u{2800}".repeat(90), "\u{200b}".repeat(90));
        for (text, rows) in [
            (format!("ls{lines}rm -rf x"), vec!["ls", "⟦1,999 blank lines⟧", "rm -rf x"]),
            (
                format!("ls{}rm", "\n \t\u{a0}\u{200b}\r".repeat(9) + "\n"),
                vec!["ls", "⟦9 blank lines⟧", "rm"],
            ),
            (format!("ls{spaces}; rm"), vec!["ls⟦3,000 spaces⟧; rm"]),
            (format!("ls{tabs}; rm{spaces}"), vec!["ls⟦300 tabs⟧; rm⟦3,000 spaces⟧"]),
            (format!("ls;{wide}rm"), vec!["ls;⟦90 times \\u{3000}⟧rm"]),
            (format!("ls;{braille}rm"), vec!["ls;⟦90 times \\u{2800}⟧rm"]),
            (format!("ls;{joiners}rm"), vec!["ls;⟦90 times \\u{200b}⟧rm"]),
            (format!("ls;{wide}{spaces}rm"), vec!["ls;⟦3,090 blank characters⟧rm"]),
            (format!("ls;{}rm", "\u{7}".repeat(500)), vec!["ls;⟦500 times \\u{7}⟧rm"]),
            (format!("one{spaces}"), vec!["one⟦3,000 spaces⟧"]),
            ("a\n\n\nb  c\t\td".to_owned(), vec!["a", "", "", "b  c\t\td"]),
            ("a\u{200b}\u{e0041}b".to_owned(), vec!["a\\u{200b}\\u{e0041}b"]),
            (String::new(), vec![""]),
        ] {
            assert_eq!(folded(&text, LineKind::Text).rows, rows, "{text:?}");
        }
    }

    #[test]
    fn lines_of_a_diff_are_folded_by_their_sign() {
        let diff = "@@ -1 +1 @@\n-\n-  \n-\n+\n+\t\n+\n+\n+x\n \n \n\n \n-y";
        let rows = ["@@ -1 +1 @@", "-⟦3 blank lines⟧", "+⟦4 blank lines⟧", "+x", "⟦4 blank lines⟧", "-y"];
        assert_eq!(folded(diff, LineKind::Diff).rows, rows);
    }

    #[test]
    fn what_is_shown_is_said_with_its_size() {
        let small = folded("one\ntwo", LineKind::Text);
        assert_eq!(small.size(), "2 lines, 7 bytes");
        assert_eq!(small.shown(), "2 lines shown of 2, 7 bytes");
        let padded = folded(&format!("a{}b{}c", "\n".repeat(1200), " ".repeat(90)), LineKind::Text);
        assert_eq!(
            padded.shown(),
            "2 lines shown of 1,201, 1,293 bytes; folded: 1,199 blank lines, 1 run of white space"
        );
    }

    proptest! {
        /// Whatever can be seen stays, in its order, and no line is lost.
        #[test]
        fn nothing_but_blank_characters_is_folded(text in "([a-d\\n\\t \u{a0}\u{2800}\u{200b}\u{3000}]|\\n{3,9}| {41,60}){0,80}") {
            let folded = fold(&text, LineKind::Text, Brackets { open: "\0", close: "\0" }, str::to_owned);
            let visible = |text: &str| text.chars().filter(|c| !is_blank(*c)).collect::<String>();
            let outside: String = folded.rows.join("\n").split('\0').step_by(2).collect();
            prop_assert_eq!(visible(&outside), visible(&text));
            prop_assert_eq!(folded.lines, text.split('\n').count());
            let counts = folded.rows.iter().filter(|row| row.contains("blank line")).count();
            prop_assert_eq!(folded.rows.len() - counts + folded.blank_lines, folded.lines);
        }

        #[test]
        fn no_row_holds_a_long_run(text in "([ab\\n\\t ]| {1,60}|\u{200b}{1,60}){0,40}") {
            let folded = fold(&text, LineKind::Text, BRACKETS, str::to_owned);
            for row in &folded.rows {
                let longest = row.split(|c| !is_blank(c)).map(columns).max().unwrap_or(0);
                prop_assert!(longest <= MAX_BLANK_COLUMNS, "{row:?}");
            }
        }
    }
}
