//! What can go wrong with the gate itself, as opposed to with a call.

use thiserror::Error;

/// A gate that cannot be built.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GateError {
    /// Two tools with one name.
    #[error("a tool named `{name}` is registered already")]
    DuplicateTool {
        /// The name.
        name: String,
    },
    /// The journal's folder cannot be used.
    #[error("the journal of changes cannot be used: {0}")]
    Journal(#[from] std::io::Error),
}
