//! The condition of a step.

use serde::Deserialize;

/// The condition of a step. Omitted fields match anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct When {
    /// One of the last results is of this tool.
    pub(crate) result: Option<String>,
    /// That result, or any if no tool is named, contains this text.
    pub(crate) contains: Option<String>,
    /// It does not contain this text.
    pub(crate) lacks: Option<String>,
    /// The last prompt contains this text.
    pub(crate) prompt: Option<String>,
    /// The system prompt contains this text.
    pub(crate) system: Option<String>,
    /// A tool of this name is offered.
    pub(crate) offered: Option<String>,
    /// Whether tools may be called at all.
    pub(crate) tools: Option<Switch>,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Switch {
    /// Yes.
    On,
    /// No.
    Off,
}
