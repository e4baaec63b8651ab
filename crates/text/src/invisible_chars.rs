//! Characters that nobody sees, and that may carry a message or turn what is seen around.

/// Whether a character is never shown: it controls, turns the direction of writing, or cannot be seen and may carry a message.
#[must_use]
pub fn is_invisible(character: char) -> bool {
    match character {
        '\t' | '\n' => false,
        control if control.is_control() => true,
        // Soft hyphen; joiners and marks of direction; fillers; variation selectors; tags.
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
