//! Starting a server's process. How it is confined is for whoever implements [`ServerLauncher`]; this crate never starts one by itself.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use toolgate_types::Failure;

use crate::settings::ProcessSettings;

/// Starts processes inside the sandbox.
pub trait ServerLauncher: Send + Sync {
    /// Starts one. May block.
    ///
    /// # Errors
    /// It could not be started, or not be confined as far as it must be.
    fn launch(&self, process: &ProcessSettings) -> Result<LaunchedServer, Failure>;
}

/// A process that was started.
pub struct LaunchedServer {
    /// What it reads; written to by the gate.
    pub input: OwnedFd,
    /// What it writes; read by the gate.
    pub output: OwnedFd,
    /// The process itself.
    pub process: Arc<dyn RunningProcess>,
}

/// A process that runs. Dropping the last handle ends it.
pub trait RunningProcess: Send + Sync {
    /// Ends it with everything it started, and returns when nothing of it is left. May block; a second time does nothing.
    fn terminate(&self);

    /// How it ended, if it has.
    fn exit_status(&self) -> Option<String>;

    /// The end of what it wrote to standard error; bounded.
    fn stderr_tail(&self) -> String;

    /// Whether it can write to a mount, so that what it leaves must be looked at.
    fn can_write(&self) -> bool {
        false
    }

    /// Takes away what it left under protected names, and says what that was, once; what was found at its end as well. May block.
    ///
    /// # Errors
    /// Not everything could be looked at or taken away.
    fn quarantine(&self) -> Result<Vec<String>, Failure> {
        Ok(Vec::new())
    }

    /// Where what was taken away is kept, for the operator.
    fn quarantine_location(&self) -> Option<String> {
        None
    }
}
