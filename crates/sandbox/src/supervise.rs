//! Supervises a running command: its output, its exit and its deadline.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::Signal;
use toolgate_types::Deadline;

use crate::error::SandboxError;
use crate::job::{CommandStdio, Job, OnOutputLimit, Stream, TerminationReason};
use crate::proxy_port::LazyProxy;

/// Time between `SIGTERM` and `SIGKILL`.
pub(crate) const TERMINATE_TIMEOUT: Duration = Duration::from_secs(5);

/// How often cancellation is polled, which bounds its latency.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How often free disk space is checked if nothing else wakes the loop, for a long-running process.
const DISK_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How many reads empty the largest possible pipe.
const MAX_PIPE_READS: u32 = 16;

/// The parent's ends of the pipes.
pub(crate) struct ChildPipes {
    /// `None` if the caller has it.
    pub(crate) output: Option<OwnedFd>,
    pub(crate) error: OwnedFd,
    /// The report pipe of process 1; end of file means that the command has ended.
    pub(crate) report: OwnedFd,
    pub(crate) input: Option<(OwnedFd, Vec<u8>)>,
    /// Pidfd of process 1.
    pub(crate) process: OwnedFd,
    /// Whether killing process 1 kills everything that it started.
    pub(crate) has_pid_namespace: bool,
}

/// The result of supervision.
#[derive(Debug, Default)]
pub(crate) struct IoSummary {
    pub(crate) output_bytes: u64,
    pub(crate) error_bytes: u64,
    pub(crate) kept: u64,
    pub(crate) stopped: Option<TerminationReason>,
    /// The eight bytes reported by process 1.
    pub(crate) report: Vec<u8>,
}

/// How much output is kept.
#[derive(Clone, Copy)]
pub(crate) struct OutputLimits {
    pub(crate) max_output: u64,
    pub(crate) on_limit: OnOutputLimit,
}

impl OutputLimits {
    pub(crate) fn of(streams: &CommandStdio<'_>) -> Self {
        match streams {
            CommandStdio::Captured(pumped) => {
                Self { max_output: pumped.max_output, on_limit: pumped.on_output_limit }
            }
            CommandStdio::Piped(_) => Self { max_output: u64::MAX, on_limit: OnOutputLimit::Stop },
            CommandStdio::Streamed(streamed) => {
                Self { max_output: streamed.max_output, on_limit: OnOutputLimit::Stop }
            }
        }
    }
}

/// When a command must stop.
#[derive(Clone, Copy)]
pub(crate) enum StopCondition<'a> {
    /// When this is cancelled, polled at every tick.
    Polled(&'a Deadline),
    /// When this descriptor is readable: no polling, so a silent command causes no wakeups.
    Fd(BorrowedFd<'a>),
}

impl StopCondition<'_> {
    fn reason(self) -> Result<Option<TerminationReason>, SandboxError> {
        match self {
            Self::Polled(stop) => Ok(stop.reason().map(TerminationReason::from)),
            Self::Fd(file) => {
                let mut polled = [PollFd::new(&file, PollFlags::IN)];
                let now = Timespec { tv_sec: 0, tv_nsec: 0 };
                match rustix::event::poll(&mut polled, Some(&now)) {
                    Ok(0) | Err(Errno::INTR) => Ok(None),
                    Ok(_) => Ok(Some(TerminationReason::Cancelled)),
                    Err(error) => Err(SandboxError::system("the command cannot be watched")(error)),
                }
            }
        }
    }
}

/// Checks free disk space at most once per interval, so never for a command that ends within the first.
pub(crate) struct DiskWatch<'a> {
    is_short: Option<&'a (dyn Fn() -> bool + Sync)>,
    asked: Instant,
}

impl<'a> DiskWatch<'a> {
    pub(crate) fn new(job: &Job<'a>) -> Self {
        Self { is_short: job.disk_is_short, asked: Instant::now() }
    }

    fn is_short(&mut self) -> bool {
        let Some(is_short) = self.is_short.filter(|_| self.asked.elapsed() >= POLL_INTERVAL) else {
            return false;
        };
        let answer = is_short();
        self.asked = Instant::now();
        answer
    }
}

