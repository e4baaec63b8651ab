//! Colours of code: comments, strings, numbers and keywords, line by line.
//!
//! A lexer for families of languages, and no grammar: it takes linear time on any text, needs nothing loaded, and a wrong guess only picks another
//! colour. `syntect` would know more, but its grammars are read with `bincode` 1, which is no longer maintained, and its patterns backtrack.

use crate::styled::{Style, StyledLine};

/// A longer line is not coloured.
const MAX_LINE_BYTES: usize = 4096;

const COMMENT: Style = Style::DIM;
const STRING: Style = Style::colour(32);
const NUMBER: Style = Style::colour(36);
const KEYWORD: Style = Style::colour(35);

/// The lexical rules of a family of languages.
#[derive(Debug)]
pub(crate) struct Language {
    names: &'static [&'static str],
    line_comments: &'static [&'static str],
    block_comment: Option<(&'static str, &'static str)>,
    /// The delimiters of strings, longer ones first. The second value says whether a string may go on in the next line.
    strings: &'static [(&'static str, bool)],
    /// Separated by spaces.
    keywords: &'static str,
}

impl Language {
    /// Keywords of SQL are written in either case.
    fn is_keyword(&self, word: &str) -> bool {
        self.keywords
            .split(' ')
            .any(|keyword| keyword == word || (self.keywords == SQL && keyword.eq_ignore_ascii_case(word)))
    }
}

/// What the next line begins in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LexerState {
    #[default]
    Code,
    Comment,
    String(&'static str),
}

const C_LIKE: &str = "\
    abstract as async await bool break case catch char class const constexpr continue crate def default defer do double dyn else enum \
    export extends extern false final finally float fn for from func function go guard if impl implements import in instanceof int \
    interface internal let long loop match mod move mut namespace new nil null nullptr override package private protected pub public range \
    ref return select self Self short sizeof static struct super switch template this throw throws trait true try type typedef typeof union \
    unsafe unsigned use using val var virtual void volatile where while yield";

const PYTHON: &str = "\
    and as assert async await break case class continue def del elif else except False finally for from global if import in is lambda match \
    None nonlocal not or pass raise return self True try while with yield";

const SCRIPTS: &str = "\
    alias begin case class cd def do done echo elif else elsif end ensure esac eval exec exit export false fi for function if in local \
    module nil readonly require rescue return select self set shift source then trap true unless unset until when while yield";

const SQL: &str = "\
    ADD ALTER AND AS ASC BEGIN BETWEEN BY CASE COMMIT CREATE DEFAULT DELETE DESC DISTINCT DROP ELSE END EXISTS FOREIGN FROM GROUP HAVING IN \
    INDEX INNER INSERT INTO IS JOIN KEY LEFT LIKE LIMIT NOT NULL OFFSET ON OR ORDER OUTER PRIMARY REFERENCES RIGHT ROLLBACK SELECT SET \
    TABLE THEN UNION UNIQUE UPDATE VALUES VIEW WHEN WHERE WITH";

const LUA: &str = "\
    and break do else elseif end false for function if in local nil not or repeat return then true until while";

