//! The write-ahead intents of this process, kept until their calls end.
//!
//! Each process has a file of its own, locked while it lives: an unlocked file belongs to a dead process. The file is created with the directory lock
//! held, so that no process can find it between its creation and its locking.
//!
//! Every change waits for the fsync of its line. So lines overwrite zeroes that were written ahead: the fsync then writes only the line and no new
//! file size. Whatever follows the last newline is not a line.

use std::collections::HashSet;
use std::sync::Mutex;

use rustix::io::Errno;
use toolgate_fs::FileLock;
use toolgate_types::{CallId, fresh_uuid};

use crate::directory::{DirHandle, SharedFile, fstat_state, write_at};
use crate::dirty_files::DirtyFile;
use crate::group_commit::GroupCommit;
use crate::missed_calls::lock_errno;
use crate::writer::LogWriter;
use crate::{AuditError, lock};

/// The intents' subdirectory of the audit directory.
pub(crate) const DIRECTORY_NAME: &str = "intents";
/// The suffix of intent files.
pub(crate) const INTENT_FILE_SUFFIX: &str = ".jsonl";
/// A file larger than this is rotated, and removed when all its calls have ended.
const ROTATE_AT_BYTES: u64 = 1024 * 1024;
/// Maximum size of an intent file: one line and the zeroes ahead may follow the rotation size.
pub(crate) const MAX_FILE_BYTES: u64 = 2 * ROTATE_AT_BYTES;
/// Zeroes written ahead in one piece.
static ZERO_BLOCK: [u8; 64 * 1024] = [0; 64 * 1024];

/// One intent file.
struct IntentFile {
    name: String,
    file: FileLock<SharedFile>,
    inode: u64,
    /// The offset of the next line.
    length: u64,
    /// The end of the zeroes.
    zero_filled: u64,
    /// Calls that have not ended.
    open_calls: HashSet<CallId>,
    /// The number of the last outcome; the file must stay until it is settled.
    last_outcome: u64,
}

impl IntentFile {
    fn write(&mut self, line: &[u8]) -> Result<(), Errno> {
        let end = self.length + line.len() as u64;
        // Zeroes are written while half of the last block is left, so that intents can be written on a full disk.
        while self.zero_filled < end + ZERO_BLOCK.len() as u64 / 2 {
            // If a whole block does not fit, the line may.
            if write_at(&*self.file, &ZERO_BLOCK, self.zero_filled).is_err() {
                break;
            }
            self.zero_filled += ZERO_BLOCK.len() as u64;
        }
        write_at(&*self.file, line, self.length)?;
        self.length = end;
        self.zero_filled = self.zero_filled.max(end);
        Ok(())
    }
}

/// The intents of this process.
pub(crate) struct IntentLog {
    audit_directory: DirHandle,
    intent_directory: Option<DirHandle>,
    /// Oldest first; lines go to the last.
    generations: Vec<IntentFile>,
    /// Whether the last file accepts more lines.
    accepting: bool,
}

impl IntentLog {
    pub(crate) fn new(audit_directory: DirHandle) -> Self {
        Self { audit_directory, intent_directory: None, generations: Vec::new(), accepting: false }
    }

    /// Adds a line and returns its commit number.
    pub(crate) fn add(
        &mut self,
        call: CallId,
        line: &[u8],
        writer: &Mutex<LogWriter>,
        records: &GroupCommit,
        announcements: &GroupCommit,
    ) -> Result<u64, AuditError> {
        let mut unsynced = Vec::new();
        if !self.accepting {
            // A failed cleanup must not prevent the intent; the next start handles what is left.
            let _ =
                self.remove_finished(announcements, |number| matches!(records.settled(number), Some(Ok(()))));
            unsynced = self.start_file(writer)?;
        }
        let (Some(folder), Some(generation)) = (&self.intent_directory, self.generations.last_mut()) else {
            return Err(self.audit_directory.error("open", DIRECTORY_NAME, Errno::NOENT));
        };
        if folder.state(&generation.name)?.is_none_or(|state| state.inode != generation.inode) {
            // The file was removed or replaced by another process, and the intent would be lost with it.
            self.accepting = false;
            return Err(folder.error("find", &generation.name, Errno::NOENT));
        }
        if let Err(cause) = generation.write(line) {
            // A partial line may be there. Nothing may follow it, or the two would form one line.
            self.accepting = false;
            return Err(folder.error("write", &generation.name, cause));
        }
        generation.open_calls.insert(call);
        self.accepting = generation.length < ROTATE_AT_BYTES;
        unsynced.push(DirtyFile::File(SharedFile::clone(&generation.file)));
        Ok(announcements.issue(unsynced))
    }

