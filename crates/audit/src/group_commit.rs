//! Group commit: many records, one fsync.
//!
//! Each write gets a number. A round writes the queue, syncs everything written before it started, and so settles all numbers up to that point; later
//! writes are settled by the next round. A waiting thread leads a round itself; for tasks, which must not block, a worker thread does.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use toolgate_types::CallId;

use crate::dirty_files::DirtyFile;
use crate::writer::ChainPosition;
use crate::{AuditError, lock};

/// The longest that a round waits for more records before it starts.
const MAX_BATCH_WINDOW: Duration = Duration::from_millis(2);
/// How many other tasks a task wakes when it finds its own number settled.
const WAKE_FANOUT: usize = 8;

/// A record waiting to be written in the next round.
pub(crate) struct QueuedRecord {
    pub(crate) number: u64,
    pub(crate) call: CallId,
    pub(crate) body: Vec<u8>,
    /// Whether its ticket was dropped.
    abandoned: bool,
}

/// The result of writing the queue.
#[derive(Default)]
pub(crate) struct FlushResult {
    /// What must be synced: a file, and its directory if the name is new.
    pub(crate) dirty: [Option<DirtyFile>; 2],
    /// The checkpoints that are due: at the end of a day, and every `checkpoint_every` records.
    pub(crate) due_checkpoints: Vec<ChainPosition>,
    /// Why the queue was not written, if it was not.
    pub(crate) rejected: Option<AuditError>,
}

/// The operations of the log that a round needs.
pub(crate) trait CommitBackend {
    /// Writes queued records: all of them or none.
    fn flush(&self, queue: &[QueuedRecord]) -> FlushResult;
    /// Signs a checkpoint.
    fn sign_checkpoint(&self, mark: ChainPosition);
    /// Called once, when a sync fails: there may be no waiting ticket to report it.
    fn report_not_durable(&self, error: &AuditError);
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum WorkerState {
    #[default]
    Absent,
    Idle,
    Busy,
}

#[derive(Default)]
struct CommitState {
    /// The highest number issued.
    issued: u64,
    /// The highest number settled.
    synced: u64,
    /// The highest number that a task waits for.
    wanted: u64,
    queue: Vec<QueuedRecord>,
    /// Queued records that could not be written, until their tickets have reported it.
    rejected: HashMap<u64, AuditError>,
    dirty: Vec<DirtyFile>,
    /// Records to sign as soon as their number is settled.
    due_checkpoints: Vec<(u64, ChainPosition)>,
    wakers: Vec<(u64, Waker)>,
    round_running: bool,
    /// The number at which the batching window ends early; 0 outside of it.
    batch_target: u64,
    /// How many began to wait since the last round ended.
    waiters: u64,
    last_batch: u64,
    last_sync_duration: Duration,
    /// After a failed sync the kernel may have dropped the dirty pages: nothing later is safe.
    failure: Option<AuditError>,
    worker: WorkerState,
    thread: Option<JoinHandle<()>>,
    closing: bool,
}

impl CommitState {
    fn settled(&self, number: u64) -> Option<Result<(), AuditError>> {
        if self.synced < number {
            return self.failure.clone().map(Err);
        }
        Some(self.rejected.get(&number).cloned().map_or(Ok(()), Err))
    }

    fn mark_dirty(&mut self, unsynced: impl IntoIterator<Item = DirtyFile>) {
        for new in unsynced {
            if !self.dirty.iter().any(|known| known.is_same_file(&new)) {
                self.dirty.push(new);
            }
        }
    }

    /// Issues the next number, and returns whether that ends the batching window of a round.
    fn next_number(&mut self) -> (u64, bool) {
        self.issued += 1;
        let ends_window = self.batch_target != 0 && self.issued >= self.batch_target;
        if ends_window {
            self.batch_target = 0;
        }
        (self.issued, ends_window)
    }

    /// Takes an idle worker, and returns whether it must be woken.
    fn takes_worker(&mut self) -> bool {
        let is_idle = self.worker == WorkerState::Idle;
        if is_idle {
            self.worker = WorkerState::Busy;
        }
        is_idle
    }

