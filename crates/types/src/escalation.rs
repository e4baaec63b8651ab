//! What a person allowed one call beyond the configuration.

use std::path::PathBuf;
use std::time::Duration;

/// What a person allowed a call beyond the configuration when approving it. The default is nothing; only the approval stage makes anything else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Escalation {
    /// Hosts that the call's command may reach in addition, as entries of an allowlist. Each names one public host: an entry that would open more
    /// fails the call.
    pub hosts: Vec<String>,
    /// The timeout of the call's command, unless its arguments name a longer one. The call's own deadline still applies.
    pub timeout: Option<Duration>,
    /// Directories of the machine that the call's command may read in addition. One that no person may let it read fails the call.
    pub directories: Vec<PathBuf>,
}
