//! How dangerous a tool is, and what it is about.

use serde::{Deserialize, Serialize};

/// What a tool can do to the world; questions and permissions follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolClass {
    /// Changes nothing.
    Read,
    /// Changes something that can be put back.
    Write,
    /// Changes something that may be gone for good.
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

    /// Whether a call leaves something behind, so that an intent must be on disk before it begins.
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
    /// Asking somebody on the web.
    Web,
}
