//! What was mended in the arguments of a call before they were read.

use serde::{Deserialize, Serialize};

/// One kind of mistake that leaves no doubt about what was meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repair {
    /// A Markdown fence around the arguments.
    Fence,
    /// The arguments inside a JSON string.
    Quoted,
    /// A string in single quotes.
    SingleQuotes,
    /// A name without quotes.
    UnquotedKey,
    /// A comma behind the last item.
    TrailingComma,
    /// Braces or brackets that are not closed at the end.
    MissingBrace,
}

impl Repair {
    /// The stable word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fence => "fence",
            Self::Quoted => "quoted",
            Self::SingleQuotes => "single_quotes",
            Self::UnquotedKey => "unquoted_key",
            Self::TrailingComma => "trailing_comma",
            Self::MissingBrace => "missing_brace",
        }
    }
}
