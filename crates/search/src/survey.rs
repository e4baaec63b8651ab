//! Everything beneath a directory: all names and kinds, hidden and ignored ones too.
//!
//! Finding and searching leave out what nobody wants to see. This walk is for those who must know all that there is, before and after somebody
//! else is let loose in the tree. It reads directories and nothing else: no entry is opened or looked up that the directory itself describes.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, Scope as Threads};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::fstat;
use rustix::io::Errno;
use toolgate_types::{Cancellation, CancellationReason};

use crate::folder::{Names, Scratch, is_change, kind_by_stat, open_directory, reopen};
use crate::place::as_path;
use crate::queue::Queue;
use crate::walk::{MAX_DEPTH, finished, thread_count};
use crate::{EntryKind, Error};

/// How many directories one thread reads before others are worth starting.
const WORTH_A_THREAD: usize = 48;

/// How often a directory that changes while it is read is read again.
const READINGS: usize = 16;

/// By how much the time stamps of a filesystem may lag behind the clock: they are taken from the kernel's last tick.
const LAG: Duration = Duration::from_millis(20);

/// A directory that has been read.
pub struct SurveyedFolder<'a> {
    handle: BorrowedFd<'a>,
    place: &'a [u8],
    names: &'a Names,
    changed: Duration,
}

/// An entry of it.
#[derive(Clone, Copy, Debug)]
pub struct SurveyedEntry<'a> {
    /// A single name.
    pub name: &'a CStr,
    /// What it is; a link is a link.
    pub kind: EntryKind,
}

impl<'a> SurveyedFolder<'a> {
    /// The open directory, to look closer at one of its entries.
    #[must_use]
    pub fn handle(&self) -> BorrowedFd<'a> {
        self.handle
    }

    /// Where it is, relative to the start; empty for the start itself.
    #[must_use]
    pub fn place(&self) -> &'a Path {
        as_path(self.place)
    }

    /// When it last changed (`st_ctime`), since the beginning of time as the filesystem counts it: nothing has got a name in it since.
    #[must_use]
    pub fn changed(&self) -> Duration {
        self.changed
    }

    /// All that is in it, in the order of the filesystem.
    pub fn entries(&self) -> impl Iterator<Item = SurveyedEntry<'a>> {
        let handle = self.handle;
        self.names.iter().filter_map(move |name| {
            let kind = name.kind.or_else(|| kind_by_stat(handle, name.text).ok())?;
            Some(SurveyedEntry { name: name.text, kind })
        })
    }
}

/// What one thread does with the directories it meets.
pub trait Surveyor: Send {
    /// Looks at a directory, and enters those of its entries that are directories to go into.
    fn folder(&mut self, folder: &SurveyedFolder<'_>, enter: &mut dyn FnMut(SurveyedEntry<'_>));

    /// A directory that was to be entered cannot be read, or lies too deep.
    fn closed(&mut self, place: &Path);
}

/// What a survey leaves behind.
pub struct Surveyed<S> {
    /// One for every thread that took part.
    pub surveyors: Vec<S>,
    /// Whether somebody changed directories meanwhile, so that something may have been moved past us.
    pub restless: bool,
    /// Whether a directory was gone before it could be read, or changed all the while it was: something was certainly not seen where it is.
    pub missed: bool,
    /// Why the survey ended before all was seen.
    pub stopped: Option<CancellationReason>,
}

/// A time that no filesystem gives to what changes from now on: what has it or a later one may be new, what has an earlier one is not.
#[must_use]
pub fn earliest_timestamp() -> Duration {
    let moment = SystemTime::now().checked_sub(LAG);
    moment.and_then(|moment| moment.duration_since(UNIX_EPOCH).ok()).unwrap_or_default()
}

/// Reads every directory beneath this one, on several threads when there are many.
///
/// # Errors
/// [`Error::NotADirectory`], or [`Error::Unreadable`] when the system fails in a way that says nothing about a single directory.
pub fn survey<S: Surveyor>(
    directory: BorrowedFd<'_>,
    stop: &Cancellation,
    surveyor: impl Fn() -> S + Sync,
) -> Result<Surveyed<S>, Error> {
    let root =
        Pending { parent: Arc::new(reopen(directory)?), name: c".".into(), place: Vec::new(), depth: 0 };
    let shared = Shared {
        stop,
        begun: earliest_timestamp(),
        queue: Queue::new(vec![root]),
        restless: AtomicBool::new(false),
        missed: AtomicBool::new(false),
        ended: OnceLock::new(),
    };
    let workers = std::thread::scope(|threads| shared.run_on(threads, &surveyor));
    let surveyors = workers.into_iter().map(|worker| worker.surveyor).collect();
    let stopped = match shared.ended.into_inner() {
        Some(Ending::Failed(errno)) => return Err(errno.into()),
        Some(Ending::Stopped(reason)) => Some(reason),
        None => None,
    };
    let (restless, missed) = (shared.restless.into_inner(), shared.missed.into_inner());
    Ok(Surveyed { surveyors, restless, missed, stopped })
}

/// A directory to be read.
struct Pending {
    parent: Arc<OwnedFd>,
    name: CString,
    place: Vec<u8>,
    depth: usize,
}

/// Why a survey ended early.
enum Ending {
    Stopped(CancellationReason),
    Failed(Errno),
}

