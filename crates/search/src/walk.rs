//! The walk shared by finding and searching: depth first, every directory in the order of its names, on several threads when there is enough work.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use rustix::io::Errno;
use toolgate_types::{CancellationReason, Deadline};

use crate::directory::{
    DirEntries, DirEntry, DirentBuffer, is_concurrent_change, kind_by_stat, open_directory, reopen,
};
use crate::ignore_rules::IgnoreRules;
use crate::path_buffer::{PathBuffer, walk_order};
use crate::walk_filter::WalkFilter;
use crate::work_queue::{WorkQueue, run_workers, thread_count};
use crate::{EntryKind, Error, WalkRoot};

/// How many levels a walk descends. Every level may keep a directory open on every thread, and descriptors are limited.
pub const MAX_DEPTH: usize = 128;

/// How much work must have been done before more threads are worth starting; see [`FileVisitor::visit_file`].
const MIN_WORK_FOR_THREADS: u64 = 256 * 1024;

/// The cost of reading a directory, in the same unit.
const DIR_READ_COST: u64 = 16 * 1024;

/// What a walk could not examine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Files and directories that could not be read.
    pub unreadable: u64,
    /// Directories nested deeper than [`MAX_DEPTH`].
    pub too_deep: u64,
    /// Files and directories for which there was no descriptor: too many files are open (`EMFILE`, `ENFILE`).
    pub no_descriptors: u64,
    /// Binary files; one in which nothing could match is not checked for that.
    pub binary: u64,
    /// Files with a line so long that only its beginning was searched.
    pub long_lines: u64,
}

impl Skipped {
    pub(crate) fn add(&mut self, other: Self) {
        self.unreadable += other.unreadable;
        self.too_deep += other.too_deep;
        self.no_descriptors += other.no_descriptors;
        self.binary += other.binary;
        self.long_lines += other.long_lines;
    }

    /// Counts a failure, unless it only means that the tree was changed concurrently.
    pub(crate) fn failed(&mut self, errno: Errno) {
        match errno {
            Errno::MFILE | Errno::NFILE => self.no_descriptors += 1,
            errno if is_concurrent_change(errno) => {}
            _ => self.unreadable += 1,
        }
    }
}

/// What one thread does with the files.
pub(crate) trait FileVisitor: Send {
    /// Examines what the directory reports as a regular file. Returns the approximate cost in bytes.
    fn visit_file(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &CStr,
        place: &[u8],
    ) -> Result<u64, CancellationReason>;

    /// Whether nothing at this place or after it can be part of the result.
    fn is_past_cutoff(&mut self, place: &[u8]) -> bool;
}

/// The result of a walk.
pub(crate) struct WalkOutcome<V> {
    /// One for every thread that took part.
    pub(crate) visitors: Vec<V>,
    pub(crate) skipped: Skipped,
    pub(crate) stopped: Option<CancellationReason>,
}

/// A directory whose entries are being visited.
struct OpenDir {
    handle: OwnedFd,
    path: Vec<u8>,
    depth: usize,
    rules: Option<Arc<IgnoreRules>>,
    names: DirEntries,
}

/// Some of the entries of a directory: from `next` up to `end`.
struct WalkJob {
    dir: Arc<OpenDir>,
    next: usize,
    end: usize,
}

impl WalkJob {
    fn all_of(folder: OpenDir) -> Self {
        let end = folder.names.len();
        Self { dir: Arc::new(folder), next: 0, end }
    }

    fn remaining(&self) -> usize {
        self.end.saturating_sub(self.next)
    }

    /// Splits off the later half.
    fn split(&mut self) -> Self {
        let middle = self.end - self.remaining() / 2;
        let later = Self { dir: Arc::clone(&self.dir), next: middle, end: self.end };
        self.end = middle;
        later
    }
}

/// Walks everything beneath `start` that `scope` accepts, with a separate visitor for every thread.
pub(crate) fn walk<V: FileVisitor>(
    start: WalkRoot<'_>,
    scope: &WalkFilter<'_>,
    stop: &Deadline,
    visitor: impl Fn() -> V + Sync,
) -> Result<WalkOutcome<V>, Error> {
    let handle = reopen(start.directory)?;
    let above = start.mount.filter(|_| scope.respect_gitignore);
    let above = above.and_then(|mount| IgnoreRules::for_parents(mount, start.names()));
    let (folder, stopped) =
        read_dir(handle, start.path_prefix(), 0, above, scope, stop, &mut DirentBuffer::new())?;
    if stopped.is_some() {
        return Ok(WalkOutcome { visitors: Vec::new(), skipped: Skipped::default(), stopped });
    }
    let shared =
        SharedWalk { scope, stop, queue: WorkQueue::new(WalkJob::all_of(folder)), stopped: OnceLock::new() };
    let workers = run_workers(
        || WalkWorker::new(&shared, visitor(), thread_count() == 1),
        |worker, start_helpers| worker.run(start_helpers),
    );
    let mut skipped = Skipped::default();
    workers.iter().for_each(|worker| skipped.add(worker.skipped));
    let visitors = workers.into_iter().map(|worker| worker.visitor).collect();
    Ok(WalkOutcome { visitors, skipped, stopped: shared.stopped.into_inner() })
}

