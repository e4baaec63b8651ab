//! Errors between the gate and a server.

use std::io;

use thiserror::Error;
use toolgate_types::ErrorCode;

/// Why a server or its pins cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Invalid server name.
    #[error("`{name}` is not the name of a server (1 to 32 of a-z 0-9 _ -)")]
    Name {
        /// The given name.
        name: String,
    },
    /// The process could not be started.
    #[error("it could not be started: {reason}")]
    Launch {
        /// The reason.
        reason: String,
        /// The error code of the reason.
        code: ErrorCode,
    },
    /// It did not start in time.
    #[error("it was not ready within {seconds} seconds")]
    Startup {
        /// The timeout.
        seconds: u64,
    },
    /// It violated the protocol.
    #[error("it could not be spoken to: {reason}")]
    Protocol {
        /// What it did.
        reason: String,
    },
    /// It exited, or was stopped.
    #[error("it ended: {reason}")]
    Ended {
        /// The reason.
        reason: String,
    },
    /// Only a person can go on.
    #[error("it needs a login: run `{command}`")]
    LoginRequired {
        /// The command that logs in.
        command: String,
    },
    /// The URL, a header or the token endpoint cannot be used.
    #[error("the connection cannot be made: {reason}")]
    Http {
        /// The reason.
        reason: String,
    },
    /// The pin file cannot be read or written.
    #[error("what was agreed about the tools of `{server}` cannot be used: {reason}")]
    Pins {
        /// The server.
        server: String,
        /// The reason.
        reason: String,
    },
    /// The definition to approve is not the one that the server offers.
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

    /// Why, for callers: in the gate's own words, since the reason may quote the server.
    pub(crate) fn public_reason(&self) -> String {
        let fixed = match self {
            Self::Launch { code: ErrorCode::CommandNotFound, .. } => "its program is not there",
            Self::Launch { .. } => "it could not be started",
            Self::Startup { seconds } => return format!("it was not ready within {seconds} seconds"),
            Self::Protocol { .. } => "it did not answer as a server does",
            Self::Ended { .. } => "it ended",
            Self::LoginRequired { .. } => "it needs a login",
            Self::Http { .. } => "the connection cannot be made",
            Self::Name { .. } | Self::Pins { .. } | Self::NotOffered { .. } => "its tools cannot be checked",
        };
        fixed.to_owned()
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
            Self::LoginRequired { .. } => ErrorCode::ServerUnavailable,
            Self::Http { .. } => ErrorCode::IoError,
            Self::Pins { .. } => ErrorCode::NotPermitted,
        }
    }

    /// Whether a retry is pointless until something is changed.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Self::Launch { code, .. } => code.is_denial() || *code == ErrorCode::CommandNotFound,
            Self::LoginRequired { .. } => true,
            _ => false,
        }
    }
}
