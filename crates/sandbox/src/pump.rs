//! Listens to a running command: output as it comes, its end, and the time.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::Signal;
use toolgate_types::Cancellation;

use crate::error::SandboxError;
use crate::job::{Job, OnFlood, Stopped, Stream, Streams};

/// How long a command has between being asked to end and being ended.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// How often the caller is asked whether to go on, which is also how late a cancellation may come.
const TICK: Duration = Duration::from_millis(20);

/// How often the space on the disk is asked for where nothing else wakes up: for a process that is talked with for as long as it lives.
const DISK_INTERVAL: Duration = Duration::from_secs(1);

/// How often one has to read to empty the largest pipe that there is.
const FULL_PIPE: u32 = 16;

/// Where the pipes end on this side.
pub(crate) struct Ears {
    /// Where somebody else does not have it.
    pub(crate) output: Option<OwnedFd>,
    pub(crate) error: OwnedFd,
    /// What process 1 has to say; its end is the command's.
    pub(crate) report: OwnedFd,
    pub(crate) input: Option<(OwnedFd, Vec<u8>)>,
    /// Process 1.
    pub(crate) process: OwnedFd,
}

/// What was heard.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) output_bytes: u64,
    pub(crate) error_bytes: u64,
    pub(crate) kept: u64,
    pub(crate) stopped: Option<Stopped>,
    /// The eight bytes of process 1.
    pub(crate) report: Vec<u8>,
}

/// How much is kept.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) max_output: u64,
    pub(crate) on_flood: OnFlood,
}

impl Bounds {
    pub(crate) fn of(streams: &Streams<'_>) -> Self {
        match streams {
            Streams::Pumped(pumped) => Self { max_output: pumped.max_output, on_flood: pumped.on_flood },
            Streams::Handed(_) => Self { max_output: u64::MAX, on_flood: OnFlood::Stop },
        }
    }
}

/// When a command must end.
#[derive(Clone, Copy)]
pub(crate) enum Until<'a> {
    /// When this says so, which is asked at every tick.
    Asked(&'a Cancellation),
    /// When this can be read: nobody has to be asked, and nothing wakes up for a command that has nothing to say.
    Told(BorrowedFd<'a>),
}

impl Until<'_> {
    fn reason(self) -> Result<Option<Stopped>, SandboxError> {
        match self {
            Self::Asked(stop) => Ok(stop.reason().map(Stopped::from)),
            Self::Told(file) => {
                let mut polled = [PollFd::new(&file, PollFlags::IN)];
                let now = Timespec { tv_sec: 0, tv_nsec: 0 };
                match rustix::event::poll(&mut polled, Some(&now)) {
                    Ok(0) | Err(Errno::INTR) => Ok(None),
                    Ok(_) => Ok(Some(Stopped::Cancelled)),
                    Err(error) => Err(SandboxError::system("the command cannot be watched")(error)),
                }
            }
        }
    }
}

/// Asks whether the disk is short of space, at most once per tick, and so never for a command that ends within the first.
pub(crate) struct DiskWatch<'a> {
    is_short: Option<&'a (dyn Fn() -> bool + Sync)>,
    asked: Instant,
}

impl<'a> DiskWatch<'a> {
    pub(crate) fn new(job: &Job<'a>) -> Self {
        Self { is_short: job.disk_is_short, asked: Instant::now() }
    }

    fn is_short(&mut self) -> bool {
        let Some(is_short) = self.is_short.filter(|_| self.asked.elapsed() >= TICK) else { return false };
        let answer = is_short();
        self.asked = Instant::now();
        answer
    }
}

/// Listens until nothing of the command is left.
pub(crate) fn listen(
    ears: Ears,
    bounds: Bounds,
    until: Until<'_>,
    disk: DiskWatch<'_>,
    sink: &mut dyn FnMut(Stream, &[u8]),
) -> Result<Heard, SandboxError> {
    let mut listening = Listening {
        open: [ears.output.is_some(), true, true],
        ears,
        bounds,
        disk,
        heard: Heard::default(),
        asked_to_end: None,
        written: 0,
        buffer: vec![0; 64 * 1024],
    };
    let mut rounds_after_the_end = 0;
    while listening.open.contains(&true) {
        listening.mind_the_time(until)?;
        listening.wait(until)?;
        listening.write_input();
        let [.., report_is_open] = listening.open;
        let heard = listening.read(Stream::Output, sink)? | listening.read(Stream::Error, sink)?;
        // Process 1 is gone, and so the command: whoever still holds its pipes is a leftover, and is not waited for.
        rounds_after_the_end += u32::from(!report_is_open);
        if !report_is_open && !heard || rounds_after_the_end > FULL_PIPE {
            break;
        }
        listening.read_report()?;
    }
    Ok(listening.heard)
}

