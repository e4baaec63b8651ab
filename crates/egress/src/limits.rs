//! How much one call's proxy may hold and how long it waits.

use std::time::Duration;

/// The bounds of one proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyLimits {
    /// Connections open at once; further ones are closed unread.
    pub max_connections: usize,
    /// Time for a whole request, or a whole TLS handshake message, to arrive, however it trickles.
    pub handshake_timeout: Duration,
    /// Time for a name to be resolved, and again for one of its addresses to answer.
    pub connect_timeout: Duration,
    /// Time without a byte in either direction after which a connection is cut.
    pub idle_timeout: Duration,
    /// Bytes of the whole call, in both directions together.
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
