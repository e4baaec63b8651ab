//! Runs one command: confined mounts in, cleaned output out, nothing left behind that other programs obey.
//!
//! The workspace says what of its mounts a command may not reach, the sandbox enforces it, the egress proxy is its only way out, and afterwards
//! the workspace takes away what the command left under protected names. This module ties them together and decides nothing itself.

mod afterwards;
mod blocked;
mod capture;
mod clean;
mod confinement;
mod denial;
mod held;
mod identity;
mod keeper;
mod lasting;
mod network;
mod reserve;
mod result;
mod shell;
mod tail;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use toolgate_egress::{Dial, NetworkAllowlist, environment};
use toolgate_gate::CallContext;
use toolgate_sandbox::{
    BindMount, CapturedStdio, CommandStdio, Job, Network, OnOutputLimit, PROXY_PORT, ResourceLimits,
    SandboxError,
};
use toolgate_types::{CallId, Cancellation, CancellationReason, Failure};
use toolgate_workspace::{
    ConfineRequest, ConfinedMount, ConfinedRun, DiskReserve, ListOptions, Mount, MountAccess, PathGrant,
    PathStyle, Quarantined, Workspace, WorkspaceError, WorkspaceView,
};

use afterwards::{Left, take_away};
use capture::Capture;
use confinement::Keeping;
use held::Held;
use network::{Proxy, denials};

pub use clean::{clean, clean_value, spelt_out};
pub use confinement::{Confinement, OwnFolders};
pub use identity::Identity;
pub use lasting::{ConfinedProcess, LastingProcess, ProcessEnd, Started};

pub(crate) use held::ONLY_SOME;
pub(crate) use network::Reach;
pub(crate) use result::{Bounds, Finished, MOST_TOLD, bounded, output_before, told};
pub(crate) use shell::{Shell, ShellDress};

/// How often a command is tried anew when files move while it is being confined.
const ATTEMPTS: usize = 5;

/// What git is told, whatever program starts it: no configuration but the repository's own, which is shown without anything that runs; nobody
/// to ask; and no doubt about who owns the mounts, whose owners have other numbers inside the sandbox.
const GIT: [(&str, &str); 9] = [
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_EDITOR", "false"),
    ("GIT_CONFIG_COUNT", "1"),
    ("GIT_CONFIG_KEY_0", "safe.directory"),
    ("GIT_CONFIG_VALUE_0", "*"),
];

/// What commands are run with.
pub struct CommandOptions {
    /// The mounts.
    pub workspace: Arc<Workspace>,
    /// What confines them.
    pub confinement: Confinement,
    /// Variables that the operator passes through.
    pub environment: Vec<(String, String)>,
    /// How much a command may use.
    pub limits: ResourceLimits,
    /// Hosts that `run_command` and `bash` may reach.
    pub network: Vec<String>,
    /// How hosts are reached.
    pub dialer: Arc<dyn Dial>,
    /// What commands must leave free on the disk of the gate's record.
    pub reserve: Option<DiskReserve>,
}

/// Runs commands.
pub struct CommandRunner {
    options: CommandOptions,
    /// What a shell line may reach.
    reach: Reach,
    identity: Identity,
}

/// One command, as a tool wants it.
pub(crate) struct Command<'a> {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    /// Where it begins, as it sees it.
    pub(crate) directory: PathBuf,
    pub(crate) mounts: Vec<ConfineRequest<'a>>,
    pub(crate) environment: &'a [(String, String)],
    pub(crate) input: Option<Vec<u8>>,
    pub(crate) reach: &'a Reach,
    pub(crate) limits: ResourceLimits,
    /// How many bytes of output are kept, and shown while they come.
    pub(crate) max_output: u64,
    /// How many more are kept, for whoever wants to see the whole; nobody is shown these while they come.
    pub(crate) whole: u64,
    pub(crate) on_flood: OnOutputLimit,
    /// Asked right before the process starts, when everything else is done: whether the files that it names are still those that were judged.
    pub(crate) last_look: &'a dyn Fn() -> Result<(), Failure>,
}

