//! The title of a conversation.

/// The most characters of a title.
const MAX_TITLE_CHARS: usize = 60;

/// The title of a conversation that has none: the beginning of its first message.
#[must_use]
pub fn session_title(prompt: &str) -> String {
    let first = prompt.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    match first.char_indices().nth(MAX_TITLE_CHARS) {
        Some((end, _)) => format!("{}…", first.get(..end).unwrap_or_default().trim_end()),
        None => first.to_owned(),
    }
}
