//! Invisible characters, which may carry a hidden message or reorder the visible text.

/// Whether a character is never shown: a control character, a bidirectional control, or an invisible one that may carry a hidden message.
#[must_use]
pub fn is_invisible(character: char) -> bool {
    match character {
        '\t' | '\n' => false,
        control if control.is_control() => true,
        // Soft hyphen; joiners and directional marks; fillers; variation selectors; tags.
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}' => {
            true
        }
        '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' => true,
        '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' => true,
        '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' => true,
        '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}