/// Supervises until no process of the command is left.
pub(crate) fn supervise(
    ears: ChildPipes,
    bounds: OutputLimits,
    until: StopCondition<'_>,
    disk: DiskWatch<'_>,
    proxy: Option<&mut LazyProxy<'_>>,
    sink: &mut dyn FnMut(Stream, &[u8]),
) -> Result<IoSummary, SandboxError> {
    let mut listening = Supervision {
        open: [ears.output.is_some(), true, true],
        pipes: ears,
        bounds,
        disk,
        proxy,
        summary: IoSummary::default(),
        terminated_at: None,
        written: 0,
        buffer: vec![0; 64 * 1024],
    };
    let mut rounds_after_the_end = 0;
    while listening.open.contains(&true) {
        listening.enforce_deadline(until)?;
        listening.wait(until)?;
        listening.write_input();
        let [.., report_is_open] = listening.open;
        let heard = listening.read(Stream::Output, sink)? | listening.read(Stream::Error, sink)?;
        // Process 1 has exited, and with it the command: a process that still holds the pipes is a leftover and is not waited for.
        rounds_after_the_end += u32::from(!report_is_open);
        if !report_is_open && !heard || rounds_after_the_end > MAX_PIPE_READS {
            break;
        }
        listening.read_report()?;
    }
    Ok(listening.summary)
}

struct Supervision<'a, 'p> {
    /// Output, error, report.
    open: [bool; 3],
    pipes: ChildPipes,
    bounds: OutputLimits,
    disk: DiskWatch<'a>,
    proxy: Option<&'a mut LazyProxy<'p>>,
    summary: IoSummary,
    terminated_at: Option<Instant>,
    written: usize,
    buffer: Vec<u8>,
}

impl Supervision<'_, '_> {
    /// Sends `SIGTERM` when the command must stop, and `SIGKILL` when it does not.
    fn enforce_deadline(&mut self, until: StopCondition<'_>) -> Result<(), SandboxError> {
        // `SIGKILL` directly: `SIGTERM` would leave it time to fill the rest of the disk.
        if self.summary.stopped != Some(TerminationReason::DiskFull) && self.disk.is_short() {
            return self.end(TerminationReason::DiskFull, Signal::KILL);
        }
        match self.terminated_at {
            None => {
                if let Some(reason) = until.reason()? {
                    self.end(reason, Signal::TERM)?;
                }
            }
            Some(asked) if asked.elapsed() >= TERMINATE_TIMEOUT => self.signal(Signal::KILL)?,
            Some(_) => {}
        }
        Ok(())
    }

    fn end(&mut self, why: TerminationReason, signal: Signal) -> Result<(), SandboxError> {
        if self.summary.stopped.is_none() {
            self.summary.stopped = Some(why);
        }
        self.terminated_at.get_or_insert_with(Instant::now);
        self.signal(signal)
    }

    /// Without a PID namespace, killing process 1 would leave its descendants running: `SIGINT` makes it kill them first.
    fn signal(&self, signal: Signal) -> Result<(), SandboxError> {
        let signal = match signal {
            Signal::KILL if !self.pipes.has_pid_namespace => Signal::INT,
            other => other,
        };
        match rustix::process::pidfd_send_signal(&self.pipes.process, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(SandboxError::system("the command cannot be ended")(error)),
        }
    }

