//! Exclusive locks on conversations, within this process and across processes.
//!
//! A lock is an `flock` on a file beside the database. It ends with its process, however that ends.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use toolgate_fs::FileLock;
use toolgate_types::SessionId;

use crate::error::SessionError;
use crate::private_dir::PrivateDir;

/// The prefix of lock files.
const LOCK_FILE_PREFIX: &str = "held-";

/// How often a lock is tried whose holder is gone.
const MAX_LOCK_ATTEMPTS: u32 = 100;

/// Where locks are held.
#[derive(Clone, Debug)]
pub(crate) enum SessionLocks {
    /// Among all processes that use the directory.
    Directory(Arc<PrivateDir>),
    /// Among the clones of a store in memory.
    Memory(Arc<Mutex<BTreeSet<SessionId>>>),
}

/// A locked conversation. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct SessionLock {
    locks: SessionLocks,
    id: SessionId,
    /// The file lock, if the store is on disk.
    _lock: Option<FileLock<File>>,
}

impl SessionLocks {
    pub(crate) fn acquire(&self, id: &SessionId) -> Result<SessionLock, SessionError> {
        let lock = match self {
            Self::Directory(folder) => Some(lock(folder, id)?),
            Self::Memory(held) => {
                if !held.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone()) {
                    return Err(SessionError::InUse { id: id.clone(), process: Some(std::process::id()) });
                }
                None
            }
        };
        Ok(SessionLock { locks: self.clone(), id: id.clone(), _lock: lock })
    }

    /// Removes the lock files of killed processes.
    pub(crate) fn remove_stale(&self) {
        let Self::Directory(folder) = self else { return };
        for name in folder.names(LOCK_FILE_PREFIX) {
            // A file without a PID is just being locked. Whether the holder is really gone is decided by the lock: it may be in another PID
            // namespace, where its PID means nothing here.
            if holder(folder, &name).is_some_and(|process| !is_alive(process)) {
                folder.remove_unlocked(&name);
            }
        }
    }
}

fn lock(folder: &PrivateDir, id: &SessionId) -> Result<FileLock<File>, SessionError> {
    let name = file_name(id);
    let mut tries = 0;
    loop {
        if let Some(lock) = folder.lock(&name)? {
            // The PID, for the error message of others and for `remove_stale`.
            let _ = rustix::fs::ftruncate(&*lock, 0);
            let _ = rustix::io::write(&*lock, std::process::id().to_string().as_bytes());
            return Ok(lock);
        }
        let process = holder(folder, &name);
        tries += 1;
        if tries == MAX_LOCK_ATTEMPTS || process.is_some_and(is_alive) {
            return Err(SessionError::InUse { id: id.clone(), process });
        }
        // The holder is gone, and another process is removing its file, which is quick.
        std::thread::yield_now();
    }
}

/// The PID of the current or last holder.
fn holder(folder: &PrivateDir, name: &str) -> Option<u32> {
    folder.read_prefix(name).and_then(|text| text.trim().parse().ok())
}

fn is_alive(process: u32) -> bool {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    process.is_some_and(|process| test_kill_process(process) != Err(Errno::SRCH))
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        match &self.locks {
            // The name is removed before the lock is released: a process that opened the file in the meantime finds it without a name, and creates
            // another.
            SessionLocks::Directory(folder) => folder.remove(&file_name(&self.id)),
            SessionLocks::Memory(held) => {
                held.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
            }
        }
    }
}

fn file_name(id: &SessionId) -> String {
    format!("{LOCK_FILE_PREFIX}{id}")
}