    /// Whether a round is needed. After a failed sync, only to write the queue.
    fn needs_round(&self) -> bool {
        !self.queue.is_empty() || (self.failure.is_none() && self.wanted > self.synced)
    }

    fn take_due_checkpoints(&mut self) -> Vec<ChainPosition> {
        let synced = self.synced;
        let mut marks: Vec<ChainPosition> = self
            .due_checkpoints
            .extract_if(.., |(number, _)| *number <= synced)
            .map(|(_, mark)| mark)
            .collect();
        marks.sort_unstable_by_key(|mark| mark.seq);
        marks
    }
}

/// The result of registering a waker.
pub(crate) enum WakerRegistration {
    /// There is nothing to wait for.
    Settled(Result<(), AuditError>),
    /// The task will be woken.
    Registered,
    /// The task will be woken if the caller ensures that there is a worker.
    NoWorker,
}

/// Numbers, rounds and waiters.
#[derive(Default)]
pub(crate) struct GroupCommit {
    state: Mutex<CommitState>,
    /// Wakes the worker, and a round in its batching window.
    work: Condvar,
    /// Wakes threads that wait for a round led by another.
    done: Condvar,
    /// Mirrors the state's `synced`.
    synced: AtomicU64,
    /// Whether a queued record was ever rejected.
    any_rejected: AtomicBool,
    /// Tasks to be woken.
    ready: Mutex<VecDeque<Waker>>,
}

impl GroupCommit {
    /// Issues the number of something that was just written.
    pub(crate) fn issue(&self, unsynced: impl IntoIterator<Item = DirtyFile>) -> u64 {
        let mut state = lock(&self.state);
        state.mark_dirty(unsynced);
        let (number, wakes) = state.next_number();
        self.unlock(state, wakes);
        number
    }

    /// Issues the number of a record that the next round will write, and returns whether there is a worker. If not, the caller must start one: queued
    /// records are written even if no ticket is waited for.
    pub(crate) fn enqueue(&self, call: CallId, body: Vec<u8>) -> (u64, bool) {
        let mut state = lock(&self.state);
        let (number, ends_window) = state.next_number();
        state.queue.push(QueuedRecord { number, call, body, abandoned: false });
        let wakes = state.takes_worker() | ends_window;
        let has_worker = state.worker != WorkerState::Absent;
        self.unlock(state, wakes);
        (number, has_worker)
    }

    /// Wakes the worker only once the lock is free: woken before, it would find the lock held and wait again (`FUTEX_WAIT`).
    fn unlock(&self, state: MutexGuard<'_, CommitState>, wakes: bool) {
        drop(state);
        if wakes {
            self.work.notify_all();
        }
    }

    /// Drops the state kept for the ticket of a queued record.
    pub(crate) fn release_ticket(&self, number: u64) {
        if self.is_known_synced(number) {
            return;
        }
        let mut state = lock(&self.state);
        state.rejected.remove(&number);
        if let Some(queued) = state.queue.iter_mut().rfind(|queued| queued.number == number) {
            queued.abandoned = true;
        }
    }

    /// Whether a number is settled successfully, without taking the lock.
    fn is_known_synced(&self, number: u64) -> bool {
        // In this order: a rejection is stored before its number is settled.
        self.synced.load(Ordering::Acquire) >= number && !self.any_rejected.load(Ordering::Acquire)
    }

    /// Stops tracking a file that no longer needs a sync.
    pub(crate) fn forget_file(&self, gone: &DirtyFile) {
        lock(&self.state).dirty.retain(|known| !known.is_same_file(gone));
    }

    /// Why nothing more can be settled, if a sync failed.
    pub(crate) fn failure(&self) -> Option<AuditError> {
        lock(&self.state).failure.clone()
    }

    /// The result of a number, if it is settled.
    pub(crate) fn settled(&self, number: u64) -> Option<Result<(), AuditError>> {
        lock(&self.state).settled(number)
    }

