//! Text as it would look on a terminal, without control sequences.
//!
//! Programs colour, move the cursor and overwrite; files and hosts that they quote may do worse. A model or a page receives the final text: no escape
//! sequences, no control characters but line breaks and tabs, no invisible characters and none that change the writing direction. It works one
//! character at a time, so chunk boundaries do not matter.

use serde_json::Value;

use crate::is_invisible;
use crate::sgr::TextStyle;

/// A longer CSI sequence selects no style.
const MAX_PARAMETER_BYTES: usize = 64;

/// The effect of a character on the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalEffect {
    /// It is visible.
    Visible(char),
    /// What follows looks like this.
    Style(TextStyle),
    /// The line is complete.
    NewLine,
    /// The line starts over; its content is overwritten.
    Restart,
    /// The last character of the line is erased.
    Erase,
}

/// The position within an escape sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EscapeState {
    /// In none.
    #[default]
    Outside,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate character.
    Intermediate,
    /// In a CSI sequence, such as a colour.
    Control,
    /// In an OSC, DCS, SOS, PM or APC string, such as a title or a link.
    Words,
}

/// Takes characters as they arrive.
#[derive(Clone, Debug, Default)]
pub struct Sanitizer {
    state: EscapeState,
    /// Whether a carriage return is pending: the next visible character overwrites the line.
    returned: bool,
    /// The parameters of the CSI sequence so far.
    parameters: String,
    /// The style of what follows.
    style: TextStyle,
}

impl Sanitizer {
    /// Takes one character and reports its effect, if any.
    pub fn push(&mut self, character: char, tell: &mut impl FnMut(TerminalEffect)) {
        self.state = match (self.state, character) {
            // CAN, SUB, ESC or any character that does not fit ends the sequence, so an unterminated sequence hides nothing.
            (_, '\u{18}' | '\u{1a}') => EscapeState::Outside,
            (_, '\u{1b}') => EscapeState::Escape,
            (EscapeState::Escape, '[') | (_, '\u{9b}') => {
                self.parameters.clear();
                EscapeState::Control
            }
            (EscapeState::Escape, ']' | 'P' | 'X' | '^' | '_')
            | (_, '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}') => EscapeState::Words,
            (EscapeState::Escape | EscapeState::Intermediate, ' '..='/') => EscapeState::Intermediate,
            (EscapeState::Escape | EscapeState::Intermediate, '0'..='~') => EscapeState::Outside,
            (EscapeState::Control, ' '..='?') => {
                if self.parameters.len() <= MAX_PARAMETER_BYTES {
                    self.parameters.push(character);
                }
                EscapeState::Control
            }
            (EscapeState::Control, 'm') => {
                self.select(tell);
                EscapeState::Outside
            }
            (EscapeState::Control, '@'..='~') => EscapeState::Outside,
            (EscapeState::Words, '\u{7}' | '\u{9c}') => EscapeState::Outside,
            (EscapeState::Words, inside) if inside != '\n' => EscapeState::Words,
            (_, plain) => {
                self.plain(plain, tell);
                EscapeState::Outside
            }
        };
    }

    /// The end of an SGR sequence.
    fn select(&mut self, tell: &mut impl FnMut(TerminalEffect)) {
        let before = self.style;
        if self.parameters.len() <= MAX_PARAMETER_BYTES {
            self.style.select(&self.parameters);
        }
        if self.style != before {
            tell(TerminalEffect::Style(self.style));
        }
    }

    fn plain(&mut self, character: char, tell: &mut impl FnMut(TerminalEffect)) {
        match character {
            '\n' => {
                self.returned = false;
                tell(TerminalEffect::NewLine);
            }
            '\r' => self.returned = true,
            '\u{8}' if !self.returned => tell(TerminalEffect::Erase),
            hidden if is_invisible(hidden) => {}
            seen => {
                if std::mem::take(&mut self.returned) {
                    tell(TerminalEffect::Restart);
                }
                tell(TerminalEffect::Visible(seen));
            }
        }
    }
}

/// Sanitises a whole text.
#[must_use]
pub fn sanitize(text: &str) -> String {
    let (mut done, mut line) = (String::with_capacity(text.len()), String::new());
    let mut cleaner = Sanitizer::default();
    for character in text.chars() {
        cleaner.push(character, &mut |stroke| match stroke {
            TerminalEffect::Visible(seen) => line.push(seen),
            TerminalEffect::Style(_) => {}
            TerminalEffect::Restart => line.clear(),
            TerminalEffect::Erase => drop(line.pop()),
            TerminalEffect::NewLine => {
                done.push_str(&line);
                done.push('\n');
                line.clear();
            }
        });
    }
    done + &line
}

