//! Parsers for the first bytes that a client sends. No I/O.
//!
//! Each takes bytes and returns what they request, that more are needed, or why they are refused. The parsers are strict where servers differ: what
//! two programs could parse differently is not forwarded.

pub mod http;
pub mod body;
pub mod socks;
pub mod client_hello;

use crate::refusal_reason::RefusalReason;

/// The result of a parser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseStatus<T> {
    /// More bytes are needed.
    Partial,
    /// The value is complete.
    Complete {
        /// The value.
        value: T,
        /// How many bytes it consumed.
        length: usize,
    },
}

/// The protocol of a connection, detected from its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// An HTTP proxy request.
    Http,
    /// SOCKS5.
    Socks5,
}

impl ProxyProtocol {
    /// Detects the protocol.
    ///
    /// # Errors
    /// When the byte begins neither of them.
    pub fn detect(first: u8) -> Result<Self, RefusalReason> {
        match first {
            0x05 => Ok(Self::Socks5),
            0x04 => Err(socks::SOCKS4),
            0x16 => Err(RefusalReason::Unsupported("TLS to the proxy itself")),
            _ if http::is_token(first) => Ok(Self::Http),
            _ => Err(RefusalReason::Malformed("it begins neither like HTTP nor like SOCKS5")),
        }
    }
}
