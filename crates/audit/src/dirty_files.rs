//! Files and directories with writes that were not synced yet.

use std::sync::Arc;

use rustix::io::Errno;

use crate::directory::SharedFile;

/// A file or directory that must be synced.
#[derive(Clone)]
pub(crate) enum DirtyFile {
    /// The content of a file.
    File(SharedFile),
    /// The entries of a directory.
    Directory(SharedFile),
}

impl DirtyFile {
    /// Syncs it to disk.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        // A directory needs `fsync`: on ext4, `fdatasync` may omit a new name.
        rustix::io::retry_on_intr(|| match self {
            Self::File(file) => rustix::fs::fdatasync(file),
            Self::Directory(folder) => rustix::fs::fsync(folder),
        })
    }

    /// Whether both are the same open file.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(one), Self::File(two)) | (Self::Directory(one), Self::Directory(two)) => {
                Arc::ptr_eq(one, two)
            }
            _ => false,
        }
    }
}
