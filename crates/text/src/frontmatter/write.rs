//! Writes JSON values as YAML, in forms that every YAML parser reads back the same.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Words that some YAML parser does not take for text.
const RESERVED: [&str; 13] =
    ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf", "infinity", "none"];

/// The value on one line.
pub(super) fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(entries) => {
            let entries: Vec<String> = entries.iter().map(|(name, value)| entry(name, value)).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// `name: value` on one line.
pub(super) fn entry(name: &str, value: &Value) -> String {
    format!("{}: {}", self::name(name), inline(value))
}

/// A name, without its colon.
pub(super) fn name(name: &str) -> String {
    scalar(name)
}

/// A `- ` line for each item; an object takes a line for each of its entries.
pub(super) fn item_lines(items: &[Value], indent: usize, line_end: &str) -> String {
    let mut out = String::new();
    for item in items {
        let mut lead = format!("{:indent$}- ", "");
        match item {
            Value::Object(entries) if !entries.is_empty() => {
                for (name, value) in entries {
                    out.extend([lead.as_str(), &entry(name, value), line_end]);
                    lead = format!("{:indent$}  ", "");
                }
            }
            other => out.extend([lead.as_str(), &inline(other), line_end]),
        }
    }
    out
}

/// A `name: value` line for each entry.
pub(super) fn entry_lines(entries: &Map<String, Value>, indent: usize, line_end: &str) -> String {
    entries.iter().map(|(name, value)| format!("{:indent$}{}{line_end}", "", entry(name, value))).collect()
}

/// Text unquoted where it is unambiguous, and quoted otherwise.
fn scalar(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { quoted(text) }
}

fn is_plain(text: &str) -> bool {
    let safe = |character: char| {
        character.is_alphanumeric()
            || matches!(character, '_' | '-' | '.' | '/' | ' ' | '@' | '+' | '(' | ')')
    };
    text.starts_with(|first: char| first.is_alphabetic() || first == '_')
        && text.chars().all(safe)
        && !text.ends_with(' ')
        && !text.chars().any(is_special)
        && !RESERVED.contains(&text.to_lowercase().as_str())
}

/// Text in double quotes. Letters of any language stay readable; invisible characters are escaped.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            special if is_special(special) => {
                // Writing to a string cannot fail.
                let _ = match u32::from(special) {
                    code @ ..0x100 => write!(out, "\\x{code:02X}"),
                    code @ ..0x1_0000 => write!(out, "\\u{code:04X}"),
                    code => write!(out, "\\U{code:08X}"),
                };
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// Control characters, line separators, byte order marks, invisible and directional marks, and non-characters.
fn is_special(character: char) -> bool {
    character.is_control()
        || matches!(
            u32::from(character),
            0xa0 | 0xad | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff | 0xfff0..=0xffff
        )
        || u32::from(character) & 0xfffe == 0xfffe
        || u32::from(character) >= 0xe_0000
        || ('\u{e000}'..='\u{f8ff}').contains(&character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_text_that_stays_text() {
        for (text, wanted) in [
            ("step-01", "step-01"),
            ("docs/plan v2.md", "docs/plan v2.md"),
            ("größe 大", "größe 大"),
            ("", r#""""#),
            ("true", r#""true""#),
            ("No", r#""No""#),
            ("~", r#""~""#),
            ("12", r#""12""#),
            ("1e3", r#""1e3""#),
            ("0x1f", r#""0x1f""#),
            (".inf", r#"".inf""#),
            ("2026-11-15T05:01:02Z", r#""2026-11-15T05:01:02Z""#),
            ("a: b", r#""a: b""#),
            ("a #b", r##""a #b""##),
            ("- a", r#""- a""#),
            ("*alias", r#""*alias""#),
            ("a ", r#""a ""#),
            ("[a", r#""[a""#),
            ("say \"hi\" \\", r#""say \"hi\" \\""#),
            (
                "a\nb\tc\r\u{0}\u{85}\u{2028}\u{feff}\u{202e}\u{e0041}",
                r#""a\nb\tc\r\x00\x85\u2028\uFEFF\u202E\U000E0041""#,
            ),
        ] {
            assert_eq!(scalar(text), wanted);
        }
    }
}
