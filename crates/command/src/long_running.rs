//! A long-running server process: confined like a command, with its standard streams piped to the caller.
//!
//! What a process may not see is decided when it starts. A file that gets a denied name later is not masked from a running process; files that the
//! process itself leaves under names that other programs execute are quarantined on request, and when it has ended.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use toolgate_egress::{NetworkAllowlist, UpstreamProxy};
use toolgate_sandbox::{
    CommandExit, Exit, PipeEnds, ResourceLimits, SandboxError, loader_variable, refused_place,
};
use toolgate_types::{CallId, Deadline, ErrorCode, Failure, Limits};
use toolgate_workspace::{Mount, PathStyle, WorkspaceView};

use crate::command_outcome::{describe_exit, escape_name};
use crate::network::Reach;
use crate::stderr_tail::StderrTail;
use crate::supervisor::{ProcessSupervisor, StartNotifier, SupervisorCommand};
use crate::{CommandRunner, PathKind, inside, path_kind};

/// The timeout for scanning the mounts before the start.
const SCAN_TIMEOUT: Duration = Duration::from_secs(120);

/// A process to start, and everything it is given.
#[derive(Clone, Debug)]
pub struct ConfinedProcess {
    /// A name to look up in the sandbox's `PATH`, or an absolute path as the process sees it.
    pub program: OsString,
    /// Its arguments, without the program itself.
    pub arguments: Vec<OsString>,
    /// The working directory, such as `@project/sub`; by default the first mount, or a directory of its own that it may change.
    pub directory: Option<String>,
    /// The mounts it sees at `/mnt/NAME`: each an alias, and whether it is writable.
    pub mounts: Vec<(String, bool)>,
    /// Its environment variables, in addition to those of every command.
    pub environment: Vec<(String, String)>,
    /// The hosts it may reach.
    pub network: Vec<String>,
    /// The HTTP proxy through which they are reached.
    pub upstream: Option<UpstreamProxy>,
    /// Host directories and files that it may read besides the system's, at the same path.
    pub read: Vec<PathBuf>,
    /// Its resource limits; those of a command without a time limit by default.
    pub limits: Option<ResourceLimits>,
    /// Directories of its own, besides mounts.
    pub own: Vec<OwnDirectory>,
    /// Whether its mounts are shown at their paths on the host, instead of at `/mnt/NAME`.
    pub host_paths: bool,
    /// Receives everything that it writes to standard error.
    pub log: Option<ErrorLog>,
}

/// A directory of the gate's state that belongs to one process: nothing in it is masked or quarantined.
#[derive(Clone, Debug)]
pub struct OwnDirectory {
    /// The directory.
    pub directory: Arc<OwnedFd>,
    /// Where the process sees it.
    pub at: PathBuf,
    /// Whether the process may write to it.
    pub writable: bool,
    /// The process is stopped when it holds more bytes than this.
    pub max_bytes: Option<u64>,
}

/// Takes bytes of standard error as they come.
type ErrorSink = dyn Fn(&[u8]) + Send + Sync;

/// Receives the standard error of a process as it comes.
#[derive(Clone)]
pub struct ErrorLog(pub Arc<ErrorSink>);

impl std::fmt::Debug for ErrorLog {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ErrorLog")
    }
}

/// A started process. A program that cannot be executed is only noticed after the start: the process has then ended.
#[derive(Debug)]
pub struct StartedProcess {
    /// Its standard input; non-blocking.
    pub input: OwnedFd,
    /// Its standard output; non-blocking.
    pub output: OwnedFd,
    /// The process itself.
    pub process: LongRunningProcess,
}

/// A running process. Dropping it terminates it.
#[derive(Debug)]
pub struct LongRunningProcess {
    /// Closing this terminates the process.
    stop_fd: Mutex<Option<OwnedFd>>,
    end: watch::Receiver<Option<ProcessEnd>>,
    tail: Arc<StderrTail>,
    /// Requests scans for what it left; `None` if it can write nothing.
    commands: Option<mpsc::Sender<SupervisorCommand>>,
}

/// How a process ended, and what the scan after it found.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessEnd {
    /// Why the process is gone, for the operator.
    pub reason: String,
    /// Whether it exited with code 0 by itself.
    pub success: bool,
    /// Paths that it left under protected names, which were quarantined.
    pub quarantined: Vec<String>,
    /// Why the scan was incomplete.
    pub unchecked: Option<Failure>,
}