    /// Blocks until the number is settled.
    pub(crate) fn wait(&self, number: u64, log: &dyn CommitBackend) -> Result<(), AuditError> {
        let mut state = lock(&self.state);
        if state.settled(number).is_none() {
            state.waiters += 1;
        }
        loop {
            if let Some(result) = state.settled(number) {
                return result;
            }
            state =
                if state.round_running { wait_on(&self.done, state) } else { self.sync_round(state, log) };
        }
    }

    /// Registers a waker for when the number is settled. `again`: the task registered before.
    pub(crate) fn register_waker(&self, number: u64, waker: &Waker, again: bool) -> WakerRegistration {
        if self.is_known_synced(number) {
            self.wake_ready(WAKE_FANOUT);
            return WakerRegistration::Settled(Ok(()));
        }
        let mut state = lock(&self.state);
        if let Some(result) = state.settled(number) {
            return WakerRegistration::Settled(result);
        }
        let known = if again { state.wakers.iter_mut().find(|(known, _)| *known == number) } else { None };
        match known {
            Some((_, known)) => known.clone_from(waker),
            None => {
                state.wakers.push((number, waker.clone()));
                state.waiters += 1;
            }
        }
        state.wanted = state.wanted.max(number);
        let wakes = state.takes_worker();
        let has_worker = state.worker != WorkerState::Absent;
        self.unlock(state, wakes);
        if has_worker { WakerRegistration::Registered } else { WakerRegistration::NoWorker }
    }

    /// Requests that the worker settles the number soon. Returns whether there is a worker; if not, the caller must start one.
    pub(crate) fn request_sync(&self, number: u64) -> bool {
        let mut state = lock(&self.state);
        state.waiters += 1;
        state.wanted = state.wanted.max(number);
        let wakes = state.takes_worker();
        let has_worker = state.worker != WorkerState::Absent;
        self.unlock(state, wakes);
        has_worker
    }

    /// Schedules a checkpoint for when the number is settled. The caller must ensure that there is a worker.
    pub(crate) fn schedule_checkpoint(&self, number: u64, mark: ChainPosition) {
        let mut state = lock(&self.state);
        state.due_checkpoints.push((number, mark));
        state.wanted = state.wanted.max(number);
        let wakes = state.takes_worker();
        self.unlock(state, wakes);
    }

    /// Runs `spawn` if there is no worker. If no thread can be spawned, this thread runs the worker's round.
    pub(crate) fn ensure_worker(
        &self,
        log: &dyn CommitBackend,
        spawn: impl FnOnce() -> std::io::Result<JoinHandle<()>>,
    ) {
        let mut state = lock(&self.state);
        if state.worker != WorkerState::Absent {
            return;
        }
        match spawn() {
            Ok(thread) => {
                state.worker = WorkerState::Busy;
                state.thread = Some(thread);
            }
            Err(_) => drop(self.sync_round(state, log)),
        }
    }

    /// The worker loop: rounds while tasks wait, checkpoints when due, until the log closes.
    pub(crate) fn run_worker(&self, log: &dyn CommitBackend) {
        let mut state = lock(&self.state);
        loop {
            if state.needs_round() && !state.round_running {
                state = self.sync_round(state, log);
                continue;
            }
            let marks = state.take_due_checkpoints();
            if !marks.is_empty() {
                drop(state);
                marks.into_iter().for_each(|mark| log.sign_checkpoint(mark));
                state = lock(&self.state);
            } else if state.closing && !state.needs_round() {
                state.worker = WorkerState::Absent;
                return;
            } else {
                state.worker = WorkerState::Idle;
                state = wait_on(&self.work, state);
                state.worker = WorkerState::Busy;
            }
        }
    }

    /// Stops the worker, once it has done what was requested.
    pub(crate) fn close(&self) {
        let thread = {
            let mut state = lock(&self.state);
            state.closing = true;
            self.work.notify_all();
            state.thread.take()
        };
        if let Some(thread) = thread {
            // A panicked worker leaves nothing to wait for.
            let _ = thread.join();
        }
    }

    fn sync_round<'a>(
        &'a self,
        mut state: MutexGuard<'a, CommitState>,
        log: &dyn CommitBackend,
    ) -> MutexGuard<'a, CommitState> {
        state.round_running = true;
        state = self.await_batch(state);
        state = self.flush(state, log);
        let goal = state.queue.first().map_or(state.issued, |queued| queued.number - 1);
        let unsynced = std::mem::take(&mut state.dirty);
        let failure = state.failure.clone();
        drop(state);

