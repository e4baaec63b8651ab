//! Starting a server's process. The implementation of [`ServerLauncher`] confines it; this crate never starts a process itself.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use toolgate_types::Failure;

use crate::settings::ProcessSettings;

/// Starts processes inside the sandbox.
pub trait ServerLauncher: Send + Sync {
    /// Starts a process. May block.
    ///
    /// # Errors
    /// It could not be started, or not with the required confinement.
    fn launch(&self, process: &ProcessSettings) -> Result<LaunchedServer, Failure>;
}

/// A started process.
pub struct LaunchedServer {
    /// Its standard input; the gate writes to it.
    pub input: OwnedFd,
    /// Its standard output; the gate reads from it.
    pub output: OwnedFd,
    /// The process.
    pub process: Arc<dyn RunningProcess>,
}

/// A running process. Dropping the last handle terminates it.
pub trait RunningProcess: Send + Sync {
    /// Terminates it with all its descendants, and returns when they are gone. May block; idempotent.
    fn terminate(&self);

    /// Its exit status, once it has exited.
    fn exit_status(&self) -> Option<String>;

    /// The last bytes of its standard error.
    fn stderr_tail(&self) -> String;

    /// Whether it can write to a mount, so that its mounts must be scanned.
    fn can_write(&self) -> bool {
        false
    }

    /// Quarantines files that it left under protected names, and returns them once; after its exit as well. May block.
    ///
    /// # Errors
    /// Not everything could be scanned or quarantined.
    fn quarantine(&self) -> Result<Vec<String>, Failure> {
        Ok(Vec::new())
    }

    /// The quarantine directory, for the operator.
    fn quarantine_location(&self) -> Option<String> {
        None
    }
}
