//! Renders a piece of Markdown.
//!
//! Nothing of the text is left out: HTML and comments are shown as text, a link's target stands behind it, and link definitions are listed. Escaping
//! happens after parsing, since an entity such as `&#27;` is a control character only then.

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use super::options;
use super::table::Table;
use crate::highlight::Highlighter;
use crate::styled::{Cell, Layout, Style, StyledLine, Wrap, write_row};

/// The most columns of a rule.
const MAX_RULE_COLUMNS: usize = 40;

/// The indentation of code.
const CODE_INDENT: &str = "  ";

/// The most characters that are looked at for a blank line before a block.
const MAX_GAP_CHARS: usize = 200;

const INLINE_CODE: Style = Style::colour(36);
const TARGET: Style = Style { dim: true, ..Style::colour(34) };

/// The rows of a piece of Markdown.
pub(crate) fn render(source: &str, layout: Layout) -> Vec<String> {
    let mut renderer = Renderer::new(source, layout);
    let mut parser = Parser::new_ext(source, options()).into_offset_iter();
    for (event, range) in parser.by_ref() {
        renderer.event(event, range.start);
    }
    renderer.flush();
    let mut definitions: Vec<_> = parser.reference_definitions().iter().collect();
    definitions.sort_by_key(|(_, definition)| definition.span.start);
    for (label, definition) in definitions {
        let title = definition.title.as_ref().map(|title| format!(" \"{title}\"")).unwrap_or_default();
        renderer.line.push(&format!("[{label}]: {}{title}", definition.dest), Style::DIM);
        renderer.flush();
    }
    renderer.rows
}

/// A container that the current block is in.
enum Container {
    Quote,
    /// The marker of an item, until it is written; then as many spaces.
    Item {
        marker: String,
        is_written: bool,
    },
}

/// A link or an image that is open.
struct OpenLink {
    target: String,
    text: String,
}

struct Renderer<'s> {
    source: &'s str,
    layout: Layout,
    rows: Vec<String>,
    containers: Vec<Container>,
    /// The numbers of the lists that are open; `None` for bullets.
    lists: Vec<Option<u64>>,
    line: StyledLine,
    style: Style,
    /// How many times bold and so on were begun.
    strong: usize,
    emphasis: usize,
    struck: usize,
    links: Vec<OpenLink>,
    table: Option<Table>,
    code: Option<(Highlighter, String, String)>,
    is_html: bool,
}

impl<'s> Renderer<'s> {
    fn new(source: &'s str, layout: Layout) -> Self {
        Self {
            source,
            layout,
            rows: Vec::new(),
            containers: Vec::new(),
            lists: Vec::new(),
            line: StyledLine::default(),
            style: Style::PLAIN,
            strong: 0,
            emphasis: 0,
            struck: 0,
            links: Vec::new(),
            table: None,
            code: None,
            is_html: false,
        }
    }

