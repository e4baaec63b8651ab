//! Problems: what is wrong with a file, where, and what would help.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::yaml_tree::ConfigNode;

/// Maximum width of the source excerpt in a rendered problem.
const MAX_SHOWN_WIDTH: usize = 100;

/// A position in a file, one-based; columns count characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SourcePosition {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// A value with its position in the file, so that later checks can report it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// The line, one-based.
    pub line: usize,
    /// The column in characters, one-based.
    pub column: usize,
    /// How many characters to underline.
    pub(crate) width: usize,
}

impl<T> Located<T> {
    pub(crate) fn new(value: T, node: &ConfigNode) -> Self {
        Self { value, line: node.position.line, column: node.position.column, width: node.width }
    }

    /// Another value at the same position.
    pub(crate) fn with<U>(&self, value: U) -> Located<U> {
        Located { value, line: self.line, column: self.column, width: self.width }
    }

    pub(crate) fn position(&self) -> SourcePosition {
        SourcePosition { line: self.line, column: self.column }
    }
}

/// A value that was declared in code instead of a file has line 0.
impl<T> From<T> for Located<T> {
    fn from(value: T) -> Self {
        Self { value, line: 0, column: 0, width: 0 }
    }
}

/// One problem in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConfigProblem {
    /// The file as the operator named it.
    pub file: String,
    /// The line, one-based.
    pub line: usize,
    /// The column in characters, one-based.
    pub column: usize,
    /// What is wrong: a lower-case fragment with values in backticks.
    pub message: String,
    /// A remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// The source line, with the part to underline.
    #[serde(skip)]
    excerpt: Excerpt,
}

impl ConfigProblem {
    /// A problem in a text that another crate parses, such as a policy, at a one-based line and column.
    #[must_use]
    pub fn in_text(
        (file, text): (&str, &str),
        (line, column): (usize, usize),
        message: impl Into<String>,
        help: Option<String>,
    ) -> Self {
        SourceText::new(file, text).problem(SourcePosition { line, column }, 1, message, help)
    }

    /// The same without the source line, which contains a secret.
    pub(crate) fn without_line(self) -> Self {
        Self { excerpt: Excerpt { line: "…".to_owned(), skip: 0, width: 1 }, ..self }
    }

    /// The problem as plain text: position, message, help, then the source line with carets under the mistake.
    #[must_use]
    pub fn render(&self) -> String {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        let Excerpt { line, skip, width } = &self.excerpt;
        let (space, carets) = (" ".repeat(*skip), "^".repeat(*width));
        format!("{self}\n {number} | {line}\n {margin} | {space}{carets}\n")
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, message, help, .. } = self;
        write!(formatter, "{}:{line}:{column}: {message}", shown(file))?;
        match help {
            Some(help) => write!(formatter, " — {help}"),
            None => Ok(()),
        }
    }
}

/// Every problem of a file, in file order; never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ConfigProblems(pub(crate) Vec<ConfigProblem>);

impl ConfigProblems {
    /// The problems in file order.
    #[must_use]
    pub fn as_slice(&self) -> &[ConfigProblem] {
        &self.0
    }

    /// All of them as plain text, with source lines.
    #[must_use]
    pub fn render(&self) -> String {
        self.0.iter().map(ConfigProblem::render).collect()
    }
}

impl fmt::Display for ConfigProblems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ConfigProblem::to_string).collect();
        formatter.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for ConfigProblems {}

/// Something that is allowed but probably not intended; nothing is rejected because of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ConfigWarning(pub(crate) ConfigProblem);

impl From<ConfigProblem> for ConfigWarning {
    fn from(problem: ConfigProblem) -> Self {
        Self(problem)
    }
}

impl ConfigWarning {
    /// The position, message and help.
    #[must_use]
    pub fn as_problem(&self) -> &ConfigProblem {
        &self.0
    }

    /// The warning as plain text, with the source line.
    #[must_use]
    pub fn render(&self) -> String {
        self.as_labelled().render()
    }

    fn as_labelled(&self) -> ConfigProblem {
        ConfigProblem { message: format!("warning: {}", self.0.message), ..self.0.clone() }
    }
}

impl fmt::Display for ConfigWarning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_labelled().fmt(formatter)
    }
}

impl IntoIterator for ConfigProblems {
    type Item = ConfigProblem;
    type IntoIter = std::vec::IntoIter<ConfigProblem>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// The shown part of a line, and what of it is underlined.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Excerpt {
    line: String,
    skip: usize,
    width: usize,
}

/// A file's name and text, kept so that later problems can show the line.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceText {
    file: Arc<str>,
    text: Arc<str>,
}

impl SourceText {
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn new(file: &str, text: &str) -> Self {
        Self { file: file.into(), text: text.into() }
    }

    /// A problem at a position, underlining `width` characters up to the end of the line.
    pub(crate) fn problem(
        &self,
        place: SourcePosition,
        width: usize,
        message: impl Into<String>,
        help: Option<String>,
    ) -> ConfigProblem {
        let excerpt = self.excerpt(place, width);
        let SourcePosition { line, column } = place;
        ConfigProblem { file: self.file.to_string(), line, column, message: message.into(), help, excerpt }
    }

