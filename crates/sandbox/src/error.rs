//! Why a command could not be run.

use std::ffi::OsString;
use std::path::PathBuf;

use toolgate_types::{ErrorCode, Failure};

use crate::layer::Layers;

/// Why a command could not be run. A command that ran and failed is not a sandbox error.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// Layers that the operator requires are missing on this machine.
    #[error("commands cannot be confined on this machine: {missing} missing")]
    Missing {
        /// The layers.
        missing: Layers,
        /// Why, for the operator.
        why: String,
    },
    /// There is no such program in the sandbox.
    #[error("there is no program `{}` in the sandbox", program.to_string_lossy())]
    NotFound {
        /// Its name.
        program: OsString,
    },
    /// The program exists but cannot be executed.
    #[error("`{}` cannot be run: {source}", program.to_string_lossy())]
    NotRunnable {
        /// Its name.
        program: OsString,
        /// The reason.
        source: std::io::Error,
    },
    /// A path in a mount must be masked or protected, and that needs a mount namespace.
    #[error("`{}` must be protected, and that needs a mount namespace", path.display())]
    CannotCover {
        /// The path.
        path: PathBuf,
    },
    /// A host path that cannot be shown to commands.
    #[error("commands cannot be shown `{}`: it {reason}", path.display())]
    CannotShow {
        /// The path.
        path: PathBuf,
        /// Why.
        reason: &'static str,
    },
    /// A path in a mount changed between planning and mounting; a retry will succeed.
    #[error("`{}` moved while the sandbox was being made", path.display())]
    Changed {
        /// The path.
        path: PathBuf,
    },
    /// A string with a NUL byte.
    #[error("{what} holds a NUL character")]
    Nul {
        /// Which string.
        what: &'static str,
    },
    /// The working directory does not exist.
    #[error("there is no folder `{}` to run in", path.display())]
    NoDirectory {
        /// The path inside the sandbox.
        path: PathBuf,
    },
    /// A setup step failed; nothing was run.
    #[error("the sandbox could not be made: {step}: {source}")]
    Setup {
        /// The step.
        step: String,
        /// The reason.
        source: std::io::Error,
    },
    /// A system call that the sandbox needs failed.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The reason.
        source: std::io::Error,
    },
}

impl SandboxError {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |error| Self::System { what, source: error.into() }
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Missing { .. } | Self::CannotCover { .. } | Self::CannotShow { .. } => {
                ErrorCode::SandboxUnavailable
            }
            Self::NotFound { .. } => ErrorCode::CommandNotFound,
            Self::NotRunnable { .. } => ErrorCode::PermissionDenied,
            Self::Changed { .. } => ErrorCode::PreconditionFailed,
            Self::Nul { .. } => ErrorCode::InvalidArguments,
            Self::NoDirectory { .. } => ErrorCode::NotFound,
            Self::Setup { source, .. } | Self::System { source, .. } => match shortage(source) {
                Some(_) => ErrorCode::ResourceLimit,
                None => ErrorCode::Internal,
            },
        }
    }

    /// What would help.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::Missing { .. } => {
                "run `toolgate doctor` to see each layer, or name fewer in `sandbox.require`"
            }
            Self::NotFound { .. } => {
                "use a program of the system, or let the operator add its folder to `sandbox.read` and `sandbox.path`"
            }
            Self::NotRunnable { .. } => "check that the file is a program and may be executed",
            Self::CannotCover { .. } => {
                "move the file out of the mount, or use a machine with user namespaces"
            }
            Self::CannotShow { .. } => "name the folders below it that commands need in `sandbox.read`",
            Self::Changed { .. } => "try again when nothing else is changing the workspace",
            Self::Nul { .. } => "leave NUL characters out",
            Self::NoDirectory { .. } => "name a folder that exists",
            Self::Setup { source, .. } | Self::System { source, .. } => {
                shortage(source).unwrap_or("run `toolgate doctor` to see what this machine can enforce")
            }
        }
    }
}

/// What to do if a resource of the system is exhausted although the machine can confine commands.
fn shortage(source: &std::io::Error) -> Option<&'static str> {
    match rustix::io::Errno::from_io_error(source)? {
        rustix::io::Errno::MFILE => {
            Some("too many files are open: raise the limit of the gate (`ulimit -n`)")
        }
        rustix::io::Errno::NFILE => {
            Some("too many files are open: raise the limit of the system (`fs.file-max`)")
        }
        rustix::io::Errno::AGAIN => Some("too many processes: raise the limit of the user (`ulimit -u`)"),
        rustix::io::Errno::NOMEM => Some("the machine is out of memory"),
        _ => None,
    }
}

impl From<SandboxError> for Failure {
    /// For the model; details that only the operator can use go into the note.
    fn from(error: SandboxError) -> Self {
        let (code, help) = (error.code(), error.help());
        match &error {
            SandboxError::Missing { missing, why } => {
                Self::new(code, "commands cannot be confined on this machine, so none is run")
                    .help("use other tools")
                    .operator_note(format!("{missing} missing: {why}; {help}"))
            }
            SandboxError::Setup { .. } | SandboxError::System { .. } | SandboxError::CannotShow { .. } => {
                Self::new(code, "the command could not be started").operator_note(format!("{error}; {help}"))
            }
            _ => Self::new(code, error.to_string()).help(help),
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn what_the_system_is_short_of_is_no_missing_layer() {
        for (errno, code, help) in [
            (Errno::MFILE, ErrorCode::ResourceLimit, "ulimit -n"),
            (Errno::NFILE, ErrorCode::ResourceLimit, "fs.file-max"),
            (Errno::AGAIN, ErrorCode::ResourceLimit, "ulimit -u"),
            (Errno::PERM, ErrorCode::Internal, "doctor"),
        ] {
            let error = SandboxError::system("pipe")(errno);
            assert_eq!(error.code(), code);
            assert!(error.help().contains(help), "{}", error.help());
        }
    }
}
