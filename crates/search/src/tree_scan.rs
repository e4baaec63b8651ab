//! Everything beneath a directory: all names and types, including hidden and ignored ones.
//!
//! Finding and searching skip what is hidden or ignored. This walk is for security checks before and after a command runs in the tree, which must see
//! everything. It only reads directories: no entry is opened or looked up whose `d_type` is known.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::fstat;
use rustix::io::Errno;
use toolgate_types::{CancellationReason, Deadline};

use crate::directory::{
    DirEntries, DirentBuffer, is_concurrent_change, kind_by_stat, open_directory, reopen,
};
use crate::path_buffer::as_path;
use crate::walk::MAX_DEPTH;
use crate::work_queue::{WorkQueue, run_workers};
use crate::{EntryKind, Error};

/// How many directories one thread reads before more threads are worth starting.
const MIN_DIRS_FOR_THREADS: usize = 48;

/// How often a directory is read again when it changes during the read.
const MAX_READ_ATTEMPTS: usize = 16;

/// How far filesystem timestamps may lag behind the clock: they are taken at the kernel's last tick.
const MAX_TIMESTAMP_LAG: Duration = Duration::from_millis(20);

/// A directory that has been read.
pub struct ScannedDir<'a> {
    handle: BorrowedFd<'a>,
    path: &'a [u8],
    names: &'a DirEntries,
    changed: Duration,
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug)]
pub struct ScannedEntry<'a> {
    /// A single name.
    pub name: &'a CStr,
    /// Its type; symlinks are not followed.
    pub kind: EntryKind,
}

impl<'a> ScannedDir<'a> {
    /// The open directory, to examine one of its entries.
    #[must_use]
    pub fn handle(&self) -> BorrowedFd<'a> {
        self.handle
    }

    /// Its path, relative to the start; empty for the start itself.
    #[must_use]
    pub fn path(&self) -> &'a Path {
        as_path(self.path)
    }

    /// The last change (`st_ctime`) since the Unix epoch: no entry was created or renamed in it since then.
    #[must_use]
    pub fn ctime(&self) -> Duration {
        self.changed
    }

    /// All entries, in the order of the filesystem.
    pub fn entries(&self) -> impl Iterator<Item = ScannedEntry<'a>> {
        let handle = self.handle;
        self.names.iter().filter_map(move |name| {
            let kind = name.kind.or_else(|| kind_by_stat(handle, name.text).ok())?;
            Some(ScannedEntry { name: name.text, kind })
        })
    }
}

/// What one thread does with the directories.
pub trait TreeVisitor: Send {
    /// Examines a directory, and calls `enter` for each subdirectory to descend into.
    fn visit_dir(&mut self, folder: &ScannedDir<'_>, enter: &mut dyn FnMut(ScannedEntry<'_>));

    /// A directory that was to be entered cannot be read, or is nested too deep.
    fn visit_unreadable(&mut self, place: &Path);
}

/// The result of a scan.
pub struct TreeScan<S> {
    /// One for every thread that took part.
    pub visitors: Vec<S>,
    /// Whether directories were changed during the scan, so that an entry may have been moved past it.
    pub changed_during_scan: bool,
    /// Whether a directory was gone before it could be read, or kept changing while it was: something was certainly not seen at its place.
    pub incomplete: bool,
    /// Why the scan stopped early.
    pub stopped: Option<CancellationReason>,
}

/// A lower bound for the timestamps of changes from now on: what has an earlier one is not new.
#[must_use]
pub fn earliest_timestamp() -> Duration {
    let moment = SystemTime::now().checked_sub(MAX_TIMESTAMP_LAG);
    moment.and_then(|moment| moment.duration_since(UNIX_EPOCH).ok()).unwrap_or_default()
}

/// Reads every directory beneath this one, on several threads when there are many.
///
/// # Errors
/// [`Error::NotADirectory`], or [`Error::Unreadable`] for a failure that is not about a single directory.
pub fn scan_tree<S: TreeVisitor>(
    directory: BorrowedFd<'_>,
    stop: &Deadline,
    surveyor: impl Fn() -> S + Sync,
) -> Result<TreeScan<S>, Error> {
    let root =
        PendingDir { parent: Arc::new(reopen(directory)?), name: c".".into(), path: Vec::new(), depth: 0 };
    let shared = SharedScan {
        stop,
        begun: earliest_timestamp(),
        queue: WorkQueue::new(vec![root]),
        restless: AtomicBool::new(false),
        missed: AtomicBool::new(false),
        ended: OnceLock::new(),
    };
    let workers = run_workers(
        || ScanWorker::new(&shared, surveyor()),
        |worker, start_helpers| worker.run(start_helpers),
    );
    let surveyors = workers.into_iter().map(|worker| worker.surveyor).collect();
    let stopped = match shared.ended.into_inner() {
        Some(ScanAbort::Failed(errno)) => return Err(errno.into()),
        Some(ScanAbort::Stopped(reason)) => Some(reason),
        None => None,
    };
    let (restless, missed) = (shared.restless.into_inner(), shared.missed.into_inner());
    Ok(TreeScan { visitors: surveyors, changed_during_scan: restless, incomplete: missed, stopped })
}

/// A directory to be read.
struct PendingDir {
    parent: Arc<OwnedFd>,
    name: CString,
    path: Vec<u8>,
    depth: usize,
}

/// Why a scan stopped early.
enum ScanAbort {
    Stopped(CancellationReason),
    Failed(Errno),
}

