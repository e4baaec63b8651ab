//! What was written and may still be lost in a power failure.

use std::sync::Arc;

use rustix::io::Errno;

use crate::directory::SharedFile;

/// Something that is not known to be on the disk.
#[derive(Clone)]
pub(crate) enum DirtyFile {
    /// What a file holds.
    File(SharedFile),
    /// The names in a directory.
    Directory(SharedFile),
}

impl DirtyFile {
    /// Makes it last.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        // A directory needs the full sync: on ext4 a data sync may leave out a new name.
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
