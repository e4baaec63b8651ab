//! The walk that finding and searching share: depth first, every directory in the order of its names, on several
//! threads when there is enough to do.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, Scope as Threads, ScopedJoinHandle};

use rustix::io::Errno;
use toolgate_types::{Cancellation, CancellationReason};

use crate::folder::{Name, Names, Scratch, is_change, kind_by_stat, open_directory, reopen};
use crate::ignored::IgnoreRules;
use crate::place::{Place, walk_order};
use crate::queue::Queue;
use crate::scope::Scope;
use crate::{EntryKind, Error, Start};

/// How many levels a walk goes down. Every level may keep a directory open on every thread, and handles are scarce.
pub const MAX_DEPTH: usize = 128;

/// How many threads a walk takes at most; one call must not take the whole machine.
const MOST_THREADS: usize = 4;

/// How much work must have been done before another thread is worth starting; see [`Visitor::file`].
const WORTH_A_THREAD: u64 = 256 * 1024;

/// What reading a directory counts for in that reckoning.
const FOLDER_WORK: u64 = 16 * 1024;

/// What a walk did not look at although it was asked to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Files and directories that the operating system did not let us read.
    pub unreadable: u64,
    /// Directories nested deeper than [`MAX_DEPTH`].
    pub too_deep: u64,
    /// Files and directories for which there was no descriptor: too many files are open (`EMFILE`, `ENFILE`).
    pub no_descriptors: u64,
    /// Files that turned out not to be text; one in which nothing could match is not looked at so closely.
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

    /// Counts a failure, unless somebody else has merely changed the tree meanwhile.
    pub(crate) fn failed(&mut self, errno: Errno) {
        match errno {
            Errno::MFILE | Errno::NFILE => self.no_descriptors += 1,
            errno if is_change(errno) => {}
            _ => self.unreadable += 1,
        }
    }
}

/// What one thread does with the files it meets.
pub(crate) trait Visitor: Send {
    /// Looks at what the directory says is a regular file. The answer is roughly how many bytes that took.
    fn file(&mut self, folder: BorrowedFd<'_>, name: &CStr, place: &[u8]) -> Result<u64, CancellationReason>;

    /// Whether nothing at this place or after it can matter any more.
    fn is_beyond(&mut self, place: &[u8]) -> bool;
}

/// What a walk leaves behind.
pub(crate) struct Walked<V> {
    /// One for every thread that took part.
    pub(crate) visitors: Vec<V>,
    pub(crate) skipped: Skipped,
    pub(crate) stopped: Option<CancellationReason>,
}

/// A directory whose entries are being looked at.
struct Folder {
    handle: OwnedFd,
    place: Vec<u8>,
    depth: usize,
    rules: Option<Arc<IgnoreRules>>,
    names: Names,
}

/// Some of the entries of a directory: from `next` up to `end`.
struct Job {
    folder: Arc<Folder>,
    next: usize,
    end: usize,
}

impl Job {
    fn all_of(folder: Folder) -> Self {
        let end = folder.names.len();
        Self { folder: Arc::new(folder), next: 0, end }
    }

    fn left(&self) -> usize {
        self.end.saturating_sub(self.next)
    }

    /// Gives away the later half.
    fn split(&mut self) -> Self {
        let middle = self.end - self.left() / 2;
        let later = Self { folder: Arc::clone(&self.folder), next: middle, end: self.end };
        self.end = middle;
        later
    }
}

/// Walks everything beneath `start` that `scope` takes, with a visitor of its own for every thread.
pub(crate) fn walk<V: Visitor>(
    start: Start<'_>,
    scope: &Scope<'_>,
    stop: &Cancellation,
    visitor: impl Fn() -> V + Sync,
) -> Result<Walked<V>, Error> {
    let handle = reopen(start.directory)?;
    let above = start.mount.filter(|_| scope.respect_gitignore);
    let above = above.and_then(|mount| IgnoreRules::above(mount, start.names()));
    let (folder, stopped) = read_folder(handle, start.place(), 0, above, scope, stop, &mut Scratch::new())?;
    if stopped.is_some() {
        return Ok(Walked { visitors: Vec::new(), skipped: Skipped::default(), stopped });
    }
    let shared = Shared { scope, stop, queue: Queue::new(Job::all_of(folder)), stopped: OnceLock::new() };
    let workers = std::thread::scope(|threads| shared.run_on(threads, &visitor));
    let mut skipped = Skipped::default();
    workers.iter().for_each(|worker| skipped.add(worker.skipped));
    let visitors = workers.into_iter().map(|worker| worker.visitor).collect();
    Ok(Walked { visitors, skipped, stopped: shared.stopped.into_inner() })
}

fn read_folder(
    handle: OwnedFd,
    place: Vec<u8>,
    depth: usize,
    above: Option<Arc<IgnoreRules>>,
    scope: &Scope<'_>,
    stop: &Cancellation,
    scratch: &mut Scratch,
) -> Result<(Folder, Option<CancellationReason>), Errno> {
    let worth_a_look = |name: Name<'_>| !matches!(name.kind, Some(EntryKind::Symlink | EntryKind::Other));
    let (mut names, stopped) = Names::read(handle.as_fd(), scratch, stop, worth_a_look)?;
    names.sort();
    let rules =
        if scope.respect_gitignore { IgnoreRules::here(handle.as_fd(), &place, &names, above) } else { None };
    Ok((Folder { handle, place, depth, rules, names }, stopped))
}

/// What all threads of a walk see.
struct Shared<'a> {
    scope: &'a Scope<'a>,
    stop: &'a Cancellation,
    queue: Queue<Job>,
    stopped: OnceLock<CancellationReason>,
}

