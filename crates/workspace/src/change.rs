//! What a change will do, told to whoever must remember it before it is done.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::Stat;
use toolgate_types::{Cancellation, Sha256};

use crate::mount::RootIdentity;

/// One file that is about to change.
#[derive(Debug)]
pub struct PlannedChange<'a> {
    /// The mount's alias.
    pub alias: &'a str,
    /// Where the mount really is. For the journal only.
    pub host_root: &'a Path,
    /// Which directory that is.
    pub root: RootIdentity,
    /// The file below the mount.
    pub location: &'a Path,
    /// What happens to it.
    pub kind: ChangeKind,
    /// What is there now, open for reading, so that it can be kept.
    pub before: Option<&'a File>,
    /// Digest of what is there now, where it was read already.
    pub before_sha256: Option<Sha256>,
    /// What will be there.
    pub after: Option<ContentDigest>,
    /// Which file will hold that, where it lies on the disk already.
    pub after_stamp: Option<FileStamp>,
    /// A name in the same folder that exists for an instant; whatever is left of it after a crash is litter.
    pub temporary: Option<OsString>,
    /// Folders that will be made for it, outermost first, below the mount.
    pub new_directories: Vec<PathBuf>,
}

/// What happens to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It did not exist.
    Create,
    /// It gets new content.
    Modify,
    /// It goes away.
    Delete,
    /// It gets another name, possibly in another mount.
    Move {
        /// The other mount's alias.
        alias: String,
        /// Where that mount really is.
        host_root: PathBuf,
        /// Which directory that is.
        root: RootIdentity,
        /// The new location below it.
        location: PathBuf,
    },
}

/// Which file it is and when it was last written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    /// `st_ino`.
    pub inode: u64,
    /// `st_size`.
    pub bytes: u64,
    /// `st_mtime` and its nanoseconds.
    pub modified: (i64, u64),
}

impl From<&Stat> for FileStamp {
    fn from(stat: &Stat) -> Self {
        let bytes = u64::try_from(stat.st_size).unwrap_or(0);
        Self { inode: stat.st_ino, bytes, modified: (stat.st_mtime, stat.st_mtime_nsec) }
    }
}

/// Content that a change leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentDigest {
    /// Its digest.
    pub sha256: Sha256,
    /// Its size.
    pub bytes: u64,
}

/// Keeps what is needed to put changes back. Called on every change, before anything can be seen of it.
pub trait Recorder: Sync {
    /// Returns once the intent and the means to undo are stored; an error means that nothing may be changed.
    /// Gives up when `stop` says so.
    ///
    /// # Errors
    /// Why it could not be stored.
    fn record(&self, changes: &[PlannedChange<'_>], stop: &Cancellation) -> Result<(), JournalError>;

    /// What was recorded counts from here on: unless it is settled, the next start puts it back. Called with the folders locked, right before the first
    /// change: what other gates did until then is not to be taken for what this call did.
    ///
    /// # Errors
    /// Why it cannot count; nothing may be changed then.
    fn begin(&self) -> Result<(), JournalError>;

    /// Waits until the intent of the call is stored. For effects that are no changes of files, right before the first: a command is confined and prepared while
    /// the disk is at work.
    ///
    /// # Errors
    /// Why it could not be stored, for the operator; nothing may be done then.
    fn await_intent(&self) -> Result<(), String>;

    /// Says how it went. After `RolledBack` nothing has changed, and another attempt may be recorded.
    fn settle(&self, settled: TransactionOutcome);
}

/// How a recorded change ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionOutcome {
    /// All of it was made.
    Committed,
    /// None of it was made.
    RolledBack,
    /// Some of it was made and could not be taken back: what was kept for it must stay until somebody can.
    Indeterminate,
}

/// Why what is needed to put a change back could not be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalError {
    /// There is more to keep than may be.
    TooLarge {
        /// The size of the file.
        bytes: u64,
        /// How much may be kept of one file.
        limit: u64,
    },
    /// What is kept already leaves no room, and must not be let go.
    Full(KeptBound),
    /// There is no space for it on the disk (`ENOSPC`, `EDQUOT`), or less would be left than must be. The reason is for the operator only.
    NoSpace(String),
    /// Storing it failed. The reason is for the operator only: it may name places on the host.
    Failed(String),
}

/// A bound of what is kept in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptBound {
    /// Disk space.
    Bytes(u64),
    /// Calls whose changes are kept.
    Calls(u64),
}

impl fmt::Display for KeptBound {
    /// For the operator: what is full, and the remedy.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("what was replaced in the last 30 hours fills the ")?;
        match self {
            Self::Bytes(limit) => write!(formatter, "{limit} bytes of `retention.undo` (`max_bytes`)")?,
            Self::Calls(limit) => write!(formatter, "{limit} calls of `retention.undo` (`max_entries`)")?,
        }
        formatter.write_str("; raise that bound, or remove entries of `journal.toolgate`")
    }
}

impl From<io::Error> for JournalError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl From<String> for JournalError {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

/// Remembers nothing: for undoing, which keeps its own books, and for tests.
#[derive(Debug)]
pub struct NoopRecorder;

impl Recorder for NoopRecorder {
    fn record(&self, _changes: &[PlannedChange<'_>], _stop: &Cancellation) -> Result<(), JournalError> {
        Ok(())
    }

    fn begin(&self) -> Result<(), JournalError> {
        Ok(())
    }

    fn await_intent(&self) -> Result<(), String> {
        Ok(())
    }

    fn settle(&self, _settled: TransactionOutcome) {}
}
