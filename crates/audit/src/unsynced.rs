//! What was written and may still be lost in a power failure.

use std::sync::Arc;

use rustix::io::Errno;

use crate::folder::Handle;

/// Something that is not known to be on the disk.
#[derive(Clone)]
pub(crate) enum Unsynced {
    /// What a file holds.
    File(Handle),
    /// The names in a directory.
    Folder(Handle),
}

impl Unsynced {
    /// Makes it last.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        // A directory needs the full sync: on ext4 a data sync may leave out a new name.
        rustix::io::retry_on_intr(|| match self {
            Self::File(file) => rustix::fs::fdatasync(file),
            Self::Folder(folder) => rustix::fs::fsync(folder),
        })
    }

    /// Whether both are the same open file.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(one), Self::File(two)) | (Self::Folder(one), Self::Folder(two)) => {
                Arc::ptr_eq(one, two)
            }
            _ => false,
        }
    }
}
