//! What a command must not find as it is: told by whoever knows the files, put on by whoever confines the command.

use std::path::{Path, PathBuf};

/// Something in a mount that a command must not reach as it is. Paths are relative to the mount; parents stand before children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cover {
    /// Can be neither read nor changed.
    Hide {
        /// Where.
        path: PathBuf,
        /// Whether it is a directory.
        directory: bool,
    },
    /// Can be read, and not be changed, replaced or renamed away; a directory with all that is in it.
    Freeze {
        /// Where.
        path: PathBuf,
    },
    /// A directory that cannot be renamed or removed; what is in it can be changed.
    Pin {
        /// Where.
        path: PathBuf,
    },
    /// A file that is shown with other content and cannot be changed.
    Replace {
        /// Where.
        path: PathBuf,
        /// What is shown.
        content: Vec<u8>,
    },
}

impl Cover {
    /// Where it goes, relative to the mount.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Hide { path, .. }
            | Self::Freeze { path }
            | Self::Pin { path }
            | Self::Replace { path, .. } => path,
        }
    }
}
