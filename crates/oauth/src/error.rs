//! Why a login fails.

use thiserror::Error;
use toolgate_text::escape_control_chars;

/// Maximum characters of a text of a server in an error.
const MAX_QUOTED_CHARS: usize = 200;

/// Why there is no login. No variant has a secret in it; texts of servers are shortened, and hidden characters are escaped.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoginError {
    /// An address that a server named, or the server's own.
    #[error("the {what} `{url}` cannot be used: {reason}")]
    Address {
        /// Which address.
        what: &'static str,
        /// The address.
        url: String,
        /// The reason.
        reason: String,
    },
    /// A request failed.
    #[error("the {what} at `{host}` could not be read: {reason}")]
    Fetch {
        /// What was requested.
        what: &'static str,
        /// From where.
        host: String,
        /// The reason.
        reason: String,
    },
    /// Nothing says where to log in.
    #[error("`{host}` does not say where to log in")]
    NoMetadata {
        /// The MCP server.
        host: String,
    },
    /// The metadata of the MCP server or of the authorization server.
    #[error("the {what} is not acceptable: {reason}")]
    Metadata {
        /// Which document.
        what: &'static str,
        /// The reason.
        reason: String,
    },
    /// The authorization server does not offer PKCE with S256.
    #[error("the authorization server `{issuer}` does not offer PKCE with `S256`")]
    Downgrade {
        /// The authorization server.
        issuer: String,
    },
    /// No client id.
    #[error("the authorization server `{issuer}` registers no clients")]
    NoRegistration {
        /// The authorization server.
        issuer: String,
    },
    /// The registration was refused.
    #[error("the authorization server did not register the gate: {reason}")]
    Registration {
        /// The reason.
        reason: String,
    },
    /// Something of this machine is missing.
    #[error("a login cannot be made from here: {reason}")]
    Machine {
        /// The reason.
        reason: String,
    },
    /// No response in time.
    #[error("there was no login within {seconds} seconds")]
    Timeout {
        /// The timeout.
        seconds: u64,
    },
    /// A pasted address that is not the response to this login.
    #[error("this is not the address of the response: {reason}")]
    Response {
        /// The reason.
        reason: &'static str,
    },
    /// The response names another authorization server (RFC 9207).
    #[error("the response names {received} as its authorization server, not `{expected}`")]
    MixUp {
        /// The authorization server of this login.
        expected: String,
        /// What the response says.
        received: String,
    },
    /// The person, or the authorization server, refused.
    #[error("the login was refused: {reason}")]
    Refused {
        /// The error code of the authorization server.
        reason: String,
    },
    /// The token endpoint.
    #[error("no token from the authorization server: {reason}")]
    Token {
        /// The reason.
        reason: String,
    },
}

impl LoginError {
    pub(crate) fn address(what: &'static str, url: &str, reason: impl Into<String>) -> Self {
        Self::Address { what, url: quoted(url), reason: reason.into() }
    }

    pub(crate) fn metadata(what: &'static str, reason: impl Into<String>) -> Self {
        Self::Metadata { what, reason: reason.into() }
    }

    /// What to do next.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::Address { .. } | Self::Metadata { .. } => {
                "nothing was sent there; check `url` of the server, and ask its operator"
            }
            Self::Fetch { .. } => "check that it can be reached from here, and try again",
            Self::NoMetadata { .. } => {
                "if it takes a token in a header, write `headers: {Authorization: \"Bearer ${NAME}\"}`"
            }
            Self::Downgrade { .. } => {
                "without it a stolen code could be used; ask the operator of the server"
            }
            Self::NoRegistration { .. } | Self::Registration { .. } => {
                "register a client there, with the redirect URI `http://127.0.0.1/callback`, and write `oauth: {client_id: ID}`"
            }
            Self::Machine { .. } => "correct that, and try again",
            Self::Timeout { .. } => "run the command again, or with a longer --timeout",
            Self::Response { .. } => {
                "copy the whole address from the browser, after it was sent to 127.0.0.1"
            }
            Self::MixUp { .. } => "nothing was sent; another server may have tried to take the login over",
            Self::Refused { .. } => "run the command again if that was not meant",
            Self::Token { .. } => "run the command again",
        }
    }
}

/// A text of a server in an error.
pub(crate) fn quoted(text: &str) -> String {
    escape_control_chars(&text.chars().take(MAX_QUOTED_CHARS).collect::<String>())
}
