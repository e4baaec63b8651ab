//! The bytes that a command sends first, read without input or output.
//!
//! Everything here takes bytes and answers with what they ask for, that more are needed, or why they are
//! refused. The readers are strict where servers differ: what two programs could read differently is not
//! passed on.

pub mod http;
pub mod body;
pub mod socks;
pub mod client_hello;

use crate::refusal_reason::RefusalReason;

/// How far a reader came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseStatus<T> {
    /// More bytes are needed.
    Partial,
    /// It is whole.
    Complete {
        /// What was read.
        value: T,
        /// How many bytes it took.
        length: usize,
    },
}

/// What a connection speaks, by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// An HTTP proxy request.
    Http,
    /// SOCKS5.
    Socks5,
}

impl ProxyProtocol {
    /// Tells the protocols apart.
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
