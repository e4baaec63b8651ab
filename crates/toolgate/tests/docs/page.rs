//! A page of the documentation, split into commands, files and prose.

use std::path::{Path, PathBuf};

const FENCE: &str = "```";
const PROMPT: &str = "$ ";
const CONTINUATION: &str = "> ";
/// `` ```yaml title=toolgate.yaml `` is a file for the commands below it.
const TITLE: &str = " title=";

/// One Markdown file.
#[derive(Clone)]
pub(crate) struct Page {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    pub(crate) pieces: Vec<Piece>,
}

/// A part of a page, in order.
#[derive(Clone)]
pub(crate) enum Piece {
    /// Lines that are not executed.
    Prose(String),
    /// A code block that is a file.
    File { opening: String, path: String, content: String },
    /// A code block of commands and their output.
    Session(Vec<Exchange>),
}

/// One command with the output that the page shows for it.
#[derive(Clone)]
pub(crate) struct Exchange {
    pub(crate) command: String,
    pub(crate) output: String,
}

/// The directory of `README.md`.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every page, `README.md` first.
pub(crate) fn all() -> Vec<Page> {
    let mut names: Vec<String> = std::fs::read_dir(root().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".md"))
        .map(|name| format!("docs/{name}"))
        .collect();
    names.sort();
    names.insert(0, "README.md".to_owned());
    names.iter().map(|name| Page::read(name)).collect()
}

impl Page {
    pub(crate) fn read(name: &str) -> Self {
        let path = root().join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        Self { path, name: name.to_owned(), pieces: pieces(&text) }
    }

    /// The text of the page.
    pub(crate) fn text(&self) -> String {
        self.pieces.iter().map(Piece::text).collect()
    }
}

impl Piece {
    fn text(&self) -> String {
        match self {
            Self::Prose(text) => text.clone(),
            Self::File { opening, content, .. } => format!("{opening}\n{content}{FENCE}\n"),
            Self::Session(exchanges) => {
                let typed: String = exchanges.iter().map(Exchange::text).collect();
                format!("{FENCE}console\n{typed}{FENCE}\n")
            }
        }
    }
}

impl Exchange {
    fn text(&self) -> String {
        let typed = self.command.replace('\n', &format!("\n{CONTINUATION}"));
        format!("{PROMPT}{typed}\n{}", self.output)
    }
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut lines = text.split_inclusive('\n');
    while let Some(line) = lines.next() {
        let opening = line.trim_end();
        let mut block = || -> String { lines.by_ref().take_while(|line| line.trim_end() != FENCE).collect() };
        if opening == format!("{FENCE}console") {
            pieces.push(Piece::Session(exchanges(&block())));
        } else if let (true, Some((_, path))) = (opening.starts_with(FENCE), opening.split_once(TITLE)) {
            let (opening, path) = (opening.to_owned(), path.to_owned());
            pieces.push(Piece::File { opening, path, content: block() });
        } else if opening.starts_with(FENCE) {
            pieces.push(Piece::Prose(format!("{line}{}{FENCE}\n", block())));
        } else {
            pieces.push(Piece::Prose(line.to_owned()));
        }
    }
    pieces
}

fn exchanges(block: &str) -> Vec<Exchange> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    for line in block.split_inclusive('\n') {
        match exchanges.last_mut() {
            _ if line.starts_with(PROMPT) => {
                let command = line[PROMPT.len()..].trim_end().to_owned();
                exchanges.push(Exchange { command, output: String::new() });
            }
            Some(last) if last.output.is_empty() && line.starts_with(CONTINUATION) => {
                last.command.push('\n');
                last.command.push_str(line[CONTINUATION.len()..].trim_end());
            }
            Some(last) => last.output.push_str(line),
            None => panic!("a console block does not begin with a command: {line}"),
        }
    }
    exchanges
}

#[test]
fn taking_a_page_apart_loses_nothing() {
    for page in all() {
        assert_eq!(page.text(), std::fs::read_to_string(&page.path).unwrap(), "{}", page.name);
    }
}
