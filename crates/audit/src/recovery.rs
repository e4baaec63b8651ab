//! Gives every call that a dead process left behind its one record.
//!
//! A recoverer may die too. It removes a file of intents only when every call in it has a record on the disk,
//! and before adding one it looks whether there is one already: whoever comes next starts over and adds
//! nothing twice.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toolgate_types::{CallId, ChangeFate, FileLock, Holder};

use crate::directory::{DirHandle, SharedFile, fstat_state, read_at};
use crate::intents::{DIRECTORY_NAME, INTENT_FILE_SUFFIX, MAX_FILE_BYTES};
use crate::line_reader::{LineReader, LineStatus};
use crate::log::LogInner;
use crate::missed_calls::{self, MissedCalls, MissedCount};
use crate::record::{ChainLink, RecordedIntent};
use crate::{AuditError, Day, lock};

/// What the names of files end in that are kept aside.
const DAMAGED_SUFFIX: &str = ".damaged";

/// What opening a log found and put right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditRecovery {
    /// Calls that were under way when their process died, and now have an `ERROR` record.
    pub interrupted: Vec<CallId>,
    /// Bytes of an unfinished line that were removed.
    pub truncated_bytes: u64,
    /// Files of intents or counts that cannot be read; they were kept under another name.
    pub damaged: Vec<PathBuf>,
    /// Calls that dead processes could not record: the record says now how many they were.
    pub calls_without_record: u64,
}

/// What a process that died left in one file: intents, or the count of calls without a record.
struct OrphanedIntents {
    name: String,
    /// Holds the lock that keeps other recoverers away.
    _locked: FileLock<SharedFile>,
    intents: Vec<RecordedIntent>,
    missed: Option<MissedCalls>,
    damaged: bool,
}

impl OrphanedIntents {
    /// The newest day file when it began to be written, for each thing in it. `None` could be recorded anywhere.
    fn days(&self) -> impl Iterator<Item = Option<Day>> {
        let days = self.intents.iter().map(|intent| &intent.since);
        let days = days.chain(self.missed.as_ref().map(|missed| &missed.day));
        days.map(|day| day.as_ref().and_then(|day| day.parse().ok()))
    }
}

/// What of the orphans' is in the record.
#[derive(Default)]
struct RecordedIds {
    calls: HashSet<CallId>,
    gaps: HashSet<CallId>,
}

/// Records the calls of dead processes.
pub(crate) fn recover(
    shared: &Arc<LogInner>,
    fate_of: &dyn Fn(CallId) -> ChangeFate,
) -> Result<AuditRecovery, AuditError> {
    let mut recovered = AuditRecovery::default();
    let Some(folder) = shared.directory.existing_subdirectory(DIRECTORY_NAME)? else { return Ok(recovered) };
    let orphans = find_orphans(shared, &folder)?;
    if orphans.is_empty() {
        return Ok(recovered);
    }
    let mut done = recorded_ids(&shared.directory, &orphans)?;
    for intent in orphans.iter().flat_map(|orphans| &orphans.intents) {
        if done.calls.insert(intent.call) {
            shared.append_body(intent.call, &intent.interrupted_record(fate_of(intent.call))?)?;
            recovered.interrupted.push(intent.call);
        }
    }
    let mut kept = HashSet::new();
    for missed in orphans.iter().filter_map(|orphans| orphans.missed.as_ref()) {
        // Two files of one process may have the same gap, the later one with the higher count. Both are kept where it cannot be recorded: the disk may still
        // be full, and `verify` finds it there.
        if !done.gaps.contains(&missed.id) {
            match shared.write_gap(missed) {
                Ok(()) => recovered.calls_without_record += missed.calls,
                Err(_) => _ = kept.insert(missed.id),
            }
        }
    }
    lock(&shared.writer).sync()?;
    for orphans in &orphans {
        if orphans.missed.as_ref().is_none_or(|missed| !kept.contains(&missed.id)) {
            archive_orphan(&folder, orphans, &mut recovered)?;
        }
    }
    Ok(recovered)
}

fn find_orphans(shared: &LogInner, folder: &DirHandle) -> Result<Vec<OrphanedIntents>, AuditError> {
    let mut found = Vec::new();
    for name in folder.names()? {
        let is_count = name.ends_with(missed_calls::MISSED_FILE_SUFFIX);
        if !is_count && !name.ends_with(INTENT_FILE_SUFFIX) {
            continue;
        }
        let Some(file) = folder.read(&name)? else { continue };
        let Some(file) = lock_orphan(shared, folder, &name, file)? else { continue };
        let (mut intents, mut missed) = (Vec::new(), None);
        let damaged = if is_count {
            match missed_calls::read(&file).map_err(|cause| folder.error("read", &name, cause))? {
                MissedCount::None => false,
                MissedCount::Some(found) => missed.replace(found).is_some(),
                MissedCount::Damaged => true,
            }
        } else {
            let (found, damaged) = read_intents(folder, &name, &file)?;
            intents = found;
            damaged
        };
        found.push(OrphanedIntents { name, _locked: file, intents, missed, damaged });
    }
    Ok(found)
}

/// A call that was announced, and whether the process that announced it lives.
pub(crate) struct Announced {
    pub(crate) intent: RecordedIntent,
    pub(crate) is_running: bool,
}

