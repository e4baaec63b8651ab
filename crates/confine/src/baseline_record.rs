//! The file that stores the baseline of a gate's running commands, and whether any of them is running.
//!
//! One byte for the state, then the identity of the directory, then the baseline. The gate that created it holds an exclusive `flock` on it for its
//! lifetime: a record that can be locked is orphaned. The baseline is complete before the state becomes `Running`, so a gate that is killed in
//! between leaves a record of a command that never ran. Nothing is fsynced: the page cache survives a killed process, and after a power failure the
//! record may be missing.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;

use cap_std::fs::Dir;
use rustix::fs::{AtFlags, Mode, OFlags};
use toolgate_fs::FileLock;
use toolgate_types::CallId;

use crate::baseline::Baseline;
use crate::codec::Codec;
use crate::lineage::Lineage;

/// The file name suffix of a record.
pub(super) const RECORD_SUFFIX: &str = ".run";

/// The byte after the state: the version of the format.
const VERSION: u8 = 1;

/// A longer file is not accepted as a record.
const MAX_RECORD_BYTES: u64 = 256 << 20;

/// The state of a record's commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunState {
    /// No command runs, and everything that was left has been scanned.
    Idle,
    /// The mount is being walked; no command runs yet.
    Starting,
    /// A process may be alive.
    Running,
    /// No command runs, and not everything that was left has been scanned.
    Ended,
}

impl RunState {
    const ALL: [Self; 4] = [Self::Idle, Self::Starting, Self::Running, Self::Ended];

    fn byte(self) -> u8 {
        match self {
            Self::Idle => b'I',
            Self::Starting => b'S',
            Self::Running => b'R',
            Self::Ended => b'E',
        }
    }

    /// Whether commands may have made changes that were not scanned yet.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Running | Self::Ended)
    }
}

/// A record of this gate.
#[derive(Debug)]
pub(super) struct BaselineRecord {
    pub(super) name: OsString,
    file: FileLock<File>,
    /// The offset of the baseline.
    body: u64,
    state: RunState,
}

impl BaselineRecord {
    /// Creates a record. The registry must be locked: between creation and locking, the record looks orphaned.
    pub(super) fn create(folder: &Dir, lineage: &Lineage) -> io::Result<Self> {
        let name = OsString::from(format!("{}{RECORD_SUFFIX}", CallId::fresh()));
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(folder, &name, flags, Mode::RUSR | Mode::WUSR)?);
        let file = FileLock::try_lock(file).map_err(io::Error::from)?;
        let mut head = vec![RunState::Starting.byte(), VERSION];
        lineage.encode(&mut head);
        file.write_all_at(&head, 0)?;
        Ok(Self { name, body: head.len() as u64, file, state: RunState::Starting })
    }

    /// Writes the baseline. No command may be running.
    pub(super) fn write(&self, before: &Baseline) -> io::Result<()> {
        let mut body = Vec::new();
        before.encode(&mut body);
        self.file.set_len(self.body)?;
        self.file.write_all_at(&body, self.body)
    }

    /// Sets the state; writes only a change.
    pub(super) fn set(&mut self, state: RunState) -> io::Result<()> {
        if self.state != state {
            self.file.write_all_at(&[state.byte()], 0)?;
            self.state = state;
        }
        Ok(())
    }

    pub(super) fn remove(&self, folder: &Dir) {
        remove(folder, &self.name);
    }
}

/// A record of another gate.
#[derive(Debug)]
pub(super) struct ForeignRecord {
    pub(super) name: OsString,
    pub(super) state: RunState,
    content: Vec<u8>,
    /// The lock on an orphaned record, so that only one gate at a time handles it.
    pub(super) orphaned: Option<FileLock<File>>,
}

/// A record that cannot be decoded.
#[derive(Debug)]
pub(super) struct UnreadableRecord;

impl ForeignRecord {
    /// Opens a record; `None` if no command of it is or was running. An orphaned record without a run is removed.
    pub(super) fn open(folder: &Dir, name: OsString) -> io::Result<Option<Self>> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(folder, &name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let reader = file.try_clone()?;
        let abandoned = match FileLock::try_lock(file) {
            Ok(locked) => Some(locked),
            Err(std::fs::TryLockError::WouldBlock) => None,
            Err(std::fs::TryLockError::Error(error)) => return Err(error),
        };
        let mut first = [0];
        reader.read_at(&mut first, 0)?;
        // An empty file is from a gate that was killed before it wrote anything.
        let state = RunState::ALL.into_iter().find(|state| [state.byte()] == first).unwrap_or(RunState::Idle);
        if state == RunState::Idle || (abandoned.is_some() && !state.is_open()) {
            if abandoned.is_some() {
                remove(folder, &name);
            }
            return Ok(None);
        }
        let mut content = Vec::new();
        reader.take(MAX_RECORD_BYTES).read_to_end(&mut content)?;
        Ok(Some(Self { name, state, content, orphaned: abandoned }))
    }

    fn parts(&self) -> Option<(Lineage, &[u8])> {
        let mut input = self.content.get(1..)?;
        if u8::decode(&mut input)? != VERSION {
            return None;
        }
        Some((Lineage::decode(&mut input)?, input))
    }

    pub(super) fn lineage(&self) -> Result<Lineage, UnreadableRecord> {
        self.parts().map(|(lineage, _)| lineage).ok_or(UnreadableRecord)
    }

    /// Only valid if [`RunState::is_open`]: before that it is still being written.
    pub(super) fn before(&self) -> Result<Baseline, UnreadableRecord> {
        let before = self.parts().and_then(|(_, mut body)| {
            let before = Baseline::decode(&mut body)?;
            body.is_empty().then_some(before)
        });
        before.ok_or(UnreadableRecord)
    }
}

pub(super) fn remove(folder: &Dir, name: &OsString) {
    let _ = rustix::fs::unlinkat(folder, name, AtFlags::empty());
}
