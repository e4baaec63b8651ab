//! Repairs of the arguments of a call before they are parsed.

use serde::{Deserialize, Serialize};

/// One kind of syntax error whose intended meaning is unambiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repair {
    /// A Markdown fence around the arguments.
    Fence,
    /// The arguments inside a JSON string.
    Quoted,
    /// A string in single quotes.
    SingleQuotes,
    /// A key without quotes.
    UnquotedKey,
    /// A comma after the last item.
    TrailingComma,
    /// Braces or brackets that are not closed at the end.
    MissingBrace,
}

impl Repair {
    /// The stable name.
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
