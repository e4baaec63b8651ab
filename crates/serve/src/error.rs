//! Why serving could not start or ended early.

use std::io;

use rmcp::service::ServerInitializeError;

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
    /// The client never sent a valid `initialize`.
    #[error("the client did not begin a session: {0}")]
    NoSession(String),
}

impl ServeError {
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}

impl From<ServerInitializeError> for ServeError {
    fn from(error: ServerInitializeError) -> Self {
        match error {
            // The client's message is untrusted, so it is not echoed in the error.
            ServerInitializeError::ExpectedInitializeRequest(_) => {
                Self::NoSession("it began with something else".to_owned())
            }
            other => Self::NoSession(other.to_string()),
        }
    }
}