impl LongRunningProcess {
    /// Requests termination, with a kill after five seconds; does not wait.
    pub fn end(&self) {
        self.stop_fd.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// How it ended, if it has. Then none of its descendants is alive either.
    #[must_use]
    pub fn has_ended(&self) -> Option<ProcessEnd> {
        self.end.borrow().clone()
    }

    /// Waits until it has ended, by itself or on request.
    pub async fn ended(&self) -> ProcessEnd {
        let mut end = self.end.clone();
        let found = end.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
        found.unwrap_or_else(ProcessEnd::unknown)
    }

    /// The end of its standard error, sanitised.
    #[must_use]
    pub fn errors(&self) -> String {
        self.tail.text()
    }

    /// Quarantines what it has left so far under names that other programs execute, and returns the paths. The process keeps running.
    ///
    /// # Errors
    /// Not all of its mounts could be scanned, or not everything could be quarantined.
    pub async fn quarantine(&self, call: CallId) -> Result<Vec<String>, Failure> {
        let Some(checks) = &self.commands else { return Ok(Vec::new()) };
        let (answer, answered) = oneshot::channel();
        // The scanning thread is gone once the process has ended, and has done a last scan.
        if checks.send(SupervisorCommand::Scan { call, answer }).is_err() {
            return Ok(Vec::new());
        }
        answered.await.unwrap_or_else(|_| Ok(Vec::new()))
    }
}

impl ProcessEnd {
    /// The end of a process whose supervisor thread is gone, and so the process.
    fn unknown() -> Self {
        Self {
            reason: "it ended unexpectedly".to_owned(),
            success: false,
            quarantined: Vec::new(),
            unchecked: None,
        }
    }

    /// The same with another reason, if there is one.
    pub(super) fn because(self, reason: Option<&String>) -> Self {
        match reason {
            Some(reason) => Self { reason: reason.clone(), success: false, ..self },
            None => self,
        }
    }

    pub(super) fn of(ended: Result<CommandExit, SandboxError>, left: Result<Vec<String>, Failure>) -> Self {
        let success =
            ended.as_ref().is_ok_and(|ended| ended.exit == Exit::Code(0) && ended.stopped.is_none());
        let reason = ended.map_or_else(|error| error.to_string(), |ended| describe_exit(&ended));
        let (quarantined, unchecked) = match left {
            Ok(quarantined) => (quarantined, None),
            Err(failure) => (Vec::new(), Some(failure)),
        };
        Self { reason, success, quarantined, unchecked }
    }
}

impl CommandRunner {
    /// Starts a process that runs until it is terminated, is dropped, or exits. Scans its mounts first, so it may block.
    ///
    /// # Errors
    /// It cannot be confined as far as required, or it requests something that no process is given.
    pub fn start(self: &Arc<Self>, process: &ConfinedProcess) -> Result<StartedProcess, Failure> {
        self.check_disk()?;
        reject_loader_variables(&process.environment)?;
        self.reject_mounts(&process.read)?;
        self.check_host_paths(process)?;
        let rules = NetworkAllowlist::parse(&process.network).map_err(|error| {
            Failure::new(ErrorCode::InvalidArguments, error.to_string()).help(error.help())
        })?;
        let cannot = |error: std::io::Error| not_started(&error.to_string());
        let (until, leash) = std::io::pipe().map_err(cannot)?;
        let (end, ended) = watch::channel(None);
        let (finish, orders) = mpsc::channel();
        let (news, told) = mpsc::channel();
        let tail = Arc::<StderrTail>::default();
        let may_write = process.mounts.iter().any(|(_, writable)| *writable);
        let checks = may_write.then(|| finish.clone());
        let keeper = ProcessSupervisor {
            directory: self.start_directory(process)?,
            runner: Arc::clone(self),
            process: process.clone(),
            reach: Reach { rules, key: "network" },
            stop_pipe: until,
            tail: Arc::clone(&tail),
            end,
            started: StartNotifier::to(news),
            commands: Mutex::new(orders),
            finish,
            overfull: OnceLock::new(),
        };
        let thread = std::thread::Builder::new().name("server".to_owned());
        thread.spawn(move || keeper.supervise()).map_err(cannot)?;
        let PipeEnds { input, output } = told.recv().map_err(|_| not_started("its thread ended"))??;
        let process = LongRunningProcess {
            stop_fd: Mutex::new(Some(leash.into())),
            end: ended,
            tail,
            commands: checks,
        };
        Ok(StartedProcess { input, output, process })
    }

