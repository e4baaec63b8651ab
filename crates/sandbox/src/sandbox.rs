//! The sandbox: prepared once, run for every command.

use std::ffi::{CString, OsStr, OsString};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Instant;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};
use toolgate_types::Deadline;

use crate::bare_binds::BareBinds;
use crate::cgroup::{Cgroups, CommandCgroup};
use crate::environment;
use crate::error::SandboxError;
use crate::job::{CommandExit, CommandStdio, Job, PipeEnds, Stream};
use crate::landlock::LandlockAbi;
use crate::launch_report::{exit, explains_failure, limit_hit};
use crate::layer::{Layer, LayerReport, Layers};
use crate::namespaces::{NamespaceCreation, NamespaceKinds, NamespacePool, NamespaceSet, RootfsSpec};
use crate::plan::{LaunchPlan, PlanContext, ViewKey, host_place, plan, populate_rootfs, view_key};
use crate::probe::probe;
use crate::proxy_port::LazyProxy;
use crate::seccomp::{Filters, Sockets};
use crate::supervise::{ChildPipes, DiskWatch, OutputLimits, StopCondition, supervise};
use crate::sys::calls;
use crate::sys::child::{CStringArray, ChildFds, ChildLaunch, JoinNamespaces, LaunchProgress};
use crate::sys::launch;
use crate::system_view::{SystemView, refused_place};
use crate::temp_directory::TempDirectory;

/// The program that becomes process 1.
const INIT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/init"));

/// The operator's settings for commands.
#[derive(Clone, Debug)]
pub struct SandboxOptions {
    /// Layers without which no command is run.
    pub require: Layers,
    /// Host directories and files that commands may read in addition to the system's, at the same path.
    pub read: Vec<PathBuf>,
    /// Host directories and files that no command may see, wherever they are in the visible system: the gate's own.
    pub hide: Vec<PathBuf>,
    /// Where programs are looked up.
    pub path: Vec<PathBuf>,
    /// Variables of every command's environment, such as those that a toolchain needs. A job may replace them.
    pub variables: Vec<(String, String)>,
    /// Layers that are not applied although the machine supports them. No configuration can set this: tests use it to show that each layer matters.
    pub without: Layers,
}

impl Default for SandboxOptions {
    fn default() -> Self {
        Self {
            require: Layers::required_by_default(),
            read: Vec::new(),
            hide: Vec::new(),
            path: ["/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"]
                .map(PathBuf::from)
                .to_vec(),
            variables: Vec::new(),
            without: Layers::NONE,
        }
    }
}

/// Confines and runs commands.
pub struct Sandbox {
    options: SandboxOptions,
    layers: Layers,
    reports: Vec<LayerReport>,
    landlock: Option<LandlockAbi>,
    filters: Filters,
    system: SystemView,
    init: OwnedFd,
    /// Pidfd of this process, with which children check that it still exists.
    gate: OwnedFd,
    namespaces: NamespacePool,
    cgroups: Option<Cgroups>,
}

impl Sandbox {
    /// Probes the machine and prepares what commands share. A missing required layer is not an error here but when a command is run, so that
    /// everything else keeps working.
    ///
    /// # Errors
    /// The system lacks something that every sandbox needs.
    pub fn prepare(options: SandboxOptions) -> Result<Self, SandboxError> {
        check_places(&options.read)?;
        let cannot = SandboxError::system;
        let cgroups = if options.without.contains(Layer::Cgroup) {
            Err("switched off".to_owned())
        } else {
            Cgroups::find()
        };
        let cgroup =
            cgroups.as_ref().map(|_| "limits every command as a whole".to_owned()).map_err(Clone::clone);
        let probed = probe(options.without, cgroup);
        let init = calls::memfd_program(c"toolgate-init", INIT)
            .map_err(cannot("the init program cannot be kept"))?;
        let init = move_fd_above_10(init)?;
        let me = rustix::process::getpid();
        let gate = rustix::process::pidfd_open(me, PidfdFlags::empty())
            .map_err(cannot("this process has no handle"))?;
        Ok(Self {
            layers: probed.works,
            reports: probed.reports,
            landlock: probed.landlock,
            filters: Filters::default(),
            system: SystemView::detect(&options.read, &options.hide),
            init,
            gate: move_fd_above_10(gate)?,
            namespaces: NamespacePool::default(),
            cgroups: cgroups.ok(),
            options,
        })
    }

