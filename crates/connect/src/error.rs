//! What can go wrong between the gate and a server.

use std::io;

use thiserror::Error;
use toolgate_types::ErrorCode;

/// Why a server cannot be used, or what was agreed about it cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The name of a server is not one.
    #[error("`{name}` is not the name of a server (1 to 32 of a-z 0-9 _ -)")]
    Name {
        /// What was given.
        name: String,
    },
    /// The process could not be started.
    #[error("it could not be started: {reason}")]
    Launch {
        /// Why.
        reason: String,
        /// The code of the reason.
        code: ErrorCode,
    },
    /// It did not get ready in time.
    #[error("it was not ready within {seconds} seconds")]
    Startup {
        /// How long it was waited for.
        seconds: u64,
    },
    /// It does not speak as it should.
    #[error("it could not be spoken to: {reason}")]
    Protocol {
        /// What it did.
        reason: String,
    },
    /// It went away, or was ended.
    #[error("it ended: {reason}")]
    Ended {
        /// How.
        reason: String,
    },
    /// The address, a header or the token server is of no use.
    #[error("the connection cannot be made: {reason}")]
    Http {
        /// Why.
        reason: String,
    },
    /// The file of what was agreed cannot be read or written.
    #[error("what was agreed about the tools of `{server}` cannot be used: {reason}")]
    Pins {
        /// Whose.
        server: String,
        /// Why.
        reason: String,
    },
    /// What was to be agreed to is not what the server offers.
    #[error("the server `{server}` offers no tool `{tool}` with this definition")]
    NotOffered {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
    },
}

impl ConnectError {
    pub(crate) fn pins(server: &str, reason: impl ToString) -> Self {
        Self::Pins { server: server.to_owned(), reason: reason.to_string() }
    }

    pub(crate) fn io(server: &str, error: &io::Error) -> Self {
        Self::pins(server, error)
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Name { .. } | Self::NotOffered { .. } => ErrorCode::InvalidArguments,
            Self::Launch { code, .. } => *code,
            Self::Startup { .. } => ErrorCode::Timeout,
            Self::Protocol { .. } => ErrorCode::OutputInvalid,
            Self::Ended { .. } => ErrorCode::Interrupted,
            Self::Http { .. } => ErrorCode::IoError,
            Self::Pins { .. } => ErrorCode::NotPermitted,
        }
    }

    /// Whether trying again can be of any use before something is changed.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Self::Launch { code, .. } => code.is_denial() || *code == ErrorCode::CommandNotFound,
            _ => false,
        }
    }
}
