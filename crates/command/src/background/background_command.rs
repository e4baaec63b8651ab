//! One background command: what its caller, its thread and its watcher share.

use std::io::{PipeReader, PipeWriter};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use toolgate_confine::Quarantined;
use toolgate_gate::{CallContext, SessionCaller, TouchedNames};
use toolgate_sandbox::{Stream, StreamedStdio};
use toolgate_types::{CallId, Deadline, ErrorCode, Failure, Sha256};

use super::BackgroundEnd;
use super::output_ring::OutputRing;
use super::watch::WatchOrder;
use crate::command_outcome::{MAX_REPORTED, escape_name};

/// A command that writes more than this in total is ended.
const MAX_WRITTEN_BYTES: u64 = 1 << 30;

/// How often a waiting caller looks whether its own call was cancelled.
const CANCELLATION_INTERVAL: Duration = Duration::from_millis(50);

/// How many quarantined files are kept for its report.
const MAX_QUARANTINED: usize = 4096;

/// How much of a shell line is listed.
const MAX_LINE_CHARS: usize = 200;

/// Runs a command to its end with these streams.
pub type BackgroundRun = dyn FnOnce(&BackgroundStreams<'_>) -> BackgroundEnd + Send;

/// Why a background command was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackgroundStop {
    /// Its caller stopped it.
    Requested,
    /// Its session ended.
    SessionEnded,
    /// The gate ended.
    GateEnded,
    /// A reload changed the configuration that confines it.
    ConfigurationChanged,
    /// Its own timeout passed.
    TimedOut,
    /// Nothing asked about it for a long time.
    Unattended,
    /// A file that it must not read appeared in its mounts, where it is not masked.
    DeniedFileAppeared,
    /// Its mounts could not be scanned.
    ScanFailed,
}

impl BackgroundStop {
    /// A stable identifier.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::SessionEnded => "session_ended",
            Self::GateEnded => "gate_ended",
            Self::ConfigurationChanged => "configuration_changed",
            Self::TimedOut => "timed_out",
            Self::Unattended => "unattended",
            Self::DeniedFileAppeared => "denied_file_appeared",
            Self::ScanFailed => "scan_failed",
        }
    }

    /// In words, for a model.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Requested => "it was stopped",
            Self::SessionEnded => "its session ended",
            Self::GateEnded => "the gate ended",
            Self::ConfigurationChanged => "the operator changed the configuration",
            Self::TimedOut => "its timeout passed",
            Self::Unattended => "nothing asked about it for half a day",
            Self::DeniedFileAppeared => {
                "a file that commands may not read appeared in its mounts; start it again"
            }
            Self::ScanFailed => "its mounts could not be scanned",
        }
    }
}

/// The state of a command, and a part of its output.
#[derive(Clone, Debug)]
pub struct BackgroundReport {
    /// Its id.
    pub id: String,
    /// What it wrote, sanitised.
    pub output: String,
    /// The position after that output.
    pub after: u64,
    /// How many bytes before it are no longer kept.
    pub lost: u64,
    /// Whether there is more output after it.
    pub more: bool,
    /// How it ended; `None` while it runs.
    pub end: Option<Arc<BackgroundEnd>>,
    /// Why it was ended, if it did not end by itself.
    pub stopped: Option<BackgroundStop>,
    /// What was moved to quarantine while it ran.
    pub quarantined: Vec<Quarantined>,
}

/// A command in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundSummary {
    /// Its id.
    pub id: String,
    /// The beginning of its shell line, escaped.
    pub command: String,
    /// Whether it runs.
    pub is_running: bool,
    /// How long ago it was started.
    pub age: Duration,
}

/// How far it got.
#[derive(Debug)]
enum BackgroundPhase {
    Starting,
    Running,
    Ended(Arc<BackgroundEnd>),
}

