//! Why the HTTP server cannot be started with these options.

use std::io;

/// An error that prevents serving HTTP.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The socket cannot be used.
    #[error("the listening socket cannot be used: {0}")]
    Socket(#[from] io::Error),
    /// An allowed host is malformed.
    #[error("`{0}` is not the name of a host")]
    BadHost(String),
    /// An allowed origin is malformed.
    #[error("`{0}` is not an origin")]
    BadOrigin(String),
    /// The public URL is malformed.
    #[error("`{0}` is not a URL of this gate")]
    BadUrl(String),
    /// Without a token, every client that reaches the address would act as the configured person.
    #[error("without a token, only this machine itself may be served, and `{0}` is reached by others")]
    OpenToOthers(std::net::SocketAddr),
}

impl HttpError {
    /// What the operator can do about it.
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
