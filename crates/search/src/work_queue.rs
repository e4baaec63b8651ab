//! A work queue shared by several threads: last in, first out, until all jobs are done.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

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
