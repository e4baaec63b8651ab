//! Which names from outside may go into records and onto screens.

use toolgate_types::RESERVED_SUBJECTS;

/// The longest name that is accepted anywhere.
const MAX_NAME_BYTES: usize = 256;

/// Whether this can stand in a record and be read there: not empty, not over-long, nothing that does not
/// print, and no space at the ends, where nobody sees it.
pub(crate) fn is_name(text: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&text.len())
        && !text.starts_with(' ')
        && !text.ends_with(' ')
        && (text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) || is_printable(text))
}

/// Whether this is a word of the gate's own for a subject, in whatever case.
pub(crate) fn is_reserved(subject: &str) -> bool {
    RESERVED_SUBJECTS.iter().any(|word| word.eq_ignore_ascii_case(subject))
}

/// A name without spaces, such as a permission.
pub(crate) fn is_word(text: &str) -> bool {
    is_name(text) && !text.contains(' ')
}

/// The standard library knows what prints: it escapes control, format and bidirectional characters, odd
/// spaces and unassigned code points. Quotes and backslashes it escapes for another reason.
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
