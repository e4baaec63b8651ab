use proptest::prelude::*;
use toolgate_text::line_index::{LineIndex, truncate_at_char_boundary};

use crate::line_texts;

/// The reference: takes characters while they fit.
fn truncated_slowly(text: &str, max_bytes: usize) -> String {
    let mut out = String::new();
    for character in text.chars() {
        if out.len() + character.len_utf8() > max_bytes {
            break;
        }
        out.push(character);
    }
    out
}

/// The reference: walks over the text character by character.
fn lines_slowly(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for character in text.chars() {
        line.push(character);
        if character == '\n' {
            lines.push(std::mem::take(&mut line));
        }
    }
    lines.extend((!line.is_empty()).then_some(line));
    lines
}

proptest! {
    #[test]
    fn truncation_agrees_with_the_model(text in any::<String>(), max_bytes in 0usize..40) {
        prop_assert_eq!(truncate_at_char_boundary(&text, max_bytes), truncated_slowly(&text, max_bytes));
    }

    #[test]
    fn picking_agrees_with_the_model(text in line_texts::text(), first in 0usize..15, last in 0usize..15) {
        let lines = lines_slowly(&text);
        let picked = LineIndex::new(&text).slice(first, last);
        let exists = first >= 1 && last >= first && first <= lines.len().max(1);
        prop_assert_eq!(picked.is_ok(), exists);
        if exists {
            let wanted: String = lines.iter().skip(first - 1).take(last + 1 - first).cloned().collect();
            prop_assert_eq!(picked.unwrap(), wanted);
        }
    }
}
