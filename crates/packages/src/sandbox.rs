//! What an installation needs of the sandbox that it runs in.

use std::path::{Path, PathBuf};

use crate::error::PackageError;
use crate::registry::RegistryAccess;

/// Where a server, and its installation, see the package.
pub const PACKAGE_PATH: &str = "/toolgate/package";

/// Where an installation has its caches.
pub const SCRATCH_PATH: &str = "/toolgate/scratch";

/// One process of an installation.
#[derive(Clone, Debug)]
pub struct InstallStep {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables besides those of every process.
    pub environment: Vec<(String, String)>,
    /// The registries that it may reach; none for no network.
    pub access: RegistryAccess,
    /// Whether it sees the user's configuration of the package manager, and the variables that configure it. Scripts of a package never do.
    pub configured: bool,
}

impl InstallStep {
    /// A step that sees the configuration, without network: a question about it.
    pub(crate) fn question(command: &[&str]) -> Self {
        Self { configured: true, ..Self::new(command) }
    }

    /// A step without network and configuration.
    #[must_use]
    pub fn new(command: &[&str]) -> Self {
        Self {
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            environment: Vec::new(),
            access: RegistryAccess::default(),
            configured: false,
        }
    }

    /// As a person would type it.
    #[must_use]
    pub fn shown(&self) -> String {
        self.command.join(" ")
    }
}

/// How a step ended.
#[derive(Clone, Debug)]
pub struct StepOutput {
    /// Whether it exited with code 0.
    pub success: bool,
    /// How it ended.
    pub how: String,
    /// Its standard output.
    pub output: String,
    /// The end of its standard error, with the hosts that it was denied.
    pub said: String,
}

/// Files and variables of the user that configure package managers.
#[derive(Clone, Debug, Default)]
pub struct UserConfig {
    /// The files and directories, shown read-only.
    pub files: Vec<PathBuf>,
    /// The variables.
    pub variables: Vec<(String, String)>,
}

/// An image that an engine has.
#[derive(Clone, Debug)]
pub struct PulledImage {
    /// `sha256:` and the digest of its configuration, which names all of its layers by their digests.
    pub id: String,
    /// The engine, with its version.
    pub engine: String,
}

/// Runs the steps of an installation, confined: they see the system, the package's directory at [`PACKAGE_PATH`] and scratch space at
/// [`SCRATCH_PATH`], both writable, and nothing else of the user's files.
pub trait InstallSandbox {
    /// Runs a step to its end.
    ///
    /// # Errors
    /// It could not be started.
    fn run(&self, step: &InstallStep, package: &Path, scratch: &Path) -> Result<StepOutput, PackageError>;

    /// Has the container engine of this machine fetch an image. It runs none of it.
    ///
    /// # Errors
    /// There is no engine, or it cannot fetch the image.
    fn pull_image(&self, name: &str) -> Result<PulledImage, PackageError>;

    /// Whether there is a program of this name in the sandbox.
    fn has_program(&self, name: &str) -> bool;

    /// The variables that configure package managers.
    fn variable(&self, name: &str) -> Option<String>;

    /// Reports progress to the person.
    fn report(&self, words: &str);
}

/// Runs a step that must succeed.
pub(crate) fn run_step(
    sandbox: &dyn InstallSandbox,
    step: &InstallStep,
    package: &Path,
    scratch: &Path,
) -> Result<StepOutput, PackageError> {
    let output = sandbox.run(step, package, scratch)?;
    if output.success {
        return Ok(output);
    }
    Err(PackageError::Step { step: step.shown(), how: output.how, said: output.said })
}
