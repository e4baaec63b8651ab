//! When a step fits.

use serde::Deserialize;

/// What must be so for a step to fit. What is not said does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct When {
    /// One of the last results is of this tool.
    pub(crate) result: Option<String>,
    /// That result, or any where no tool is named, has this text in it.
    pub(crate) contains: Option<String>,
    /// It has not.
    pub(crate) lacks: Option<String>,
    /// The last prompt has this text in it.
    pub(crate) prompt: Option<String>,
    /// What stands before everything has this text in it.
    pub(crate) system: Option<String>,
    /// A tool of this name can be called.
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
