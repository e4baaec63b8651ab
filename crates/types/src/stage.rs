//! The stages of a call, by the names that errors and audit records carry.

use serde::{Deserialize, Serialize};

/// Where in its life a call was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Stage {
    /// Is there such a tool?
    Registry,
    /// Who is calling?
    Auth,
    /// May that caller make that call?
    Permission,
    /// Do the arguments fit?
    Validation,
    /// Did a person agree, where one must?
    Approval,
    /// The tool at work.
    Execution,
    /// Does the answer fit, and what of it may leave?
    Output,
}

impl Stage {
    /// The name in errors and audit records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Registry => "REGISTRY",
            Self::Auth => "AUTH",
            Self::Permission => "PERMISSION",
            Self::Validation => "VALIDATION",
            Self::Approval => "APPROVAL",
            Self::Execution => "EXECUTION",
            Self::Output => "OUTPUT",
        }
    }
}