/// Every call that the processes of a directory announced, recorded by now or not. No lock is tried: a process that makes or takes over such a file at
/// that moment would find it locked.
pub(crate) fn announced(audit_folder: &DirHandle) -> Result<Vec<Announced>, AuditError> {
    let Some(folder) = audit_folder.existing_subdirectory(DIRECTORY_NAME)? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for name in folder.names()?.into_iter().filter(|name| name.ends_with(INTENT_FILE_SUFFIX)) {
        // One that is gone by now has a record of each of its calls.
        let Some(file) = folder.read(&name)? else { continue };
        let is_running = Holder::of(&file).is_some();
        let (intents, _) = read_intents(&folder, &name, &file)?;
        found.extend(intents.into_iter().map(|intent| Announced { intent, is_running }));
    }
    Ok(found)
}

/// Takes the lock of a file whose owner is gone. A file without a name was dealt with by another recoverer.
fn lock_orphan(
    shared: &LogInner,
    folder: &DirHandle,
    name: &str,
    file: SharedFile,
) -> Result<Option<FileLock<SharedFile>>, AuditError> {
    let Ok(file) = lock(&shared.writer).with_lock(|_| Ok(FileLock::try_lock(file)))? else { return Ok(None) };
    let stat = rustix::fs::fstat(&*file).map_err(|cause| folder.error("look at", name, cause))?;
    Ok((stat.st_nlink > 0).then_some(file))
}

/// Reads the complete lines. An unfinished one was never durable, so what it announces never began.
fn read_intents(
    folder: &DirHandle,
    name: &str,
    file: &SharedFile,
) -> Result<(Vec<RecordedIntent>, bool), AuditError> {
    let failed = |cause| folder.error("read", name, cause);
    let length = fstat_state(file).map_err(failed)?.length;
    if length > MAX_FILE_BYTES {
        // No gate wrote this, and reading a sparse file of terabytes would take all memory.
        return Ok((Vec::new(), true));
    }
    let content = read_at(file, usize::try_from(length).unwrap_or(0), 0).map_err(failed)?;
    let lines = content.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"));
    let mut intents = Vec::new();
    let (mut damaged, mut torn) = (false, false);
    for line in lines {
        match serde_json::from_slice::<RecordedIntent>(line) {
            Ok(intent) if !intent.is_supported() => damaged = true,
            Ok(intent) => {
                // What follows was whole on the disk, so what is before it should be.
                damaged |= torn;
                intents.push(intent);
            }
            // The zeroes that it was being written over: in a power failure its end may come to the disk before its beginning.
            Err(_) if line.contains(&0) => torn = true,
            Err(_) => damaged = true,
        }
    }
    Ok((intents, damaged))
}

/// Which of these calls have a record, and which of these gaps.
fn recorded_ids(folder: &DirHandle, orphans: &[OrphanedIntents]) -> Result<RecordedIds, AuditError> {
    let mut recorded = RecordedIds::default();
    let Some(since) = orphans.iter().flat_map(OrphanedIntents::days).min() else { return Ok(recorded) };
    let wanted: HashSet<CallId> =
        orphans.iter().flat_map(|orphans| &orphans.intents).map(|intent| intent.call).collect();
    for day in folder.days()?.into_iter().filter(|day| Some(*day) >= since) {
        let Some(mut lines) = LineReader::open(folder, &day.file_name())? else { continue };
        while let Some(link) = next_link(&mut lines)? {
            if wanted.contains(&link.trace_id) {
                recorded.calls.insert(link.trace_id);
            }
            recorded.gaps.extend(link.gap.filter(|gap| gap.calls.is_some()).map(|gap| gap.id));
        }
    }
    Ok(recorded)
}

/// The next line that can be read; a damaged line is for a check to find.
fn next_link(lines: &mut LineReader) -> Result<Option<ChainLink>, AuditError> {
    loop {
        match lines.read_line()? {
            LineStatus::Complete => {
                if let Ok(link) = serde_json::from_slice::<ChainLink>(lines.line()) {
                    return Ok(Some(link));
                }
            }
            LineStatus::TooLong => {}
            LineStatus::Partial | LineStatus::End => return Ok(None),
        }
    }
}

/// What was kept aside in a directory because no gate of this version wrote it, by this start or an earlier one.
///
/// # Errors
/// When the directory cannot be read.
pub fn kept_aside(directory: &Path) -> Result<Vec<PathBuf>, AuditError> {
    let Some(folder) = DirHandle::open(directory)?.existing_subdirectory(DIRECTORY_NAME)? else {
        return Ok(Vec::new());
    };
    let names = folder.names()?.into_iter().filter(|name| name.ends_with(DAMAGED_SUFFIX));
    Ok(names.map(|name| folder.path_of(&name)).collect())
}

fn archive_orphan(
    folder: &DirHandle,
    orphans: &OrphanedIntents,
    recovered: &mut AuditRecovery,
) -> Result<(), AuditError> {
    if orphans.damaged {
        let kept = format!("{}{DAMAGED_SUFFIX}", orphans.name);
        folder.rename(&orphans.name, &kept)?;
        recovered.damaged.push(folder.path_of(&kept));
        Ok(())
    } else {
        folder.remove(&orphans.name)
    }
}
