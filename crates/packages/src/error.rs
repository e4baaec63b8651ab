//! Why a package cannot be installed or used.

use std::io;

use thiserror::Error;

/// Why a package cannot be installed or used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PackageError {
    /// It was never installed.
    #[error("`{spec}` is not installed")]
    NotInstalled {
        /// What is declared.
        spec: String,
    },
    /// Something else is installed than what is declared.
    #[error("`{declared}` is declared, and `{installed}` is installed")]
    OtherInstalled {
        /// What is declared.
        declared: String,
        /// What is installed.
        installed: String,
    },
    /// A file is not as it was installed.
    #[error("the package `{spec}` was changed after it was installed: {change}")]
    Changed {
        /// The package.
        spec: String,
        /// The first difference.
        change: String,
    },
    /// The lock was not written by this user's gate.
    #[error("the lock of `{spec}` was not written by this gate, or was changed since")]
    Lock {
        /// The package.
        spec: String,
    },
    /// The package has something that no package needs.
    #[error("the package has `{path}`, which {reason}")]
    Refused {
        /// The path inside the package.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// There is no package manager.
    #[error("nothing on this machine can install it: {wanted}")]
    NoManager {
        /// What is needed.
        wanted: String,
    },
    /// The package manager failed.
    #[error("`{step}` failed ({how})")]
    Step {
        /// What was run.
        step: String,
        /// How it ended.
        how: String,
        /// The end of what it said.
        said: String,
    },
    /// The answer of the package manager makes no sense.
    #[error("{0}")]
    Answer(String),
    /// A file of the gate's state cannot be used.
    #[error("`{path}` cannot be used: {source}")]
    Io {
        /// The file.
        path: String,
        /// The reason.
        source: io::Error,
    },
}

impl PackageError {
    pub(crate) fn io(path: &std::path::Path, source: impl Into<io::Error>) -> Self {
        Self::Io { path: path.display().to_string(), source: source.into() }
    }

    /// What to do next.
    #[must_use]
    pub fn help(&self, server: &str) -> String {
        match self {
            Self::NotInstalled { .. } | Self::OtherInstalled { .. } => {
                format!("`toolgate mcp update {server}` installs it; nothing is downloaded at a start")
            }
            Self::Changed { .. } | Self::Lock { .. } => format!(
                "find out what changed it; `toolgate mcp update {server} --reinstall` installs it anew"
            ),
            Self::Refused { .. } => "do not use this package, and tell its registry".to_owned(),
            Self::NoManager { .. } => {
                "install one, or install the server by hand and name its program".to_owned()
            }
            Self::Step { .. } | Self::Answer(_) => {
                "see what the package manager said; try the same in a terminal".to_owned()
            }
            Self::Io { .. } => "look at its owner and mode, and at the space left on the disk".to_owned(),
        }
    }
}
