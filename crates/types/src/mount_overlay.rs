//! Overlays that protect parts of a mount from a command: computed by the workspace, mounted by the sandbox.

use std::path::{Path, PathBuf};

/// A part of a mount that a command must not reach as it is. Paths are relative to the mount; parents come before children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountOverlay {
    /// Can be neither read nor changed.
    Mask {
        /// The place.
        path: PathBuf,
        /// Whether it is a directory.
        directory: bool,
    },
    /// Can be read, but not changed, replaced or renamed; a directory with everything in it.
    ReadOnly {
        /// The place.
        path: PathBuf,
    },
    /// A directory that cannot be renamed or removed; its content can be changed.
    PinDirectory {
        /// The place.
        path: PathBuf,
    },
    /// A file that appears with other content and cannot be changed.
    Substitute {
        /// The place.
        path: PathBuf,
        /// The content that the command sees.
        content: Vec<u8>,
    },
}

impl MountOverlay {
    /// The place, relative to the mount.
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
