//! Why this door cannot be opened as it was asked for.

use std::io;

/// What stands in the way of serving HTTP.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The socket cannot be used.
    #[error("the listening socket cannot be used: {0}")]
    Socket(#[from] io::Error),
    /// A name to answer to is none.
    #[error("`{0}` is not the name of a host")]
    BadHost(String),
    /// A page to answer to is none.
    #[error("`{0}` is not an origin")]
    BadOrigin(String),
    /// The address that others know this door by is none.
    #[error("`{0}` is not a URL of this gate")]
    BadUrl(String),
    /// Without a token, everybody who reaches the address would be the person.
    #[error("without a token, only this machine itself may be served, and `{0}` is reached by others")]
    OpenToOthers(std::net::SocketAddr),
}

impl HttpError {
    /// What to do next.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::Socket(_) => "choose another address",
            Self::BadHost(_) => {
                "write a name such as gate.example, or a name and a port such as gate.example:8443"
            }
            Self::BadOrigin(_) => "write scheme and host, such as https://app.example, without a path",
            Self::BadUrl(_) => "write a whole address such as https://gate.example",
            Self::OpenToOthers(_) => "listen on 127.0.0.1, or ask for a token or for tokens of an issuer",
        }
    }
}
