//! What this process is about to do, kept until it is done.
//!
//! Each process has a file of its own, which it holds locked for as long as it lives: a file that is not
//! locked belonged to a process that died. The file is made while the directory's lock is held, so that
//! nobody can find it in the moment between its making and its locking.
//!
//! Every change waits for its line to be on the disk. So lines are written over zeroes that were put there before: then
//! the disk has only the line to write, and need not be told each time that the file has grown. What follows the last
//! line end is no line.

use std::collections::HashSet;
use std::sync::Mutex;

use rustix::io::Errno;
use toolgate_types::{CallId, FileLock, fresh_uuid};

use crate::directory::{DirHandle, SharedFile, fstat_state, write_at};
use crate::dirty_files::DirtyFile;
use crate::group_commit::GroupCommit;
use crate::missed_calls::lock_errno;
use crate::writer::LogWriter;
use crate::{AuditError, lock};

/// The folder of intents in the audit directory.
pub(crate) const DIRECTORY_NAME: &str = "intents";
/// What the names of intent files end in.
pub(crate) const INTENT_FILE_SUFFIX: &str = ".jsonl";
/// A file that has grown past this is followed by a new one, and goes when all its calls have ended.
const ROTATE_AT_BYTES: u64 = 1024 * 1024;
/// No file of intents is longer: one line and the zeroes ahead may come after that.
pub(crate) const MAX_FILE_BYTES: u64 = 2 * ROTATE_AT_BYTES;
/// Put into a file at once, to be written over.
static ZERO_BLOCK: [u8; 64 * 1024] = [0; 64 * 1024];

/// One file of intents.
struct IntentFile {
    name: String,
    file: FileLock<SharedFile>,
    inode: u64,
    /// Where the next line goes.
    length: u64,
    /// How far there are zeroes.
    zero_filled: u64,
    /// Calls that have not ended.
    open_calls: HashSet<CallId>,
    /// The number of the last outcome; until that is settled the file must stay.
    last_outcome: u64,
}

impl IntentFile {
    fn write(&mut self, line: &[u8]) -> Result<(), Errno> {
        let end = self.length + line.len() as u64;
        // The next zeroes are put there while half of the last are left, so that calls can be announced on a full disk.
        while self.zero_filled < end + ZERO_BLOCK.len() as u64 / 2 {
            // Where there is no room for so much there may be room for the line.
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

/// This process's intents.
pub(crate) struct IntentLog {
    audit_directory: DirHandle,
    intent_directory: Option<DirHandle>,
    /// Oldest first; lines go to the last.
    generations: Vec<IntentFile>,
    /// Whether the last generation takes more lines.
    accepting: bool,
}

impl IntentLog {
    pub(crate) fn new(audit_directory: DirHandle) -> Self {
        Self { audit_directory, intent_directory: None, generations: Vec::new(), accepting: false }
    }

    /// Adds a line, and returns its number among the announcements.
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
            // Tidying must not keep a call from being announced; what stays is looked at by the next start.
            let _ =
                self.remove_finished(announcements, |number| matches!(records.settled(number), Some(Ok(()))));
            unsynced = self.start_file(writer)?;
        }
        let (Some(folder), Some(generation)) = (&self.intent_directory, self.generations.last_mut()) else {
            return Err(self.audit_directory.error("open", DIRECTORY_NAME, Errno::NOENT));
        };
        if folder.state(&generation.name)?.is_none_or(|state| state.inode != generation.inode) {
            // Somebody took the file away, and would take the announcement with it.
            self.accepting = false;
            return Err(folder.error("find", &generation.name, Errno::NOENT));
        }
        if let Err(cause) = generation.write(line) {
            // Part of a line may be there. Nothing may follow it, or the two would become one.
            self.accepting = false;
            return Err(folder.error("write", &generation.name, cause));
        }
        generation.open_calls.insert(call);
        self.accepting = generation.length < ROTATE_AT_BYTES;
        unsynced.push(DirtyFile::File(SharedFile::clone(&generation.file)));
        Ok(announcements.issue(unsynced))
    }

    /// Whether a call was announced and has no record: the next start gives it one.
    pub(crate) fn is_open(&self, call: CallId) -> bool {
        self.generations.iter().any(|generation| generation.open_calls.contains(&call))
    }

    /// Notes that a call has its record, added under this number.
    pub(crate) fn call_recorded(&mut self, call: CallId, number: u64) {
        if let Some(generation) =
            self.generations.iter_mut().find(|generation| generation.open_calls.contains(&call))
        {
            generation.open_calls.remove(&call);
            // Outcomes of several threads may be noted in another order than they were written in.
            generation.last_outcome = generation.last_outcome.max(number);
        }
    }

    /// The number that must be settled before the files whose calls have all ended can go.
    pub(crate) fn last_outcome(&self) -> u64 {
        let ended = self.generations.iter().filter(|generation| generation.open_calls.is_empty());
        ended.map(|generation| generation.last_outcome).max().unwrap_or(0)
    }

    /// Removes the files whose calls have all ended, if their records are known to be on the disk, and gives
    /// up the others to the next start.
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
            // Where nobody waits for announcements, nothing else would let go of the file.
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
