//! The live output of a running command: its last lines, and their total number.

use std::collections::VecDeque;

use toolgate_render::{ControlEscaper, truncate_columns};
use toolgate_text::{TextStyle, styled_pieces};

use crate::approval_screen::{GUTTER_COLUMNS, Screen};
use crate::terminal::paint;

/// The number of lines shown.
const MAX_VISIBLE_LINES: usize = 8;

/// Longer lines are cut before any further processing.
const MAX_LINE_CHARS: usize = 2048;

/// A tab is shown as so many spaces.
const TAB_COLUMNS: usize = 4;

/// Output is faint beside what the gate and the model say.
const FAINT: &str = "2";

/// The rows that show the output.
#[derive(Debug)]
pub(crate) struct TailPane {
    screen: Screen,
    /// Whether rows can be redrawn; if not, the first lines are printed and the rest is counted.
    can_redraw: bool,
    /// The last lines; the newest may be incomplete.
    lines: VecDeque<Line>,
    /// The number of lines so far.
    total: usize,
    /// Whether the next character begins a line.
    at_start: bool,
    /// The number of rows that were printed, if rows cannot be redrawn.
    printed: usize,
}

/// A line with the styles of its characters.
type Line = Vec<(char, TextStyle)>;

impl TailPane {
    pub(crate) fn new(screen: Screen, can_redraw: bool) -> Self {
        Self { screen, can_redraw, lines: VecDeque::new(), total: 0, at_start: true, printed: 0 }
    }

    /// Takes the next chunk. Returns what to print if rows cannot be redrawn.
    pub(crate) fn push(&mut self, chunk: &str) -> String {
        let mut written = String::new();
        let pieces = styled_pieces(chunk);
        let characters =
            pieces.iter().flat_map(|(style, piece)| piece.chars().map(move |character| (character, *style)));
        for (character, style) in characters {
            if std::mem::replace(&mut self.at_start, character == '\n') {
                written.push_str(&self.begin_line());
            }
            if let Some(line) =
                self.lines.back_mut().filter(|line| character != '\n' && line.len() < MAX_LINE_CHARS)
            {
                line.push((character, style));
            }
        }
        written
    }

    /// The rows that show the last lines.
    pub(crate) fn rows(&self) -> Vec<String> {
        self.lines.iter().map(|line| self.row(line)).collect()
    }

    /// The rows at the end, or those that were not printed yet. `where_whole` says how to see the rest.
    pub(crate) fn end(&mut self, where_whole: &str) -> Vec<String> {
        let mut rows = match self.can_redraw {
            true => self.rows(),
            false => self.print_last().lines().map(str::to_owned).collect(),
        };
        let left_out = self.total.saturating_sub(MAX_VISIBLE_LINES);
        if left_out > 0 {
            let which = if self.can_redraw { "earlier" } else { "more" };
            let lines = if left_out == 1 { "line" } else { "lines" };
            let dots = if self.screen.unicode { "…" } else { "..." };
            rows.push(format!("  {dots} {left_out} {which} {lines}, {where_whole}"));
        }
        rows
    }

    /// Without redrawing, a line is printed when it is complete.
    fn begin_line(&mut self) -> String {
        let printed = if self.can_redraw { String::new() } else { self.print_last() };
        self.lines.push_back(Line::new());
        if self.lines.len() > MAX_VISIBLE_LINES {
            self.lines.pop_front();
        }
        self.total += 1;
        printed
    }

    fn print_last(&mut self) -> String {
        match self.lines.back() {
            Some(line) if self.printed < self.total.min(MAX_VISIBLE_LINES) => {
                let row = self.row(line);
                self.printed += 1;
                row + "\n"
            }
            _ => String::new(),
        }
    }

    /// A line on one row, behind the gutter.
    fn row(&self, line: &[(char, TextStyle)]) -> String {
        let (mut escaper, mut escaped) = (ControlEscaper::default(), Line::new());
        for (character, style) in line {
            match character {
                '\t' => escaped.extend([(' ', *style); TAB_COLUMNS]),
                other => escaped.extend(escaper.escape(*other).map(|shown| (shown, *style))),
            }
        }
        let text: String = escaped.iter().map(|(character, _)| character).collect();
        let room = self.screen.columns.saturating_sub(GUTTER_COLUMNS + 1);
        let fitting = truncate_columns(&text, room);
        format!("{}{}", self.screen.gutter(), self.painted(&fitting, &escaped))
    }