/// Sanitises every string in a value, including field names. JSON can write any character as an escape, so this runs after parsing; nothing in JSON
/// was overwritten on a screen, so a lone carriage return is a line break.
#[must_use]
pub fn sanitize_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(sanitize_inner(&text)),
        Value::Array(items) => Value::Array(items.into_iter().map(sanitize_value).collect()),
        Value::Object(fields) => Value::Object(
            fields.into_iter().map(|(name, value)| (sanitize_inner(&name), sanitize_value(value))).collect(),
        ),
        plain => plain,
    }
}

fn sanitize_inner(text: &str) -> String {
    sanitize(&text.replace("\r\n", "\n").replace('\r', "\n"))
}

/// Escapes invisible characters, for a person who must be able to see every one.
#[must_use]
pub fn escape_control_chars(text: &str) -> String {
    let spell = |character: char| match is_invisible(character) {
        true => character.escape_unicode().to_string(),
        false => character.to_string(),
    };
    text.chars().map(spell).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_only_a_terminal_obeys_is_gone() {
        for (raw, seen) in [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("\u{9b}31mred\u{9b}m", "red"),
            ("\u{1b}]0;title\u{7}after", "after"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}Pq#0\u{1b}\\after", "after"),
            ("\u{1b}(Bcharset \u{1b}=keypad", "charset keypad"),
            ("\u{1b}]0;never ends\nnext", "\nnext"),
            ("\u{1b}[31\nnext", "\nnext"),
            ("\u{1b}[31é", "é"),
            ("\u{1b}\u{1b}[mx", "x"),
            ("a\0b\u{7}c\u{7f}d\u{85}e", "abcde"),
            ("one\r\ntwo\r\r\nthree", "one\ntwo\nthree"),
            ("10%\r20%\r100%\n", "100%\n"),
            ("10%\r\u{1b}[K20%", "20%"),
            ("kept\r", "kept"),
            ("N\u{8}NA\u{8}AME", "NAME"),
            ("ab\n\u{8}\u{8}c", "ab\nc"),
            ("safe\u{202e}txt.exe\u{2066}x\u{2069}", "safetxt.exex"),
            ("zero\u{200b}width\u{feff}\u{e0041}\u{e0100}\u{fe0f}\u{ad}", "zerowidth"),
            ("äöü €漢字🙂", "äöü €漢字🙂"),
        ] {
            assert_eq!(sanitize(raw), seen, "{raw:?}");
        }
    }

    #[test]
    fn values_are_cleaned_to_their_depth() {
        let raw = json!({"a\u{200b}": ["\u{1b}[31mred", {"b": "x\ry"}], "n": 1, "t": true});
        assert_eq!(sanitize_value(raw), json!({"a": ["red", {"b": "x\ny"}], "n": 1, "t": true}));
    }

    #[test]
    fn a_person_sees_what_is_hidden() {
        assert_eq!(escape_control_chars("rm\u{202e} x\n\u{1b}[m"), "rm\\u{202e} x\n\\u{1b}[m");
    }

    /// Characters with a meaning to a terminal, often enough to meet each other.
    fn odd_text() -> impl Strategy<Value = String> {
        let odd = prop::sample::select(
            "\u{1b}\u{9b}\u{9c}\u{9d}[]P\\;0m31K\r\n\t\u{8}\u{7}\u{18}\u{202e}\u{200b}aé🙂 "
                .chars()
                .collect::<Vec<_>>(),
        );
        prop::collection::vec(prop_oneof![4 => odd, 1 => any::<char>()], 0..60).prop_map(String::from_iter)
    }

    proptest! {
        #[test]
        fn cleaning_twice_changes_nothing_more(text in odd_text()) {
            let once = sanitize(&text);
            prop_assert_eq!(sanitize(&once), once);
        }

        #[test]
        fn nothing_hidden_is_left(text in odd_text()) {
            prop_assert!(!sanitize(&text).chars().any(is_invisible));
        }

        #[test]
        fn text_without_anything_odd_stays(text in "[ -~\\n\\t\u{c0}-\u{2af}]{0,80}") {
            prop_assert_eq!(sanitize(&text), text);
        }
    }
}