impl Command<'_> {
    /// What is kept as bytes, and what happens to a command that writes more: the same, however much is kept.
    fn pumped(&self) -> CapturedStdio {
        let most = self.max_output.max(self.whole);
        let on_flood = match self.on_flood {
            OnOutputLimit::Drain(more) => {
                OnOutputLimit::Drain(self.max_output.saturating_add(more).saturating_sub(most))
            }
            OnOutputLimit::Stop => OnOutputLimit::Stop,
        };
        CapturedStdio { input: self.input.clone(), max_output: most, on_output_limit: on_flood }
    }

    /// How much of each stream is kept as text. Where somebody may want the whole, it is there once; a stream by itself is as long as an answer.
    fn each_stream(&self) -> usize {
        let most = if self.whole > 0 { self.max_output } else { u64::MAX };
        usize::try_from(most).unwrap_or(usize::MAX)
    }
}

impl CommandRunner {
    /// A runner.
    ///
    /// # Errors
    /// A host that is none.
    pub fn new(options: CommandOptions) -> Result<Self, toolgate_egress::AllowlistError> {
        let reach = Reach { rules: rules(&options.network)?, key: "sandbox.network" };
        Ok(Self { options, reach, identity: Identity::default() })
    }

    /// The same, with somebody in whose name commands commit.
    #[must_use]
    pub fn committing_as(self, identity: Identity) -> Self {
        Self { identity, ..self }
    }

    pub(crate) fn workspace(&self) -> &Workspace {
        &self.options.workspace
    }

    pub(crate) fn limits(&self) -> ResourceLimits {
        self.options.limits
    }

    /// What a shell line may reach.
    pub(crate) fn reach(&self) -> &Reach {
        &self.reach
    }

    /// The same for people.
    pub(crate) fn hosts(&self) -> String {
        if self.options.network.is_empty() { "none".to_owned() } else { self.options.network.join(", ") }
    }

    pub(crate) fn has_program(&self, name: &str) -> bool {
        let made = self.options.confinement.made();
        made.is_ok_and(|made| made.sandbox.find_program(name.as_ref()).is_some())
    }

