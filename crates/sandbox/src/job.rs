//! A command to run, and how it ended.

use std::ffi::OsString;
use std::net::TcpListener;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use toolgate_types::{CancellationReason, MountOverlay};

use crate::limits::ResourceLimits;

/// One command and everything it gets. What is not named here it does not have.
pub struct Job<'a> {
    /// A name to look up in the sandbox's `PATH`, or an absolute path inside the sandbox.
    pub program: OsString,
    /// Its arguments, without the program itself.
    pub arguments: Vec<OsString>,
    /// Its working directory: an absolute path inside the sandbox.
    pub directory: PathBuf,
    /// Its environment, in addition to `PATH`, `HOME`, `TMPDIR` and a few others that programs need.
    pub environment: Vec<(String, String)>,
    /// How its standard streams are connected.
    pub stdio: CommandStdio<'a>,
    /// The directories it sees in addition to the system's.
    pub mounts: Vec<BindMount<'a>>,
    /// Host directories and files that it may read in addition to those of all commands, at the same path.
    pub read: Vec<PathBuf>,
    /// Symlinks in its home directory, which is new for each command.
    pub home_links: Vec<HomeLink>,
    /// Its network access.
    pub network: Network<'a>,
    /// Its resource limits.
    pub limits: ResourceLimits,
    /// Polled while it runs: whether the disk has so little free space that the command must be killed.
    pub disk_is_short: Option<&'a (dyn Fn() -> bool + Sync)>,
}

/// A symlink in the home directory of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeLink {
    /// Its directory, which is created: one name.
    pub directory: PathBuf,
    /// Its name.
    pub name: OsString,
    /// Where it leads.
    pub target: PathBuf,
}

/// How the standard streams of a command are connected.
pub enum CommandStdio<'a> {
    /// The sandbox writes its input and passes all its output to the sink: for a command that runs to completion.
    Captured(CapturedStdio),
    /// Standard input and output go to the caller, for as long as the command lives. The sink receives all of its standard error.
    Piped(PipedStdio<'a>),
    /// The sink receives all its output, for as long as the command lives; its input is empty.
    Streamed(StreamedStdio<'a>),
}

/// A command's input, and how much of its output is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedStdio {
    /// Its standard input; `None` is empty.
    pub input: Option<Vec<u8>>,
    /// How many bytes of output are kept, both streams together.
    pub max_output: u64,
    /// What happens to a command that writes more.
    pub on_output_limit: OnOutputLimit,
}

/// Receives the pipes of a command, and signals the sandbox when to stop it.
#[derive(Clone, Copy)]
pub struct PipedStdio<'a> {
    /// Called once with both pipe ends when the process was started. Whether its program can be executed is only known after that.
    pub on_start: &'a dyn Fn(PipeEnds),
    /// Readable or hung up when the command must stop.
    pub stop_fd: BorrowedFd<'a>,
}

/// Learns that a command was started, and signals the sandbox when to stop it.
#[derive(Clone, Copy)]
pub struct StreamedStdio<'a> {
    /// Called once when the process was started. Whether its program can be executed is only known after that.
    pub on_start: &'a dyn Fn(),
    /// Readable or hung up when the command must stop.
    pub stop_fd: BorrowedFd<'a>,
    /// A command that writes more bytes than this is stopped.
    pub max_output: u64,
}

/// The other ends of a command's standard input and output, both non-blocking.
#[derive(Debug)]
pub struct PipeEnds {
    /// The command's standard input. Closing it is end of file.
    pub input: OwnedFd,
    /// The command's standard output.
    pub output: OwnedFd,
}

/// A host directory inside the sandbox.
pub struct BindMount<'a> {
    /// The open directory.
    pub directory: BorrowedFd<'a>,
    /// Where it is mounted: an absolute path of plain names.
    pub at: PathBuf,
    /// Whether it is writable.
    pub writable: bool,
    /// Overlays on paths in it, parents before children.
    pub overlays: Vec<MountOverlay>,
}

/// A command's network access.
pub enum Network<'a> {
    /// None.
    None,
    /// One port on loopback. With the first connection, the listener, inside the command's network namespace, is passed to this function, which
    /// decides about connections; its return value is dropped when the command has ended.
    Proxied(&'a ServeProxy<'a>),
}

/// Serves a non-blocking listener until the returned value is dropped. The socket is used again for later commands, so nothing may be accepted after
/// that.
pub type ServeProxy<'a> = dyn Fn(TcpListener) -> std::io::Result<Box<dyn Send>> + 'a;

/// The port of [`Network::Proxied`]. The network namespace is the command's own, so it is always free.
pub const PROXY_PORT: u16 = 3128;

/// What happens to a command that writes more than is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnOutputLimit {
    /// Discard the rest and continue up to this many bytes; then stop the command.
    Drain(u64),
    /// Stop the command.
    Stop,
}

/// The stream of a piece of output.
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
    /// Its exit code or signal.
    pub exit: Exit,
    /// Why the sandbox stopped it, if it did.
    pub stopped: Option<TerminationReason>,
    /// How long it ran.
    pub duration: Duration,
    /// Bytes written to standard output, kept or not.
    pub output_bytes: u64,
    /// Bytes written to standard error, kept or not.
    pub error_bytes: u64,
    /// Whether some of them were not kept.
    pub truncated: bool,
    /// Whether it failed and probably tried to use a network that it does not have.
    pub wanted_network: bool,
    /// Which limit it hit, if the system reports it.
    pub limit: Option<LimitHit>,
}

/// Exit code or signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// It was killed by this signal.
    Signal(i32),
}

/// Why a command was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminationReason {
    /// Its deadline passed.
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
    /// CPU time (`RLIMIT_CPU`).
    CpuTime,
    /// File size (`RLIMIT_FSIZE`).
    FileSize,
    /// Memory of the whole command (cgroup).
    Memory,
}