impl Shared<'_> {
    /// Works on the calling thread, and starts others as soon as there is enough for them.
    fn run_on<'scope, 'env, V: Visitor + 'env>(
        &'env self,
        threads: &'scope Threads<'scope, 'env>,
        visitor: &'env (impl Fn() -> V + Sync),
    ) -> Vec<Worker<'env, V>> {
        let mut helpers = Vec::new();
        let mut first = Worker::new(self, visitor(), thread_count() == 1);
        first.run(&mut || {
            for _ in 1..thread_count() {
                let help = move || {
                    let mut worker = Worker::new(self, visitor(), true);
                    worker.run(&mut || {});
                    worker
                };
                // Without another thread the walk is slower, and otherwise the same.
                helpers.extend(Builder::new().spawn_scoped(threads, help).ok());
            }
        });
        let mut workers = vec![first];
        workers.extend(helpers.into_iter().map(finished));
        workers
    }

    fn stop_now(&self, reason: CancellationReason) {
        self.stopped.get_or_init(|| reason);
        self.queue.close();
    }
}

/// A panic on another thread goes on here, as if it had happened on this one.
pub(crate) fn finished<T>(helper: ScopedJoinHandle<'_, T>) -> T {
    helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Asked once, because the answer takes several system calls.
pub(crate) fn thread_count() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT
        .get_or_init(|| std::thread::available_parallelism().map_or(1, |count| count.get().min(MOST_THREADS)))
}

/// One thread of a walk.
struct Worker<'a, V> {
    shared: &'a Shared<'a>,
    visitor: V,
    place: Place,
    scratch: Scratch,
    skipped: Skipped,
    work: u64,
    has_helpers: bool,
}

/// Why a job was left.
enum Left {
    /// It is done, or the rest of it does not matter.
    Done,
    /// A directory was met: go on with what is in it. The rest was left to whoever comes first.
    Into(Job),
    /// There is enough work for more threads.
    ForHelp(Job),
}

impl<'a, V: Visitor> Worker<'a, V> {
    fn new(shared: &'a Shared<'a>, visitor: V, has_helpers: bool) -> Self {
        let (place, scratch, skipped) = (Place::of(b""), Scratch::new(), Skipped::default());
        Self { shared, visitor, place, scratch, skipped, work: 0, has_helpers }
    }

    fn run(&mut self, start_helpers: &mut dyn FnMut()) {
        while let Some(mut taken) = self.shared.queue.take() {
            let mut job = taken.job();
            while let Some(current) = job {
                job = match self.step(current) {
                    Ok(Left::Done) => None,
                    Ok(Left::Into(job)) => Some(job),
                    Ok(Left::ForHelp(job)) => {
                        start_helpers();
                        self.has_helpers = true;
                        Some(job)
                    }
                    Err(reason) => return self.shared.stop_now(reason),
                };
            }
        }
    }

    /// Looks at files until there is a directory to go into.
    fn step(&mut self, mut job: Job) -> Result<Left, CancellationReason> {
        let folder = Arc::clone(&job.folder);
        self.place.enter(&folder.place);
        while job.left() > 0 {
            self.shared.stop.check()?;
            if !self.has_helpers && self.work > WORTH_A_THREAD {
                return Ok(Left::ForHelp(job));
            }
            if job.left() > 1 && self.shared.queue.somebody_waits() {
                self.shared.queue.push(job.split());
            }
            let Some(name) = folder.names.get(job.next) else { break };
            job.next += 1;
            self.place.child(name.bytes());
            if self.shared.scope.is_past(self.place.bytes()) {
                continue;
            }
            if self.visitor.is_beyond(self.place.bytes()) {
                break;
            }
            if let Some(child) = self.entry(&folder, name)? {
                if job.left() > 0 {
                    self.shared.queue.push(job);
                }
                return Ok(Left::Into(child));
            }
        }
        Ok(Left::Done)
    }

    /// Looks at the entry at the current place; a directory becomes the next job.
    fn entry(&mut self, folder: &Folder, name: Name<'_>) -> Result<Option<Job>, CancellationReason> {
        let handle = folder.handle.as_fd();
        let Some(kind) = name.kind.or_else(|| kind_by_stat(handle, name.text).ok()) else { return Ok(None) };
        if !matches!(kind, EntryKind::File | EntryKind::Directory)
            || !self.shared.scope.takes(name, kind, self.place.bytes(), folder.rules.as_ref())
        {
            return Ok(None);
        }
        if kind == EntryKind::Directory {
            return self.descend(folder, name);
        }
        // A folder may lead to the last place, or lie there now; a file there, or on the way, comes before what is wanted.
        if self.shared.scope.after.is_some_and(|after| walk_order(self.place.bytes(), after).is_le()) {
            return Ok(None);
        }
        self.work += self.visitor.file(handle, name.text, self.place.bytes())?;
        Ok(None)
    }

    fn descend(&mut self, folder: &Folder, name: Name<'_>) -> Result<Option<Job>, CancellationReason> {
        self.work += FOLDER_WORK;
        let depth = folder.depth + 1;
        if depth > MAX_DEPTH {
            self.skipped.too_deep += 1;
            return Ok(None);
        }
        let Shared { scope, stop, .. } = self.shared;
        let place = self.place.bytes().to_vec();
        let read = open_directory(folder.handle.as_fd(), name.text).and_then(|handle| {
            read_folder(handle, place, depth, folder.rules.clone(), scope, stop, &mut self.scratch)
        });
        match read {
            Ok((_, Some(reason))) => Err(reason),
            Ok((folder, None)) => Ok(Some(Job::all_of(folder))),
            Err(errno) => {
                self.skipped.failed(errno);
                Ok(None)
            }
        }
    }
}
