//! What is borne of a server before something is made of it.

use std::time::Duration;

/// How long a server's silence is borne, and how much of its talk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerTimeouts {
    /// How long a process may take, from its start, to say which era of the protocol it is of. Who is silent for longer is spoken to as one of the older
    /// era, which many of these need. One of the newer era that was only slow refuses that, is started once more, and then given its whole time.
    pub probe_timeout: Duration,
    /// How many messages that nobody asked for are forgotten every second: what comes slower than this disturbs nobody.
    pub unsolicited_per_second: u64,
}

impl Default for ServerTimeouts {
    fn default() -> Self {
        Self { probe_timeout: Duration::from_secs(1), unsolicited_per_second: 1_000 }
    }
}
