//! A file lock that is released explicitly.

use std::borrow::Borrow;
use std::fmt;
use std::fs::{File, TryLockError};
use std::io;
use std::ops::Deref;
use std::time::{Duration, Instant};

use crate::Holder;

/// Retry interval for a held lock. Locks are held for a few system calls, so they are usually free by then.
const RETRY_INTERVAL: Duration = Duration::from_micros(100);

/// An exclusive `flock` on a file or directory. Dropping it releases the lock.
///
/// `flock` is released when the last duplicate of the descriptor closes, and a concurrent fork holds one until exec. So `Drop` unlocks explicitly
/// instead of relying on close.
pub struct FileLock<F: Borrow<File>> {
    file: F,
    is_held: bool,
}

/// Why a lock could not be acquired in time.
#[derive(Debug)]
pub enum NotLocked {
    /// Another process holds it; which one, if the system reports it.
    Held(Option<Holder>),
    /// It cannot be locked at all.
    Failed(io::Error),
}

impl<F: Borrow<File>> FileLock<F> {
    /// Blocks until the lock is acquired.
    ///
    /// # Errors
    /// It cannot be locked at all.
    pub fn lock(file: F) -> io::Result<Self> {
        loop {
            match file.borrow().lock() {
                Ok(()) => return Ok(Self { file, is_held: true }),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Does not block.
    ///
    /// # Errors
    /// Another process holds it, or it cannot be locked at all.
    pub fn try_lock(file: F) -> Result<Self, TryLockError> {
        file.borrow().try_lock()?;
        Ok(Self { file, is_held: true })
    }

    /// Retries until the lock is acquired, until the timeout, or until `is_over` returns true between two attempts: a process that was stopped
    /// (SIGSTOP), or a program that is no gate, may hold it forever.
    ///
    /// # Errors
    /// Another process holds it, which is named, or it cannot be locked at all.
    pub fn within(file: F, timeout: Duration, is_over: impl Fn() -> bool) -> Result<Self, NotLocked> {
        let mut begun = None;
        loop {
            match file.borrow().try_lock() {
                Ok(()) => return Ok(Self { file, is_held: true }),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(TryLockError::Error(error)) => return Err(NotLocked::Failed(error)),
            }
            // The clock is read only if the first attempt failed.
            if begun.get_or_insert_with(Instant::now).elapsed() >= timeout || is_over() {
                return Err(NotLocked::Held(Holder::of(file.borrow())));
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
    }

    /// Releases the lock, and returns whether that worked. For a file that stays open for long.
    ///
    /// # Errors
    /// It is still locked.
    pub fn release(mut self) -> io::Result<()> {
        self.is_held = false;
        self.file.borrow().unlock()
    }
}

impl<F: Borrow<File>> Deref for FileLock<F> {
    type Target = F;

    fn deref(&self) -> &F {
        &self.file
    }
}

impl<F: Borrow<File>> fmt::Debug for FileLock<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Locked").field(self.file.borrow()).finish()
    }
}

impl<F: Borrow<File>> Drop for FileLock<F> {
    fn drop(&mut self) {
        if self.is_held {
            // If this fails, closing the descriptor releases the lock a little later.
            let _ = self.file.borrow().unlock();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Whether the file is locked for a new descriptor.
    fn is_locked(file: &tempfile::NamedTempFile) -> bool {
        match FileLock::try_lock(file.reopen().unwrap()) {
            Ok(_) => false,
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(error)) => panic!("{error}"),
        }
    }

    #[test]
    fn letting_go_does_not_wait_for_others_who_have_it_open() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let own = file.reopen().unwrap();
        // A duplicate, as a forked process holds it.
        let inherited = own.try_clone().unwrap();
        let ways: [fn(&File) -> FileLock<&File>; 3] = [
            |file| FileLock::lock(file).unwrap(),
            |file| FileLock::try_lock(file).unwrap(),
            |file| FileLock::within(file, Duration::ZERO, || false).unwrap(),
        ];
        for lock in ways {
            let locked = lock(&own);
            assert!(is_locked(&file));
            drop(locked);
            assert!(!is_locked(&file));
        }
        let shared = Arc::new(own);
        let locked = FileLock::try_lock(Arc::clone(&shared)).unwrap();
        assert!(is_locked(&file));
        drop(locked);
        assert!(!is_locked(&file));
        drop((shared, inherited));
    }

    #[test]
    fn a_lock_that_is_held_is_waited_for_no_longer_than_allowed_and_its_holder_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let locked = FileLock::lock(file.reopen().unwrap()).unwrap();
        for (timeout, is_over) in [(Duration::from_millis(1), false), (Duration::MAX, true)] {
            match FileLock::within(file.reopen().unwrap(), timeout, || is_over) {
                Err(NotLocked::Held(Some(holder))) => assert_eq!(holder.pid, std::process::id()),
                other => panic!("{other:?}"),
            }
        }
        locked.release().unwrap();
        assert!(!is_locked(&file));
    }

    #[test]
    fn folders_can_be_locked_too() {
        let folder = tempfile::tempdir().unwrap();
        #[expect(clippy::disallowed_methods, reason = "a folder that this test made")]
        let open = || File::open(folder.path()).unwrap();
        let locked = FileLock::lock(open()).unwrap();
        assert!(matches!(FileLock::try_lock(open()), Err(TryLockError::WouldBlock)));
        drop(locked);
        assert!(FileLock::try_lock(open()).is_ok());
    }
}
