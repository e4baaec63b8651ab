//! The interface to an operating system's confinement: Linux today.

use std::ffi::OsStr;
use std::path::PathBuf;

use toolgate_types::Deadline;

use crate::error::SandboxError;
use crate::job::{CommandExit, Job, Stream};
use crate::layer::Layer;
use crate::sandbox::Sandbox;

/// Confines and runs commands on one operating system. Code that runs commands depends only on this trait.
pub trait Backend: Send + Sync {
    /// Whether every required layer is available.
    ///
    /// # Errors
    /// Which layers are missing, and why: no command is run.
    fn check(&self) -> Result<(), SandboxError>;

    /// The path of a program, found as a command would find it.
    fn find_program(&self, program: &OsStr) -> Option<PathBuf>;

    /// Whether commands have a network namespace of their own, and so can have a proxy.
    fn has_network_namespace(&self) -> bool;

    /// Whether commands have a filesystem view of their own, in which mounts can be at any path.
    fn has_mount_namespace(&self) -> bool;

    /// Runs a command to its end; when this returns, nothing that it started is alive.
    ///
    /// # Errors
    /// The command could not be started, or a required layer is missing.
    fn run(
        &self,
        job: &Job<'_>,
        stop: &Deadline,
        sink: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<CommandExit, SandboxError>;
}

impl Backend for Sandbox {
    fn check(&self) -> Result<(), SandboxError> {
        self.check()
    }

    fn find_program(&self, program: &OsStr) -> Option<PathBuf> {
        self.find_program(program)
    }

    fn has_network_namespace(&self) -> bool {
        self.has(Layer::NetworkNamespace)
    }

    fn has_mount_namespace(&self) -> bool {
        self.has(Layer::MountNamespace)
    }

    fn run(
        &self,
        job: &Job<'_>,
        stop: &Deadline,
        sink: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<CommandExit, SandboxError> {
        self.run(job, stop, sink)
    }
}
