//! Syncs finished entries to disk in the background.
//!
//! A call waits for the fsync of its intent and of its new content, but not of its undo entry. The kernel would write that back only after about 30
//! s, and a power cut would lose the undo data of that time. So a thread syncs finished entries in groups, at most [`SYNC_INTERVAL`] later. A process
//! that exits regularly waits for it.

use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cap_std::fs::Dir;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use toolgate_types::CallId;

use super::entry_name;

/// How long entries are collected before they are synced as a group.
const SYNC_INTERVAL: Duration = Duration::from_millis(200);

/// Syncing may take at most 1/10 of the time: on a busy disk `syncfs` also writes the dirty data of other processes.
const SYNC_TIME_DIVISOR: u32 = 10;

/// Larger groups use `syncfs`: it forces one commit of the filesystem's journal, where each `fdatasync` of a new file may force its own.
const MAX_INDIVIDUAL_SYNCS: usize = 4;

/// Queue length. An entry that does not fit is covered by the next group, which after a full queue is large enough for `syncfs`.
const MAX_QUEUED: usize = 1024;

/// A finished entry and its blobs.
#[derive(Debug)]
struct FinishedEntry {
    call: CallId,
    blobs: Vec<String>,
}

/// Starts the sync thread when there is something to sync.
#[derive(Debug, Default)]
pub(super) struct BackgroundSync(Mutex<Option<SyncWorker>>);

#[derive(Debug)]
struct SyncWorker {
    queue: SyncSender<FinishedEntry>,
    thread: JoinHandle<()>,
}

/// The journal's directories, reopened for reading: its own handles are `O_PATH`, for which `fsync` and `syncfs` fail with `EBADF`.
#[derive(Debug)]
struct SyncDirectories {
    done: File,
    blobs: File,
}

impl BackgroundSync {
    /// Queues an entry. Nothing depends on its success: without a thread, the kernel's writeback does it later.
    pub(super) fn enqueue(&self, call: CallId, blobs: Vec<String>, journal: &super::Journal) {
        let mut worker = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if worker.is_none() {
            *worker = SyncWorker::start(journal).ok();
        }
        let sent = worker.as_ref().map(|worker| worker.queue.try_send(FinishedEntry { call, blobs }));
        if matches!(sent, Some(Err(TrySendError::Disconnected(_)))) {
            *worker = None;
        }
    }

    /// Waits until everything queued is synced.
    pub(super) fn close(&self) {
        let worker = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(SyncWorker { queue, thread }) = worker {
            drop(queue);
            // A panicked thread leaves nothing to wait for.
            let _ = thread.join();
        }
    }
}

impl SyncWorker {
    fn start(journal: &super::Journal) -> io::Result<Self> {
        let directories =
            SyncDirectories { done: open_readable(&journal.done)?, blobs: open_readable(&journal.blobs)? };
        let (queue, finished) = sync_channel(MAX_QUEUED);
        let work = move || {
            let mut gather_for = SYNC_INTERVAL;
            while let Some(group) = next_group(&finished, gather_for) {
                let begun = Instant::now();
                // Errors are ignored: the calls that wait for their own fsync report a failing disk.
                let _ = directories.sync(&group);
                gather_for = SYNC_INTERVAL.max(begun.elapsed() * SYNC_TIME_DIVISOR);
            }
        };
        let thread = std::thread::Builder::new().name("journal".to_owned()).spawn(work)?;
        Ok(Self { queue, thread })
    }
}

fn open_readable(directory: &Dir) -> io::Result<File> {
    Ok(rustix::fs::openat(directory, c".", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?.into())
}

/// The next entries finished within one interval; `None` when the queue is closed and empty.
fn next_group(finished: &Receiver<FinishedEntry>, gather_for: Duration) -> Option<Vec<FinishedEntry>> {
    let mut group = vec![finished.recv().ok()?];
    let until = Instant::now() + gather_for;
    loop {
        match finished.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(one) => group.push(one),
            // The thread that closes the queue waits for this group.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Some(group),
        }
    }
}

impl SyncDirectories {
    fn sync(&self, group: &[FinishedEntry]) -> io::Result<()> {
        let synced = self.sync_group(group);
        #[cfg(test)]
        tests::note(group, &synced);
        synced
    }

    fn sync_group(&self, group: &[FinishedEntry]) -> io::Result<()> {
        if group.len() > MAX_INDIVIDUAL_SYNCS {
            return Ok(rustix::fs::syncfs(&self.done)?);
        }
        for FinishedEntry { call, blobs } in group {
            for blob in blobs {
                sync_file(&self.blobs, blob)?;
            }
            sync_file(&self.done, &entry_name(*call))?;
        }
        // New names need an `fsync` of their directory.
        rustix::fs::fsync(&self.blobs)?;
        Ok(rustix::fs::fsync(&self.done)?)
    }
}

/// Syncs a file; a missing one was undone or swept.
fn sync_file(directory: &File, name: &str) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(directory, name, flags, Mode::empty()) {
        Ok(file) => File::from(file).sync_data(),
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use toolgate_types::{Deadline, StateKey};
    use toolgate_workspace::{Recorder as _, TransactionOutcome, Workspace};

    use super::super::{CallRecorder, Journal};
    use super::*;

    static SYNCED: Mutex<BTreeSet<CallId>> = Mutex::new(BTreeSet::new());

    /// Counts only entries for which the kernel reported success.
    pub(super) fn note(group: &[FinishedEntry], synced: &io::Result<()>) {
        assert!(synced.is_ok(), "{synced:?}");
        SYNCED.lock().unwrap().extend(group.iter().map(|one| one.call));
    }

    #[test]
    fn every_finished_entry_is_synced_before_the_journal_is_closed() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Dir::open_ambient_dir(scratch.path(), cap_std::ambient_authority()).unwrap();
        let nothing = Workspace::new(Vec::new()).unwrap();
        let journal = Journal::open(&folder, &StateKey::new([7; 32])).unwrap().recover(&nothing).unwrap();
        let journal = Arc::new(journal);
        let make = |settled| {
            let call = CallId::fresh();
            let session = "s".parse().unwrap();
            let recorder = CallRecorder::new(Arc::clone(&journal), call, session, "write_file", None, None);
            recorder.record(&[], &Deadline::never()).unwrap();
            recorder.begin().unwrap();
            recorder.settle(settled);
            call
        };
        // One group synced file by file, and one by `syncfs`.
        let mut finished: BTreeSet<CallId> = (0..2).map(|_| make(TransactionOutcome::Committed)).collect();
        finished.extend((0..50).map(|_| make(TransactionOutcome::Committed)));
        let rolled_back = make(TransactionOutcome::RolledBack);
        // The first change starts a sweep, whose thread may be the last owner of the journal: closing must not depend on who drops it.
        let _sweeping = Arc::clone(&journal);
        journal.close();
        let synced = SYNCED.lock().unwrap();
        assert!(finished.is_subset(&synced), "{} of {}", synced.len(), finished.len());
        assert!(!synced.contains(&rolled_back));
    }
}