    /// Runs a command to its end, and takes away what it must not leave.
    pub(crate) fn run(
        &self,
        command: &Command<'_>,
        context: &CallContext,
        stop: &Cancellation,
    ) -> Result<Finished, Failure> {
        self.check_disk()?;
        let mut attempts = 1..=ATTEMPTS;
        loop {
            let last = attempts.next().is_none_or(|attempt| attempt == ATTEMPTS);
            match self.attempt(command, context, stop)? {
                Ok(finished) => return Ok(finished),
                Err(SandboxError::Changed { .. }) if !last => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Refuses to start anything where the disk of the gate's record is almost full.
    fn check_disk(&self) -> Result<(), Failure> {
        self.options.reserve.as_ref().map_or(Ok(()), reserve::check)
    }

    fn attempt(
        &self,
        command: &Command<'_>,
        context: &CallContext,
        stop: &Cancellation,
    ) -> Result<Result<Finished, SandboxError>, Failure> {
        let made = self.options.confinement.made()?;
        let mounts = held_to_grant(&command.mounts, context);
        let (run, recovered) =
            self.begin(made.keeping, &mounts, context.grant.as_deref(), stop, context.call)?;
        let proxy =
            command.reach.rules.clone().map(|rules| Proxy::new(rules, Arc::clone(&self.options.dialer)));
        let serve = |listener| match &proxy {
            Some(proxy) => proxy.serve(listener),
            None => Err(std::io::ErrorKind::Unsupported.into()),
        };
        let network = if proxy.is_some() { Network::Proxied(&serve) } else { Network::None };
        let disk_is_short = || self.options.reserve.as_ref().is_some_and(DiskReserve::is_short);
        let job = self.job(command, run.mounts(), network, &disk_is_short);
        let (mut capture, mut seen) = (Capture::keeping(command.each_stream()), 0_u64);
        let ready = context.await_intent().and_then(|()| (command.last_look)());
        if let Err(failure) = ready {
            drop(job);
            run.cancel();
            return Err(failure);
        }
        let ended = made.sandbox.run(&job, stop, &mut |stream, bytes| {
            let live = capture.push(stream, bytes);
            let is_shown = !live.is_empty() && seen < command.max_output;
            seen = seen.saturating_add(bytes.len() as u64);
            if let Some(progress) = context.progress.as_ref().filter(|_| is_shown) {
                progress(live.as_str().into());
            }
        });
        drop(job);
        if matches!(ended, Err(SandboxError::Changed { .. })) {
            run.cancel();
            return Ok(ended.map(|_| Finished::default()));
        }
        let Left { mut quarantined, leftovers } = take_away(made.keeping, &run, context.call)?;
        quarantined.extend(recovered);
        Ok(ended.map(|ended| {
            let report = proxy.as_ref().map(Proxy::report);
            let mut denied = denials(command.reach, report.as_ref(), ended.wanted_network);
            let held = Held::of(command, context, run.mounts());
            denied.extend(held.denials(&ended));
            Finished {
                captured: capture.finish(ended.truncated),
                denied,
                quarantined,
                leftovers,
                held,
                ended: Some(ended),
            }
        }))
    }

    /// Confines the mounts of a command. What was left there that nobody has looked at to the end is taken away first, and told.
    fn begin<'r>(
        &'r self,
        keeping: &'r Keeping,
        mounts: &[ConfineRequest<'_>],
        grant: Option<&dyn PathGrant>,
        stop: &Cancellation,
        call: CallId,
    ) -> Result<(ConfinedRun<'r>, Vec<Quarantined>), Failure> {
        let begin = || keeping.baselines.confine(self.workspace(), mounts, grant, stop);
        let run = begin()?;
        if !run.is_inherited() {
            return Ok((run, Vec::new()));
        }
        // What cannot be taken away now is looked for again when the command has ended, and is a failure then.
        let recovered = take_away(keeping, &run, call).map(|left| left.quarantined).unwrap_or_default();
        drop(run);
        Ok((begin()?, recovered))
    }

    /// Takes away what the commands of a gate left that was killed before it could look. To be asked before any call is served.
    ///
    /// # Errors
    /// Not all of it could be looked at or taken away; commands look again before they start.
    pub fn recover(&self) -> Result<Vec<Quarantined>, Failure> {
        let keeping = self.options.confinement.keeping()?;
        if !keeping.baselines.has_orphaned(self.workspace())? {
            return Ok(Vec::new());
        }
        let writable =
            self.workspace().mounts().iter().filter(|mount| mount.access() == MountAccess::ReadWrite);
        let mounts: Vec<ConfineRequest<'_>> =
            writable.map(|mount| ConfineRequest { alias: mount.alias(), writable: true }).collect();
        let run = keeping.baselines.confine(self.workspace(), &mounts, None, &lasting::looking())?;
        take_away(keeping, &run, CallId::fresh()).map(|left| left.quarantined)
    }

    fn job<'j>(
        &self,
        command: &Command<'_>,
        confined: &'j [ConfinedMount<'_>],
        network: Network<'j>,
        disk_is_short: &'j (dyn Fn() -> bool + Sync),
    ) -> Job<'j> {
        let declared: Vec<_> = self.options.environment.iter().chain(command.environment).cloned().collect();
        Job {
            program: command.program.clone(),
            arguments: command.arguments.clone(),
            directory: command.directory.clone(),
            environment: self.variables(&command.directory, confined, &declared, command.reach),
            stdio: CommandStdio::Captured(command.pumped()),
            mounts: confined.iter().map(mounted).collect(),
            read: Vec::new(),
            network,
            limits: command.limits,
            disk_is_short: self.options.reserve.is_some().then_some(disk_is_short),
        }
    }

