//! Where grants are kept: those of a session in memory, all others in one file of the state directory.
//!
//! The file is read for every question that a grant could answer, so a grant that another process gives or revokes counts with the next call. A file
//! that is not believed gives no grant.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cap_std::fs::Dir;
use jiff::Timestamp;
use rustix::fs::{Mode, OFlags, openat};
use thiserror::Error;
use toolgate_fs::{FileLock, NotLocked};
use toolgate_types::{SessionId, StateKey};

use super::grant_file::{GrantList, GrantSealer};
use super::{GrantDuration, GrantableCall, LastingGrant, OfferedGrant, SessionBoundGrant};

/// The file, and the lock of those who change it.
const FILE: &str = "grants.json";
const LOCK: &str = "lock";
const TEMPORARY: &str = ".grants.json.new";

/// More grants are not kept.
const MAX_GRANTS: usize = 256;

/// How long a change waits for another process.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Why grants cannot be read or changed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GrantStoreError {
    /// The file does not count, and no grant in it.
    #[error("the lasting grants are not believed: {0}")]
    NotBelieved(String),
    /// There are as many grants as are kept.
    #[error("there are {MAX_GRANTS} lasting grants already")]
    TooMany,
    /// The file or its lock cannot be used.
    #[error("the lasting grants cannot be used: {0}")]
    Io(#[from] io::Error),
}

impl GrantStoreError {
    /// How to correct it.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::NotBelieved(_) => {
                "calls are asked about as if there were none; `toolgate grants revoke --all` begins anew"
            }
            Self::TooMany => "revoke some with `toolgate grants revoke ID`",
            Self::Io(_) => "make the state directory readable and writable for you",
        }
    }
}

/// The lasting grants of one user.
#[derive(Debug)]
pub struct GrantStore {
    directory: Dir,
    sealer: GrantSealer,
    /// The generation of the newest file that was read or written: an older one was put back.
    newest: AtomicU64,
    of_sessions: Mutex<Vec<SessionBoundGrant>>,
}

impl GrantStore {
    /// Grants in a directory of their own. Only a file sealed with this key is believed.
    ///
    /// # Errors
    /// The directory cannot be used.
    pub fn open(directory: Dir, key: StateKey) -> io::Result<Self> {
        let sealer = GrantSealer::new(key, &directory)?;
        Ok(Self { directory, sealer, newest: AtomicU64::new(0), of_sessions: Mutex::default() })
    }

    /// The grants that hold now, oldest first, without those of sessions.
    ///
    /// # Errors
    /// They cannot be read, or are not believed.
    pub fn list(&self) -> Result<Vec<LastingGrant>, GrantStoreError> {
        let now = now();
        let mut list = self.read()?;
        list.grants.retain(|grant| !grant.is_expired(now));
        Ok(list.grants)
    }

    /// Revokes a grant, and returns it if there was one.
    ///
    /// # Errors
    /// The grants cannot be read or written, or are not believed.
    pub fn revoke(&self, id: &str) -> Result<Option<LastingGrant>, GrantStoreError> {
        let mut revoked = None;
        self.update(|grants| {
            let place = grants.iter().position(|grant| grant.id == id);
            revoked = place.map(|place| grants.remove(place));
            Ok(())
        })?;
        Ok(revoked)
    }