    /// A text with the styles of the characters that it begins with. What has no style of its own is faint.
    fn painted(&self, text: &str, styled: &[(char, TextStyle)]) -> String {
        let mut runs: Vec<(TextStyle, String)> = Vec::new();
        for (index, character) in text.chars().enumerate() {
            let style = styled.get(index).filter(|(own, _)| *own == character).map(|(_, style)| *style);
            let style = style.unwrap_or_default();
            match runs.last_mut() {
                Some((last, run)) if *last == style => run.push(character),
                _ => runs.push((style, character.to_string())),
            }
        }
        let code = |style: TextStyle| if style.is_plain() { FAINT.to_owned() } else { style.code() };
        runs.iter().map(|(style, run)| paint(run, &code(*style), self.screen.colour)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCREEN: Screen = Screen { columns: 30, rows: None, unicode: true, colour: false };

    fn shown(chunks: &[&str], can_redraw: bool) -> String {
        let mut window = TailPane::new(SCREEN, can_redraw);
        let mut written: Vec<String> = chunks.iter().map(|chunk| window.push(chunk)).collect();
        written.push(window.end("/open 3").join("\n"));
        super::super::seen(30, written)
    }

    #[test]
    fn the_last_lines_stay_in_sight() {
        let lines: Vec<String> = (1..=20).map(|number| format!("line {number}\n")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        insta::assert_snapshot!(shown(&lines, true), @r"
          │ line 13
          │ line 14
          │ line 15
          │ line 16
          │ line 17
          │ line 18
          │ line 19
          │ line 20
          … 12 earlier lines, /open 3
        ");
        insta::assert_snapshot!(shown(&lines, false), @r"
          │ line 1
          │ line 2
          │ line 3
          │ line 4
          │ line 5
          │ line 6
          │ line 7
          │ line 8
          … 12 more lines, /open 3
        ");
    }

    #[test]
    fn colours_of_a_command_are_on_its_rows_alone() {
        let chunk = "ok \u{1b}[1;31mred\u{1b}[0m\u{1b}[8mx\u{1b}[2J\n";
        let rows = |screen: Screen| {
            let mut window = TailPane::new(screen, true);
            window.push(chunk);
            window.end("").join("\n")
        };
        let wide = Screen { columns: 80, ..SCREEN };
        let gutter = "  │ ";
        let escaped = "\\u{1b}[8mx\\u{1b}[2J";
        assert_eq!(rows(wide), format!("{gutter}ok red{escaped}"));
        let painted = format!("\u{1b}[2mok \u{1b}[0m\u{1b}[1;31mred\u{1b}[0m\u{1b}[2m{escaped}\u{1b}[0m");
        assert!(
            rows(Screen { colour: true, ..wide }).ends_with(&painted),
            "{:?}",
            rows(Screen { colour: true, ..wide })
        );
        // A row that is cut ends in the default style.
        let narrow = rows(Screen { columns: 12, colour: true, ..SCREEN });
        assert!(narrow.ends_with("\u{1b}[0m") && !narrow.contains("[8m"), "{narrow:?}");
    }

    #[test]
    fn no_line_goes_past_its_row_however_narrow_that_is() {
        for columns in [8, 12, 24, 30] {
            let mut window = TailPane::new(Screen { columns: columns.into(), ..SCREEN }, true);
            let written =
                [window.push("a line that is too long for most rows\nend"), window.end("").join("\n")];
            let shown = super::super::seen(columns, written);
            assert_eq!(shown.lines().count(), 2, "{shown}");
        }
    }

    #[test]
    fn lines_are_the_same_however_they_come() {
        let text = "one\n\ntwo \u{1b}[2Jof them\tand a line that is much too long for its row\nlast";
        for can_redraw in [true, false] {
            let whole = shown(&[text], can_redraw);
            let pieces: Vec<String> = text.chars().map(String::from).collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            assert_eq!(shown(&pieces, can_redraw), whole);
            insta::allow_duplicates!(insta::assert_snapshot!(whole, @r"
              │ one
              │
              │ two \u{1b}[2Jof them  ...
              │ last
            "));
        }
    }
}
