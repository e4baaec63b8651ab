//! The supervisor thread of a long-running process.
//!
//! It starts the process, because the kernel kills a child with the thread that created it (`PR_SET_PDEATHSIG`), and drains its standard error. If
//! the process can write to mounts, a second thread scans them on request.

use std::collections::HashSet;
use std::io::PipeReader;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};

use tokio::sync::{oneshot, watch};
use toolgate_confine::{ConfineRequest, ConfinedMount, ConfinedRun};
use toolgate_egress::{ProxiedDialer, RejectedConnection};
use toolgate_sandbox::{
    BindMount, CommandExit, CommandStdio, Job, Network, PipeEnds, PipedStdio, SandboxError, Stream,
};
use toolgate_types::{CallId, Deadline, ErrorCode, Failure};
use toolgate_workspace::DiskReserve;

use crate::command_outcome::escape_name;
use crate::confinement::SandboxRuntime;
use crate::long_running::{ConfinedProcess, ErrorLog, ProcessEnd, scan_deadline};
use crate::network::{Proxy, Reach, refused_line};
use crate::post_run::{PostRunLeftovers, quarantine_leftovers, quarantine_while_running};
use crate::stderr_tail::StderrTail;
use crate::{CommandRunner, MAX_ATTEMPTS, bind_mount};

/// The state of the supervisor thread.
pub(super) struct ProcessSupervisor {
    pub(super) runner: Arc<CommandRunner>,
    pub(super) process: ConfinedProcess,
    pub(super) reach: Reach,
    /// The working directory, as the process sees it.
    pub(super) directory: PathBuf,
    /// Its write end is closed when the process is to end.
    pub(super) stop_pipe: PipeReader,
    pub(super) tail: Arc<StderrTail>,
    pub(super) end: watch::Sender<Option<ProcessEnd>>,
    pub(super) started: StartNotifier,
    /// Receives scan requests; `finish` sends the last command.
    pub(super) commands: Mutex<mpsc::Receiver<SupervisorCommand>>,
    pub(super) finish: mpsc::Sender<SupervisorCommand>,
    /// Which of its directories became too large.
    pub(super) overfull: OnceLock<String>,
}

/// Reports the result of the start to the caller, once.
pub(super) struct StartNotifier(Mutex<Option<mpsc::Sender<Result<PipeEnds, Failure>>>>);

impl StartNotifier {
    pub(super) fn to(whom: mpsc::Sender<Result<PipeEnds, Failure>>) -> Self {
        Self(Mutex::new(Some(whom)))
    }

    fn notify(&self, how: Result<PipeEnds, Failure>) {
        if let Some(sender) = self.take() {
            let _ = sender.send(how);
        }
    }

