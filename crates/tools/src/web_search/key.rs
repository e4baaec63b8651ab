//! The key of a search engine.

use std::fmt;

use toolgate_text::without_secret;

/// The API key. It is sent to the engine, and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct SearchKey(String);

impl SearchKey {
    /// A key, without the trailing line break of variables and files.
    #[must_use]
    pub fn new(key: &str) -> Self {
        Self(key.trim().to_owned())
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    /// A text without the key: some servers echo their request.
    pub(super) fn redact(&self, text: String) -> String {
        if text.contains(&self.0) { without_secret(&text, &self.0, "…") } else { text }
    }
}

impl fmt::Debug for SearchKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("…")
    }
}
