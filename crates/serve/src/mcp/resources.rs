//! What can be read by address: files of the workspace, kept outputs, and whatever else was handed in.

use rmcp::model::{Resource, ResourceContents, ResourceTemplate};

/// Resources that somebody hands in beside the workspace. Everybody who may come in may read them.
pub trait ResourceSource: Send + Sync {
    /// Those that can be listed.
    fn list(&self) -> Vec<Resource>;

    /// The forms of those that cannot.
    fn templates(&self) -> Vec<ResourceTemplate>;

    /// What is at an address, if anything is.
    fn read(&self, uri: &str) -> Option<Vec<ResourceContents>>;
}