static LANGUAGES: &[Language] = &[
    Language {
        names: &[
            "rust", "rs", "c", "h", "cpp", "c++", "cc", "hpp", "java", "cs", "csharp", "kotlin", "kt",
            "swift", "scala", "dart", "zig", "php", "proto", "groovy",
        ],
        line_comments: &["//"],
        block_comment: Some(("/*", "*/")),
        strings: &[("\"", true)],
        keywords: C_LIKE,
    },
    Language {
        names: &[
            "javascript",
            "js",
            "jsx",
            "mjs",
            "typescript",
            "ts",
            "tsx",
            "go",
            "golang",
            "json5",
            "jsonc",
            "css",
            "scss",
        ],
        line_comments: &["//"],
        block_comment: Some(("/*", "*/")),
        strings: &[("\"", false), ("'", false), ("`", true)],
        keywords: C_LIKE,
    },
    Language {
        names: &["python", "py", "python3", "starlark", "bzl"],
        line_comments: &["#"],
        block_comment: None,
        strings: &[("\"\"\"", true), ("'''", true), ("\"", false), ("'", false)],
        keywords: PYTHON,
    },
    Language {
        names: &[
            "sh",
            "bash",
            "shell",
            "zsh",
            "console",
            "fish",
            "dockerfile",
            "docker",
            "make",
            "makefile",
            "ruby",
            "rb",
        ],
        line_comments: &["#"],
        block_comment: None,
        strings: &[("\"", true), ("'", true)],
        keywords: SCRIPTS,
    },
    Language {
        names: &["toml", "ini", "yaml", "yml", "cfg", "conf", "properties"],
        line_comments: &["#", ";"],
        block_comment: None,
        strings: &[("\"\"\"", true), ("'''", true), ("\"", false), ("'", false)],
        keywords: "true false null yes no",
    },
    Language {
        names: &["json"],
        line_comments: &[],
        block_comment: None,
        strings: &[("\"", false)],
        keywords: "true false null",
    },
    Language {
        names: &["sql", "sqlite", "postgres", "postgresql", "mysql"],
        line_comments: &["--"],
        block_comment: Some(("/*", "*/")),
        strings: &[("'", true), ("\"", false)],
        keywords: SQL,
    },
    Language {
        names: &["lua"],
        line_comments: &["--"],
        block_comment: None,
        strings: &[("\"", false), ("'", false)],
        keywords: LUA,
    },
    Language {
        names: &["html", "xml", "svg", "vue"],
        line_comments: &[],
        block_comment: Some(("<!--", "-->")),
        strings: &[("\"", true)],
        keywords: "",
    },
];

/// The rules for a language; a diff has its own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Highlighter {
    None,
    Diff,
    Code(&'static Language, LexerState),
}

impl Highlighter {
    /// By the info string of a fence, such as `rust,no_run`.
    pub(crate) fn named(info: &str) -> Self {
        let is_separator = |character: char| character.is_whitespace() || matches!(character, ',' | '{');
        let name = info.split(is_separator).next().unwrap_or_default().to_ascii_lowercase();
        if matches!(name.as_str(), "diff" | "patch") {
            return Self::Diff;
        }
        let known = LANGUAGES.iter().find(|language| language.names.contains(&name.as_str()));
        known.map_or(Self::None, |language| Self::Code(language, LexerState::default()))
    }

    /// A line of code, coloured; the next line continues where it ends.
    pub(crate) fn line(&mut self, line: &str) -> StyledLine {
        match self {
            Self::Code(language, state) if line.len() <= MAX_LINE_BYTES => {
                let mut lexer =
                    Lexer { language, rest: line, line: StyledLine::default(), is_in_word: false };
                *state = lexer.run(*state);
                lexer.line
            }
            Self::Diff => StyledLine::of(line, diff_style(line)),
            _ => StyledLine::of(line, Style::PLAIN),
        }
    }
}

fn diff_style(line: &str) -> Style {
    match line.as_bytes().first() {
        _ if line.starts_with("+++") || line.starts_with("---") => Style { bold: true, ..Style::PLAIN },
        Some(b'+') => Style::colour(32),
        Some(b'-') => Style::colour(31),
        Some(b'@') => Style::colour(36),
        _ => Style::PLAIN,
    }
}

struct Lexer<'l> {
    language: &'static Language,
    rest: &'l str,
    line: StyledLine,
    /// Whether the last character belonged to a word, so that a digit or a quote does not begin anything.
    is_in_word: bool,
}

