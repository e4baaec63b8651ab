//! Which external names may appear in records and on screens.

use toolgate_types::RESERVED_SUBJECTS;

/// Maximum length of a name.
const MAX_NAME_BYTES: usize = 256;

/// Whether a name is safe to show: not empty, not too long, printable, and without leading or trailing
/// spaces, which would be invisible.
pub(crate) fn is_name(text: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&text.len())
        && !text.starts_with(' ')
        && !text.ends_with(' ')
        && (text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) || is_printable(text))
}

/// Whether this is a reserved subject, case-insensitively.
pub(crate) fn is_reserved(subject: &str) -> bool {
    RESERVED_SUBJECTS.iter().any(|word| word.eq_ignore_ascii_case(subject))
}

/// A name without spaces, such as a permission.
pub(crate) fn is_word(text: &str) -> bool {
    is_name(text) && !text.contains(' ')
}

/// `escape_debug` escapes control, format and bidirectional characters, unusual spaces and unassigned
/// code points. Quotes and backslashes, which it also escapes, are printable.
fn is_printable(text: &str) -> bool {
    let unquoted: String = text.chars().filter(|letter| !matches!(letter, '"' | '\'' | '\\')).collect();
    unquoted.escape_debug().eq(unquoted.chars())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_prints_is_a_name_and_what_hides_is_not() {
        for good in ["a", "O'Brien \"x\" \\", "user|123", "zoë", "हिन्दी", "名前", "a b", &"x".repeat(256)]
        {
            assert!(is_name(good), "{good:?} was refused");
        }
        for bad in [
            "",
            " ",
            " a",
            "a ",
            "a\0",
            "a\n",
            "a\tb",
            "\u{1b}[2J",
            "a\u{7f}",
            "a\u{85}",
            "a\u{a0}b",
            "a\u{200b}b",
            "a\u{202e}b",
            "a\u{2066}b",
            "\u{feff}a",
            "a\u{e0041}",
            "a\u{2028}b",
            &"x".repeat(257),
            &"é".repeat(129),
        ] {
            assert!(!is_name(bad), "{bad:?} was accepted");
        }
        assert!(is_word("git:read") && !is_word("git read"));
    }
}