struct Listening<'a> {
    /// Output, error, report.
    open: [bool; 3],
    ears: Ears,
    bounds: Bounds,
    disk: DiskWatch<'a>,
    heard: Heard,
    asked_to_end: Option<Instant>,
    written: usize,
    buffer: Vec<u8>,
}

impl Listening<'_> {
    /// Asks the command to end when it must, and ends it when it does not.
    fn mind_the_time(&mut self, until: Until<'_>) -> Result<(), SandboxError> {
        // `SIGTERM` would leave it the time to fill the rest.
        if self.heard.stopped != Some(Stopped::DiskShort) && self.disk.is_short() {
            return self.end(Stopped::DiskShort, Signal::KILL);
        }
        match self.asked_to_end {
            None => {
                if let Some(reason) = until.reason()? {
                    self.end(reason, Signal::TERM)?;
                }
            }
            Some(asked) if asked.elapsed() >= GRACE => self.signal(Signal::KILL)?,
            Some(_) => {}
        }
        Ok(())
    }

    fn end(&mut self, why: Stopped, signal: Signal) -> Result<(), SandboxError> {
        if self.heard.stopped.is_none() {
            self.heard.stopped = Some(why);
        }
        self.asked_to_end.get_or_insert_with(Instant::now);
        self.signal(signal)
    }

    fn signal(&self, signal: Signal) -> Result<(), SandboxError> {
        match rustix::process::pidfd_send_signal(&self.ears.process, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(SandboxError::system("the command cannot be ended")(error)),
        }
    }

    /// Waits for something to hear, for room to write, or for the next tick.
    fn wait(&mut self, until: Until<'_>) -> Result<(), SandboxError> {
        let [output, error, report] = self.open;
        let mut polled = Vec::with_capacity(4);
        let ears = &self.ears;
        let listened =
            [(output, ears.output.as_ref()), (error, Some(&ears.error)), (report, Some(&ears.report))];
        let listened = listened.iter().filter(|(open, _)| *open).filter_map(|(_, file)| *file);
        polled.extend(listened.map(|file| PollFd::new(file, PollFlags::IN)));
        if let Some((input, _)) = &ears.input {
            polled.push(PollFd::new(input, PollFlags::OUT));
        }
        let tick = match (&until, self.asked_to_end) {
            (Until::Told(told), None) => {
                polled.push(PollFd::new(told, PollFlags::IN));
                self.disk.is_short.map(|_| DISK_INTERVAL)
            }
            _ => Some(TICK),
        };
        let tick = tick.and_then(|tick| Timespec::try_from(tick).ok());
        match rustix::event::poll(&mut polled, tick.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(SandboxError::system("the command cannot be listened to")(error)),
        }
    }

    /// Writes what the command reads, as far as it wants to; a command that closed its input does not.
    fn write_input(&mut self) {
        let Some((input, content)) = &self.ears.input else { return };
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
            self.ears.input = None;
        }
    }

    /// Reads once, and says whether there was something.
    fn read(&mut self, stream: Stream, sink: &mut dyn FnMut(Stream, &[u8])) -> Result<bool, SandboxError> {
        let [output, error, _] = &mut self.open;
        let (open, file) = match stream {
            Stream::Output => (output, self.ears.output.as_ref().map(AsFd::as_fd)),
            Stream::Error => (error, Some(self.ears.error.as_fd())),
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
            Stream::Output => self.heard.output_bytes += length as u64,
            Stream::Error => self.heard.error_bytes += length as u64,
        }
        let room =
            usize::try_from(self.bounds.max_output.saturating_sub(self.heard.kept)).unwrap_or(usize::MAX);
        if let Some(kept) = self.buffer.get(..length.min(room)).filter(|kept| !kept.is_empty()) {
            self.heard.kept += kept.len() as u64;
            sink(stream, kept);
        }
        self.mind_the_flood().map(|()| true)
    }

    fn mind_the_flood(&mut self) -> Result<(), SandboxError> {
        let total = self.heard.output_bytes + self.heard.error_bytes;
        let most = match self.bounds.on_flood {
            OnFlood::Stop => self.bounds.max_output,
            OnFlood::Drain(more) => self.bounds.max_output.saturating_add(more),
        };
        if total > most && self.heard.stopped.is_none() {
            self.end(Stopped::Flood, Signal::KILL)
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
        match rustix::io::read(&self.ears.report, &mut buffer) {
            Ok(0) => *open = false,
            Ok(length) => self.heard.report.extend(buffer.get(..length).unwrap_or_default()),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(SandboxError::system("the command's end cannot be read")(error)),
        }
        Ok(())
    }
}
