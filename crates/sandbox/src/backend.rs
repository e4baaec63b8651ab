//! What a system offers to confine commands, behind one interface: Linux today.

use std::ffi::OsStr;
use std::path::PathBuf;

use toolgate_types::Cancellation;

use crate::error::SandboxError;
use crate::job::{CommandExit, Job, Stream};
use crate::sandbox::Sandbox;

/// Confines and runs commands on one kind of system. Whoever runs commands knows this and no system.
pub trait Backend: Send + Sync {
    /// Where a program is, as a command would find it.
    fn find_program(&self, program: &OsStr) -> Option<PathBuf>;

    /// Runs a command to its end; when this returns, nothing that it started is alive.
    ///
    /// # Errors
    /// The command could not be started, or not be confined as far as is required.
    fn run(
        &self,
        job: &Job<'_>,
        stop: &Cancellation,
        sink: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<CommandExit, SandboxError>;
}

impl Backend for Sandbox {
    fn find_program(&self, program: &OsStr) -> Option<PathBuf> {
        self.find_program(program)
    }

    fn run(
        &self,
        job: &Job<'_>,
        stop: &Cancellation,
        sink: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<CommandExit, SandboxError> {
        self.run(job, stop, sink)
    }
}
