//! What a model can do.

use serde::Serialize;

/// What a model can do, as its server says, else as a small table knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// Whether it can call tools.
    pub supports_tools: bool,
    /// How many tokens it can look at; `None` where nobody says.
    pub context_window: Option<u64>,
    /// How many tokens it can say in one step.
    pub max_output_tokens: Option<u64>,
}

/// What somebody says of a model, as far as they say it: an operator in the configuration, or a server in its list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatedCapabilities {
    /// Whether it can call tools.
    pub supports_tools: Option<bool>,
    /// How many tokens it can look at.
    pub context_window: Option<u64>,
    /// How many tokens it can say in one step.
    pub max_output_tokens: Option<u64>,
}

impl StatedCapabilities {
    /// What is known besides, with all that was said going before it.
    #[must_use]
    pub fn apply_over(self, known: Capabilities) -> Capabilities {
        Capabilities {
            supports_tools: self.supports_tools.unwrap_or(known.supports_tools),
            context_window: self.context_window.or(known.context_window),
            max_output_tokens: self.max_output_tokens.or(known.max_output_tokens),
        }
    }

    /// Whether nothing is left to find out.
    pub(crate) fn is_complete(self) -> bool {
        self.supports_tools.is_some() && self.context_window.is_some() && self.max_output_tokens.is_some()
    }
}
