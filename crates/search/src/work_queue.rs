//! A work queue shared by several threads: last in, first out, until all jobs are done.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, ScopedJoinHandle};

/// How many threads a walk uses at most; one call must not occupy the whole machine.
const MAX_THREADS: usize = 4;

/// A stack of jobs. Taking the newest first keeps a walk deep rather than wide, so that few directories are open.
pub(crate) struct WorkQueue<J> {
    state: Mutex<QueueState<J>>,
    changed: Condvar,
    waiting: AtomicUsize,
}

struct QueueState<J> {
    jobs: Vec<J>,
    busy: usize,
    closed: bool,
}

impl<J> WorkQueue<J> {
    pub(crate) fn new(first: J) -> Self {
        let state = QueueState { jobs: vec![first], busy: 0, closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), waiting: AtomicUsize::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job. The calling thread must hold a job itself: otherwise all workers may already have exited.
    pub(crate) fn push(&self, job: J) {
        let mut state = self.lock();
        if !state.closed {
            state.jobs.push(job);
            drop(state);
            if self.has_idle_worker() {
                self.changed.notify_one();
            }
        }
    }

    /// Whether a thread is idle. Only a hint: it may be outdated.
    pub(crate) fn has_idle_worker(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// The next job; blocks while other threads may still add one. `None` when all are done.
    pub(crate) fn take(&self) -> Option<JobGuard<'_, J>> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop() {
                state.busy += 1;
                return Some(JobGuard { queue: self, job: Some(job) });
            }
            if state.busy == 0 || state.closed {
                return None;
            }
            self.waiting.fetch_add(1, Ordering::Relaxed);
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Drops all jobs and accepts no more.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let dropped = std::mem::take(&mut state.jobs);
        drop(state);
        drop(dropped);
        self.changed.notify_all();
    }
}

/// A job in progress. It counts as busy until this is dropped, also by a panic, so that no other thread blocks forever.
pub(crate) struct JobGuard<'q, J> {
    queue: &'q WorkQueue<J>,
    job: Option<J>,
}

impl<J> JobGuard<'_, J> {
    /// The job; `None` after the first call.
    pub(crate) fn job(&mut self) -> Option<J> {
        self.job.take()
    }
}

impl<J> Drop for JobGuard<'_, J> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.busy -= 1;
        if state.busy == 0 {
            drop(state);
            self.queue.changed.notify_all();
        }
    }
}

/// Runs a worker on the calling thread, and more on threads of their own once it asks for them. Returns every worker that took part.
pub(crate) fn run_workers<W: Send>(
    worker: impl Fn() -> W + Sync,
    run: impl Fn(&mut W, &mut dyn FnMut()) + Sync,
) -> Vec<W> {
    std::thread::scope(|threads| {
        let (worker, run) = (&worker, &run);
        let mut helpers = Vec::new();
        let mut first = worker();
        run(&mut first, &mut || {
            for _ in 1..thread_count() {
                let help = move || {
                    let mut helper = worker();
                    run(&mut helper, &mut || {});
                    helper
                };
                // Without another thread the walk is slower, and otherwise the same.
                helpers.extend(Builder::new().spawn_scoped(threads, help).ok());
            }
        });
        let mut workers = vec![first];
        workers.extend(helpers.into_iter().map(join_or_propagate));
        workers
    })
}

/// Propagates a panic of another thread.
fn join_or_propagate<T>(helper: ScopedJoinHandle<'_, T>) -> T {
    helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Determined once, because it takes several system calls.
pub(crate) fn thread_count() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT
        .get_or_init(|| std::thread::available_parallelism().map_or(1, |count| count.get().min(MAX_THREADS)))
}
