//! A model's text while it arrives: complete rows, and rows that may still change.

use crate::highlight::Highlighter;
use crate::markdown::{Fence, render, split_complete};
use crate::styled::{Layout, Style, StyledLine, Wrap, write_row};

/// More than this is not kept open: it is cut at a line, and what follows begins anew.
const MAX_OPEN_BYTES: usize = 16 * 1024;

/// Up to this size the open block is rendered whenever it grows.
const SMALL_OPEN_BYTES: usize = 2048;

/// A larger block is rendered or divided again when it has grown by this part of its size, so that the work stays in proportion to the text.
const GROWTH_DIVISOR: usize = 8;

/// How a text is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// As Markdown.
    Markdown,
    /// As it is, in faint letters.
    Faint,
}

/// A growing text. Its memory is bounded, if the complete rows are taken.
#[derive(Debug)]
pub struct TextStream {
    kind: StreamKind,
    layout: Layout,
    /// The text of the block that is not complete.
    open: String,
    /// The code block that the text is in; `open` is its unfinished line.
    fence: Option<(Fence, Highlighter)>,
    /// Whether the last character was a carriage return.
    is_after_return: bool,
    /// Whether a blank row separates the next block.
    has_gap: bool,
    /// Whether there was any row.
    has_rows: bool,
    complete: Vec<String>,
    open_rows: Vec<String>,
    /// How many bytes were appended since `open_rows` was rendered.
    stale_bytes: usize,
    /// The open block is not divided before it has this size.
    next_split: usize,
}

impl TextStream {
    /// An empty text.
    #[must_use]
    pub fn new(kind: StreamKind, layout: Layout) -> Self {
        Self {
            kind,
            layout,
            open: String::new(),
            fence: None,
            is_after_return: false,
            has_gap: false,
            has_rows: false,
            complete: Vec::new(),
            open_rows: Vec::new(),
            stale_bytes: 0,
            next_split: 0,
        }
    }

    /// From here on the terminal is like this.
    pub fn set_layout(&mut self, layout: Layout) {
        if layout != self.layout {
            self.layout = layout;
            self.stale_bytes = MAX_OPEN_BYTES;
        }
    }

    /// Appends a piece of the text.
    pub fn push(&mut self, text: &str) {
        let text = self.without_returns(text);
        for line in text.split_inclusive('\n') {
            for piece in pieces(line) {
                self.push_piece(piece);
            }
        }
    }