/// What all threads see.
struct Shared<'a> {
    stop: &'a Cancellation,
    /// Since the beginning of time as the filesystem counts it.
    begun: Duration,
    queue: Queue<Vec<Pending>>,
    restless: AtomicBool,
    missed: AtomicBool,
    ended: OnceLock<Ending>,
}

impl Shared<'_> {
    fn run_on<'scope, 'env, S: Surveyor + 'env>(
        &'env self,
        threads: &'scope Threads<'scope, 'env>,
        surveyor: &'env (impl Fn() -> S + Sync),
    ) -> Vec<Worker<'env, S>> {
        let mut helpers = Vec::new();
        let mut first = Worker::new(self, surveyor());
        first.run(&mut || {
            for _ in 1..thread_count() {
                let help = move || {
                    let mut worker = Worker::new(self, surveyor());
                    worker.run(&mut || {});
                    worker
                };
                // Without another thread the survey is slower, and otherwise the same.
                helpers.extend(Builder::new().spawn_scoped(threads, help).ok());
            }
        });
        let mut workers = vec![first];
        workers.extend(helpers.into_iter().map(finished));
        workers
    }

    fn end(&self, ending: Ending) {
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

    /// Asked after a directory was read: had somebody taken an entry away while it was not yet read, that would show.
    fn note_time(&self, changed: Duration) {
        if changed >= self.begun {
            self.note_change();
        }
    }
}

/// When a directory last changed, since the beginning of time as the filesystem counts it.
fn changed(handle: BorrowedFd<'_>) -> Result<Duration, Errno> {
    let stat = fstat(handle)?;
    let seconds = u64::try_from(stat.st_ctime).unwrap_or(0);
    let nanos = u32::try_from(stat.st_ctime_nsec).unwrap_or(0);
    Ok(Duration::new(seconds, nanos))
}

/// One thread of a survey.
struct Worker<'a, S> {
    shared: &'a Shared<'a>,
    surveyor: S,
    scratch: Scratch,
    pending: Vec<Pending>,
    folders: usize,
}

impl<'a, S: Surveyor> Worker<'a, S> {
    fn new(shared: &'a Shared<'a>, surveyor: S) -> Self {
        Self { shared, surveyor, scratch: Scratch::new(), pending: Vec::new(), folders: 0 }
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
                if self.folders == WORTH_A_THREAD {
                    start_helpers();
                }
                self.share();
            }
        }
    }

    /// Gives the directories that were met first, and lie highest, to a thread that has nothing to do.
    fn share(&mut self) {
        if self.pending.len() > 1 && self.shared.queue.somebody_waits() {
            let half = self.pending.len() / 2;
            self.shared.queue.push(self.pending.drain(..half).collect());
        }
    }

    fn visit(&mut self, next: Pending) -> Result<(), Ending> {
        self.shared.stop.check().map_err(Ending::Stopped)?;
        if next.depth > MAX_DEPTH {
            self.surveyor.closed(as_path(&next.place));
            return Ok(());
        }
        let handle = match open_directory(next.parent.as_fd(), &next.name) {
            Ok(handle) => Arc::new(handle),
            Err(errno) => return self.not_opened(&next, errno),
        };
        let (names, changed) = self.names(handle.as_fd())?;
        let folder = SurveyedFolder { handle: handle.as_fd(), place: &next.place, names: &names, changed };
        let pending = &mut self.pending;
        self.surveyor.folder(&folder, &mut |entry| pending.push(next.child(&handle, entry.name)));
        Ok(())
    }

    /// What is in a directory, read again as long as it changes meanwhile: an entry that gets another name may be in none of the parts that were read.
    fn names(&mut self, handle: BorrowedFd<'_>) -> Result<(Names, Duration), Ending> {
        let mut before = changed(handle).map_err(Ending::Failed)?;
        for reading in 1.. {
            let (names, stopped) =
                Names::read(handle, &mut self.scratch, self.shared.stop, |_| true).map_err(Ending::Failed)?;
            if let Some(reason) = stopped {
                return Err(Ending::Stopped(reason));
            }
            let after = changed(handle).map_err(Ending::Failed)?;
            self.shared.note_time(after);
            if after == before {
                return Ok((names, after));
            }
            if reading == READINGS {
                self.shared.note_missing();
                return Ok((names, after));
            }
            before = after;
            rustix::fs::seek(handle, rustix::fs::SeekFrom::Start(0)).map_err(Ending::Failed)?;
        }
        Err(Ending::Failed(Errno::AGAIN))
    }

    /// What is gone was moved or removed meanwhile; what is closed to us is told; a system without handles or memory is an error.
    fn not_opened(&mut self, next: &Pending, errno: Errno) -> Result<(), Ending> {
        match errno {
            // Without the start there is nothing to tell.
            errno if next.depth == 0 => return Err(Ending::Failed(errno)),
            Errno::ACCESS | Errno::PERM => self.surveyor.closed(as_path(&next.place)),
            errno if is_change(errno) => self.shared.note_missing(),
            errno => return Err(Ending::Failed(errno)),
        }
        Ok(())
    }
}

impl Pending {
    fn child(&self, handle: &Arc<OwnedFd>, name: &CStr) -> Self {
        let mut place = Vec::with_capacity(self.place.len() + 1 + name.count_bytes());
        if !self.place.is_empty() {
            place.extend_from_slice(&self.place);
            place.push(b'/');
        }
        place.extend_from_slice(name.to_bytes());
        Self { parent: Arc::clone(handle), name: name.to_owned(), place, depth: self.depth + 1 }
    }
}