/// State shared by all threads.
struct SharedScan<'a> {
    stop: &'a Deadline,
    /// When the scan began, since the Unix epoch.
    begun: Duration,
    queue: WorkQueue<Vec<PendingDir>>,
    restless: AtomicBool,
    missed: AtomicBool,
    ended: OnceLock<ScanAbort>,
}

impl SharedScan<'_> {
    fn end(&self, ending: ScanAbort) {
        self.ended.get_or_init(|| ending);
        self.queue.close();
    }

    fn note_change(&self) {
        self.restless.store(true, Ordering::Relaxed);
    }

    fn note_missing(&self) {
        self.note_change();
        self.missed.store(true, Ordering::Relaxed);
    }

    /// Called after a directory was read: an entry that was removed before it could be read shows in the `ctime`.
    fn note_ctime(&self, changed: Duration) {
        if changed >= self.begun {
            self.note_change();
        }
    }
}

/// The `st_ctime` of a directory, since the Unix epoch.
fn changed(handle: BorrowedFd<'_>) -> Result<Duration, Errno> {
    let stat = fstat(handle)?;
    let seconds = u64::try_from(stat.st_ctime).unwrap_or(0);
    let nanos = u32::try_from(stat.st_ctime_nsec).unwrap_or(0);
    Ok(Duration::new(seconds, nanos))
}

/// One thread of a scan.
struct ScanWorker<'a, S> {
    shared: &'a SharedScan<'a>,
    surveyor: S,
    scratch: DirentBuffer,
    pending: Vec<PendingDir>,
    folders: usize,
}

impl<'a, S: TreeVisitor> ScanWorker<'a, S> {
    fn new(shared: &'a SharedScan<'a>, surveyor: S) -> Self {
        Self { shared, surveyor, scratch: DirentBuffer::new(), pending: Vec::new(), folders: 0 }
    }

    fn run(&mut self, start_helpers: &mut dyn FnMut()) {
        while let Some(mut taken) = self.shared.queue.take() {
            self.pending.extend(taken.job().unwrap_or_default());
            while let Some(next) = self.pending.pop() {
                if let Err(ending) = self.visit(next) {
                    self.pending.clear();
                    return self.shared.end(ending);
                }
                self.folders += 1;
                if self.folders == MIN_DIRS_FOR_THREADS {
                    start_helpers();
                }
                self.share();
            }
        }
    }

    /// Hands the first half of the pending directories, which lie highest, to an idle thread.
    fn share(&mut self) {
        if self.pending.len() > 1 && self.shared.queue.has_idle_worker() {
            let half = self.pending.len() / 2;
            self.shared.queue.push(self.pending.drain(..half).collect());
        }
    }

    fn visit(&mut self, next: PendingDir) -> Result<(), ScanAbort> {
        self.shared.stop.check().map_err(ScanAbort::Stopped)?;
        if next.depth > MAX_DEPTH {
            self.surveyor.visit_unreadable(as_path(&next.path));
            return Ok(());
        }
        let handle = match open_directory(next.parent.as_fd(), &next.name) {
            Ok(handle) => Arc::new(handle),
            Err(errno) => return self.handle_open_error(&next, errno),
        };
        let (names, changed) = self.names(handle.as_fd())?;
        let folder = ScannedDir { handle: handle.as_fd(), path: &next.path, names: &names, changed };
        let pending = &mut self.pending;
        self.surveyor.visit_dir(&folder, &mut |entry| pending.push(next.child(&handle, entry.name)));
        Ok(())
    }

    /// The entries of a directory, read again while it changes: an entry that is renamed during the read may appear in no part of it.
    fn names(&mut self, handle: BorrowedFd<'_>) -> Result<(DirEntries, Duration), ScanAbort> {
        let mut before = changed(handle).map_err(ScanAbort::Failed)?;
        for reading in 1.. {
            let (names, stopped) = DirEntries::read(handle, &mut self.scratch, self.shared.stop, |_| true)
                .map_err(ScanAbort::Failed)?;
            if let Some(reason) = stopped {
                return Err(ScanAbort::Stopped(reason));
            }
            let after = changed(handle).map_err(ScanAbort::Failed)?;
            self.shared.note_ctime(after);
            if after == before {
                return Ok((names, after));
            }
            if reading == MAX_READ_ATTEMPTS {
                self.shared.note_missing();
                return Ok((names, after));
            }
            before = after;
            rustix::fs::seek(handle, rustix::fs::SeekFrom::Start(0)).map_err(ScanAbort::Failed)?;
        }
        Err(ScanAbort::Failed(Errno::AGAIN))
    }

    /// A missing directory was moved or removed concurrently; an inaccessible one is reported; a lack of descriptors or memory is an error.
    fn handle_open_error(&mut self, next: &PendingDir, errno: Errno) -> Result<(), ScanAbort> {
        match errno {
            // Without the start there is no result.
            errno if next.depth == 0 => return Err(ScanAbort::Failed(errno)),
            Errno::ACCESS | Errno::PERM => self.surveyor.visit_unreadable(as_path(&next.path)),
            errno if is_concurrent_change(errno) => self.shared.note_missing(),
            errno => return Err(ScanAbort::Failed(errno)),
        }
        Ok(())
    }
}

impl PendingDir {
    fn child(&self, handle: &Arc<OwnedFd>, name: &CStr) -> Self {
        let mut place = Vec::with_capacity(self.path.len() + 1 + name.count_bytes());
        if !self.path.is_empty() {
            place.extend_from_slice(&self.path);
            place.push(b'/');
        }
        place.extend_from_slice(name.to_bytes());
        Self { parent: Arc::clone(handle), name: name.to_owned(), path: place, depth: self.depth + 1 }
    }
}
