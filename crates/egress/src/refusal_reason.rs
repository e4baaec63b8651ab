//! Why a connection was not made.

use thiserror::Error;

use crate::address::AddressClass;
use crate::host::HostError;

/// Why a connection was refused, or failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum RefusalReason {
    /// Neither a proxy request nor a SOCKS5 greeting, or one that two programs could parse differently.
    #[error("the request is malformed: {0}")]
    Malformed(&'static str),
    /// A protocol or command that this proxy does not support.
    #[error("{0} is not offered here")]
    Unsupported(&'static str),
    /// The head of the request is too long.
    #[error("the head of the request is too large")]
    TooLarge,
    /// The request did not arrive before the timeout.
    #[error("the request did not arrive in time")]
    TooSlow,
    /// The host is not in canonical form.
    #[error("{0}")]
    Host(#[from] HostError),
    /// No entry names this host and port.
    #[error("no entry of `network` names this host and port")]
    NotListed,
    /// The host is, or resolves to, an address that needs an entry of its own.
    #[error("the host leads to a {0} address")]
    Address(AddressClass),
    /// The server name (SNI) of the TLS handshake is not allowed.
    #[error("the server name of the TLS handshake is not named by `network`")]
    ServerName,
    /// The `Host` of a plain request inside a tunnel is not allowed.
    #[error("the `Host` of the request inside the tunnel is not named by `network`")]
    HostHeader,
    /// The TLS handshake encrypts the server name (ECH), or omits it where it is required.
    #[error("the TLS handshake does not show the name of its server")]
    HiddenName,
    /// The connection begins like TLS, but its handshake cannot be parsed.
    #[error("the TLS handshake cannot be read")]
    Handshake,
    /// The maximum number of connections is open.
    #[error("too many connections are open")]
    TooManyConnections,
    /// The call has transferred its maximum number of bytes.
    #[error("the call has moved as many bytes as it may")]
    TooManyBytes,
    /// The name could not be resolved. Not a refusal.
    #[error("the name could not be resolved")]
    Unresolved,
    /// No address could be connected to. Not a refusal.
    #[error("the host could not be reached")]
    Unreachable,
}

impl RefusalReason {
    /// The reason as a stable identifier, for headers and records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed_request",
            Self::Unsupported(_) => "unsupported_protocol",
            Self::TooLarge => "request_too_large",
            Self::TooSlow => "request_too_slow",
            Self::Host(_) => "invalid_host",
            Self::NotListed => "host_not_listed",
            Self::Address(_) => "address_not_allowed",
            Self::ServerName => "server_name_not_listed",
            Self::HostHeader => "host_header_not_listed",
            Self::HiddenName => "server_name_hidden",
            Self::Handshake => "tls_handshake_malformed",
            Self::TooManyConnections => "too_many_connections",
            Self::TooManyBytes => "too_many_bytes",
            Self::Unresolved => "name_not_resolved",
            Self::Unreachable => "host_unreachable",
        }
    }

    /// Whether the network failed, rather than the proxy refusing.
    #[must_use]
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Unresolved | Self::Unreachable)
    }
}
