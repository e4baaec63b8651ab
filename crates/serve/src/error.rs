//! Why a door could not be opened, or had to be closed.

use std::io;

use rmcp::service::ServerInitializeError;

/// Why serving ended other than as it should.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A descriptor or socket cannot be used.
    #[error("{what} cannot be used: {source}")]
    Io {
        /// Which.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The other side never began to speak MCP.
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
            // What the client wrote may be anything, so it is not repeated.
            ServerInitializeError::ExpectedInitializeRequest(_) => {
                Self::NoSession("it began with something else".to_owned())
            }
            other => Self::NoSession(other.to_string()),
        }
    }
}