/// The shared state of one command.
pub(super) struct BackgroundCommand {
    id: String,
    line: String,
    owner: SessionCaller,
    /// The call that started it.
    pub(super) call: CallId,
    definition: Sha256,
    pub(super) started: Instant,
    pub(super) timeout: Option<Duration>,
    pub(super) output: OutputRing,
    /// Whether the session of its caller is over.
    session_over: Box<dyn Fn() -> bool + Send + Sync>,
    progress: Mutex<BackgroundPhase>,
    progressed: Condvar,
    /// Dropping it stops the command.
    stop_pipe: Mutex<Option<PipeWriter>>,
    stopped: Mutex<Option<BackgroundStop>>,
    /// When its caller last asked about it.
    used: Mutex<Instant>,
    quarantined: Mutex<Vec<Quarantined>>,
    /// The hosts that it connected to, once it has ended.
    touched: TouchedNames,
    watcher: mpsc::Sender<WatchOrder>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What only the thread of a command has.
pub(super) struct BackgroundWorker {
    stop_pipe: PipeReader,
    orders: Mutex<mpsc::Receiver<WatchOrder>>,
}

/// How the runner connects a background command.
pub struct BackgroundStreams<'a> {
    pub(super) command: &'a BackgroundCommand,
    stop_pipe: BorrowedFd<'a>,
    pub(super) orders: &'a Mutex<mpsc::Receiver<WatchOrder>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BackgroundCommand {
    pub(super) fn new(
        line: String,
        timeout: Option<Duration>,
        definition: Sha256,
        context: &CallContext,
    ) -> Result<(Arc<Self>, BackgroundWorker), Failure> {
        let (stop_pipe, writer) = std::io::pipe().map_err(|error| {
            Failure::new(ErrorCode::Internal, "the command could not be started")
                .operator_note(error.to_string())
        })?;
        let (watcher, orders) = mpsc::channel();
        let ended = context.session_ended.clone();
        let now = Instant::now();
        let command = Self {
            id: fresh_id(),
            line,
            owner: context.identity(),
            call: context.call,
            definition,
            started: now,
            timeout,
            output: OutputRing::default(),
            session_over: Box::new(move || ended.as_ref().is_some_and(|ended| ended.is_cancelled())),
            progress: Mutex::new(BackgroundPhase::Starting),
            progressed: Condvar::new(),
            stop_pipe: Mutex::new(Some(writer)),
            stopped: Mutex::default(),
            used: Mutex::new(now),
            quarantined: Mutex::default(),
            touched: context.touched.clone(),
            watcher,
            thread: Mutex::default(),
        };
        Ok((Arc::new(command), BackgroundWorker { stop_pipe, orders: Mutex::new(orders) }))
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn owner(&self) -> &SessionCaller {
        &self.owner
    }

    pub(super) fn definition(&self) -> Sha256 {
        self.definition
    }

    pub(super) fn is_session_over(&self) -> bool {
        (self.session_over)()
    }

    /// How long nothing has asked about it.
    pub(super) fn unattended(&self) -> Duration {
        locked(&self.used).elapsed()
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(&*locked(&self.progress), BackgroundPhase::Ended(_))
    }

    pub(super) fn keep_thread(&self, thread: JoinHandle<()>) {
        *locked(&self.thread) = Some(thread);
    }

    /// Requests the end. The first reason stays, and the end of a command that has ended has none.
    pub(super) fn stop(&self, reason: BackgroundStop) {
        if !self.has_ended() {
            locked(&self.stopped).get_or_insert(reason);
        }
        locked(&self.stop_pipe).take();
    }

    /// Waits for its thread. A thread that panicked has dropped the process, which ended it.
    pub(super) fn join(&self) {
        let thread = locked(&self.thread).take();
        thread.map(JoinHandle::join);
    }

    fn progress_to(&self, phase: BackgroundPhase) {
        *locked(&self.progress) = phase;
        self.progressed.notify_all();
    }

    /// Returns when the process runs, or could not be started.
    pub(super) fn wait_until_started(&self) {
        let state = locked(&self.progress);
        drop(self.progressed.wait_while(state, |state| matches!(state, BackgroundPhase::Starting)));
    }

    /// Waits until it has ended; returns whether it has.
    pub(super) fn wait_for_end(&self, timeout: Duration, stop: &Deadline) -> bool {
        let until = Instant::now() + timeout;
        while !self.has_ended() && stop.reason().is_none() && Instant::now() < until {
            let state = locked(&self.progress);
            let is_running = |state: &mut BackgroundPhase| !matches!(state, BackgroundPhase::Ended(_));
            drop(self.progressed.wait_timeout_while(state, CANCELLATION_INTERVAL, is_running));
        }
        self.has_ended()
    }

    /// Waits for output after a position, or for the end.
    pub(super) fn wait_for_news(&self, after: Option<u64>, wait: Duration, stop: &Deadline) {
        *locked(&self.used) = Instant::now();
        let until = Instant::now() + wait;
        while !self.has_ended() && stop.reason().is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.output.wait(after, left.min(CANCELLATION_INTERVAL)) {
                break;
            }
        }
    }

