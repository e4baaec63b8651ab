//! Errors of building a gate, as opposed to failures of a call.

use thiserror::Error;

/// Why a gate cannot be built.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GateError {
    /// Two tools with one name.
    #[error("a tool named `{name}` is registered already")]
    DuplicateTool {
        /// The name.
        name: String,
    },
    /// The journal's directory cannot be used.
    #[error("the journal of changes cannot be used: {0}")]
    Journal(#[from] std::io::Error),
}
