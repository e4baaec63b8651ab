//! Planned changes, and the interface to the journal that records them before they are made.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::Stat;
use toolgate_types::{Deadline, Sha256};

use crate::mount::RootIdentity;

/// One file that is about to change.
#[derive(Debug)]
pub struct PlannedChange<'a> {
    /// The mount's alias.
    pub alias: &'a str,
    /// The real path of the mount. For the journal only.
    pub host_root: &'a Path,
    /// Identity of that directory.
    pub root: RootIdentity,
    /// The file, relative to the mount.
    pub location: &'a Path,
    /// What happens to it.
    pub kind: ChangeKind,
    /// The current file, open for reading, so that its content can be kept.
    pub before: Option<&'a File>,
    /// Digest of the current content, where it was already read.
    pub before_sha256: Option<Sha256>,
    /// The new content.
    pub after: Option<ContentDigest>,
    /// The file that holds the new content, where it is already on disk.
    pub after_stamp: Option<FileStamp>,
    /// A name in the same directory that exists only during the change; after a crash it is garbage.
    pub temporary: Option<OsString>,
    /// Directories to be created for it, outermost first, relative to the mount.
    pub new_directories: Vec<PathBuf>,
}

/// What kind of change it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The file is new.
    Create,
    /// The file gets new content.
    Modify,
    /// The file is removed.
    Delete,
    /// The file is renamed, possibly into another mount.
    Move {
        /// The other mount's alias.
        alias: String,
        /// The real path of that mount.
        host_root: PathBuf,
        /// Identity of that directory.
        root: RootIdentity,
        /// The new location below it.
        location: PathBuf,
    },
}

/// Identity and last modification of a file.
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

/// The content after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentDigest {
    /// Its digest.
    pub sha256: Sha256,
    /// Its size.
    pub bytes: u64,
}

/// The journal: keeps what is needed to undo changes. Called for every change before any of it is visible.
pub trait Recorder: Sync {
    /// Returns once the intent (write-ahead) and the data for undo are stored. On an error nothing may be changed. Gives up when `stop` is cancelled.
    ///
    /// # Errors
    /// Why it could not be stored.
    fn record(&self, changes: &[PlannedChange<'_>], stop: &Deadline) -> Result<(), JournalError>;

    /// Makes the recorded intent effective: unless it is settled, the next start undoes the change. Called with the directories locked, right before
    /// the first change, so that changes of other gates until then are not attributed to this call.
    ///
    /// # Errors
    /// Why it cannot become effective; nothing may be changed then.
    fn begin(&self) -> Result<(), JournalError>;

    /// Waits until the intent of the call is stored. Called right before the first effect that is not a file change: a command is confined and
    /// prepared while the intent is being written.
    ///
    /// # Errors
    /// Why it could not be stored, for the operator; nothing may be done then.
    fn await_intent(&self) -> Result<(), String>;

    /// Reports the outcome. After `RolledBack` nothing has changed, and another attempt may be recorded.
    fn settle(&self, settled: TransactionOutcome);
}

/// How a recorded transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionOutcome {
    /// All changes were made.
    Committed,
    /// No change was made.
    RolledBack,
    /// Some changes were made and could not be rolled back: their undo data must stay until a recovery succeeds.
    Indeterminate,
}

/// Why the undo data of a change could not be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalError {
    /// The file is larger than the limit for undo data.
    TooLarge {
        /// The size of the file.
        bytes: u64,
        /// How much of one file may be kept.
        limit: u64,
    },
    /// The journal is full, and none of its entries may be removed yet.
    Full(KeptBound),
    /// There is no disk space (`ENOSPC`, `EDQUOT`), or less than the reserve would remain. The reason is for the operator only.
    NoSpace(String),
    /// Writing failed. The reason is for the operator only: it may contain host paths.
    Failed(String),
}

/// A limit on the whole journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptBound {
    /// Disk space.
    Bytes(u64),
    /// Calls whose changes are kept.
    Calls(u64),
}

impl fmt::Display for KeptBound {
    /// For the operator: which limit is reached, and the remedy.
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

/// Records nothing: for undo, which has its own bookkeeping, and for tests.
#[derive(Debug)]
pub struct NoopRecorder;

impl Recorder for NoopRecorder {
    fn record(&self, _changes: &[PlannedChange<'_>], _stop: &Deadline) -> Result<(), JournalError> {
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
