//! Limits and timeouts of one call's proxy.

use std::time::Duration;

/// Limits and timeouts of one proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyLimits {
    /// Concurrent connections; further ones are closed unread.
    pub max_connections: usize,
    /// Time for a whole request, or a whole TLS handshake message, to arrive, however slowly it trickles in.
    pub handshake_timeout: Duration,
    /// Time to resolve a name, and again to connect to one of its addresses.
    pub connect_timeout: Duration,
    /// Time without a byte in either direction after which a connection is cut.
    pub idle_timeout: Duration,
    /// Bytes of the whole call, both directions together.
    pub max_total_bytes: Option<u64>,
}

impl Default for ProxyLimits {
    fn default() -> Self {
        Self {
            max_connections: 64,
            handshake_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(300),
            max_total_bytes: None,
        }
    }
}