    /// Waits for output, for space in the input pipe, or for the next tick. Starts the proxy if the command has connected.
    fn wait(&mut self, until: StopCondition<'_>) -> Result<(), SandboxError> {
        let [output, error, report] = self.open;
        let mut polled = Vec::with_capacity(6);
        let ears = &self.pipes;
        let listened =
            [(output, ears.output.as_ref()), (error, Some(&ears.error)), (report, Some(&ears.report))];
        let listened = listened.iter().filter(|(open, _)| *open).filter_map(|(_, file)| *file);
        polled.extend(listened.map(|file| PollFd::new(file, PollFlags::IN)));
        if let Some((input, _)) = &ears.input {
            polled.push(PollFd::new(input, PollFlags::OUT));
        }
        let tick = match (&until, self.terminated_at) {
            (StopCondition::Fd(told), None) => {
                polled.push(PollFd::new(told, PollFlags::IN));
                self.disk.is_short.map(|_| DISK_CHECK_INTERVAL)
            }
            _ => Some(POLL_INTERVAL),
        };
        let connections = self.proxy.as_ref().and_then(|proxy| proxy.awaited());
        polled.extend(connections.as_ref().map(|socket| PollFd::new(socket, PollFlags::IN)));
        let tick = tick.and_then(|tick| Timespec::try_from(tick).ok());
        match rustix::event::poll(&mut polled, tick.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(SandboxError::system("the command cannot be listened to")(error)),
        }
        let has_connected =
            connections.is_some() && polled.last().is_some_and(|last| !last.revents().is_empty());
        match &mut self.proxy {
            Some(proxy) if has_connected => proxy.start(),
            _ => Ok(()),
        }
    }

    /// Writes as much input as fits; stops if the command closed its standard input.
    fn write_input(&mut self) {
        let Some((input, content)) = &self.pipes.input else { return };
        let rest = content.get(self.written..).unwrap_or_default();
        let done = match rustix::io::write(input, rest) {
            Ok(written) => {
                self.written += written;
                self.written >= content.len()
            }
            Err(Errno::AGAIN | Errno::INTR) => false,
            Err(_) => true,
        };
        if done {
            self.pipes.input = None;
        }
    }

    /// Reads once, and returns whether there was data.
    fn read(&mut self, stream: Stream, sink: &mut dyn FnMut(Stream, &[u8])) -> Result<bool, SandboxError> {
        let [output, error, _] = &mut self.open;
        let (open, file) = match stream {
            Stream::Output => (output, self.pipes.output.as_ref().map(AsFd::as_fd)),
            Stream::Error => (error, Some(self.pipes.error.as_fd())),
        };
        let Some(file) = file.filter(|_| *open) else { return Ok(false) };
        let length = match rustix::io::read(file, &mut *self.buffer) {
            Ok(0) => {
                *open = false;
                return Ok(false);
            }
            Ok(length) => length,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
            Err(error) => return Err(SandboxError::system("output cannot be read")(error)),
        };
        match stream {
            Stream::Output => self.summary.output_bytes += length as u64,
            Stream::Error => self.summary.error_bytes += length as u64,
        }
        let room =
            usize::try_from(self.bounds.max_output.saturating_sub(self.summary.kept)).unwrap_or(usize::MAX);
        if let Some(kept) = self.buffer.get(..length.min(room)).filter(|kept| !kept.is_empty()) {
            self.summary.kept += kept.len() as u64;
            sink(stream, kept);
        }
        self.enforce_output_limit().map(|()| true)
    }

    fn enforce_output_limit(&mut self) -> Result<(), SandboxError> {
        let total = self.summary.output_bytes + self.summary.error_bytes;
        let most = match self.bounds.on_limit {
            OnOutputLimit::Stop => self.bounds.max_output,
            OnOutputLimit::Drain(more) => self.bounds.max_output.saturating_add(more),
        };
        if total > most && self.summary.stopped.is_none() {
            self.end(TerminationReason::OutputLimit, Signal::KILL)
        } else {
            Ok(())
        }
    }

    fn read_report(&mut self) -> Result<(), SandboxError> {
        let [_, _, open] = &mut self.open;
        if !*open {
            return Ok(());
        }
        let mut buffer = [0_u8; 16];
        match rustix::io::read(&self.pipes.report, &mut buffer) {
            Ok(0) => *open = false,
            Ok(length) => {
                let report = buffer.get(..length).ok_or(Errno::IO);
                let report = report.map_err(SandboxError::system("the command's end cannot be read"))?;
                self.summary.report.extend(report);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(SandboxError::system("the command's end cannot be read")(error)),
        }
        Ok(())
    }
}