    /// The support for each layer.
    #[must_use]
    pub fn layers(&self) -> &[LayerReport] {
        &self.reports
    }

    /// Whether every required layer is available.
    ///
    /// # Errors
    /// Which layers are missing, and why.
    pub fn check(&self) -> Result<(), SandboxError> {
        let missing = self.options.require.minus(self.options.without).minus(self.layers);
        if missing.is_empty() {
            return Ok(());
        }
        let why = self.reports.iter().filter(|report| missing.contains(report.layer));
        let why: Vec<String> = why.map(|report| format!("{}: {}", report.layer, report.detail)).collect();
        Err(SandboxError::Missing { missing, why: why.join("; ") })
    }

    /// The path of a program, looked up as the command itself would.
    #[must_use]
    pub fn find_program(&self, program: &OsStr) -> Option<PathBuf> {
        self.find_in(&self.system, program)
    }

    /// Whether a command that is shown these paths besides the system finds this program: one named by its path has to be among them, and so has what
    /// it is a symlink to.
    #[must_use]
    pub fn shows_program(&self, program: &OsStr, read: &[PathBuf]) -> bool {
        let Ok(of_its_own) = self.view_with(read) else { return false };
        let system = of_its_own.as_ref().unwrap_or(&self.system);
        self.find_in(system, program).is_some_and(|place| is_program(&place) && system.shows_target(&place))
    }

    fn find_in(&self, system: &SystemView, program: &OsStr) -> Option<PathBuf> {
        if program.as_bytes().contains(&b'/') {
            return Some(PathBuf::from(program));
        }
        let places = self.options.path.iter().map(|folder| folder.join(program));
        places.filter(|place| is_program(place)).find(|place| system.shows(place))
    }