    /// The environment of whatever begins in a folder: what git and the proxy need, and what was declared for it.
    fn variables(
        &self,
        directory: &Path,
        confined: &[ConfinedMount<'_>],
        declared: &[(String, String)],
        reach: &Reach,
    ) -> Vec<(String, String)> {
        let own = GIT.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let proxied = reach.rules.iter().flat_map(|rules| environment(PROXY_PORT, rules));
        let identity = self.identity.variables(directory, confined);
        own.into_iter().chain(identity).chain(declared.iter().cloned()).chain(proxied).collect()
    }

    /// A folder of the workspace, as answers show it, where a command sees it.
    pub(crate) fn seen_inside(&self, shown: &str) -> PathBuf {
        let default = self.workspace().mounts().iter().find(|mount| mount.is_default()).map(Mount::alias);
        match (shown.strip_prefix('@'), default) {
            (Some(named), _) => PathBuf::from("/mnt").join(named),
            (None, Some(alias)) => inside(alias, shown.trim_start_matches("./")),
            (None, None) => PathBuf::from("/tmp"),
        }
    }
}

/// A grant names files, and whoever runs a command can give a file another name: where only some files were granted, a command changes none.
pub(crate) fn held_to_grant<'a>(
    mounts: &[ConfineRequest<'a>],
    context: &CallContext,
) -> Vec<ConfineRequest<'a>> {
    let may_change = context.grant.is_none();
    mounts.iter().map(|mount| ConfineRequest { writable: mount.writable && may_change, ..*mount }).collect()
}

/// What a command could change, for whoever is asked about it.
pub(crate) fn may_change(mounts: &[ConfineRequest<'_>], context: &CallContext) -> String {
    let names = |mounts: &[ConfineRequest<'_>]| {
        let writable = mounts.iter().filter(|mount| mount.writable);
        writable.map(|mount| mount.alias).collect::<Vec<_>>().join(", ")
    };
    let (wanted, given) = (names(mounts), names(&held_to_grant(mounts, context)));
    match (wanted.is_empty(), given.is_empty()) {
        (true, _) => "may change nothing".to_owned(),
        (false, true) => format!("may change nothing: {ONLY_SOME}"),
        (false, false) => format!("may change {given}"),
    }
}

/// Rules, or none where there is nothing to reach.
pub(crate) fn rules<S: AsRef<str>>(
    hosts: &[S],
) -> Result<Option<NetworkAllowlist>, toolgate_egress::AllowlistError> {
    if hosts.is_empty() { Ok(None) } else { NetworkAllowlist::parse(hosts).map(Some) }
}

fn mounted<'j>(mount: &'j ConfinedMount<'_>) -> BindMount<'j> {
    BindMount {
        directory: mount.handle(),
        at: inside(mount.alias(), ""),
        writable: mount.is_writable(),
        overlays: mount.overlays().to_vec(),
    }
}

/// Where a place of a mount is for a command.
pub(crate) fn inside(alias: &str, path: &str) -> PathBuf {
    let root = PathBuf::from("/mnt").join(alias.trim_start_matches('@'));
    if path.is_empty() || path == "." { root } else { root.join(path) }
}

/// A stop that comes after `limit` at the latest, and with the call's own in any case.
pub(crate) fn stop_within(outer: &Cancellation, limit: Duration) -> Cancellation {
    let own = Instant::now().checked_add(limit);
    let deadline = outer.deadline().into_iter().chain(own).min();
    let outer = outer.clone();
    Cancellation::new(deadline, move || outer.reason() == Some(CancellationReason::Cancelled))
}

/// The aliases that paths can begin with.
pub(crate) fn mount_aliases(workspace: &Workspace) -> Vec<String> {
    workspace.mounts().iter().map(|mount| mount.alias().to_owned()).collect()
}

/// A view of the workspace for one call.
pub(crate) fn view<'a>(workspace: &'a Workspace, context: &'a CallContext) -> WorkspaceView<'a> {
    WorkspaceView {
        workspace,
        style: PathStyle::Free,
        limits: &context.limits,
        grant: context.effective_grant.as_deref(),
        stop: &context.stop,
        unlocked: None,
    }
}

/// What was found at a path.
pub(crate) enum Seen {
    /// A folder, as answers show it.
    Folder(String),
    /// Something else.
    File,
}

/// Opens what a path names, so that every rule is asked about what is really there.
pub(crate) fn look(view: &WorkspaceView<'_>, path: &str) -> Result<Seen, WorkspaceError> {
    let nothing =
        ListOptions { max_entries: 0, include_hidden: false, include_symlinks: false, with_size: false };
    match view.list(path, &nothing) {
        Ok(listed) => Ok(Seen::Folder(listed.path)),
        Err(WorkspaceError::NotADirectory { .. }) => Ok(Seen::File),
        Err(error) => Err(error),
    }
}
