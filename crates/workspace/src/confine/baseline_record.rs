//! The file that says which baseline commands of a gate run against, and whether any of them runs.
//!
//! One byte for the state, then which directory it is about, then the baseline. The gate that made it holds an exclusive `flock` on it for as long as it
//! lives: a record that can be locked is one of a gate that is gone. The baseline is complete before the state says that a command runs, so that a gate
//! which is killed in between leaves a record of a command that never ran. Nothing is synced to disk: the page cache outlives a killed process, and
//! after a power cut the record may be missing.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;

use cap_std::fs::Dir;
use rustix::fs::{AtFlags, Mode, OFlags};
use toolgate_types::{CallId, FileLock};

use super::baseline::Baseline;
use super::codec::Codec;
use super::lineage::Lineage;

/// How the name of a record ends.
pub(super) const RECORD_SUFFIX: &str = ".run";

/// The first byte of what follows the state. Another number is another format.
const VERSION: u8 = 1;

/// A longer record is none.
const MAX_RECORD_BYTES: u64 = 256 << 20;

/// What the commands of a record do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunState {
    /// Nothing runs, and all that was left has been looked at.
    Idle,
    /// The mount is being walked; nothing runs yet.
    Starting,
    /// A process may be alive.
    Running,
    /// Nothing runs, and not all that was left has been looked at.
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

    /// Whether commands have changed something that is not settled yet.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Running | Self::Ended)
    }
}

/// A record of this gate.
#[derive(Debug)]
pub(super) struct BaselineRecord {
    pub(super) name: OsString,
    file: FileLock<File>,
    /// Where the baseline begins.
    body: u64,
    state: RunState,
}

impl BaselineRecord {
    /// A new one. To be made while the registry is locked: between making and locking it, it looks like one of a gate that is gone.
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

    /// Writes the baseline down. Nothing may be running.
    pub(super) fn write(&self, before: &Baseline) -> io::Result<()> {
        let mut body = Vec::new();
        before.encode(&mut body);
        self.file.set_len(self.body)?;
        self.file.write_all_at(&body, self.body)
    }

    /// Says what the commands do. Only what changes is written.
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
    /// Held when the gate is gone, so that one gate at a time deals with what it left.
    pub(super) orphaned: Option<FileLock<File>>,
}

/// A record that cannot be read.
#[derive(Debug)]
pub(super) struct UnreadableRecord;

impl ForeignRecord {
    /// Reads one; `None` where no command of it is or was at work. What a gate that is gone left without having run anything is removed.
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
        // An empty file is one of a gate that was gone before it wrote anything.
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

    /// To be asked only where [`State::is_open`]: until then it is being written.
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