    /// Whether a call has an intent and no record: the next start writes one.
    pub(crate) fn is_open(&self, call: CallId) -> bool {
        self.generations.iter().any(|generation| generation.open_calls.contains(&call))
    }

    /// Marks a call as recorded under this number.
    pub(crate) fn call_recorded(&mut self, call: CallId, number: u64) {
        if let Some(generation) =
            self.generations.iter_mut().find(|generation| generation.open_calls.contains(&call))
        {
            generation.open_calls.remove(&call);
            // Threads may report their outcomes out of order.
            generation.last_outcome = generation.last_outcome.max(number);
        }
    }

    /// The number that must be settled before the files whose calls have all ended may be removed.
    pub(crate) fn last_outcome(&self) -> u64 {
        let ended = self.generations.iter().filter(|generation| generation.open_calls.is_empty());
        ended.map(|generation| generation.last_outcome).max().unwrap_or(0)
    }

    /// Removes the files whose calls have all ended, if their records are known to be on disk, and leaves the others to the next start.
    pub(crate) fn close(
        &mut self,
        announcements: &GroupCommit,
        settled: impl Fn(u64) -> bool,
    ) -> Result<(), AuditError> {
        self.accepting = false;
        let removed = self.remove_finished(announcements, settled);
        self.generations.clear();
        removed
    }

    fn remove_finished(
        &mut self,
        announcements: &GroupCommit,
        settled: impl Fn(u64) -> bool,
    ) -> Result<(), AuditError> {
        let Some(folder) = &self.intent_directory else { return Ok(()) };
        let ended = |generation: &mut IntentFile| {
            generation.open_calls.is_empty() && settled(generation.last_outcome)
        };
        self.generations.extract_if(.., ended).try_for_each(|generation| {
            // If no ticket is waited for, no sync round would drop the file handle.
            announcements.forget_file(&DirtyFile::File(SharedFile::clone(&generation.file)));
            folder.remove(&generation.name)
        })
    }

    fn start_file(&mut self, writer: &Mutex<LogWriter>) -> Result<Vec<DirtyFile>, AuditError> {
        let (folder, made) = match self.intent_directory.take() {
            Some(folder) => (folder, false),
            None => self.audit_directory.subdirectory(DIRECTORY_NAME)?,
        };
        let name = format!("{}{INTENT_FILE_SUFFIX}", fresh_uuid());
        let created = lock(writer).with_lock(|_| {
            let file = folder.create_new(&name)?;
            FileLock::try_lock(file).map_err(|error| folder.error("lock", &name, lock_errno(error)))
        });
        let mut unsynced = vec![DirtyFile::Directory(folder.handle().clone())];
        if made {
            unsynced.push(DirtyFile::Directory(self.audit_directory.handle().clone()));
        }
        let created = created.and_then(|file| match fstat_state(&*file) {
            Ok(state) => Ok((file, state.inode)),
            Err(cause) => Err(folder.error("look at", &name, cause)),
        });
        self.intent_directory = Some(folder);
        let (file, inode) = created?;
        let (length, prepared, open, last_outcome) = (0, 0, HashSet::new(), 0);
        let generation =
            IntentFile { name, file, inode, length, zero_filled: prepared, open_calls: open, last_outcome };
        self.generations.push(generation);
        Ok(unsynced)
    }
}
