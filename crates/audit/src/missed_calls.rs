//! The number of calls of a process without a record, in a file that outlives the process.
//!
//! The file is created when the log is opened and is locked (`flock`) while its process lives. Its one block is allocated from the start, so counting
//! a call needs neither the directory lock nor disk space. The next start writes a gap record for the count of a dead process; until then `verify`
//! reads it here.

use std::fs::TryLockError;

use jiff::Timestamp;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use toolgate_fs::FileLock;
use toolgate_types::{CallId, ErrorCode, fresh_uuid};

use crate::AuditError;
use crate::directory::{DirHandle, SharedFile, fstat_state, read_at, write_at};
use crate::intents::DIRECTORY_NAME;
use crate::line::to_json;
use crate::record::moment;

/// The suffix of these files.
pub(crate) const MISSED_FILE_SUFFIX: &str = ".missed";
const VERSION: u32 = 1;
/// One sector: a power failure leaves either the old count or the new one.
const FILE_BYTES: usize = 512;

/// Calls without a record since the last one written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MissedCalls {
    v: u32,
    pub(crate) id: CallId,
    #[serde(with = "moment")]
    pub(crate) since: Timestamp,
    /// The newest day file when the first call was missed: the gap record can be in no older one. `None` if there was none.
    pub(crate) day: Option<String>,
    pub(crate) calls: u64,
    pub(crate) code: ErrorCode,
    pub(crate) reason: String,
}

impl MissedCalls {
    pub(crate) fn new(since: Timestamp, day: Option<String>, error: &AuditError) -> Self {
        let (id, code, reason) = (CallId::fresh(), error.code(), error.to_string());
        Self { v: VERSION, id, since, day, calls: 0, code, reason }
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok().filter(|missed: &Self| missed.v == VERSION)
    }

    /// Fixed size, so that each count overwrites the last by one `pwrite`.
    fn to_sector(&self) -> Result<Vec<u8>, AuditError> {
        let mut line = to_json(self)?;
        if line.len() >= FILE_BYTES {
            line = to_json(&Self { reason: "the reason is too long to be kept".to_owned(), ..self.clone() })?;
        }
        Ok(padded(line))
    }
}

fn padded(mut line: Vec<u8>) -> Vec<u8> {
    line.resize(FILE_BYTES - 1, b' ');
    line.push(b'\n');
    line
}

/// The contents of such a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MissedCount {
    /// Its process missed no call.
    None,
    /// Its process missed these.
    Some(MissedCalls),
    /// Not written by a gate of this version.
    Damaged,
}

/// Reads an open file.
pub(crate) fn read(file: &SharedFile) -> Result<MissedCount, Errno> {
    let bytes = read_at(file, FILE_BYTES * 2, 0)?;
    if bytes.trim_ascii().is_empty() {
        return Ok(MissedCount::None);
    }
    Ok(MissedCalls::parse(&bytes).map_or(MissedCount::Damaged, MissedCount::Some))
}

/// The counts of all processes of a directory, living or dead, that are not known to be recorded.
pub(crate) fn read_all(audit_folder: &DirHandle) -> Result<Vec<MissedCalls>, AuditError> {
    let Some(folder) = audit_folder.existing_subdirectory(DIRECTORY_NAME)? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for name in folder.names()?.into_iter().filter(|name| name.ends_with(MISSED_FILE_SUFFIX)) {
        // A file removed in the meantime was recorded, or had missed nothing.
        let Some(file) = folder.read(&name)? else { continue };
        if let MissedCount::Some(missed) = read(&file).map_err(|cause| folder.error("read", &name, cause))? {
            found.push(missed);
        }
    }
    Ok(found)
}

/// The file of this process.
pub(crate) struct MissedFile {
    directory: DirHandle,
    name: String,
    file: FileLock<SharedFile>,
    inode: u64,
}

impl MissedFile {
    /// Creates it. Call it with the directory lock held, so that no recovery finds it between its creation and its locking.
    pub(crate) fn create(audit_folder: &DirHandle) -> Result<Self, AuditError> {
        let (folder, is_new) = audit_folder.subdirectory(DIRECTORY_NAME)?;
        if is_new {
            audit_folder.sync()?;
        }
        let name = format!("{}{MISSED_FILE_SUFFIX}", fresh_uuid());
        let file = folder.create_new(&name)?;
        let failed = |cause| folder.error("write", &name, cause);
        let made = FileLock::try_lock(file).map_err(|error| failed(lock_errno(error))).and_then(|file| {
            write_at(&*file, &padded(Vec::new()), 0).map_err(failed)?;
            Ok((fstat_state(&*file).map_err(failed)?.inode, file))
        });
        match made {
            Ok((inode, file)) => Ok(Self { directory: folder, name, file, inode }),
            Err(error) => {
                let _ = folder.remove(&name);
                Err(error)
            }
        }
    }

    /// Writes the count. It then survives a crash of this process.
    pub(crate) fn write(&self, missed: &MissedCalls) -> Result<(), AuditError> {
        let is_there = self.directory.state(&self.name)?.is_some_and(|state| state.inode == self.inode);
        if !is_there {
            return Err(self.directory.error("find", &self.name, Errno::NOENT));
        }
        write_at(&*self.file, &missed.to_sector()?, 0)
            .map_err(|cause| self.directory.error("write", &self.name, cause))
    }

    /// Syncs it, so that it survives a power failure.
    pub(crate) fn sync(&self) -> Result<(), AuditError> {
        rustix::io::retry_on_intr(|| rustix::fs::fdatasync(&*self.file))
            .map_err(|cause| AuditError::NotDurable { cause })?;
        self.directory.sync()
    }

    /// Removes it, when no call is missed.
    pub(crate) fn remove(self) -> Result<(), AuditError> {
        self.directory.remove(&self.name)
    }
}

/// The errno of a failed lock attempt.
pub(crate) fn lock_errno(error: TryLockError) -> Errno {
    match error {
        TryLockError::WouldBlock => Errno::WOULDBLOCK,
        TryLockError::Error(error) => Errno::from_io_error(&error).unwrap_or(Errno::IO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_fits_its_sector_whatever_the_reason() {
        for length in [0, 100, 300, 4096] {
            let path = "/\"".repeat(length).into();
            let error = AuditError::Io { action: "write", path, cause: Errno::NOSPC };
            let day = Some("2026-11-15".to_owned());
            let missed =
                MissedCalls { calls: u64::MAX, ..MissedCalls::new(Timestamp::UNIX_EPOCH, day, &error) };
            let sector = missed.to_sector().unwrap();
            assert_eq!((sector.len(), sector.last()), (FILE_BYTES, Some(&b'\n')));
            let read = MissedCalls::parse(&sector).unwrap();
            assert_eq!((read.id, read.calls), (missed.id, u64::MAX));
        }
    }
}
