//! How dangerous a tool is, and what it works on.

use serde::{Deserialize, Serialize};

/// The effect of a tool; approvals and permissions depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolClass {
    /// Changes nothing.
    Read,
    /// Changes something that can be undone.
    Write,
    /// Changes something that may be lost for good.
    Destructive,
}

impl ToolClass {
    /// The word used in manifests and audit records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Destructive => "destructive",
        }
    }

    /// Whether a call has an effect, so that its intent must be on disk before it begins.
    #[must_use]
    pub fn has_effect(self) -> bool {
        self != Self::Read
    }
}

/// What kind of work a tool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// Files of the workspace.
    File,
    /// Processes.
    Exec,
    /// Searching, in files or elsewhere.
    Search,
    /// A tool of another MCP server.
    Mcp,
    /// Requests to the web.
    Web,
}
