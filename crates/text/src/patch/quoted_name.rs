//! File names as patches write them: bare, terminated by a tab, or quoted as in C.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::is_invisible;

/// The name as written after `---` or `+++`: quoted where it contains quotes, backslashes, control or invisible characters, and terminated by a tab
/// where it contains spaces, as GNU `diff` does.
pub(crate) fn encode(name: &str) -> Cow<'_, str> {
    if name.chars().any(|character| is_escaped(character) || matches!(character, '"' | '\\')) {
        Cow::Owned(quoted(name))
    } else if name.contains(' ') {
        Cow::Owned(format!("{name}\t"))
    } else {
        Cow::Borrowed(name)
    }
}

fn is_escaped(character: char) -> bool {
    character.is_control() || is_invisible(character) || matches!(character, '\u{2028}' | '\u{2029}')
}

fn quoted(name: &str) -> String {
    let mut out = String::from("\"");
    for character in name.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            escaped if is_escaped(escaped) => {
                for byte in escaped.encode_utf8(&mut [0; 4]).bytes() {
                    // Writing to a string cannot fail.
                    let _ = write!(out, "\\{byte:03o}");
                }
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// The name at the beginning of `text`, and what follows it. A bare name ends at a tab or at the end of the line. `None` when quotes are not closed,
/// an escape is unknown, or the bytes are not UTF-8.
pub(crate) fn decode(text: &str) -> Option<(Cow<'_, str>, &str)> {
    match text.strip_prefix('"') {
        Some(rest) => read_quoted(rest).map(|(name, rest)| (Cow::Owned(name), rest)),
        None => Some(match text.split_once('\t') {
            Some((name, rest)) => (Cow::Borrowed(name), rest),
            None => (Cow::Borrowed(text), ""),
        }),
    }
}

fn read_quoted(text: &str) -> Option<(String, &str)> {
    let mut name = Vec::new();
    let mut bytes = text.bytes().enumerate();
    while let Some((index, byte)) = bytes.next() {
        match byte {
            b'"' => return Some((String::from_utf8(name).ok()?, text.get(index + 1..)?)),
            b'\\' => name.push(escaped(&mut bytes)?),
            other => name.push(other),
        }
    }
    None
}

/// The byte of an escape: a letter, or three octal digits.
fn escaped(bytes: &mut impl Iterator<Item = (usize, u8)>) -> Option<u8> {
    let (_, first) = bytes.next()?;
    Some(match first {
        b'a' => 0x07,
        b'b' => 0x08,
        b't' => b'\t',
        b'n' => b'\n',
        b'v' => 0x0b,
        b'f' => 0x0c,
        b'r' => b'\r',
        b'"' | b'\\' => first,
        b'0'..=b'3' => {
            let mut value = first - b'0';
            for _ in 0..2 {
                let (_, digit) = bytes.next().filter(|(_, digit)| (b'0'..=b'7').contains(digit))?;
                value = value * 8 + (digit - b'0');
            }
            value
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_git_writes() {
        for (text, wanted) in [
            ("a/plain name\t2026-01-01 00:00:00", Some(("a/plain name", "2026-01-01 00:00:00"))),
            ("a/plain name", Some(("a/plain name", ""))),
            (r#""a/tab\there \"q\" \\" rest"#, Some(("a/tab\there \"q\" \\", " rest"))),
            (r#""a/\303\244.txt""#, Some(("a/ä.txt", ""))),
            (r#""a/ä\a\b\v\f\n\r""#, Some(("a/ä\x07\x08\x0b\x0c\n\r", ""))),
            (r#""open"#, None),
            (r#""bad \x41""#, None),
            (r#""bad \9""#, None),
            (r#""short \30""#, None),
            (r#""not utf-8 \377""#, None),
            (r#""ends with \"#, None),
        ] {
            let read = decode(text);
            assert_eq!(read.as_ref().map(|(name, rest)| (name.as_ref(), *rest)), wanted, "{text}");
        }
    }

    #[test]
    fn reads_back_what_it_writes() {
        for name in
            ["a/b", "with space", "tab\t", "quote\"", "back\\slash", "new\nline", "\u{1}\u{85}é😀", ""]
        {
            let written = encode(name);
            assert_eq!(decode(&written).unwrap(), (name.into(), ""), "{written}");
        }
    }
}