    /// Whether anything was appended so far.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        !self.has_rows && self.open.trim().is_empty()
    }

    /// The text is over: every row is complete.
    pub fn finish(&mut self) {
        if std::mem::take(&mut self.is_after_return) {
            self.push_piece("\\u{d}");
        }
        if self.fence.is_some() {
            if !self.open.is_empty() {
                self.end_code_line();
            }
        } else {
            let rest = std::mem::take(&mut self.open);
            self.complete_block(&rest);
        }
        self.open_rows.clear();
        self.stale_bytes = 0;
    }

    /// The rows that are complete since the last call.
    pub fn take_complete(&mut self) -> Vec<String> {
        std::mem::take(&mut self.complete)
    }

    /// The rows of the open block. Of a large block they may lack the last few characters, unless `all` are asked for.
    pub fn open_rows(&mut self, all: bool) -> &[String] {
        let is_small = self.open.len() <= SMALL_OPEN_BYTES;
        let is_due = is_small || self.stale_bytes >= self.open.len() / GROWTH_DIVISOR || all;
        if self.stale_bytes > 0 && is_due {
            self.stale_bytes = 0;
            self.open_rows = self.render_open();
        }
        &self.open_rows
    }

    /// `\r\n` ends a line. Any other carriage return is shown, since Markdown would take it for the end of a line.
    fn without_returns(&mut self, text: &str) -> String {
        let mut kept = String::with_capacity(text.len());
        for character in text.chars() {
            if std::mem::replace(&mut self.is_after_return, character == '\r') && character != '\n' {
                kept.push_str("\\u{d}");
            }
            if character != '\r' {
                kept.push(character);
            }
        }
        kept
    }

    /// Appends at most a line.
    fn push_piece(&mut self, piece: &str) {
        self.open.push_str(piece);
        let is_line = piece.ends_with('\n');
        self.stale_bytes += piece.len();
        match (self.kind, &self.fence) {
            (StreamKind::Faint, _) | (_, Some(_)) if is_line || self.open.len() > SMALL_OPEN_BYTES => {
                self.end_line()
            }
            (StreamKind::Markdown, None) => self.end_blocks(is_line),
            _ => {}
        }
    }

    fn end_line(&mut self) {
        if self.fence.is_some() {
            return self.end_code_line();
        }
        let line = std::mem::take(&mut self.open);
        match line.trim().is_empty() {
            true => self.has_gap = true,
            false => {
                let rows = self.faint_rows(&line);
                self.complete_rows(rows);
            }
        }
    }

    /// Completes the blocks before the one that is still open.
    fn end_blocks(&mut self, is_line: bool) {
        if is_line && self.open.trim().is_empty() {
            self.has_gap = true;
            self.open.clear();
            return;
        }
        let line = self.open.trim_end_matches('\n').rsplit('\n').next().unwrap_or_default().trim();
        let may_end = line.is_empty() || line.starts_with(['#', '`', '~', '=', '-']);
        if is_line && may_end && self.open.len() >= self.next_split {
            let split = split_complete(&self.open);
            let rest = self.cut(split.complete);
            match split.fence {
                Some(fence) => self.begin_code(fence, &rest),
                None => self.open = rest,
            }
            self.next_split = self.open.len() + self.open.len() / GROWTH_DIVISOR;
        }
        if self.open.len() > MAX_OPEN_BYTES {
            self.open = self.cut(self.open.rfind('\n').map_or(self.open.len(), |at| at + 1));
            self.next_split = 0;
        }
    }

    /// Completes so many bytes of the open text, and returns the rest.
    fn cut(&mut self, bytes: usize) -> String {
        let mut block = std::mem::take(&mut self.open);
        let rest = block.split_off(bytes.min(block.len()));
        self.complete_block(&block);
        rest
    }

    fn complete_block(&mut self, source: &str) {
        if source.trim().is_empty() {
            self.has_gap |= source.contains('\n');
            return;
        }
        let rows = match self.kind {
            StreamKind::Markdown => render(source, self.layout),
            StreamKind::Faint => self.faint_rows(source),
        };
        self.complete_rows(rows);
        let end = source.get(source.trim_end().len()..).unwrap_or_default();
        self.has_gap = end.matches('\n').count() > 1;
    }

    fn complete_rows(&mut self, rows: Vec<String>) {
        if rows.is_empty() {
            return;
        }
        if self.has_gap && self.has_rows {
            self.complete.push(String::new());
        }
        self.complete.extend(rows);
        (self.has_gap, self.has_rows) = (false, true);
    }

    /// Begins a code block with its opening fence and the lines that there are already.
    fn begin_code(&mut self, fence: Fence, source: &str) {
        self.has_gap = true;
        let highlighter = Highlighter::named(&fence.info);
        if !self.layout.colour {
            let mark = self.code_rows(&StyledLine::of(&format!("```{}", fence.info), Style::DIM));
            self.complete_rows(mark);
        }
        self.fence = Some((fence, highlighter));
        for line in source.split_inclusive('\n').skip(1) {
            self.push_piece(line);
        }
    }

    fn end_code_line(&mut self) {
        let line = std::mem::take(&mut self.open);
        let line = line.trim_end_matches('\n');
        let Some((fence, highlighter)) = &mut self.fence else { return };
        if !fence.is_closed_by(line) {
            let line = highlighter.line(fence.content(line));
            let rows = self.code_rows(&line);
            return self.complete_rows(rows);
        }
        self.fence = None;
        if !self.layout.colour {
            let mark = self.code_rows(&StyledLine::of("```", Style::DIM));
            self.complete_rows(mark);
        }
        self.has_gap = true;
    }

    fn code_rows(&self, line: &StyledLine) -> Vec<String> {
        crate::markdown::code_rows(line, self.layout)
    }

    fn faint_rows(&self, text: &str) -> Vec<String> {
        let line = StyledLine::of(text.trim_end_matches('\n'), Style::DIM);
        let rows = line.rows(self.layout.text_columns(), Wrap::Words).into_iter();
        rows.map(|row| write_row(row, self.layout)).collect()
    }

    fn render_open(&self) -> Vec<String> {
        let mut rows = match (&self.fence, self.kind) {
            (_, _) if self.open.trim().is_empty() => return Vec::new(),
            (Some((fence, highlighter)), _) => {
                let mut highlighter = *highlighter;
                self.code_rows(&highlighter.line(fence.content(&self.open)))
            }
            (None, StreamKind::Markdown) => render(&self.open, self.layout),
            (None, StreamKind::Faint) => self.faint_rows(&self.open),
        };
        if self.has_gap && self.has_rows {
            rows.insert(0, String::new());
        }
        rows
    }
}

/// A line in pieces of a bounded size.
fn pieces(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let end = rest.floor_char_boundary(SMALL_OPEN_BYTES);
        let (piece, after) = rest.split_at_checked(end)?;
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}
