//! A file whose lock is let go by name.

use std::borrow::Borrow;
use std::fmt;
use std::fs::{File, TryLockError};
use std::io;
use std::ops::Deref;

/// A file or a folder that nobody else gets to lock (`flock`). Dropping it lets go.
///
/// A lock ends with the last who has the file open, and that may be a process which another thread has just forked and which has not become
/// another program yet. So letting go is said, and not left to closing.
pub struct Locked<F: Borrow<File>>(F);

impl<F: Borrow<File>> Locked<F> {
    /// Waits for whoever has it.
    ///
    /// # Errors
    /// It cannot be locked at all.
    pub fn after_others(file: F) -> io::Result<Self> {
        loop {
            match file.borrow().lock() {
                Ok(()) => return Ok(Self(file)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for nobody.
    ///
    /// # Errors
    /// Somebody else has it, or it cannot be locked at all.
    pub fn at_once(file: F) -> Result<Self, TryLockError> {
        file.borrow().try_lock()?;
        Ok(Self(file))
    }
}

impl<F: Borrow<File>> Deref for Locked<F> {
    type Target = F;

    fn deref(&self) -> &F {
        &self.0
    }
}

impl<F: Borrow<File>> fmt::Debug for Locked<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Locked").field(self.0.borrow()).finish()
    }
}

impl<F: Borrow<File>> Drop for Locked<F> {
    fn drop(&mut self) {
        // Whatever goes wrong here, closing it does the same a little later.
        let _ = self.0.borrow().unlock();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Whether somebody who opens it anew finds it locked.
    fn is_locked(file: &tempfile::NamedTempFile) -> bool {
        match Locked::at_once(file.reopen().unwrap()) {
            Ok(_) => false,
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(error)) => panic!("{error}"),
        }
    }

    #[test]
    fn letting_go_does_not_wait_for_others_who_have_it_open() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let own = file.reopen().unwrap();
        // As a forked process has it.
        let inherited = own.try_clone().unwrap();
        let ways: [fn(&File) -> Locked<&File>; 2] =
            [|file| Locked::after_others(file).unwrap(), |file| Locked::at_once(file).unwrap()];
        for lock in ways {
            let locked = lock(&own);
            assert!(is_locked(&file));
            drop(locked);
            assert!(!is_locked(&file));
        }
        let shared = Arc::new(own);
        let locked = Locked::at_once(Arc::clone(&shared)).unwrap();
        assert!(is_locked(&file));
        drop(locked);
        assert!(!is_locked(&file));
        drop((shared, inherited));
    }

    #[test]
    fn folders_can_be_locked_too() {
        let folder = tempfile::tempdir().unwrap();
        #[expect(clippy::disallowed_methods, reason = "a folder that this test made")]
        let open = || File::open(folder.path()).unwrap();
        let locked = Locked::after_others(open()).unwrap();
        assert!(matches!(Locked::at_once(open()), Err(TryLockError::WouldBlock)));
        drop(locked);
        assert!(Locked::at_once(open()).is_ok());
    }
}