    /// Revokes all grants, also those that are not believed.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn revoke_all(&self) -> Result<(), GrantStoreError> {
        let _changing = self.lock()?;
        match self.directory.remove_file(FILE) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(self.sync()?),
        }
    }

    /// The id of a grant that answers the question about a call.
    ///
    /// # Errors
    /// The stored grants are not believed; those of the session were looked at.
    pub(super) fn find(&self, call: &GrantableCall) -> Result<Option<String>, GrantStoreError> {
        let now = now();
        // A poisoned lock means that an update was interrupted: ask again.
        let of_session = self.of_sessions.lock().ok().and_then(|grants| {
            let mut own = grants.iter().filter(|bound| bound.session == call.identity.session);
            own.find(|bound| bound.grant.answers(call, now)).map(|bound| bound.grant.id.clone())
        });
        if of_session.is_some() {
            return Ok(of_session);
        }
        let list = self.read()?;
        Ok(list.grants.into_iter().find(|grant| grant.answers(call, now)).map(|grant| grant.id))
    }

    /// Keeps the grant that was chosen among the offers for a call.
    pub(super) fn give(&self, call: &GrantableCall, chosen: &OfferedGrant) -> Result<(), GrantStoreError> {
        let grant = LastingGrant::new(call, chosen, now());
        if chosen.offer.lasts == GrantDuration::Session {
            self.give_to_session(&call.identity.session, grant);
            return Ok(());
        }
        self.update(|grants| {
            if grants.len() >= MAX_GRANTS {
                return Err(GrantStoreError::TooMany);
            }
            grants.push(grant);
            Ok(())
        })
    }

    fn give_to_session(&self, session: &SessionId, grant: LastingGrant) {
        let mut grants = self.of_sessions.lock().unwrap_or_else(PoisonError::into_inner);
        // Sessions do not say when they end: the oldest grant makes room.
        if grants.len() >= MAX_GRANTS {
            grants.remove(0);
        }
        grants.push(SessionBoundGrant { session: session.clone(), grant });
    }

    fn read(&self) -> Result<GrantList, GrantStoreError> {
        // `O_NONBLOCK`: opening a FIFO must not block.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = match openat(&self.directory, FILE, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT) => return Ok(GrantList::default()),
            Err(error) => return Err(GrantStoreError::NotBelieved(error.to_string())),
        };
        let list = self.sealer.read(&mut file).map_err(GrantStoreError::NotBelieved)?;
        let newest = self.newest.fetch_max(list.generation, Ordering::SeqCst);
        if list.generation < newest {
            return Err(GrantStoreError::NotBelieved("an older file was put back".to_owned()));
        }
        Ok(list)
    }

    /// Reads, changes and writes under the lock. Expired grants are swept.
    fn update(
        &self,
        change: impl FnOnce(&mut Vec<LastingGrant>) -> Result<(), GrantStoreError>,
    ) -> Result<(), GrantStoreError> {
        let _changing = self.lock()?;
        let before = self.read()?;
        let (now, mut list) = (Timestamp::now(), before.clone());
        list.grants.retain(|grant| !grant.is_expired(now.as_millisecond()));
        change(&mut list.grants)?;
        if list == before {
            return Ok(());
        }
        // By the clock, so that it increases also after the file was removed.
        let by_clock = u64::try_from(now.as_microsecond()).unwrap_or_default();
        let newest = self.newest.load(Ordering::SeqCst).max(before.generation);
        list.generation = by_clock.max(newest.saturating_add(1));
        self.write(&list)?;
        self.newest.fetch_max(list.generation, Ordering::SeqCst);
        Ok(())
    }

    /// Atomic: a new file, synced, renamed, and the directory synced.
    fn write(&self, list: &GrantList) -> io::Result<()> {
        match self.directory.remove_file(TEMPORARY) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.directory, TEMPORARY, flags, Mode::RUSR | Mode::WUSR)?);
        self.sealer.write(&mut file, list)?;
        self.directory.rename(TEMPORARY, &self.directory, FILE)?;
        self.sync()
    }

    fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.directory)?)
    }

    fn lock(&self) -> Result<FileLock<File>, GrantStoreError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.directory, LOCK, flags, Mode::RUSR | Mode::WUSR).map_err(io::Error::from)?;
        FileLock::within(File::from(file), LOCK_TIMEOUT, || false).map_err(|error| match error {
            NotLocked::Held(_) => io::Error::from(io::ErrorKind::TimedOut).into(),
            NotLocked::Failed(error) => error.into(),
        })
    }
}

/// Milliseconds since 1970.
pub(super) fn now() -> i64 {
    Timestamp::now().as_millisecond()
}
