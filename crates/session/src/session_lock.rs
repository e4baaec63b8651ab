//! Who holds a conversation: one at a time, in this process or another.
//!
//! A hold is a lock of the operating system (`flock`) on a file beside the database. It ends with the process that took it, however that ends.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use toolgate_types::{FileLock, SessionId};

use crate::error::SessionError;
use crate::private_dir::PrivateDir;

/// What the names of locked files begin with.
const LOCK_FILE_PREFIX: &str = "held-";

/// How often a lock is tried whose holder is gone.
const MAX_LOCK_ATTEMPTS: u32 = 100;

/// Where holds are taken.
#[derive(Clone, Debug)]
pub(crate) enum SessionLocks {
    /// Among all processes that use the folder.
    Directory(Arc<PrivateDir>),
    /// Among those who share a store in memory.
    Memory(Arc<Mutex<BTreeSet<SessionId>>>),
}

/// A conversation that is held. Dropping it lets go.
#[derive(Debug)]
pub(crate) struct SessionLock {
    locks: SessionLocks,
    id: SessionId,
    /// The lock, where it is one of the operating system.
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

    /// Clears away what is left of holders that were killed.
    pub(crate) fn remove_stale(&self) {
        let Self::Directory(folder) = self else { return };
        for name in folder.names(LOCK_FILE_PREFIX) {
            // One that nobody is written into is just being taken. Whether the holder is really gone is for the lock to say: it may live where its number
            // means nothing here.
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
            // For the message that others get, and for whoever sweeps.
            let _ = rustix::fs::ftruncate(&*lock, 0);
            let _ = rustix::io::write(&*lock, std::process::id().to_string().as_bytes());
            return Ok(lock);
        }
        let process = holder(folder, &name);
        tries += 1;
        if tries == MAX_LOCK_ATTEMPTS || process.is_some_and(is_alive) {
            return Err(SessionError::InUse { id: id.clone(), process });
        }
        // The holder is gone, and somebody is sweeping after it; that is soon done.
        std::thread::yield_now();
    }
}

/// Who holds a conversation, or did.
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
            // The name goes before the lock does: whoever opened the file meanwhile finds that it has no name, and makes another.
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
