//! Quotes untrusted names inside a line of text: a name cannot end its line, control a terminal, or be confused with something else on that line.

use std::borrow::Cow;

use crate::is_invisible;

/// Marks where [`cleaned_line`] cut off.
pub const ELLIPSIS: &str = "…";

/// A file name or path as it appears in a line of an answer: unchanged, or as a JSON string where it could be misread.
///
/// Quoted are names that contain a line end, a tab, a control or invisible character, that begin with a quote, that begin or end with white space,
/// that look like a notice (`[truncated: …`), and that contain a `:` followed by a number, as matches of a search do. A caller can copy the string
/// into the arguments of a call unchanged: its escapes are those of JSON.
#[must_use]
pub fn quoted_name(name: &str) -> Cow<'_, str> {
    match is_plain(name) {
        true => Cow::Borrowed(name),
        false => Cow::Owned(format!("\"{}\"", escape(name, true))),
    }
}

/// A text that must stay on one line, such as a message with a name in it: line ends, control and invisible characters are escaped as in JSON.
#[must_use]
pub fn escaped_line(text: &str) -> Cow<'_, str> {
    match text.chars().any(is_escaped) {
        true => Cow::Owned(escape(text, false)),
        false => Cow::Borrowed(text),
    }
}

/// JSON with every invisible character as an escape. Such characters occur only in strings, so the meaning is the same.
#[must_use]
pub fn escape_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match is_invisible(character) || matches!(character, '\u{2028}' | '\u{2029}') {
            true => {
                let escaped = |unit: &mut u16| format!("\\u{unit:04x}");
                text.extend(character.encode_utf16(&mut [0; 2]).iter_mut().map(escaped));
            }
            false => text.push(character),
        }
    }
    text
}

/// A server's words on one line: control characters become spaces, invisible ones are removed, and an ellipsis marks that the rest is cut off.
#[must_use]
pub fn cleaned_line(words: &str, max_chars: usize) -> String {
    let mut visible = words
        .chars()
        .map(|character| if character.is_control() { ' ' } else { character })
        .filter(|character| !is_invisible(*character));
    let mut shown: String = visible.by_ref().take(max_chars).collect();
    if visible.next().is_some() {
        shown.push_str(ELLIPSIS);
    }
    shown.trim().to_owned()
}

fn is_plain(name: &str) -> bool {
    let is_padded = name.starts_with(char::is_whitespace) || name.ends_with(char::is_whitespace);
    let is_notice = name.starts_with('[') && name.contains(' ');
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_match = name.split(':').skip(1).any(is_number);
    !(name.starts_with('"') || is_padded || is_notice || is_match || name.chars().any(is_escaped))
}

fn is_escaped(character: char) -> bool {
    matches!(character, '\n' | '\t' | '\u{2028}' | '\u{2029}') || is_invisible(character)
}

fn escape(text: &str, with_quotes: bool) -> String {
    let mut escaped = String::with_capacity(text.len() + 2);
    for character in text.chars() {
        match character {
            '"' | '\\' if with_quotes => escaped.extend(['\\', character]),
            '\n' => escaped.push_str("\\n"),
            '\t' => escaped.push_str("\\t"),
            '\r' => escaped.push_str("\\r"),
            other if is_escaped(other) => {
                let unit = |unit: &mut u16| format!("\\u{unit:04x}");
                escaped.extend(other.encode_utf16(&mut [0; 2]).iter_mut().map(unit));
            }
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_could_be_misread_are_quoted() {
        for (name, shown) in [
            ("src/main.rs", "src/main.rs"),
            ("with space & ünï/çödé 漢.txt", "with space & ünï/çödé 漢.txt"),
            ("pages/[id].tsx", "pages/[id].tsx"),
            ("[id]", "[id]"),
            ("back\\slash and \"quote\"", "back\\slash and \"quote\""),
            ("a:b", "a:b"),
            ("a\nb", "\"a\\nb\""),
            ("a\rb\tc\\", "\"a\\rb\\tc\\\\\""),
            ("\u{1b}[2J\u{9b}1m", "\"\\u001b[2J\\u009b1m\""),
            ("a\u{202e}b\u{200b}\u{e0041}", "\"a\\u202eb\\u200b\\udb40\\udc41\""),
            ("a\u{2028}b", "\"a\\u2028b\""),
            ("\"a\\nb\"", "\"\\\"a\\\\nb\\\"\""),
            (" x", "\" x\""),
            ("x\u{3000}", "\"x\u{3000}\""),
            ("[truncated: 3 of 900 entries shown]", "\"[truncated: 3 of 900 entries shown]\""),
            ("src/main.rs:10:fn main", "\"src/main.rs:10:fn main\""),
        ] {
            assert_eq!(quoted_name(name), shown, "{name:?}");
        }
        assert_eq!(escaped_line("`a\nb\u{1b}` is \"no\\file\""), "`a\\nb\\u001b` is \"no\\file\"");
    }

    proptest! {
        /// The result is the name, or a JSON string that decodes to the name; and no two names look the same.
        #[test]
        fn a_shown_name_says_which_file_it_is(name in "(\\PC|[\u{1}-\u{20}\"\\\\:1\\[\u{7f}\u{85}\u{202e}\u{e0041}]){1,20}") {
            let shown = quoted_name(&name);
            let read = match shown.starts_with('"') {
                true => serde_json::from_str::<String>(&shown).unwrap(),
                false => shown.to_string(),
            };
            prop_assert_eq!(&read, &name);
            prop_assert!(!shown.chars().any(is_escaped), "{:?}", shown);
            prop_assert!(!escaped_line(&name).chars().any(is_escaped));
        }
    }
}