    /// Quarantines what it has left so far. Nothing to do once it has ended: it was scanned then.
    pub(super) fn scan(&self, call: CallId) -> Result<(), Failure> {
        let (answer, answered) = mpsc::channel();
        if self.has_ended() || self.watcher.send(WatchOrder::Scan { call, answer }).is_err() {
            return Ok(());
        }
        // Without an answer the command has ended, and the scan after it counts.
        answered.recv().unwrap_or(Ok(()))
    }

    pub(super) fn add_quarantined(&self, found: Vec<Quarantined>) {
        let mut known = locked(&self.quarantined);
        let room = MAX_QUARANTINED.saturating_sub(known.len());
        known.extend(found.into_iter().take(room));
    }

    /// Why it was not started, if it was not.
    pub(super) fn start_failure(&self) -> Option<Failure> {
        match &*locked(&self.progress) {
            BackgroundPhase::Ended(end) => end.as_ref().as_ref().err().cloned(),
            _ => None,
        }
    }

    pub(super) fn report(&self, after: Option<u64>, context: &CallContext) -> BackgroundReport {
        // The state is read before the output: a command that has ended writes nothing more.
        let end = match &*locked(&self.progress) {
            BackgroundPhase::Starting | BackgroundPhase::Running => None,
            BackgroundPhase::Ended(end) => {
                context.touched.add_hosts_of(&self.touched);
                Some(Arc::clone(end))
            }
        };
        let most = usize::try_from(context.limits.max_output_bytes).unwrap_or(usize::MAX);
        let part = self.output.read(after, most);
        BackgroundReport {
            id: self.id.clone(),
            output: part.text,
            after: part.next,
            lost: part.lost,
            more: part.more,
            end,
            stopped: *locked(&self.stopped),
            quarantined: locked(&self.quarantined).clone(),
        }
    }

    pub(super) fn summary(&self) -> BackgroundSummary {
        let line: String = self.line.chars().take(MAX_LINE_CHARS).collect();
        BackgroundSummary {
            id: self.id.clone(),
            command: escape_name(&line),
            is_running: !self.has_ended(),
            age: self.started.elapsed(),
        }
    }

    /// What the operator should know about its end: what it planted, or that it could not be scanned.
    pub(super) fn end_notice(&self) -> Option<String> {
        let mut found = locked(&self.quarantined).clone();
        let end = match &*locked(&self.progress) {
            BackgroundPhase::Ended(end) => Arc::clone(end),
            _ => return None,
        };
        let problem = match &*end {
            Ok(outcome) => {
                found.extend(outcome.quarantined.iter().cloned());
                None
            }
            // A command that was never started is answered, and not reported here.
            Err(failure) => locked(&self.stopped).is_some().then(|| failure.message.clone()),
        };
        let paths: Vec<String> =
            found.iter().take(MAX_REPORTED).map(|found| format!("`{}`", escape_name(&found.path))).collect();
        match (problem, paths.is_empty()) {
            (Some(problem), _) => Some(format!("the background command {}: {problem}", self.id)),
            (None, false) => Some(format!(
                "the background command {} left {} under protected names; they are in quarantine",
                self.id,
                paths.join(", ")
            )),
            (None, true) => None,
        }
    }
}

impl BackgroundWorker {
    /// Runs the command to its end.
    pub(super) fn work(&self, command: &BackgroundCommand, run: Box<BackgroundRun>) {
        let streams = BackgroundStreams { command, stop_pipe: self.stop_pipe.as_fd(), orders: &self.orders };
        let end = run(&streams);
        command.progress_to(BackgroundPhase::Ended(Arc::new(end)));
        command.output.close();
    }
}

impl BackgroundStreams<'_> {
    pub(crate) fn stdio<'s>(&'s self, on_start: &'s dyn Fn()) -> StreamedStdio<'s> {
        StreamedStdio { on_start, stop_fd: self.stop_pipe, max_output: MAX_WRITTEN_BYTES }
    }

    pub(crate) fn started(&self) {
        self.command.progress_to(BackgroundPhase::Running);
    }

    pub(crate) fn push(&self, stream: Stream, bytes: &[u8]) {
        self.command.output.push(stream, bytes);
    }

    /// The last output.
    #[must_use]
    pub fn kept_output(&self) -> String {
        self.command.output.kept()
    }

    /// Ends the watcher: no process of the command is left.
    pub(crate) fn finish(&self) {
        let _ = self.command.watcher.send(WatchOrder::Finish);
    }
}

/// 48 random bits. An id is no secret: a command is also found by its caller.
fn fresh_id() -> String {
    let digest = Sha256::of(toolgate_types::fresh_uuid().as_bytes());
    format!("bg-{}", digest.to_string().chars().take(12).collect::<String>())
}