        let began = Instant::now();
        let sync = |unsynced: &DirtyFile| unsynced.sync().map_err(|cause| AuditError::NotDurable { cause });
        let is_news = failure.is_none();
        let result = failure.map_or_else(|| unsynced.iter().try_for_each(sync), Err);
        if let (Err(error), true) = (&result, is_news) {
            log.report_not_durable(error);
        }
        self.settle(goal, result, began.elapsed());
        lock(&self.state)
    }

    /// Writes the queue. Records queued during the write stay for the next round.
    fn flush<'a>(
        &'a self,
        mut state: MutexGuard<'a, CommitState>,
        log: &dyn CommitBackend,
    ) -> MutexGuard<'a, CommitState> {
        let queue = std::mem::take(&mut state.queue);
        let Some(last) = queue.last().map(|queued| queued.number) else { return state };
        drop(state);
        let flushed = log.flush(&queue);
        let mut state = lock(&self.state);
        state.mark_dirty(flushed.dirty.into_iter().flatten());
        state.due_checkpoints.extend(flushed.due_checkpoints.into_iter().map(|mark| (last, mark)));
        if let Some(error) = flushed.rejected {
            self.any_rejected.store(true, Ordering::Release);
            let awaited = queue.iter().filter(|queued| !queued.abandoned);
            state.rejected.extend(awaited.map(|queued| (queued.number, error.clone())));
        }
        state
    }

    /// Ends a round: reports its result to all waiters up to `goal`.
    fn settle(&self, goal: u64, result: Result<(), AuditError>, cost: Duration) {
        let mut state = lock(&self.state);
        state.round_running = false;
        state.last_sync_duration = cost;
        // Records without a waiter do not count towards the next batch size.
        state.last_batch = std::mem::take(&mut state.waiters).min(goal - state.synced);
        let wakers = match result {
            Ok(()) => {
                state.synced = goal;
                self.synced.store(goal, Ordering::Release);
                state.wakers.extract_if(.., |(number, _)| *number <= goal).collect()
            }
            Err(error) => {
                state.failure = Some(error);
                std::mem::take(&mut state.wakers)
            }
        };
        let wakes = (state.needs_round() || !state.due_checkpoints.is_empty()) && state.takes_worker();
        self.unlock(state, wakes);
        self.done.notify_all();
        lock(&self.ready).extend(wakers.into_iter().map(|(_, waker)| waker));
        self.wake_ready(usize::MAX);
    }

    /// Wakes up to `most` ready tasks. Woken tasks help: waking a task from within the runtime is much cheaper than from outside.
    fn wake_ready(&self, most: usize) {
        for _ in 0..most {
            let Some(waker) = lock(&self.ready).pop_front() else { return };
            waker.wake();
        }
    }

    /// Batching window: waits briefly for as many waiters as the last round settled, because they were woken together and will return together.
    /// Without it, the first of them would get a round of its own while the others wait for the next. A single waiter is never delayed.
    fn await_batch<'a>(&self, mut state: MutexGuard<'a, CommitState>) -> MutexGuard<'a, CommitState> {
        let awaited = state.synced + state.last_batch;
        let until = Instant::now() + (state.last_sync_duration / 2).min(MAX_BATCH_WINDOW);
        while state.issued < awaited && !state.closing {
            let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
            else {
                break;
            };
            state.batch_target = awaited;
            state = self.work.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.batch_target = 0;
        state
    }
}

