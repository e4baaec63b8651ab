//! Where a growing document can be cut: between top-level blocks.

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};

use super::options;

/// The beginning of a document, divided.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Split {
    /// This many bytes are complete blocks, which no later text changes.
    pub(crate) complete: usize,
    /// The fence of a code block that begins there.
    pub(crate) fence: Option<Fence>,
}

/// The opening fence of a code block that is not in a list or a quote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fence {
    mark: char,
    length: usize,
    /// The spaces before it, which its lines may have too.
    indent: usize,
    /// What follows the fence, such as `rust`.
    pub(crate) info: String,
}

impl Fence {
    fn opening(line: &str) -> Option<Self> {
        let text = line.trim_start_matches(' ');
        let mark = text.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let info = text.trim_start_matches(mark);
        let length = text.len() - info.len();
        (length >= 3).then(|| Self {
            mark,
            length,
            indent: line.len() - text.len(),
            info: info.trim().to_owned(),
        })
    }

    /// Whether a line ends the block.
    pub(crate) fn is_closed_by(&self, line: &str) -> bool {
        let text = line.trim_start_matches(' ');
        let after = text.trim_start_matches(self.mark);
        line.len() - text.len() <= 3 && text.len() - after.len() >= self.length && after.trim().is_empty()
    }

    /// A line of the block without the indentation of the fence.
    pub(crate) fn content<'l>(&self, line: &'l str) -> &'l str {
        let spaces = line.bytes().take(self.indent).take_while(|byte| *byte == b' ').count();
        line.get(spaces..).unwrap_or(line)
    }
}

/// A top-level block.
struct TopLevelBlock {
    start: usize,
    ends_at_blank_line: bool,
    is_heading: bool,
    is_fenced: bool,
}

/// Divides a document that ends with a complete line.
pub(crate) fn split_complete(source: &str) -> Split {
    let Some(last) = last_block(source) else { return Split { complete: 0, fence: None } };
    if last.is_fenced {
        let line = source.get(last.start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
        // The range of a block begins after its indentation.
        let start = source.get(..last.start).unwrap_or_default().trim_end_matches(' ').len();
        let indented = " ".repeat(last.start - start) + line;
        return Split { complete: start, fence: Fence::opening(&indented) };
    }
    let is_over = last.is_heading || (last.ends_at_blank_line && ends_with_blank_line(source));
    let start = source.get(..last.start).unwrap_or_default();
    let line_start = start.rfind('\n').map_or(0, |at| at + 1);
    Split { complete: if is_over { source.len() } else { line_start }, fence: None }
}

fn ends_with_blank_line(source: &str) -> bool {
    let before = source.trim_end_matches([' ', '\t', '\n']);
    source.get(before.len()..).is_some_and(|end| end.matches('\n').count() > 1)
}

fn last_block(source: &str) -> Option<TopLevelBlock> {
    let mut depth = 0_usize;
    let mut last = None;
    for (event, range) in Parser::new_ext(source, options()).into_offset_iter() {
        let start = range.start;
        let block = |ends_at_blank_line| TopLevelBlock {
            start,
            ends_at_blank_line,
            is_heading: false,
            is_fenced: false,
        };
        match event {
            Event::Start(tag) => {
                if depth == 0 {
                    last = Some(match tag {
                        Tag::Heading { .. } => TopLevelBlock { is_heading: true, ..block(true) },
                        Tag::Paragraph | Tag::Table(_) | Tag::BlockQuote(_) => block(true),
                        Tag::CodeBlock(CodeBlockKind::Fenced(_)) => {
                            TopLevelBlock { is_fenced: true, ..block(false) }
                        }
                        // A list, indented code and HTML may go on after a blank line.
                        _ => block(false),
                    });
                }
                depth += 1;
            }
            Event::End(_) => depth = depth.saturating_sub(1),
            _ if depth == 0 => last = Some(block(true)),
            _ => {}
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_cut_between_blocks() {
        let table = [
            ("", 0),
            ("one\n", 0),
            ("one\n\n", 5),
            ("# one\n", 6),
            ("one\n\ntwo\n", 5),
            ("- a\n\n", 0),
            ("- a\n\nb\n", 5),
            ("- a\n\n  b\n", 0),
            ("> a\n\n", 5),
            ("|a|\n|-|\n|b|\n", 0),
            ("|a|\n|-|\n|b|\n\n", 13),
            ("one\n---\n", 8),
            ("one\n\n---\n", 5),
            ("    code\n\n", 0),
            ("<!-- a\n\n", 0),
        ];
        for (source, complete) in table {
            assert_eq!(split_complete(source), Split { complete, fence: None }, "{source:?}");
        }
    }

    #[test]
    fn fences_open_and_close_as_in_commonmark() {
        let fence = |source: &str| split_complete(source).fence;
        let opened = fence("text\n  ~~~~ rust x\n").unwrap();
        assert_eq!(opened, Fence { mark: '~', length: 4, indent: 2, info: "rust x".to_owned() });
        assert_eq!(split_complete("text\n  ~~~~\n").complete, 5);
        for (line, closes) in
            [("~~~~", true), ("   ~~~~~~ ", true), ("~~~", false), ("    ~~~~", false), ("~~~~ x", false)]
        {
            assert_eq!(opened.is_closed_by(line), closes, "{line}");
        }
        assert_eq!([opened.content("   a"), opened.content(" a"), opened.content("a")], [" a", "a", "a"]);
        for none in ["``\n", "``` a`b\n", "- ```\n", "    ```\n", "> ```\n"] {
            assert_eq!(fence(none), None, "{none:?}");
        }
    }
}
