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