    /// Rejects host paths that overlap a mount: the mount's masks would not apply there.
    fn reject_mounts(&self, read: &[PathBuf]) -> Result<(), Failure> {
        let mounts = || self.workspace().mounts().iter();
        let meets = |place: &PathBuf| {
            let root =
                |mount: &&Mount| mount.host_root().starts_with(place) || place.starts_with(mount.host_root());
            mounts().find(root).map(|mount| mount.alias().to_owned())
        };
        match read.iter().find_map(meets) {
            Some(alias) => {
                let message = format!("a folder that the process may read has something of `{alias}` in it");
                let help = format!("give it `{alias}` as a mount, and name other folders to read");
                Err(Failure::new(ErrorCode::InvalidArguments, message).help(help))
            }
            None => Ok(()),
        }
    }

    /// The working directory, as the process sees it: in one of its own mounts, at a path that may be listed.
    fn start_directory(&self, process: &ConfinedProcess) -> Result<PathBuf, Failure> {
        let Some(path) = &process.directory else {
            let first = process.mounts.first().map(|(alias, _)| self.shown_at(process, alias));
            let own = || process.own.iter().find(|own| own.writable).map(|own| own.at.clone());
            return Ok(first.or_else(own).unwrap_or_else(|| PathBuf::from("/tmp")));
        };
        let stop = scan_deadline();
        let view = WorkspaceView {
            workspace: self.workspace(),
            style: PathStyle::Free,
            limits: &NO_ACCESS,
            grant: None,
            stop: &stop,
            unlocked: None,
        };
        let PathKind::Directory(shown) = path_kind(&view, path)? else {
            let message = format!("`{}` is not a directory", escape_name(path));
            return Err(
                Failure::new(ErrorCode::NotADirectory, message).help("name the directory to begin in")
            );
        };
        let place = self.path_inside(&shown);
        let below = process.mounts.iter().find_map(|(alias, _)| {
            let rest = place.strip_prefix(inside(alias, "")).ok()?;
            let root = self.shown_at(process, alias);
            Some(if rest.as_os_str().is_empty() { root } else { root.join(rest) })
        });
        below.ok_or_else(|| {
            let message = format!("`{}` is in no mount of the process", escape_name(path));
            Failure::new(ErrorCode::InvalidArguments, message).help("give it the mount too")
        })
    }

    /// Where the process sees the root of a mount.
    pub(super) fn shown_at(&self, process: &ConfinedProcess, alias: &str) -> PathBuf {
        let mount = self.workspace().mounts().iter().find(|mount| mount.alias() == alias);
        match mount.filter(|_| process.host_paths) {
            Some(mount) => mount.host_root().to_path_buf(),
            None => inside(alias, ""),
        }
    }

    /// A mount at its path on the host must not cover something of the sandbox, or lie in it.
    fn check_host_paths(&self, process: &ConfinedProcess) -> Result<(), Failure> {
        if !process.host_paths {
            return Ok(());
        }
        let refused = |(alias, _): &(String, bool)| {
            let place = self.shown_at(process, alias);
            Some((place.clone(), refused_place(&place)?))
        };
        match process.mounts.iter().find_map(refused) {
            Some((place, reason)) => {
                let message = format!("`{}` cannot be shown at its own path: it {reason}", place.display());
                let help = "leave out `host_paths`, and write `/mnt/NAME` in `args`";
                Err(Failure::new(ErrorCode::InvalidArguments, message).help(help))
            }
            None => Ok(()),
        }
    }
}

/// Limits for a view that only resolves a directory.
const NO_ACCESS: Limits = Limits {
    max_read_bytes: 0,
    max_resource_bytes: u64::MAX,
    max_write_bytes: 0,
    max_entries: 0,
    max_matches: 0,
    max_output_bytes: 0,
    timeout: SCAN_TIMEOUT,
};

/// The deadline of a scan.
pub(super) fn scan_deadline() -> Deadline {
    Deadline::after(SCAN_TIMEOUT)
}

fn reject_loader_variables(environment: &[(String, String)]) -> Result<(), Failure> {
    match environment.iter().find_map(|(name, _)| Some((name, loader_variable(name)?))) {
        Some((name, reason)) => {
            Err(Failure::new(ErrorCode::InvalidArguments, format!("`{}` {reason}", escape_name(name)))
                .help("remove it: the sandbox sets what a process needs"))
        }
        None => Ok(()),
    }
}

fn not_started(reason: &str) -> Failure {
    Failure::new(ErrorCode::Internal, "the process could not be started").operator_note(reason)
}
