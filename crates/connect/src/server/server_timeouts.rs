//! Timeouts and limits for servers.

use std::time::Duration;

/// How long a server may stay silent, and how many unsolicited messages it may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerTimeouts {
    /// How long a process may take, from its start, to answer `server/discover`. After that, `initialize` is sent, which many servers of the session
    /// protocol need. A stateless server that was only slow rejects that, is restarted once, and then gets the whole startup timeout.
    pub probe_timeout: Duration,
    /// The rate at which the budget of unsolicited messages refills: fewer than this per second are harmless.
    pub unsolicited_per_second: u64,
}

impl Default for ServerTimeouts {
    fn default() -> Self {
        Self { probe_timeout: Duration::from_secs(1), unsolicited_per_second: 1_000 }
    }
}
