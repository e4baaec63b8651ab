//! Entries that somebody is at work on.

use std::fs::File;
use std::io;
use std::ops::Deref;

use rustix::fs::{FlockOperation, flock};

/// An open and locked entry: as long as it is held, nobody takes it for one of a dead process.
///
/// Closing it would not unlock it at once: a process that another thread is just starting has all handles, until it becomes another program.
pub(super) struct Held(File);

impl Held {
    /// Waits for whoever holds it.
    pub(super) fn after_others(entry: File) -> io::Result<Self> {
        flock(&entry, FlockOperation::LockExclusive)?;
        Ok(Self(entry))
    }

    /// Nothing when somebody else holds it.
    pub(super) fn at_once(entry: File) -> Option<Self> {
        flock(&entry, FlockOperation::NonBlockingLockExclusive).ok().map(|()| Self(entry))
    }
}

impl Deref for Held {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // If this fails, closing it has to do.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_free_although_somebody_still_has_its_handle() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let entry = Held::after_others(file.reopen().unwrap()).unwrap();
        assert!(Held::at_once(file.reopen().unwrap()).is_none());
        let _inherited = entry.try_clone().unwrap();
        drop(entry);
        assert!(Held::at_once(file.reopen().unwrap()).is_some());
    }
}
