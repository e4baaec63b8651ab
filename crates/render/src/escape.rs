//! Escapes: untrusted text neither commands a terminal nor hides on it.

use toolgate_text::is_invisible;
use unicode_width::UnicodeWidthChar as _;

/// Wraps text in an SGR colour code, if wanted.
#[must_use]
pub fn paint(text: &str, code: &str, colour: bool) -> String {
    if colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// More combining marks than this on one letter are no legitimate text: they would cover the rows above.
const MAX_COMBINING_MARKS: usize = 4;

/// Escapes text that may arrive in pieces: control sequences, invisible characters and stacked combining marks are written as escapes.
#[derive(Clone, Debug, Default)]
pub struct ControlEscaper {
    /// The number of combining marks on the last letter.
    marks: usize,
}

impl ControlEscaper {
    /// The character itself, or its escape.
    pub fn escape(&mut self, character: char) -> impl Iterator<Item = char> + use<> {
        let is_mark = !character.is_ascii() && character.width() == Some(0);
        self.marks = if is_mark { self.marks + 1 } else { 0 };
        let hides = is_invisible(character) || matches!(character, '\u{2028}' | '\u{2029}');
        let is_spelt_out = hides || self.marks > MAX_COMBINING_MARKS;
        let plain = (!is_spelt_out).then_some(character);
        plain.into_iter().chain(is_spelt_out.then(|| character.escape_unicode()).into_iter().flatten())
    }
}

/// Untrusted text, safe to print: control characters and bidirectional overrides are shown, not obeyed.
#[must_use]
pub fn escape_control_chars(text: &str) -> String {
    let mut revealer = ControlEscaper::default();
    text.chars().flat_map(|character| revealer.escape(character)).collect()
}

/// The same for text that must stay on one line, such as a path.
#[must_use]
pub fn escape_line(text: &str) -> String {
    escape_control_chars(text).replace('\n', "\\n").replace('\t', "\\t")
}
