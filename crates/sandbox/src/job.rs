//! What is to be run, and how it ended.

use std::ffi::OsString;
use std::net::TcpListener;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use toolgate_types::{CancellationReason, MountOverlay};

use crate::limits::ResourceLimits;

/// One command and everything it is given. What is not named here it does not have.
pub struct Job<'a> {
    /// A name that is looked for in the pinned `PATH`, or an absolute path inside the sandbox.
    pub program: OsString,
    /// Its arguments, without the program itself.
    pub arguments: Vec<OsString>,
    /// Where it begins: an absolute path inside the sandbox.
    pub directory: PathBuf,
    /// Its environment, beside `PATH`, `HOME`, `TMPDIR` and the few that programs cannot do without.
    pub environment: Vec<(String, String)>,
    /// How its standard streams are connected.
    pub stdio: CommandStdio<'a>,
    /// The folders it sees beside the system.
    pub mounts: Vec<BindMount<'a>>,
    /// Folders and files of the host that it may read beside what all commands may, at the same place.
    pub read: Vec<PathBuf>,
    /// How far it gets.
    pub network: Network<'a>,
    /// How much it may use.
    pub limits: ResourceLimits,
    /// Asked now and then while it runs: whether the disk has so little space left that it must be killed.
    pub disk_is_short: Option<&'a (dyn Fn() -> bool + Sync)>,
}

/// How the standard streams of a command are connected.
pub enum CommandStdio<'a> {
    /// The sandbox writes what the command reads, and hands all that it writes to the sink: a command with a beginning and an end.
    Captured(CapturedStdio),
    /// Standard input and output belong to somebody else, who talks with the command for as long as it lives. The sink is handed all of its
    /// standard error, however much that is.
    Piped(PipedStdio<'a>),
}

/// A command's input, and how much of its output is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedStdio {
    /// What it reads; `None` is an empty standard input.
    pub input: Option<Vec<u8>>,
    /// How many bytes of output are kept, both streams together.
    pub max_output: u64,
    /// What happens to a command that writes more.
    pub on_output_limit: OnOutputLimit,
}

/// Who talks with a command, and until when.
#[derive(Clone, Copy)]
pub struct PipedStdio<'a> {
    /// Given the ends of both pipes, once, when the command has been started. That its program cannot be run is only known after that.
    pub on_start: &'a dyn Fn(PipeEnds),
    /// Readable, or without anybody at its other end, when the command is to end.
    pub stop_fd: BorrowedFd<'a>,
}

/// The other ends of a command's standard input and output. Neither makes anybody wait: they are non-blocking.
#[derive(Debug)]
pub struct PipeEnds {
    /// What is written here the command reads. Closing it ends the command's input.
    pub input: OwnedFd,
    /// What the command writes.
    pub output: OwnedFd,
}

/// A folder of the host inside the sandbox.
pub struct BindMount<'a> {
    /// The folder, open.
    pub directory: BorrowedFd<'a>,
    /// Where it appears: an absolute path of plain names.
    pub at: PathBuf,
    /// Whether it may be changed.
    pub writable: bool,
    /// What in it is not as it is, parents before children.
    pub overlays: Vec<MountOverlay>,
}

/// How far a command gets.
pub enum Network<'a> {
    /// Nowhere.
    None,
    /// To one port of its own machine, where whoever is given the listener decides. The listener lives inside the command's network; what is
    /// returned is kept until the command has ended.
    Proxied(&'a dyn Fn(TcpListener) -> std::io::Result<Box<dyn Send>>),
}

/// The port that [`Network::Proxied`] listens on. Nobody else is in that network, so it is always free.
pub const PROXY_PORT: u16 = 3128;

/// What happens to a command that writes more than is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnOutputLimit {
    /// The rest is thrown away and the command goes on, up to this many bytes; then it is ended.
    Drain(u64),
    /// It is ended.
    Stop,
}

/// Where a piece of output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandExit {
    /// By itself or by a signal.
    pub exit: Exit,
    /// Why it was ended, where it did not end by itself.
    pub stopped: Option<TerminationReason>,
    /// How long it ran.
    pub duration: Duration,
    /// Bytes it wrote to standard output, kept or not.
    pub output_bytes: u64,
    /// Bytes it wrote to standard error, kept or not.
    pub error_bytes: u64,
    /// Whether some of them were not kept.
    pub truncated: bool,
    /// Whether it failed and seems to have tried to reach a network that it does not have.
    pub wanted_network: bool,
    /// Which limit it ran into, as far as the system tells.
    pub limit: Option<LimitHit>,
}

/// By itself or by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// Why a command was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminationReason {
    /// Its time was up.
    Deadline,
    /// The call was cancelled.
    Cancelled,
    /// It wrote too much.
    OutputLimit,
    /// The disk had too little space left.
    DiskFull,
}

impl From<CancellationReason> for TerminationReason {
    fn from(reason: CancellationReason) -> Self {
        match reason {
            CancellationReason::Deadline => Self::Deadline,
            CancellationReason::Cancelled => Self::Cancelled,
        }
    }
}

/// A limit that ended a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitHit {
    /// Processor time.
    CpuTime,
    /// The size of a file.
    FileSize,
    /// Memory of the whole command.
    Memory,
}