    fn event(&mut self, event: Event<'_>, start: usize) {
        match event {
            Event::Start(tag) => self.start(tag, start),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text),
            Event::Code(text) => {
                self.mark("`", INLINE_CODE);
                self.push(&text, INLINE_CODE);
                self.mark("`", INLINE_CODE);
            }
            Event::Html(text) | Event::InlineHtml(text) if self.is_html => self.lines(&text, Style::DIM),
            Event::Html(text) | Event::InlineHtml(text) => self.push(&text, Style::DIM),
            Event::SoftBreak | Event::HardBreak => match self.table {
                Some(_) => self.push(" ", Style::PLAIN),
                None => self.flush(),
            },
            Event::Rule => {
                self.gap(start);
                let (dash, columns) = if self.layout.unicode { ("─", 2) } else { ("-", 1) };
                let count = self.available().min(MAX_RULE_COLUMNS) / columns;
                self.line.push(&dash.repeat(count.max(1)), Style::DIM);
                self.flush();
            }
            Event::TaskListMarker(is_done) => self.push(if is_done { "[x] " } else { "[ ] " }, Style::PLAIN),
            // These are not enabled.
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.text(&text)
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>, start: usize) {
        match tag {
            Tag::Paragraph => self.gap(start),
            Tag::Heading { level, .. } => {
                self.gap(start);
                self.style = Style { bold: true, ..Style::PLAIN };
                self.mark(&format!("{} ", "#".repeat(level as usize)), self.style);
            }
            Tag::BlockQuote(_) => {
                self.gap(start);
                self.flush();
                self.containers.push(Container::Quote);
            }
            Tag::CodeBlock(kind) => {
                self.gap(start);
                self.flush();
                let info = match kind {
                    CodeBlockKind::Fenced(info) => info.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((Highlighter::named(&info), info, String::new()));
            }
            Tag::List(first) => {
                self.gap(start);
                self.flush();
                self.lists.push(first);
            }
            Tag::Item => {
                self.gap(start);
                self.flush();
                let marker = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let marker = format!("{number}. ");
                        *number = number.saturating_add(1);
                        marker
                    }
                    _ if self.layout.unicode => "• ".to_owned(),
                    _ => "- ".to_owned(),
                };
                self.containers.push(Container::Item { marker, is_written: false });
            }
            Tag::HtmlBlock => {
                self.gap(start);
                self.is_html = true;
            }
            Tag::Table(alignments) => {
                self.gap(start);
                self.flush();
                self.table = Some(Table { alignments, rows: Vec::new() });
            }
            Tag::TableHead => {
                self.style = Style { bold: true, ..Style::PLAIN };
                self.begin_table_row();
            }
            Tag::TableRow => self.begin_table_row(),
            Tag::Strong => {
                self.mark("**", Style::PLAIN);
                self.strong += 1;
            }
            Tag::Emphasis => {
                self.mark("*", Style::PLAIN);
                self.emphasis += 1;
            }
            Tag::Strikethrough => {
                self.mark("~~", Style::PLAIN);
                self.struck += 1;
            }
            Tag::Link { dest_url, .. } => {
                self.links.push(OpenLink { target: dest_url.to_string(), text: String::new() });
            }
            Tag::Image { dest_url, .. } => {
                self.push("[image: ", Style::DIM);
                self.links.push(OpenLink { target: dest_url.to_string(), text: String::new() });
            }
            _ => {}
        }
    }

    fn begin_table_row(&mut self) {
        if let Some(table) = &mut self.table {
            table.rows.push(Vec::new());
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.flush(),
            TagEnd::Heading(_) => {
                self.flush();
                self.style = Style::PLAIN;
            }
            TagEnd::HtmlBlock => {
                self.flush();
                self.is_html = false;
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.containers.pop();
            }
            TagEnd::Item => {
                self.flush();
                // An item without text still has its marker.
                if let Some(Container::Item { is_written: false, .. }) = self.containers.last() {
                    self.write(&[]);
                }
                self.containers.pop();
            }
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::Table => {
                let table = self.table.take().unwrap_or_default();
                for row in table.rows(self.available()) {
                    self.write(&row);
                }
            }
            TagEnd::TableHead => self.style = Style::PLAIN,
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.line);
                if let Some(row) = self.table.as_mut().and_then(|table| table.rows.last_mut()) {
                    row.push(cell);
                }
            }
            TagEnd::Strong => {
                self.strong = self.strong.saturating_sub(1);
                self.mark("**", Style::PLAIN);
            }
            TagEnd::Emphasis => {
                self.emphasis = self.emphasis.saturating_sub(1);
                self.mark("*", Style::PLAIN);
            }
            TagEnd::Strikethrough => {
                self.struck = self.struck.saturating_sub(1);
                self.mark("~~", Style::PLAIN);
            }
            TagEnd::Link => self.end_link(),
            TagEnd::Image => {
                self.push("]", Style::DIM);
                self.end_link();
            }
            _ => {}
        }
    }

    /// The target of a link, unless its text says the same.
    fn end_link(&mut self) {
        let Some(OpenLink { target, text }) = self.links.pop() else { return };
        let says_it = text == target || target.strip_prefix("mailto:") == Some(text.as_str());
        if !says_it {
            self.push(&format!(" ({target})"), TARGET);
        }
        if let Some(outer) = self.links.last_mut() {
            outer.text.push_str(&text);
        }
    }

    fn end_code(&mut self) {
        let Some((mut highlighter, info, code)) = self.code.take() else { return };
        let is_marked = !self.layout.colour;
        if is_marked {
            self.write_code(&StyledLine::of(&format!("```{info}"), Style::DIM));
        }
        for line in code.lines() {
            self.write_code(&highlighter.line(line));
        }
        if is_marked {
            self.write_code(&StyledLine::of("```", Style::DIM));
        }
    }

    fn write_code(&mut self, line: &StyledLine) {
        for row in cells_of_code(line, self.available()) {
            self.write(&row);
        }
    }

    fn text(&mut self, text: &str) {
        match &mut self.code {
            Some((_, _, code)) => code.push_str(text),
            None => self.push(text, Style::PLAIN),
        }
    }

    /// Appends text with a style besides the current one.
    fn push(&mut self, text: &str, style: Style) {
        if let Some(link) = self.links.last_mut() {
            link.text.push_str(text);
        }
        self.line.push(
            text,
            Style {
                bold: style.bold || self.style.bold || self.strong > 0,
                italic: self.emphasis > 0,
                strike: self.struck > 0,
                ..style
            },
        );
    }

    /// A mark of Markdown, where nothing else shows what it means.
    fn mark(&mut self, mark: &str, style: Style) {
        if !self.layout.colour {
            self.line.push(mark, style);
        }
    }

    /// Lines as they are.
    fn lines(&mut self, text: &str, style: Style) {
        for line in text.split_inclusive('\n') {
            self.push(line.trim_end_matches('\n'), style);
            if line.ends_with('\n') {
                self.flush();
            }
        }
    }

    /// A blank row before a block, if there is one in the text.
    fn gap(&mut self, start: usize) {
        self.flush();
        let before = self.source.get(..start).unwrap_or_default().chars().rev();
        let between =
            before.take(MAX_GAP_CHARS).take_while(|before| matches!(before, ' ' | '\t' | '>' | '\n'));
        let is_blank = between.filter(|before| *before == '\n').count() > 1;
        if is_blank && self.rows.last().is_some_and(|row| !row.is_empty()) {
            let is_new_item =
                matches!(self.containers.last(), Some(Container::Item { is_written: false, .. }));
            if !is_new_item {
                self.rows.push(String::new());
            }
        }
    }

    /// Ends the current line.
    fn flush(&mut self) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return;
        }
        for row in line.rows(self.available(), Wrap::Words) {
            self.write(row);
        }
    }

    /// The columns beside the marks of the containers.
    fn available(&self) -> usize {
        let prefix: usize = self.prefix().map(|mark| mark.columns()).sum();
        self.layout.text_columns().saturating_sub(prefix).max(2)
    }

    /// The marks of the containers, of which only so many are shown that half of the row is left.
    fn prefix(&self) -> impl Iterator<Item = StyledLine> {
        let mut used = 0;
        let half = self.layout.text_columns() / 2;
        self.containers
            .iter()
            .map(|container| match container {
                Container::Quote => StyledLine::of("> ", Style::DIM),
                Container::Item { marker, is_written: false } => StyledLine::of(marker, Style::PLAIN),
                Container::Item { marker, .. } => {
                    let columns = StyledLine::of(marker, Style::PLAIN).columns();
                    StyledLine::of(&" ".repeat(columns), Style::PLAIN)
                }
            })
            .take_while(move |mark| {
                used += mark.columns();
                used <= half
            })
    }

    fn write(&mut self, row: &[Cell]) {
        let prefix: Vec<Cell> = self.prefix().flat_map(|mut mark| mark.take()).collect();
        self.rows.push(write_row(prefix.iter().chain(row), self.layout));
        for container in self.containers.iter_mut().rev() {
            match container {
                Container::Item { is_written: true, .. } => break,
                Container::Item { is_written, .. } => *is_written = true,
                Container::Quote => {}
            }
        }
    }
}

/// The rows of a line of code that is in no list and no quote.
pub(crate) fn code_rows(line: &StyledLine, layout: Layout) -> Vec<String> {
    cells_of_code(line, layout.text_columns()).into_iter().map(|row| write_row(&row, layout)).collect()
}

/// The rows of a line of code.
fn cells_of_code(line: &StyledLine, available: usize) -> Vec<Vec<Cell>> {
    // On a row that holds hardly anything there is no room for it.
    let indent = if available >= 2 * CODE_INDENT.len() { CODE_INDENT } else { "" };
    let columns = available - indent.len();
    let indent: Vec<Cell> = StyledLine::of(indent, Style::PLAIN).take();
    let rows = line.rows(columns, Wrap::Anywhere).into_iter();
    rows.map(|row| indent.iter().chain(row).copied().collect()).collect()
}
