//! Why serving could not start or ended early.

use std::io;

/// Why serving failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A descriptor or socket cannot be used.
    #[error("{what} cannot be used: {source}")]
    Io {
        /// The descriptor or socket.
        what: &'static str,
        /// The error from the system.
        source: io::Error,
    },
}

impl ServeError {
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}
