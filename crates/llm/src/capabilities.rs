//! A model's capabilities.

use serde::Serialize;

/// A model's capabilities, from its server or from a built-in table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// Whether it supports tool calls.
    pub supports_tools: bool,
    /// Whether messages of the user may have images; `false` if unknown.
    pub supports_images: bool,
    /// The context window in tokens; `None` if unknown.
    pub context_window: Option<u64>,
    /// The maximum output of one step in tokens.
    pub max_output_tokens: Option<u64>,
}

/// The stated part of a model's capabilities: by an operator in the configuration, or by a server in its list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatedCapabilities {
    /// Whether it supports tool calls.
    pub supports_tools: Option<bool>,
    /// Whether messages of the user may have images.
    pub supports_images: Option<bool>,
    /// The context window in tokens.
    pub context_window: Option<u64>,
    /// The maximum output of one step in tokens.
    pub max_output_tokens: Option<u64>,
}

impl StatedCapabilities {
    /// The known capabilities, overridden by the stated ones.
    #[must_use]
    pub fn apply_over(self, known: Capabilities) -> Capabilities {
        Capabilities {
            supports_tools: self.supports_tools.unwrap_or(known.supports_tools),
            supports_images: self.supports_images.unwrap_or(known.supports_images),
            context_window: self.context_window.or(known.context_window),
            max_output_tokens: self.max_output_tokens.or(known.max_output_tokens),
        }
    }

    /// Whether everything is stated.
    pub(crate) fn is_complete(self) -> bool {
        self.supports_tools.is_some() && self.context_window.is_some() && self.max_output_tokens.is_some()
    }
}
