//! Recovery: writes the missing record of every call that a dead process left.
//!
//! Recovery may be killed too. It removes an intent file only when every call in it has a record on disk, and checks for an existing record before
//! writing one: the next recovery starts over and writes no duplicates.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toolgate_fs::{FileLock, Holder};
use toolgate_types::{CallId, ChangeFate};

use crate::directory::{DirHandle, SharedFile, fstat_state, read_at};
use crate::intents::{DIRECTORY_NAME, INTENT_FILE_SUFFIX, MAX_FILE_BYTES};
use crate::line_reader::{LineReader, LineStatus};
use crate::log::LogInner;
use crate::missed_calls::{self, MissedCalls, MissedCount};
use crate::record::{ChainLink, RecordedIntent};
use crate::{AuditError, Day, lock};

/// The suffix of files that were moved aside.
const DAMAGED_SUFFIX: &str = ".damaged";

/// What recovery found and repaired.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditRecovery {
    /// Calls that were running when their process died, and now have an `ERROR` record.
    pub interrupted: Vec<CallId>,
    /// Bytes of a partial line that were removed.
    pub truncated_bytes: u64,
    /// Intent or count files that cannot be parsed; they were renamed and kept.
    pub damaged: Vec<PathBuf>,
    /// Calls that dead processes could not record; gap records now give their number.
    pub calls_without_record: u64,
}

/// One file of a dead process: intents, or the count of calls without a record.
struct OrphanedIntents {
    name: String,
    /// The lock keeps other recoveries away.
    _locked: FileLock<SharedFile>,
    intents: Vec<RecordedIntent>,
    missed: Option<MissedCalls>,
    damaged: bool,
}

impl OrphanedIntents {
    /// For each item, the newest day file when it was written. `None`: its record may be in any.
    fn days(&self) -> impl Iterator<Item = Option<Day>> {
        let days = self.intents.iter().map(|intent| &intent.since);
        let days = days.chain(self.missed.as_ref().map(|missed| &missed.day));
        days.map(|day| day.as_ref().and_then(|day| day.parse().ok()))
    }
}

/// Which of the orphaned calls and gaps are in the log.
#[derive(Default)]
struct RecordedIds {
    calls: HashSet<CallId>,
    gaps: HashSet<CallId>,
}

/// Writes the records of dead processes' calls.
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
        // Two files of one process may hold the same gap, the later one with the higher count. If the gap cannot be recorded, because the disk may
        // still be full, both files stay, and `verify` finds them.
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

/// A call with an intent, and whether its process is alive.
pub(crate) struct Announced {
    pub(crate) intent: RecordedIntent,
    pub(crate) is_running: bool,
}

/// Every call with an intent in a directory, recorded or not. No lock is attempted: another process that is creating or recovering such a file would
/// find it locked.
pub(crate) fn announced(audit_folder: &DirHandle) -> Result<Vec<Announced>, AuditError> {
    let Some(folder) = audit_folder.existing_subdirectory(DIRECTORY_NAME)? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for name in folder.names()?.into_iter().filter(|name| name.ends_with(INTENT_FILE_SUFFIX)) {
        // A file removed in the meantime has a record for each of its calls.
        let Some(file) = folder.read(&name)? else { continue };
        let is_running = Holder::of(&file).is_some();
        let (intents, _) = read_intents(&folder, &name, &file)?;
        found.extend(intents.into_iter().map(|intent| Announced { intent, is_running }));
    }
    Ok(found)
}

/// Locks the file of a dead process. A file without a name was handled by another recovery.
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

/// Reads the complete lines. A partial line was never durable, so its call never started.
fn read_intents(
    folder: &DirHandle,
    name: &str,
    file: &SharedFile,
) -> Result<(Vec<RecordedIntent>, bool), AuditError> {
    let failed = |cause| folder.error("read", name, cause);
    let length = fstat_state(file).map_err(failed)?.length;
    if length > MAX_FILE_BYTES {
        // Not written by a gate; reading a sparse file of terabytes would exhaust memory.
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
                // This line was durable, so the one before it should be complete.
                damaged |= torn;
                intents.push(intent);
            }
            // Contains the zeroes it was written over: in a power failure its end may reach the disk before its start.
            Err(_) if line.contains(&0) => torn = true,
            Err(_) => damaged = true,
        }
    }
    Ok((intents, damaged))
}

/// Which of these calls and gaps have a record.
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

/// The next line that parses; damaged lines are left for `verify` to report.
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

/// Files moved aside in a directory because they were not written by a gate of this version, by this start or an earlier one.
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
