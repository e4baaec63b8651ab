//! A file whose lock says that its owner is at work.

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::folder::Handle;

/// A file that nobody else gets to lock. Dropping it lets go.
///
/// A lock ends with the last who has the file open, and that may be a process which this one has just forked and which has not
/// become another program yet. So letting go is said, and not left to closing.
pub(crate) struct Locked(Handle);

impl Locked {
    /// Fails at once where somebody else has it.
    pub(crate) fn take(file: Handle) -> Result<Self, Errno> {
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self(file))
    }

    pub(crate) fn file(&self) -> &Handle {
        &self.0
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // Whatever goes wrong here, closing it does the same a little later.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::folder::Folder;

    #[test]
    fn letting_go_does_not_wait_for_others_who_have_it_open() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Folder::open(scratch.path()).unwrap();
        let file = folder.create_new("file").unwrap();
        // As a forked process has it.
        let inherited = file.try_clone().unwrap();
        let other = || folder.read("file").unwrap().map(Locked::take).unwrap();
        let locked = Locked::take(Arc::clone(&file)).unwrap();
        assert_eq!(other().err(), Some(Errno::WOULDBLOCK));
        drop(locked);
        assert!(other().is_ok());
        drop((file, inherited));
    }
}
