//! A process that serves others for as long as they want: confined like a command, and talked with through its standard streams.
//!
//! What a process may not see is decided when it starts. A file that gets a denied name later is not hidden from a process that runs already; what it puts
//! itself under names that other programs obey is taken away when somebody asks, and when it has ended.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};
use toolgate_sandbox::{CommandExit, PipeEnds, ResourceLimits, SandboxError, loader_variable};
use toolgate_types::{CallId, Cancellation, ErrorCode, Failure, Limits};
use toolgate_workspace::{Mount, PathStyle, WorkspaceView};

use super::command_outcome::{describe_exit, escape_name};
use super::network::Reach;
use super::stderr_tail::StderrTail;
use super::supervisor::{ProcessSupervisor, StartNotifier, SupervisorCommand};
use super::{CommandRunner, PathKind, inside, path_kind, rules};

/// How long looking at the mounts before the start may take.
const SCAN_TIMEOUT: Duration = Duration::from_secs(120);

/// A process to be started, and everything it is given.
#[derive(Clone, Debug)]
pub struct ConfinedProcess {
    /// A name that is looked for where commands look, or an absolute path as the process sees it.
    pub program: OsString,
    /// Its arguments, without the program itself.
    pub arguments: Vec<OsString>,
    /// Where it begins, such as `@project/sub`; where this is not said, its first mount.
    pub directory: Option<String>,
    /// The mounts it sees, at `/mnt/NAME`: each an alias, and whether it may be changed.
    pub mounts: Vec<(String, bool)>,
    /// Its variables, beside the few that every command has.
    pub environment: Vec<(String, String)>,
    /// The hosts it may reach.
    pub network: Vec<String>,
    /// Folders and files of the host that it may read beside the system, at the same place.
    pub read: Vec<PathBuf>,
    /// How much it may use; where this is not said, as much as a command, for as long as it likes.
    pub limits: Option<ResourceLimits>,
}

/// A process that was started. That its program cannot be run is only known afterwards: it has then ended.
#[derive(Debug)]
pub struct StartedProcess {
    /// What is written here it reads; non-blocking.
    pub input: OwnedFd,
    /// What it writes; non-blocking.
    pub output: OwnedFd,
    /// The process itself.
    pub process: LongRunningProcess,
}

/// A running process. Dropping it ends it.
#[derive(Debug)]
pub struct LongRunningProcess {
    /// The process ends when this is closed.
    stop_fd: Mutex<Option<OwnedFd>>,
    end: watch::Receiver<Option<ProcessEnd>>,
    tail: Arc<StderrTail>,
    /// Whom to ask to look at what it left; nobody where it can leave nothing.
    commands: Option<mpsc::Sender<SupervisorCommand>>,
}

/// How a process ended, and what was found after it.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessEnd {
    /// Why there is no such process any more, in words for the operator.
    pub reason: String,
    /// What it left under protected names, which was taken away.
    pub quarantined: Vec<String>,
    /// Why not all that it left could be checked.
    pub unchecked: Option<Failure>,
}

impl LongRunningProcess {
    /// Asks it to end, and ends it after five seconds if it does not; returns at once.
    pub fn end(&self) {
        self.stop_fd.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// How it ended, if it has. Nothing that it started is alive then.
    #[must_use]
    pub fn has_ended(&self) -> Option<ProcessEnd> {
        self.end.borrow().clone()
    }

    /// Waits until it has ended, by itself or because it was asked to.
    pub async fn ended(&self) -> ProcessEnd {
        let mut end = self.end.clone();
        let found = end.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
        found.unwrap_or_else(ProcessEnd::unknown)
    }

    /// The last of what it said on standard error, without anything that a terminal would obey.
    #[must_use]
    pub fn errors(&self) -> String {
        self.tail.text()
    }

    /// Takes away what it has left so far under names that other programs obey, and tells their paths. It goes on meanwhile.
    ///
    /// # Errors
    /// Not all of its mounts could be looked at, or not all could be taken away.
    pub async fn quarantine(&self, call: CallId) -> Result<Vec<String>, Failure> {
        let Some(checks) = &self.commands else { return Ok(Vec::new()) };
        let (answer, answered) = oneshot::channel();
        // Whoever looked is gone once the process has ended, and has looked before.
        if checks.send(SupervisorCommand::Scan { call, answer }).is_err() {
            return Ok(Vec::new());
        }
        answered.await.unwrap_or_else(|_| Ok(Vec::new()))
    }
}

impl ProcessEnd {
    /// Of a process whose thread is gone, and so the process.
    fn unknown() -> Self {
        Self { reason: "it ended unexpectedly".to_owned(), quarantined: Vec::new(), unchecked: None }
    }

    pub(super) fn of(ended: Result<CommandExit, SandboxError>, left: Result<Vec<String>, Failure>) -> Self {
        let reason = ended.map_or_else(|error| error.to_string(), |ended| describe_exit(&ended));
        let (quarantined, unchecked) = match left {
            Ok(quarantined) => (quarantined, None),
            Err(failure) => (Vec::new(), Some(failure)),
        };
        Self { reason, quarantined, unchecked }
    }
}

impl CommandRunner {
    /// Starts a process that goes on until it is asked to end, is dropped, or ends itself. Looks at its mounts first, and so may block for a while.
    ///
    /// # Errors
    /// It cannot be confined as far as is required, or it is to have something that no process is given.
    pub fn start(self: &Arc<Self>, process: &ConfinedProcess) -> Result<StartedProcess, Failure> {
        self.check_disk()?;
        reject_loader_variables(&process.environment)?;
        self.reject_mounts(&process.read)?;
        let rules = rules(&process.network).map_err(|error| {
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

    /// What is in a mount is shown by way of the mount alone: elsewhere nothing of it would be hidden.
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

    /// Where a process begins, as it sees it: in one of its own mounts, at a place that can be listed.
    fn start_directory(&self, process: &ConfinedProcess) -> Result<PathBuf, Failure> {
        let Some(path) = &process.directory else {
            let first = process.mounts.first().map(|(alias, _)| inside(alias, ""));
            return Ok(first.unwrap_or_else(|| PathBuf::from("/tmp")));
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
        if !process.mounts.iter().any(|(alias, _)| place.starts_with(inside(alias, ""))) {
            let message = format!("`{}` is in no mount of the process", escape_name(path));
            return Err(Failure::new(ErrorCode::InvalidArguments, message).help("give it the mount too"));
        }
        Ok(place)
    }
}

/// Nothing is read, listed or written where a folder is only looked at.
const NO_ACCESS: Limits = Limits {
    max_read_bytes: 0,
    max_write_bytes: 0,
    max_entries: 0,
    max_matches: 0,
    max_output_bytes: 0,
    timeout: SCAN_TIMEOUT,
};

/// Ends when looking at files has taken too long.
pub(super) fn scan_deadline() -> Cancellation {
    Cancellation::new(Instant::now().checked_add(SCAN_TIMEOUT), || false)
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
