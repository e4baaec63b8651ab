//! Styled text in rows: escaped characters with their widths, wrapped for one terminal.

use std::fmt::Write as _;

use crate::escape::ControlEscaper;
use crate::width::{INDENT, char_columns, text_columns};

/// Replaces a tab.
const TAB_SPACES: &str = "    ";

/// What a terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Its width.
    pub columns: usize,
    /// Whether it can show more than ASCII.
    pub unicode: bool,
    /// Whether to use colours and bold letters. Without them the marks of Markdown stay.
    pub colour: bool,
}

impl Layout {
    /// The columns of a row, without the indentation.
    pub(crate) fn text_columns(self) -> usize {
        text_columns(self.columns)
    }
}

/// How a character looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) bold: bool,
    pub(crate) dim: bool,
    pub(crate) italic: bool,
    pub(crate) strike: bool,
    /// An SGR foreground colour.
    pub(crate) colour: Option<u8>,
}

impl Style {
    pub(crate) const PLAIN: Self =
        Self { bold: false, dim: false, italic: false, strike: false, colour: None };
    pub(crate) const DIM: Self = Self { dim: true, ..Self::PLAIN };

    pub(crate) const fn colour(colour: u8) -> Self {
        Self { colour: Some(colour), ..Self::PLAIN }
    }

    /// The parameters of the SGR sequence.
    fn parameters(self) -> String {
        let flags = [(self.bold, 1), (self.dim, 2), (self.italic, 3), (self.strike, 9)];
        let mut text = String::new();
        for code in flags.into_iter().filter_map(|(is_set, code)| is_set.then_some(code)).chain(self.colour) {
            let separator = if text.is_empty() { "" } else { ";" };
            let _ = write!(text, "{separator}{code}");
        }
        text
    }
}

/// A character of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    character: char,
    columns: usize,
    style: Style,
}

/// A line of styled text, escaped as it is appended.
#[derive(Clone, Debug, Default)]
pub(crate) struct StyledLine {
    cells: Vec<Cell>,
    escaper: ControlEscaper,
    /// Whether the last character was shown as itself, and may be followed by a variation selector or a joiner, which is left out.
    may_take_modifier: bool,
}

impl StyledLine {
    pub(crate) fn of(text: &str, style: Style) -> Self {
        let mut line = Self::default();
        line.push(text, style);
        line
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    pub(crate) fn columns(&self) -> usize {
        self.cells.iter().map(|cell| cell.columns).sum()
    }

    /// Its characters; it is empty afterwards.
    pub(crate) fn take(&mut self) -> Vec<Cell> {
        std::mem::take(&mut self.cells)
    }

    /// Appends another line.
    pub(crate) fn append(&mut self, other: &Self) {
        self.cells.extend_from_slice(&other.cells);
        self.may_take_modifier = false;
    }

    /// Appends text. A line break, which a line cannot contain, is shown as a space.
    pub(crate) fn push(&mut self, text: &str, style: Style) {
        for character in text.chars() {
            match character {
                '\n' => self.push_shown(' ', style),
                '\t' => TAB_SPACES.chars().for_each(|space| self.push_shown(space, style)),
                '\u{fe0e}' | '\u{fe0f}' | '\u{200d}' if self.may_take_modifier => {
                    self.may_take_modifier = false;
                }
                other => {
                    let mut is_itself = other != ' ';
                    for shown in self.escaper.escape(other) {
                        is_itself &= shown == other;
                        self.push_shown(shown, style);
                    }
                    self.may_take_modifier = is_itself;
                }
            }
        }
    }

    fn push_shown(&mut self, character: char, style: Style) {
        self.may_take_modifier = false;
        self.cells.push(Cell { character, columns: char_columns(character), style });
    }

    /// The rows of the line.
    pub(crate) fn rows(&self, columns: usize, wrap: Wrap) -> Vec<&[Cell]> {
        let mut rows = Vec::new();
        let (mut rest, mut used, mut at, mut after_space) = (self.cells.as_slice(), 0, 0, 0);
        while let Some(cell) = rest.get(at) {
            if used + cell.columns <= columns || at == 0 {
                used += cell.columns;
                at += 1;
                if cell.character == ' ' {
                    after_space = at;
                }
                continue;
            }
            // The space at which a row is wrapped does not begin the next one.
            let (end, next) = match wrap {
                _ if cell.character == ' ' => (at, at + 1),
                Wrap::Words if after_space > 0 => (after_space, after_space),
                _ => (at, at),
            };
            rows.push(trim_end(rest.get(..end).unwrap_or_default()));
            rest = rest.get(next..).unwrap_or_default();
            (used, at, after_space) = (0, 0, 0);
        }
        rows.push(trim_end(rest));
        rows
    }
}

/// Where a line is wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrap {
    Words,
    Anywhere,
}

fn trim_end(cells: &[Cell]) -> &[Cell] {
    let kept = cells.iter().rposition(|cell| cell.character != ' ').map_or(0, |last| last + 1);
    cells.get(..kept).unwrap_or_default()
}

/// The columns that a row takes.
pub(crate) fn row_columns(row: &[Cell]) -> usize {
    row.iter().map(|cell| cell.columns).sum()
}

/// A row of a model's text as it is written: indented, and with no style left open. A row without text is empty.
pub(crate) fn write_row<'c>(cells: impl IntoIterator<Item = &'c Cell>, layout: Layout) -> String {
    let mut text = String::from(INDENT);
    let mut style = Style::PLAIN;
    for cell in cells {
        if layout.colour && cell.style != style {
            if style != Style::PLAIN {
                text.push_str("\u{1b}[0m");
            }
            if cell.style != Style::PLAIN {
                let _ = write!(text, "\u{1b}[{}m", cell.style.parameters());
            }
            style = cell.style;
        }
        text.push(cell.character);
    }
    if style != Style::PLAIN {
        text.push_str("\u{1b}[0m");
    }
    if text.trim().is_empty() { String::new() } else { text }
}