    /// Runs a command to its end. Output is passed to `sink` as it arrives; when this returns, nothing that the command started is alive.
    ///
    /// The command is also killed when the calling thread ends (`PR_SET_PDEATHSIG`), which is how the kernel signals that the gate is gone. With
    /// [`CommandStdio::Piped`], its own `stop_fd` stops it, and not `stop`.
    ///
    /// # Errors
    /// The command could not be started. A command that fails is [`CommandExit`].
    pub fn run(
        &self,
        job: &Job<'_>,
        stop: &Deadline,
        sink: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<CommandExit, SandboxError> {
        self.check()?;
        let of_its_own = self.view_with(&job.read)?;
        let system = of_its_own.as_ref().unwrap_or(&self.system);
        let program = self
            .find_in(system, &job.program)
            .ok_or_else(|| SandboxError::NotFound { program: job.program.clone() })?;
        let temporary = TempDirectory::make(self.has(Layer::MountNamespace))?;
        let planning = self.plan_context(system, &temporary);
        let cell = self.acquire_namespaces(job, &planning)?;
        let ended = self.run_in(&cell, job, &program, &planning, stop, sink);
        // A set whose command could not be started is not reused.
        if let Ok(_) | Err(SandboxError::NotFound { .. } | SandboxError::NotRunnable { .. }) = &ended {
            self.namespaces.release(cell);
        }
        ended
    }

    pub(crate) fn has(&self, layer: Layer) -> bool {
        self.layers.contains(layer)
    }

    /// The system view of a command that may read more than others.
    fn view_with(&self, read: &[PathBuf]) -> Result<Option<SystemView>, SandboxError> {
        check_places(read)?;
        let look = || SystemView::detect(&[&*self.options.read, read].concat(), &self.options.hide);
        Ok((!read.is_empty()).then(look))
    }

    fn plan_context<'a>(&self, system: &'a SystemView, temporary: &'a TempDirectory) -> PlanContext<'a> {
        PlanContext {
            layers: self.layers,
            system,
            landlock: self.landlock,
            temporary: temporary.path(),
            view_is_off: self.options.without.contains(Layer::MountNamespace),
            is_root: rustix::process::geteuid().is_root(),
        }
    }

    /// A namespace set for a job: from the pool, or new.
    fn acquire_namespaces(
        &self,
        job: &Job<'_>,
        planning: &PlanContext<'_>,
    ) -> Result<NamespaceSet, SandboxError> {
        let has_view = self.has(Layer::MountNamespace);
        let key = has_view.then(|| view_key(job, planning.system, &self.options.path)).transpose()?;
        if let Some(cell) = self.namespaces.acquire(key.as_ref()) {
            return Ok(cell);
        }
        let kind = NamespaceKinds {
            user: self.has(Layer::UserNamespace),
            network: self.has(Layer::NetworkNamespace),
            proc: self.has(Layer::PrivateProc),
        };
        // Without a user namespace, the kernel does not refuse an overlay over a directory with submounts, and the overlay shows none of them.
        let mut bare = if kind.user { BareBinds::default() } else { BareBinds::all_of(planning.system) };
        loop {
            let furnishing = |key: ViewKey| {
                let plan = populate_rootfs(&job.mounts, planning, &bare)?;
                Ok(RootfsSpec { key, plan, sockets: self.sockets(&bare) })
            };
            match NamespaceSet::create(kind, key.clone().map(furnishing).transpose()?)? {
                NamespaceCreation::Created(cell) => return Ok(cell),
                NamespaceCreation::NoOverlay(path) if bare.add(&path) => {}
                NamespaceCreation::NoOverlay(_) => {
                    return Err(SandboxError::system("a view cannot be made")(Errno::INVAL));
                }
            }
        }
    }

    /// Which sockets a command may create in a view.
    fn sockets(&self, bare: &BareBinds) -> Sockets {
        match (self.has(Layer::NetworkNamespace), bare.may_expose_sockets()) {
            (true, false) => Sockets::Confined,
            (true, true) => Sockets::NoUnix,
            (false, _) => Sockets::None,
        }
    }

    fn run_in(
        &self,
        cell: &NamespaceSet,
        job: &Job<'_>,
        program: &Path,
        planning: &PlanContext<'_>,
        stop: &Deadline,
        sink: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<CommandExit, SandboxError> {
        let mut proxy = LazyProxy::of(&job.network, cell)?;
        let prepared = plan(job, planning)?;
        let begun = Instant::now();
        let group = self.cgroups.as_ref().map(|groups| groups.make(&job.limits)).transpose();
        let group = group.map_err(SandboxError::system("no control group can be made"))?;
        let place =
            LaunchEnvironment { namespaces: cell, group: group.as_ref(), temporary: planning.temporary };
        let (process, ears) = self.launch(&place, job, program, &prepared)?;
        let until = match &job.stdio {
            CommandStdio::Captured(_) => StopCondition::Polled(stop),
            CommandStdio::Piped(handed) => StopCondition::Fd(handed.stop_fd),
            CommandStdio::Streamed(streamed) => StopCondition::Fd(streamed.stop_fd),
        };
        let heard =
            supervise(ears, OutputLimits::of(&job.stdio), until, DiskWatch::new(job), proxy.as_mut(), sink);
        // Process 1 has exited or is killed now; either way it is reaped, and with it everything in its namespace.
        if heard.is_err() {
            // Without a PID namespace, process 1 kills its descendants on `SIGINT`.
            let signal = if self.has(Layer::PidNamespace) { Signal::KILL } else { Signal::INT };
            let _ = rustix::process::kill_process(process, signal);
        }
        wait(process)?;
        let heard = heard?;
        let exit = exit(&heard.report, &job.program)?;
        Ok(CommandExit {
            exit,
            stopped: heard.stopped,
            duration: begun.elapsed(),
            output_bytes: heard.output_bytes,
            error_bytes: heard.error_bytes,
            truncated: heard.output_bytes + heard.error_bytes > heard.kept,
            wanted_network: explains_failure(exit, heard.stopped) && cell.lost_packets(),
            limit: limit_hit(exit, group.as_ref()),
        })
    }

    fn launch(
        &self,
        place: &LaunchEnvironment<'_>,
        job: &Job<'_>,
        program: &Path,
        prepared: &LaunchPlan,
    ) -> Result<(Pid, ChildPipes), SandboxError> {
        let LaunchEnvironment { namespaces: cell, group, temporary } = *place;
        let (read_input, write_input) = pipe()?;
        let (output, write_output) = pipe()?;
        let (error, write_error) = pipe()?;
        let (report, write_report) = pipe()?;
        let theirs = [read_input, write_output, write_error, write_report];
        let arguments = self.arguments(job, program)?;
        let environment = self.environment(job, temporary)?;
        let limits = if self.has(Layer::ResourceLimits) { job.limits.rlimits() } else { Vec::new() };
        let slots: Vec<AtomicI32> = (0..prepared.slots).map(|_| AtomicI32::new(-1)).collect();
        let rules =
            self.landlock.map(LandlockAbi::create_ruleset).transpose()?.map(move_fd_above_10).transpose()?;
        let (namespaces, progress) = (cell.namespaces(), LaunchProgress::default());
        let launch = ChildLaunch {
            layers: self.layers,
            namespaces: &namespaces,
            cgroup: group.map(CommandCgroup::procs),
            flags: self.clone_flags(),
            steps: &prepared.steps,
            fds: ChildFds { slots: &slots, rules: rules.as_ref().map(AsRawFd::as_raw_fd) },
            limits: &limits,
            filter: self.has(Layer::Seccomp).then(|| self.filters.get(cell.sockets)),
            streams: theirs.each_ref().map(AsRawFd::as_raw_fd),
            program: self.init.as_raw_fd(),
            arguments: &CStringArray::to(arguments.iter().map(CString::as_c_str)),
            environment: &CStringArray::to(environment.iter().map(CString::as_c_str)),
            gate: self.gate.as_raw_fd(),
            progress: &progress,
        };
        let first = launch::spawn_vfork(&JoinNamespaces(&launch), 0)
            .map_err(SandboxError::system("no process can be made"))?;
        launch::reap(first).map_err(SandboxError::system("a process cannot be collected"))?;
        let process = Pid::from_raw(progress.process.load(Ordering::Acquire));
        if let Some(failure) = progress.failure(&prepared.steps) {
            if let Some(process) = process {
                wait(process)?;
            }
            return Err(failure);
        }
        let process = process.ok_or_else(|| SandboxError::system("no process was made")(Errno::SRCH))?;
        drop(theirs);
        let handle = rustix::process::pidfd_open(process, PidfdFlags::empty())
            .map_err(SandboxError::system("the command has no handle"))?;
        for file in [&write_input, &output, &error, &report] {
            set_nonblocking(file)?;
        }
        let (input, output) = match &job.stdio {
            CommandStdio::Captured(pumped) => {
                (pumped.input.clone().map(|content| (write_input, content)), Some(output))
            }
            CommandStdio::Piped(handed) => {
                (handed.on_start)(PipeEnds { input: write_input, output });
                (None, None)
            }
            CommandStdio::Streamed(streamed) => {
                (streamed.on_start)();
                (None, Some(output))
            }
        };
        let has_pid_namespace = self.has(Layer::PidNamespace);
        Ok((process, ChildPipes { output, error, report, input, process: handle, has_pid_namespace }))
    }

    fn clone_flags(&self) -> i32 {
        let namespaces = [
            (Layer::PidNamespace, libc::CLONE_NEWPID),
            (Layer::MountNamespace, libc::CLONE_NEWNS),
            (Layer::IpcNamespace, libc::CLONE_NEWIPC),
            (Layer::UtsNamespace, libc::CLONE_NEWUTS),
        ];
        let wanted = namespaces.iter().filter(|(layer, _)| self.has(*layer));
        wanted.fold(0, |flags, (_, flag)| flags | flag)
    }

    /// The arguments of process 1: whether it has a PID namespace, then the command.
    fn arguments(&self, job: &Job<'_>, program: &Path) -> Result<Vec<CString>, SandboxError> {
        let mode: &OsStr = OsStr::new(if self.has(Layer::PidNamespace) { "n" } else { "-" });
        let program =
            if self.has(Layer::MountNamespace) { program.to_path_buf() } else { host_place(job, program)? };
        let words = [OsStr::new("toolgate-init"), mode, program.as_os_str()].map(OsString::from);
        let words = words.into_iter().chain(job.arguments.iter().cloned());
        let string = |word: OsString| {
            CString::new(word.as_bytes()).map_err(|_| SandboxError::Nul { what: "an argument" })
        };
        words.map(string).collect()
    }

    fn environment(&self, job: &Job<'_>, temporary: &Path) -> Result<Vec<CString>, SandboxError> {
        let search_path: Vec<String> =
            self.options.path.iter().map(|path| path.display().to_string()).collect();
        let place = temporary.display().to_string();
        let home = if self.has(Layer::MountNamespace) { "/tmp/home" } else { &place };
        let mut pairs = environment::base(&search_path.join(":"), &place, home);
        pairs.extend(self.options.variables.iter().chain(&job.environment).cloned());
        environment::as_strings(&pairs)
    }
}

/// What one command is started in.
struct LaunchEnvironment<'a> {
    namespaces: &'a NamespaceSet,
    group: Option<&'a CommandCgroup<'a>>,
    temporary: &'a Path,
}

fn check_places(places: &[PathBuf]) -> Result<(), SandboxError> {
    match places.iter().find_map(|path| Some((path, refused_place(path)?))) {
        Some((path, reason)) => Err(SandboxError::CannotShow { path: path.clone(), reason }),
        None => Ok(()),
    }
}

fn is_program(place: &Path) -> bool {
    use rustix::fs::{Access, AtFlags};
    rustix::fs::accessat(rustix::fs::CWD, place, Access::EXEC_OK, AtFlags::empty()).is_ok()
}

fn pipe() -> Result<(OwnedFd, OwnedFd), SandboxError> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(SandboxError::system("a pipe cannot be made"))?;
    Ok((move_fd_above_10(read)?, move_fd_above_10(write)?))
}

/// The child rearranges the lowest descriptors, so none of ours may be there.
fn move_fd_above_10(file: OwnedFd) -> Result<OwnedFd, SandboxError> {
    const MIN_FD: RawFd = 10;
    if file.as_raw_fd() >= MIN_FD {
        return Ok(file);
    }
    rustix::io::fcntl_dupfd_cloexec(&file, MIN_FD).map_err(SandboxError::system("a file cannot be moved"))
}

fn set_nonblocking(file: &OwnedFd) -> Result<(), SandboxError> {
    rustix::fs::fcntl_setfl(file, rustix::fs::OFlags::NONBLOCK)
        .map_err(SandboxError::system("a pipe cannot be set up"))
}

fn wait(process: Pid) -> Result<(), SandboxError> {
    loop {
        match rustix::process::waitpid(Some(process), WaitOptions::empty()) {
            Err(Errno::INTR) => {}
            other => return other.map(drop).map_err(SandboxError::system("the command cannot be collected")),
        }
    }
}