fn wait_on<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::sync::Arc;
    use std::task::Wake;

    use rustix::io::Errno;

    use super::*;

    /// A log that gives every write the same result.
    struct Answering {
        rejected: Option<AuditError>,
        flushed: Mutex<Vec<usize>>,
    }

    impl Answering {
        fn new(rejected: Option<AuditError>) -> Self {
            Self { rejected, flushed: Mutex::default() }
        }
    }

    impl CommitBackend for Answering {
        fn flush(&self, queue: &[QueuedRecord]) -> FlushResult {
            lock(&self.flushed).push(queue.len());
            FlushResult { rejected: self.rejected.clone(), ..FlushResult::default() }
        }

        fn sign_checkpoint(&self, _: ChainPosition) {}

        fn report_not_durable(&self, _: &AuditError) {}
    }

    struct Woken(AtomicU64);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn file() -> DirtyFile {
        DirtyFile::File(Arc::new(tempfile::tempfile().unwrap()))
    }

    /// `fdatasync` fails on a pipe.
    fn broken() -> DirtyFile {
        let (reader, _) = std::io::pipe().unwrap();
        DirtyFile::File(Arc::new(OwnedFd::from(reader).into()))
    }

    #[test]
    fn a_sync_that_fails_fails_everything_after_it() {
        let (commit, log) = (GroupCommit::default(), Answering::new(None));
        let before = commit.issue([file()]);
        assert_eq!(commit.wait(before, &log), Ok(()));
        let woken = Arc::new(Woken(AtomicU64::new(0)));
        let lost = commit.issue([broken()]);
        assert!(matches!(
            commit.register_waker(lost, &Arc::clone(&woken).into(), false),
            WakerRegistration::NoWorker
        ));
        let failure = Err(AuditError::NotDurable { cause: Errno::INVAL });
        assert_eq!(commit.wait(lost, &log), failure);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        // The kernel reports a lost write once. That the next sync succeeds means nothing.
        let after = commit.issue([file()]);
        assert_eq!(commit.wait(after, &log), failure);
        assert_eq!(commit.settled(before), Some(Ok(())));
        // The queue is written all the same.
        let (queued, _) = commit.enqueue(CallId::fresh(), Vec::new());
        drop(commit.sync_round(lock(&commit.state), &log));
        assert_eq!((commit.settled(queued), lock(&log.flushed).len()), (Some(failure), 1));
    }

    #[test]
    fn whoever_waits_for_nothing_is_no_company() {
        let (commit, log) = (GroupCommit::default(), Answering::new(None));
        (0..50).for_each(|_| _ = commit.issue([file()]));
        let alone = commit.issue([file()]);
        assert_eq!(commit.wait(alone, &log), Ok(()));
        assert_eq!(lock(&commit.state).last_batch, 1);
    }

    #[test]
    fn a_rejected_write_fails_its_own_tickets_only() {
        let full = AuditError::Io { action: "write", path: "/a".into(), cause: Errno::NOSPC };
        let (commit, log) = (GroupCommit::default(), Answering::new(Some(full.clone())));
        let (first, _) = commit.enqueue(CallId::fresh(), Vec::new());
        let written = commit.issue([file()]);
        let (second, _) = commit.enqueue(CallId::fresh(), Vec::new());
        let (abandoned, _) = commit.enqueue(CallId::fresh(), Vec::new());
        commit.release_ticket(abandoned);
        assert_eq!(commit.wait(first, &log), Err(full.clone()));
        assert_eq!((commit.settled(second), commit.settled(written)), (Some(Err(full)), Some(Ok(()))));
        assert_eq!(*lock(&log.flushed), [3], "one write for all");
        let (later, _) = commit.enqueue(CallId::fresh(), Vec::new());
        assert_eq!(commit.wait(later, &Answering::new(None)), Ok(()));
        [first, second, later].into_iter().for_each(|number| commit.release_ticket(number));
        assert!(lock(&commit.state).rejected.is_empty(), "nothing is kept for tickets that are gone");
    }

    #[test]
    fn a_round_waits_for_as_many_as_the_last_but_not_for_ever() {
        let (commit, log) = (GroupCommit::default(), Answering::new(None));
        for _ in 0..3 {
            commit.enqueue(CallId::fresh(), Vec::new());
        }
        let last = commit.issue([file()]);
        commit.wait(last, &log).unwrap();
        // Two of the four never return.
        let numbers = [(); 2].map(|()| commit.enqueue(CallId::fresh(), Vec::new()).0);
        commit.wait(numbers[0], &log).unwrap();
        assert_eq!(*lock(&log.flushed), [3, 2]);
    }
}
