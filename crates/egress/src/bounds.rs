//! How much one call's proxy may hold and how long it waits.

use std::time::Duration;

/// The bounds of one proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Connections open at once; further ones are closed unread.
    pub connections: usize,
    /// Time for a whole request, or a whole TLS handshake message, to arrive, however it trickles.
    pub handshake: Duration,
    /// Time for a name to be resolved, and again for one of its addresses to answer.
    pub connect: Duration,
    /// Time without a byte in either direction after which a connection is cut.
    pub idle: Duration,
    /// Bytes of the whole call, in both directions together.
    pub total_bytes: Option<u64>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: 64,
            handshake: Duration::from_secs(10),
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(300),
            total_bytes: None,
        }
    }
}
