//! The stages of a call, by the names that errors and audit records carry.

use serde::{Deserialize, Serialize};

/// The stage at which a call was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Stage {
    /// The tool is looked up.
    Registry,
    /// The caller is authenticated.
    Auth,
    /// The caller's permission for the call is checked.
    Permission,
    /// The arguments are validated.
    Validation,
    /// An approval is obtained, where one is required.
    Approval,
    /// The tool runs.
    Execution,
    /// The answer is validated and filtered.
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