    fn take(&self) -> Option<mpsc::Sender<Result<PipeEnds, Failure>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn is_notified(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

/// A command for the scanning thread.
pub(super) enum SupervisorCommand {
    /// Scan for what the process has left so far.
    Scan { call: CallId, answer: oneshot::Sender<Result<Vec<String>, Failure>> },
    /// The process has ended.
    Finish,
}

/// Why the process was not started.
enum StartError {
    /// Files moved while it was being confined; a retry may succeed.
    Changed,
    /// Anything else.
    Refused(Failure),
}

impl From<SandboxError> for StartError {
    fn from(error: SandboxError) -> Self {
        match error {
            SandboxError::Changed { .. } => Self::Changed,
            other => Self::Refused(other.into()),
        }
    }
}

impl ProcessSupervisor {
    /// Starts the process and supervises it to its end.
    pub(super) fn supervise(self) {
        for _ in 0..MAX_ATTEMPTS {
            match self.attempt() {
                Ok(end) => return drop(self.end.send(Some(end))),
                Err(StartError::Refused(failure)) => return self.started.notify(Err(failure)),
                Err(StartError::Changed) => {}
            }
        }
        let failure =
            Failure::new(ErrorCode::PreconditionFailed, "files moved while the process was being started");
        self.started.notify(Err(failure.help("try again when nothing else is changing the workspace")));
    }

    fn attempt(&self) -> Result<ProcessEnd, StartError> {
        let refused = StartError::Refused;
        let made = self.runner.options.confinement.runtime().map_err(refused)?;
        let mounts = self.process.mounts.iter();
        let mounts: Vec<ConfineRequest<'_>> =
            mounts.map(|(alias, writable)| ConfineRequest { alias, writable: *writable }).collect();
        let begun = self.runner.begin(made.state, &mounts, None, &scan_deadline(), CallId::fresh());
        // Leftovers of earlier processes are reported together with this process's own.
        let (run, recovered) = begun.map_err(refused)?;
        let ended = std::thread::scope(|scope| {
            if mounts.iter().any(|mount| mount.writable) {
                scope.spawn(|| self.scan_on_demand(made, &run));
            }
            let ended = self.run(made, run.mounts());
            let _ = self.finish.send(SupervisorCommand::Finish);
            ended
        });
        match ended {
            Err(error) if !self.started.is_notified() => {
                run.cancel();
                Err(error.into())
            }
            ended => {
                let left = quarantine_leftovers(made.state, &run, CallId::fresh()).map(|mut left| {
                    left.quarantined.extend(recovered);
                    paths(&left)
                });
                Ok(ProcessEnd::of(ended, left).because(self.overfull.get()))
            }
        }
    }

    /// Scans on request until the process has ended.
    fn scan_on_demand(&self, made: SandboxRuntime<'_>, run: &ConfinedRun<'_>) {
        let orders = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        while let Ok(SupervisorCommand::Scan { call, answer }) = orders.recv() {
            let taken = quarantine_while_running(made.state, run, call);
            let _ = answer.send(taken.map(|left| paths(&left)));
        }
    }

    fn run(
        &self,
        made: SandboxRuntime<'_>,
        confined: &[ConfinedMount<'_>],
    ) -> Result<CommandExit, SandboxError> {
        let dialer = Arc::clone(&self.runner.options.dialer);
        let dialer = match self.process.upstream.clone() {
            Some(upstream) => Arc::new(ProxiedDialer::new(dialer, upstream)),
            None => dialer,
        };
        let proxy = made.sandbox.has_network_namespace().then(|| {
            let proxy = Proxy::new(self.reach.rules.clone(), dialer);
            proxy.on_refusal(Arc::new(self.denials()))
        });
        let serve = |listener| match &proxy {
            Some(proxy) => proxy.serve(listener),
            None => Err(std::io::ErrorKind::Unsupported.into()),
        };
        let take = |ends| self.started.notify(Ok(ends));
        let reserve = self.runner.options.reserve.as_ref();
        let own = &self.process.own;
        let disk_is_short = || self.own_directory_is_full() || reserve.is_some_and(DiskReserve::is_short);
        // A process that can write nothing cannot fill the disk, so its disk usage is not polled.
        let may_write = confined.iter().any(ConfinedMount::is_writable) || own.iter().any(|own| own.writable);
        let watches = may_write && (reserve.is_some() || own.iter().any(|own| own.max_bytes.is_some()));
        let mut mounts: Vec<BindMount<'_>> = confined.iter().map(bind_mount).collect();
        for (mount, confined) in mounts.iter_mut().zip(confined) {
            mount.at = self.runner.shown_at(&self.process, confined.alias());
        }
        // A mount inside another one is attached after it.
        mounts.sort_by(|left, right| left.at.cmp(&right.at));
        mounts.extend(own.iter().map(|own| BindMount {
            directory: own.directory.as_fd(),
            at: own.at.clone(),
            writable: own.writable,
            overlays: Vec::new(),
        }));
        let job = Job {
            program: self.process.program.clone(),
            arguments: self.process.arguments.clone(),
            directory: self.directory.clone(),
            environment: self.runner.variables(
                &self.directory,
                confined,
                &self.process.environment,
                proxy.as_ref(),
            ),
            stdio: CommandStdio::Piped(PipedStdio { on_start: &take, stop_fd: self.stop_pipe.as_fd() }),
            mounts,
            read: self.process.read.clone(),
            home_links: Vec::new(),
            network: if proxy.is_some() { Network::Proxied(&serve) } else { Network::None },
            limits: self.process.limits.unwrap_or_else(|| self.runner.limits().long_lived()),
            disk_is_short: watches.then_some(&disk_is_short),
        };
        let mut sink = |_: Stream, bytes: &[u8]| self.heard(bytes);
        made.sandbox.run(&job, &Deadline::never(), &mut sink)
    }
}

impl ProcessSupervisor {
    fn heard(&self, bytes: &[u8]) {
        self.tail.push(bytes);
        if let Some(ErrorLog(log)) = &self.process.log {
            log(bytes);
        }
    }

    /// Whether a directory of the process holds more than it may.
    fn own_directory_is_full(&self) -> bool {
        let full = self.process.own.iter().find_map(|own| {
            let most = own.max_bytes.filter(|most| own.is_over(*most))?;
            Some(format!("`{}` holds more than the {most} bytes that it may", own.at.display()))
        });
        let is_full = full.is_some();
        if let Some(reason) = full {
            let _ = self.overfull.set(reason);
        }
        is_full
    }
}

/// The maximum number of distinct rejected connections that are reported.
const MAX_REFUSALS: usize = 32;

impl ProcessSupervisor {
    /// Reports each denied host once, in the tail of standard error.
    fn denials(&self) -> impl Fn(&RejectedConnection) + Send + Sync + 'static {
        let (tail, key, told) = (Arc::clone(&self.tail), self.reach.key, Mutex::new(HashSet::new()));
        let log = self.process.log.clone();
        move |refusal| {
            let line = refused_line(refusal, key);
            let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.len() < MAX_REFUSALS && told.insert(line.clone()) {
                tail.push(line.as_bytes());
                if let Some(ErrorLog(log)) = &log {
                    log(line.as_bytes());
                }
            }
        }
    }
}

/// The paths that were quarantined.
fn paths(left: &PostRunLeftovers) -> Vec<String> {
    left.quarantined.iter().map(|quarantined| escape_name(&quarantined.path)).collect()
}