impl Lexer<'_> {
    fn run(&mut self, mut state: LexerState) -> LexerState {
        while !self.rest.is_empty() {
            state = match state {
                LexerState::Code => self.code(),
                LexerState::Comment => {
                    let end = self.language.block_comment.map_or("", |(_, end)| end);
                    match self.rest.find(end) {
                        Some(at) => self.take(at + end.len(), COMMENT, LexerState::Code),
                        None => self.take(self.rest.len(), COMMENT, LexerState::Comment),
                    }
                }
                LexerState::String(quote) => self.string(quote),
            };
        }
        match state {
            // A quote that is not closed is an apostrophe, or a mistake: the next line is code again.
            LexerState::String(quote) if !self.spans_lines(quote) => LexerState::Code,
            other => other,
        }
    }

    fn spans_lines(&self, quote: &str) -> bool {
        self.language.strings.iter().any(|(known, spans_lines)| *known == quote && *spans_lines)
    }

    fn code(&mut self) -> LexerState {
        let language = self.language;
        let begins = |mark: &&str| self.rest.starts_with(*mark);
        let ends_word = !self.is_in_word;
        if ends_word && language.line_comments.iter().any(begins) {
            return self.take(self.rest.len(), COMMENT, LexerState::Code);
        }
        if let Some((mark, _)) = language.block_comment.filter(|(mark, _)| begins(mark)) {
            return self.take(mark.len(), COMMENT, LexerState::Comment);
        }
        if ends_word && let Some((quote, _)) = language.strings.iter().find(|(quote, _)| begins(quote)) {
            return self.take(quote.len(), STRING, LexerState::String(quote));
        }
        let is_word = |character: char| character.is_alphanumeric() || character == '_';
        let word = self.rest.find(|character| !is_word(character)).unwrap_or(self.rest.len());
        let style = match self.rest.get(..word).unwrap_or_default() {
            "" => Style::PLAIN,
            number if ends_word && number.starts_with(|digit: char| digit.is_ascii_digit()) => NUMBER,
            text if language.is_keyword(text) => KEYWORD,
            _ => Style::PLAIN,
        };
        let first = self.rest.chars().next().map_or(0, char::len_utf8);
        let taken = self.take(word.max(first), style, LexerState::Code);
        self.is_in_word = word > 0;
        taken
    }

    /// The rest of a string; a backslash escapes the next character.
    fn string(&mut self, quote: &'static str) -> LexerState {
        let mut is_escaped = false;
        let end = self.rest.char_indices().find_map(|(at, character)| {
            let here = !is_escaped && self.rest.get(at..).is_some_and(|rest| rest.starts_with(quote));
            is_escaped = !is_escaped && character == '\\';
            here.then_some(at + quote.len())
        });
        match end {
            Some(end) => self.take(end, STRING, LexerState::Code),
            None => self.take(self.rest.len(), STRING, LexerState::String(quote)),
        }
    }

    fn take(&mut self, bytes: usize, style: Style, next: LexerState) -> LexerState {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.line.push(taken, style);
        self.rest = rest;
        self.is_in_word = false;
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::styled::{Layout, write_row};

    fn coloured(info: &str, code: &str) -> String {
        let layout = Layout { columns: 200, unicode: true, colour: true };
        let mut highlighter = Highlighter::named(info);
        let rows = code.lines().map(|line| {
            let line = highlighter.line(line);
            line.rows(200, crate::styled::Wrap::Anywhere)
                .into_iter()
                .map(|row| write_row(row, layout))
                .collect()
        });
        rows.collect::<Vec<String>>().join("\n").replace('\u{1b}', "^")
    }

    #[test]
    fn code_is_coloured() {
        insta::assert_snapshot!(coloured("rust", "/* one\ntwo */ let x = \"a\\\"b\"; // 1\nlet i2 = 34 + f('\"');"), @r#"
          ^[2m/* one^[0m
          ^[2mtwo */^[0m ^[35mlet^[0m x = ^[32m"a\"b"^[0m; ^[2m// 1^[0m
          ^[35mlet^[0m i2 = ^[36m34^[0m + f('^[32m"');^[0m
        "#);
        insta::assert_snapshot!(coloured("python,x", "def f(): # no\n  return '''a\n  b''' # it's"), @r"
          ^[35mdef^[0m f(): ^[2m# no^[0m
            ^[35mreturn^[0m ^[32m'''a^[0m
          ^[32m  b'''^[0m ^[2m# it's^[0m
        ");
        insta::assert_snapshot!(coloured("diff", "+a\n-b\n@@ c\n d"), @r"
          ^[32m+a^[0m
          ^[31m-b^[0m
          ^[36m@@ c^[0m
           d
        ");
        assert_eq!(coloured("klingon", "let x"), "  let x");
    }
}
