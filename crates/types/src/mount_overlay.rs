//! What a command must not find as it is: told by whoever knows the files, put on by whoever confines the command.

use std::path::{Path, PathBuf};

/// Something in a mount that a command must not reach as it is. Paths are relative to the mount; parents stand before children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountOverlay {
    /// Can be neither read nor changed.
    Mask {
        /// Where.
        path: PathBuf,
        /// Whether it is a directory.
        directory: bool,
    },
    /// Can be read, and not be changed, replaced or renamed away; a directory with all that is in it.
    ReadOnly {
        /// Where.
        path: PathBuf,
    },
    /// A directory that cannot be renamed or removed; what is in it can be changed.
    PinDirectory {
        /// Where.
        path: PathBuf,
    },
    /// A file that is shown with other content and cannot be changed.
    Substitute {
        /// Where.
        path: PathBuf,
        /// What is shown.
        content: Vec<u8>,
    },
}

impl MountOverlay {
    /// Where it goes, relative to the mount.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Mask { path, .. }
            | Self::ReadOnly { path }
            | Self::PinDirectory { path }
            | Self::Substitute { path, .. } => path,
        }
    }
}
