//! Who holds a conversation: one at a time, in this process or another.
//!
//! A hold is a lock of the operating system (`flock`) on a file beside the database. It ends with the process that took it, however that ends.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use toolgate_types::SessionId;

use crate::error::SessionError;
use crate::folder::Folder;

/// Where holds are taken.
#[derive(Clone, Debug)]
pub(crate) enum Holds {
    /// Among all processes that use the folder.
    Folder(Arc<Folder>),
    /// Among those who share a store in memory.
    Memory(Arc<Mutex<BTreeSet<SessionId>>>),
}

/// A conversation that is held. Dropping it lets go.
#[derive(Debug)]
pub(crate) struct Hold {
    holds: Holds,
    id: SessionId,
    /// The lock, where it is one of the operating system.
    _lock: Option<OwnedFd>,
}

impl Holds {
    pub(crate) fn take(&self, id: &SessionId) -> Result<Hold, SessionError> {
        let lock = match self {
            Self::Folder(folder) => match folder.lock(&file_name(id))? {
                Some(lock) => {
                    // Only for the message that others get.
                    let _ = rustix::fs::ftruncate(&lock, 0);
                    let _ = rustix::io::write(&lock, std::process::id().to_string().as_bytes());
                    Some(lock)
                }
                None => {
                    let holder = folder.glance(&file_name(id)).and_then(|text| text.trim().parse().ok());
                    return Err(SessionError::InUse { id: id.clone(), process: holder });
                }
            },
            Self::Memory(held) => {
                if !held.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone()) {
                    return Err(SessionError::InUse { id: id.clone(), process: Some(std::process::id()) });
                }
                None
            }
        };
        Ok(Hold { holds: self.clone(), id: id.clone(), _lock: lock })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        match &self.holds {
            // The name goes before the lock does: whoever opened the file meanwhile finds that it has no name, and makes another.
            Holds::Folder(folder) => folder.remove(&file_name(&self.id)),
            Holds::Memory(held) => {
                held.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
            }
        }
    }
}

fn file_name(id: &SessionId) -> String {
    format!("held-{id}")
}