fn read_dir(
    handle: OwnedFd,
    place: Vec<u8>,
    depth: usize,
    above: Option<Arc<IgnoreRules>>,
    scope: &WalkFilter<'_>,
    stop: &Deadline,
    scratch: &mut DirentBuffer,
) -> Result<(OpenDir, Option<CancellationReason>), Errno> {
    let worth_a_look = |name: DirEntry<'_>| !matches!(name.kind, Some(EntryKind::Symlink | EntryKind::Other));
    let (mut names, stopped) = DirEntries::read(handle.as_fd(), scratch, stop, worth_a_look)?;
    names.sort();
    let rules = if scope.respect_gitignore {
        IgnoreRules::for_directory(handle.as_fd(), &place, &names, above)
    } else {
        None
    };
    Ok((OpenDir { handle, path: place, depth, rules, names }, stopped))
}

/// State shared by all threads of a walk.
struct SharedWalk<'a> {
    scope: &'a WalkFilter<'a>,
    stop: &'a Deadline,
    queue: WorkQueue<WalkJob>,
    stopped: OnceLock<CancellationReason>,
}

impl SharedWalk<'_> {
    fn stop_now(&self, reason: CancellationReason) {
        self.stopped.get_or_init(|| reason);
        self.queue.close();
    }
}

/// One thread of a walk.
struct WalkWorker<'a, V> {
    shared: &'a SharedWalk<'a>,
    visitor: V,
    path: PathBuffer,
    scratch: DirentBuffer,
    skipped: Skipped,
    work: u64,
    has_helpers: bool,
}

/// How far a job got.
enum JobProgress {
    /// It is done, or its rest is past the cutoff.
    Done,
    /// A directory was met: continue with its entries. The rest of the job is back in the queue.
    Descend(WalkJob),
    /// There is enough work for more threads.
    Split(WalkJob),
}

impl<'a, V: FileVisitor> WalkWorker<'a, V> {
    fn new(shared: &'a SharedWalk<'a>, visitor: V, has_helpers: bool) -> Self {
        let (path, scratch, skipped) = (PathBuffer::of(b""), DirentBuffer::new(), Skipped::default());
        Self { shared, visitor, path, scratch, skipped, work: 0, has_helpers }
    }

    fn run(&mut self, start_helpers: &mut dyn FnMut()) {
        while let Some(mut taken) = self.shared.queue.take() {
            let mut job = taken.job();
            while let Some(current) = job {
                job = match self.step(current) {
                    Ok(JobProgress::Done) => None,
                    Ok(JobProgress::Descend(job)) => Some(job),
                    Ok(JobProgress::Split(job)) => {
                        start_helpers();
                        self.has_helpers = true;
                        Some(job)
                    }
                    Err(reason) => return self.shared.stop_now(reason),
                };
            }
        }
    }

    /// Visits files until there is a directory to descend into.
    fn step(&mut self, mut job: WalkJob) -> Result<JobProgress, CancellationReason> {
        let folder = Arc::clone(&job.dir);
        self.path.enter(&folder.path);
        while job.remaining() > 0 {
            self.shared.stop.check()?;
            if !self.has_helpers && self.work > MIN_WORK_FOR_THREADS {
                return Ok(JobProgress::Split(job));
            }
            if job.remaining() > 1 && self.shared.queue.has_idle_worker() {
                self.shared.queue.push(job.split());
            }
            let Some(name) = folder.names.get(job.next) else { break };
            job.next += 1;
            self.path.child(name.bytes());
            if self.shared.scope.is_past(self.path.bytes()) {
                continue;
            }
            if self.visitor.is_past_cutoff(self.path.bytes()) {
                break;
            }
            if let Some(child) = self.entry(&folder, name)? {
                if job.remaining() > 0 {
                    self.shared.queue.push(job);
                }
                return Ok(JobProgress::Descend(child));
            }
        }
        Ok(JobProgress::Done)
    }

    /// Visits the entry at the current place; a directory becomes the next job.
    fn entry(&mut self, folder: &OpenDir, name: DirEntry<'_>) -> Result<Option<WalkJob>, CancellationReason> {
        let handle = folder.handle.as_fd();
        let Some(kind) = name.kind.or_else(|| kind_by_stat(handle, name.text).ok()) else { return Ok(None) };
        if !matches!(kind, EntryKind::File | EntryKind::Directory)
            || !self.shared.scope.accepts(name, kind, self.path.bytes(), folder.rules.as_ref())
        {
            return Ok(None);
        }
        if kind == EntryKind::Directory {
            return self.descend(folder, name);
        }
        // A directory before `after` may contain later paths; a file at or before it is not wanted.
        if self.shared.scope.after.is_some_and(|after| walk_order(self.path.bytes(), after).is_le()) {
            return Ok(None);
        }
        self.work += self.visitor.visit_file(handle, name.text, self.path.bytes())?;
        Ok(None)
    }

    fn descend(
        &mut self,
        folder: &OpenDir,
        name: DirEntry<'_>,
    ) -> Result<Option<WalkJob>, CancellationReason> {
        self.work += DIR_READ_COST;
        let depth = folder.depth + 1;
        if depth > MAX_DEPTH {
            self.skipped.too_deep += 1;
            return Ok(None);
        }
        let SharedWalk { scope, stop, .. } = self.shared;
        let place = self.path.bytes().to_vec();
        let read = open_directory(folder.handle.as_fd(), name.text).and_then(|handle| {
            read_dir(handle, place, depth, folder.rules.clone(), scope, stop, &mut self.scratch)
        });
        match read {
            Ok((_, Some(reason))) => Err(reason),
            Ok((folder, None)) => Ok(Some(WalkJob::all_of(folder))),
            Err(errno) => {
                self.skipped.failed(errno);
                Ok(None)
            }
        }
    }
}