    /// A problem at a byte offset within a declared text. A text that is written differently in the file, with
    /// escapes or over several lines, is underlined as a whole.
    pub(crate) fn problem_within(
        &self,
        at: &Located<String>,
        offset: usize,
        message: impl Into<String>,
        help: Option<String>,
    ) -> ConfigProblem {
        let line = self.text.split('\n').nth(at.line.saturating_sub(1)).unwrap_or_default();
        let rest: String = line.chars().skip(at.column.saturating_sub(1)).collect();
        let quotes = usize::from(rest.starts_with(['"', '\'']));
        let written: String = rest.chars().skip(quotes).collect();
        let before = at.value.get(..offset).filter(|_| written.starts_with(&at.value));
        match before {
            Some(before) => {
                let column = at.column + quotes + before.chars().count();
                self.problem(SourcePosition { line: at.line, column }, 1, message, help)
            }
            None => self.problem(at.position(), at.width, message, help),
        }
    }

    fn excerpt(&self, place: SourcePosition, width: usize) -> Excerpt {
        let line = self.text.split('\n').nth(place.line.saturating_sub(1)).unwrap_or_default();
        let line = line.strip_prefix('\u{feff}').unwrap_or(line).trim_end();
        let column = place.column.saturating_sub(1);
        // A long line is shown from shortly before the mistake.
        let start = if column < MAX_SHOWN_WIDTH * 3 / 4 { 0 } else { column - MAX_SHOWN_WIDTH / 4 };
        let line: String = line.chars().skip(start).take(MAX_SHOWN_WIDTH).map(printable).collect();
        let skip = (column - start).min(line.chars().count());
        let width = width.min(line.chars().count() - skip).max(1);
        Excerpt { line, skip, width }
    }
}

/// A problem at the first byte that is not UTF-8.
pub(crate) fn not_text(file: &str, bytes: &[u8], valid: usize) -> ConfigProblems {
    let before = String::from_utf8_lossy(bytes.get(..valid).unwrap_or_default());
    let line = before.split('\n').count();
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let source = SourceText::new(file, &String::from_utf8_lossy(bytes));
    let help = Some("save the file as UTF-8".to_owned());
    ConfigProblems(vec![source.problem(SourcePosition { line, column }, 1, "this is not UTF-8 text", help)])
}

/// One terminal column per character, and no control characters.
fn printable(character: char) -> char {
    match character {
        '\t' => ' ',
        visible if is_visible(visible) => visible,
        _ => char::REPLACEMENT_CHARACTER,
    }
}

fn is_visible(character: char) -> bool {
    matches!(character, '"' | '\'' | '\\') || character.escape_debug().len() == 1
}

/// A value for messages: short, on one line, with invisible characters escaped.
#[must_use]
pub fn shown(text: &str) -> String {
    shown_up_to(text, 60)
}

/// Another crate's message about a value, which may quote all of it.
pub(crate) fn shown_message(text: &str) -> String {
    shown_up_to(text, 240)
}

fn shown_up_to(text: &str, longest: usize) -> String {
    let mut shown: String = text.chars().take(longest).map(visible).collect();
    if text.chars().nth(longest).is_some() {
        shown.push('…');
    }
    shown
}

fn visible(character: char) -> String {
    if is_visible(character) { character.to_string() } else { character.escape_debug().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str, line: usize, column: usize, width: usize) -> String {
        SourceText::new("f.yaml", text)
            .problem(SourcePosition { line, column }, width, "wrong", None)
            .render()
    }

    #[test]
    fn the_caret_stands_under_the_mistake() {
        assert_eq!(
            rendered("a: b\nkey: value\n", 2, 6, 5),
            "f.yaml:2:6: wrong\n 2 | key: value\n   |      ^^^^^\n"
        );
    }

    #[test]
    fn a_place_past_the_text_still_renders() {
        assert_eq!(rendered("a", 9, 40, 3), "f.yaml:9:40: wrong\n 9 | \n   | ^\n");
        assert_eq!(rendered("", 0, 0, 0), "f.yaml:0:0: wrong\n 0 | \n   | ^\n");
    }

    #[test]
    fn a_long_line_is_shown_around_the_mistake() {
        let text = format!("{}HERE{}", "x".repeat(500), "y".repeat(500));
        let shown = rendered(&text, 1, 501, 4);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[1].chars().count(), MAX_SHOWN_WIDTH + 5);
        assert_eq!(lines[1].find("HERE"), lines[2].find("^^^^"));
    }

    #[test]
    fn nothing_that_steers_a_terminal_is_printed() {
        let shown = rendered("key: \u{1b}[31m\u{202e}red\u{7}\t!", 1, 6, 3);
        assert!(!shown.contains(['\u{1b}', '\u{202e}', '\u{7}', '\t']), "{shown:?}");
        assert_eq!(super::shown("a\u{1b}\u{202e}\n\"b"), "a\\u{1b}\\u{202e}\\n\"b");
        assert_eq!(super::shown(&"x".repeat(61)), format!("{}…", "x".repeat(60)));
    }
}
