//! How many columns text takes, and how many it may have.

use unicode_width::UnicodeWidthChar as _;

/// The indentation of all text from a model.
pub const INDENT: &str = "  ";

/// The width of the widest character. A row holds at least one, however narrow the terminal is.
const MAX_CHAR_COLUMNS: usize = 2;

/// Marks a truncated text.
const ELLIPSIS: &str = "...";

/// A text truncated to this width or less would be unreadable and is left out.
const MIN_CUT_COLUMNS: usize = 4;

/// The columns of a row of a model's text, without the indentation. The last column stays empty: terminals differ in when they wrap after it.
pub(crate) fn text_columns(terminal_columns: usize) -> usize {
    terminal_columns.saturating_sub(INDENT.len() + 1).max(MAX_CHAR_COLUMNS)
}

/// The most columns that a terminal may use for a character, at least one: a combining mark may have no base letter. Terminals agree on letters; any
/// other non-ASCII character counts as wide.
#[must_use]
pub fn char_columns(character: char) -> usize {
    match character {
        plain if plain.is_ascii() => 1,
        letter if letter.is_alphanumeric() => letter.width().unwrap_or(MAX_CHAR_COLUMNS).max(1),
        mark if mark.width() == Some(0) => 1,
        _ => MAX_CHAR_COLUMNS,
    }
}

/// A text truncated to fit one row; empty if there is no room for a few letters.
#[must_use]
pub fn truncate_columns(text: &str, columns: usize) -> String {
    let whole: usize = text.chars().map(char_columns).sum();
    match columns {
        _ if whole <= columns => return text.to_owned(),
        ..=MIN_CUT_COLUMNS => return String::new(),
        _ => {}
    }
    let mut used = ELLIPSIS.len();
    let fits = |character: &char| {
        used += char_columns(*character);
        used <= columns
    };
    let kept: String = text.chars().take_while(fits).collect();
    kept + ELLIPSIS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_says_so() {
        assert_eq!(truncate_columns("short", 5), "short");
        assert_eq!(truncate_columns("longer", 5), "lo...");
        assert_eq!(truncate_columns("漢字漢字", 7), "漢字...");
        assert_eq!(truncate_columns("longer", 4), "");
    }
}
