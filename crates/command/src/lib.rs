//! Runs one command: confined mounts in, sanitised output out, nothing left behind that other programs execute.
//!
//! The workspace says what of its mounts a command may not reach, the sandbox enforces it, the egress proxy is its only way out, and afterwards the
//! workspace quarantines what the command left under protected names. This crate connects them and decides nothing itself.

mod post_run;
mod capture;
mod confinement;
mod command_denial;
mod applied_limits;
mod commit_identity;
mod supervisor;
mod long_running;
mod own_directory;
mod network;
mod disk_reserve;
mod command_outcome;
mod command_spec;
mod stderr_tail;
mod background;
mod command_run;
mod package_cache;
mod lent_directory;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use toolgate_confine::{ConfineRequest, ConfinedMount, Quarantined};
use toolgate_egress::{Dial, NetworkAllowlist, environment};
use toolgate_gate::CallContext;
use toolgate_sandbox::{BindMount, CommandStdio, Job, Network, PROXY_PORT, ResourceLimits};
use toolgate_types::{CallId, ErrorCode, Escalation, Failure};
use toolgate_workspace::{
    DiskReserve, ListOptions, Mount, MountAccess, PathStyle, Workspace, WorkspaceError, WorkspaceView,
};

use network::{NO_RETRIES, Proxy};
use package_cache::CacheLease;
use post_run::quarantine_leftovers;

pub use background::{
    BackgroundCommands, BackgroundEnd, BackgroundReport, BackgroundRequest, BackgroundRun, BackgroundStop,
    BackgroundStreams, BackgroundSummary, MAX_WAIT,
};
pub use command_spec::CommandSpec;
pub use commit_identity::CommitIdentity;
pub use confinement::{Confinement, GateDirectories};
pub use long_running::{
    ConfinedProcess, ErrorLog, LongRunningProcess, OwnDirectory, ProcessEnd, StartedProcess,
};
pub use own_directory::size_of_tree;
pub use stderr_tail::StderrTail;

pub use applied_limits::{AppliedLimits, RESTRICTED_GRANT_NOTE};
pub use capture::Captured;
pub use command_denial::CommandDenial;
pub use command_outcome::{
    CommandBounds, CommandFacts, CommandOutcome, MAX_REPORTED, escape_name, output_before, truncate_json,
};
pub use lent_directory::{DirectoryOpener, is_lendable};
pub use network::{Reach, RefusedHost};
pub use package_cache::{CacheUsage, PackageCaches};

/// How often a command is retried when files move while it is being confined.
const MAX_ATTEMPTS: usize = 5;

/// The environment for git, whatever program starts it: no configuration but the repository's own, which is shown without settings that execute
/// anything; no prompts; and every directory is a `safe.directory`, since owners have other numeric ids inside the sandbox.
const GIT_ENVIRONMENT: [(&str, &str); 9] = [
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

/// What commands run with.
pub struct CommandOptions {
    /// The mounts.
    pub workspace: Arc<Workspace>,
    /// What confines them.
    pub confinement: Confinement,
    /// Variables that the operator passes through.
    pub environment: Vec<(String, String)>,
    /// The resource limits of a command.
    pub limits: ResourceLimits,
    /// Hosts that `run_command` and `bash` may reach.
    pub network: Vec<String>,
    /// What a person may allow them beyond these.
    pub escalation: EscalationRule,
    /// How long `run_command` and `bash` may take, where the profile does not say.
    pub timeouts: ShellTimeouts,
    /// How hosts are dialled.
    pub dialer: Arc<dyn Dial>,
    /// The disk space that commands must leave free for the audit log.
    pub reserve: Option<DiskReserve>,
    /// What package managers of shell lines keep between commands; `None` if nothing is kept.
    pub package_caches: Option<PackageCaches>,
    /// Opens a directory of the machine that a person lets one call read; `None` if there is none to be let.
    pub open_directory: Option<DirectoryOpener>,
}

/// What a person may allow a command that lacked it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EscalationRule {
    /// Public hosts.
    pub hosts: bool,
    /// More time.
    pub time: bool,
    /// A directory to read.
    pub directories: bool,
}

/// The configured timeouts of a shell line; without one the profile's applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShellTimeouts {
    /// Of a line that names none.
    pub default: Option<Duration>,
    /// Of any line.
    pub max: Option<Duration>,
}

/// Runs commands.
pub struct CommandRunner {
    options: CommandOptions,
    /// The hosts that a shell line may reach.
    reach: Reach,
    identity: CommitIdentity,
}

impl CommandRunner {
    /// A runner.
    ///
    /// # Errors
    /// A host name that is invalid.
    pub fn new(options: CommandOptions) -> Result<Self, toolgate_egress::AllowlistError> {
        let reach = Reach { rules: NetworkAllowlist::parse(&options.network)?, key: "sandbox.network" };
        Ok(Self { options, reach, identity: CommitIdentity::default() })
    }

    /// The same with this author and committer for commits.
    #[must_use]
    pub fn committing_as(self, identity: CommitIdentity) -> Self {
        Self { identity, ..self }
    }

    /// The mounts.
    #[must_use]
    pub fn workspace(&self) -> &Workspace {
        &self.options.workspace
    }

    /// The resource limits of commands.
    #[must_use]
    pub fn limits(&self) -> ResourceLimits {
        self.options.limits
    }

    /// The hosts that a shell line may reach.
    #[must_use]
    pub fn reach(&self) -> &Reach {
        &self.reach
    }

    /// What a person may allow a shell line.
    #[must_use]
    pub fn escalation(&self) -> EscalationRule {
        self.options.escalation
    }

    /// The same, with the hosts that a person allowed this call in addition.
    ///
    /// # Errors
    /// One of those is not one public host, or the operator lets no person allow any.
    pub fn reach_of(&self, escalation: &Escalation) -> Result<Reach, Failure> {
        if !escalation.hosts.is_empty() && !self.options.escalation.hosts {
            let message = "the operator lets no further hosts be allowed";
            return Err(Failure::new(ErrorCode::NotPermitted, message).help("go on without them"));
        }
        let rules = self.reach.rules.with_public_hosts(&escalation.hosts).map_err(|error| {
            Failure::new(ErrorCode::InvalidArguments, error.to_string()).help(error.help())
        })?;
        Ok(Reach { rules, key: self.reach.key })
    }

    /// Whether package managers of a shell line have a cache.
    #[must_use]
    pub fn has_package_caches(&self) -> bool {
        self.options.package_caches.is_some()
    }

    /// The configured timeouts of a shell line.
    #[must_use]
    pub fn timeouts(&self) -> ShellTimeouts {
        self.options.timeouts
    }

    /// The same as text.
    #[must_use]
    pub fn hosts(&self) -> String {
        if self.options.network.is_empty() { "none".to_owned() } else { self.options.network.join(", ") }
    }

    /// Fails if no command can run now: a layer that is required is missing, or the disk is almost full.
    ///
    /// # Errors
    /// The failure of a command that is run.
    pub fn check(&self) -> Result<(), Failure> {
        self.check_disk()?;
        Ok(self.options.confinement.runtime()?.sandbox.check()?)
    }

    /// Whether commands find a program of this name.
    #[must_use]
    pub fn has_program(&self, name: &str) -> bool {
        let made = self.options.confinement.runtime();
        made.is_ok_and(|made| made.sandbox.find_program(name.as_ref()).is_some())
    }

    /// Rejects a command if the disk of the audit log is nearly full.
    fn check_disk(&self) -> Result<(), Failure> {
        self.options.reserve.as_ref().map_or(Ok(()), disk_reserve::check)
    }

    /// Quarantines the leftovers of commands whose gate was killed before the post-run scan. To be called before any call is served.
    ///
    /// # Errors
    /// Not everything could be scanned or quarantined; commands scan again before they start.
    pub fn recover(&self) -> Result<Vec<Quarantined>, Failure> {
        let keeping = self.options.confinement.state()?;
        if !keeping.baselines.has_orphaned(self.workspace())? {
            return Ok(Vec::new());
        }
        let writable =
            self.workspace().mounts().iter().filter(|mount| mount.access() == MountAccess::ReadWrite);
        let mounts: Vec<ConfineRequest<'_>> =
            writable.map(|mount| ConfineRequest { alias: mount.alias(), writable: true }).collect();
        let run =
            keeping.baselines.confine(self.workspace(), &mounts, None, &long_running::scan_deadline())?;
        quarantine_leftovers(keeping, &run, CallId::fresh()).map(|left| left.quarantined)
    }

    fn job<'j>(
        &self,
        command: &CommandSpec<'_>,
        (confined, beside): (&'j [ConfinedMount<'_>], &'j BesideMounts<'_>),
        (network, proxy): (Network<'j>, Option<&Proxy>),
        (stdio, disk_is_short): (CommandStdio<'j>, &'j (dyn Fn() -> bool + Sync)),
    ) -> Job<'j> {
        // What the operator declares comes after the cache, and so counts.
        let cached = beside.cache.iter().flat_map(|_| CacheLease::variables());
        let declared = self.options.environment.iter().chain(command.environment).cloned();
        let declared: Vec<_> = cached.chain(declared).collect();
        Job {
            program: command.program.clone(),
            arguments: command.arguments.clone(),
            directory: command.directory.clone(),
            environment: self.variables(&command.directory, confined, &declared, proxy),
            stdio,
            mounts: confined.iter().map(bind_mount).chain(beside.mounts()).collect(),
            read: Vec::new(),
            home_links: beside.cache.iter().flat_map(|_| CacheLease::links()).collect(),
            network,
            limits: command.limits,
            disk_is_short: self.options.reserve.is_some().then_some(disk_is_short),
        }
    }

    /// The environment of a process that starts in this directory: what git and the proxy need, and the declared variables.
    fn variables(
        &self,
        directory: &Path,
        confined: &[ConfinedMount<'_>],
        declared: &[(String, String)],
        proxy: Option<&Proxy>,
    ) -> Vec<(String, String)> {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let proxied = proxy.into_iter().flat_map(|proxy| environment(PROXY_PORT, proxy.rules()));
        let is_cut_off = proxy.is_some_and(|proxy| proxy.rules().is_empty());
        let hurried = NO_RETRIES.iter().filter(|_| is_cut_off).copied().map(owned);
        let identity = self.identity.variables(directory, confined);
        GIT_ENVIRONMENT
            .map(owned)
            .into_iter()
            .chain(identity)
            .chain(hurried)
            .chain(declared.iter().cloned())
            .chain(proxied)
            .collect()
    }

    /// The path inside the sandbox of a workspace directory as answers show it.
    #[must_use]
    pub fn path_inside(&self, shown: &str) -> PathBuf {
        let default = self.workspace().mounts().iter().find(|mount| mount.is_default()).map(Mount::alias);
        match (shown.strip_prefix('@'), default) {
            (Some(named), _) => PathBuf::from("/mnt").join(named),
            (None, Some(alias)) => inside(alias, shown.trim_start_matches("./")),
            (None, None) => PathBuf::from("/tmp"),
        }
    }
}

/// A grant names files, and a command can rename files: with a restricted grant, commands are read-only.
#[must_use]
pub fn restrict_to_grant<'a>(
    mounts: &[ConfineRequest<'a>],
    context: &CallContext,
) -> Vec<ConfineRequest<'a>> {
    let may_change = context.grant.is_none();
    mounts.iter().map(|mount| ConfineRequest { writable: mount.writable && may_change, ..*mount }).collect()
}

/// What a command could change, for the approval preview.
#[must_use]
pub fn may_change(mounts: &[ConfineRequest<'_>], context: &CallContext) -> String {
    let names = |mounts: &[ConfineRequest<'_>]| {
        let writable = mounts.iter().filter(|mount| mount.writable);
        writable.map(|mount| mount.alias).collect::<Vec<_>>().join(", ")
    };
    let (wanted, given) = (names(mounts), names(&restrict_to_grant(mounts, context)));
    match (wanted.is_empty(), given.is_empty()) {
        (true, _) => "may change nothing".to_owned(),
        (false, true) => format!("may change nothing: {RESTRICTED_GRANT_NOTE}"),
        (false, false) => format!("may change {given}"),
    }
}

/// What a command is shown beside its mounts.
#[derive(Default)]
pub(crate) struct BesideMounts<'c> {
    /// Its package cache.
    pub(crate) cache: Option<CacheLease>,
    /// The directories that a person let this call read.
    pub(crate) lent: Vec<ConfinedMount<'c>>,
}

impl BesideMounts<'_> {
    fn mounts(&self) -> impl Iterator<Item = BindMount<'_>> {
        let lent = self
            .lent
            .iter()
            .map(|mount| BindMount { at: mount.host_root().to_path_buf(), ..bind_mount(mount) });
        self.cache.iter().map(CacheLease::mount).chain(lent)
    }
}

fn bind_mount<'j>(mount: &'j ConfinedMount<'_>) -> BindMount<'j> {
    BindMount {
        directory: mount.handle(),
        at: inside(mount.alias(), ""),
        writable: mount.is_writable(),
        overlays: mount.overlays().to_vec(),
    }
}

/// The path of a mount's file inside the sandbox.
#[must_use]
pub fn inside(alias: &str, path: &str) -> PathBuf {
    let root = PathBuf::from("/mnt").join(alias.trim_start_matches('@'));
    if path.is_empty() || path == "." { root } else { root.join(path) }
}

/// The aliases that paths can begin with.
#[must_use]
pub fn mount_aliases(workspace: &Workspace) -> Vec<String> {
    workspace.mounts().iter().map(|mount| mount.alias().to_owned()).collect()
}

/// A view of the workspace for one call.
#[must_use]
pub fn view<'a>(workspace: &'a Workspace, context: &'a CallContext) -> WorkspaceView<'a> {
    WorkspaceView {
        workspace,
        style: PathStyle::Free,
        limits: &context.limits,
        grant: context.effective_grant.as_deref(),
        stop: &context.stop,
        unlocked: None,
    }
}

/// What a path resolves to.
pub enum PathKind {
    /// A directory, as answers show it.
    Directory(String),
    /// Something else.
    File,
}

/// Opens the path, so that every rule is checked on what it resolves to.
///
/// # Errors
/// See [`WorkspaceError`].
pub fn path_kind(view: &WorkspaceView<'_>, path: &str) -> Result<PathKind, WorkspaceError> {
    let nothing =
        ListOptions { max_entries: 0, include_hidden: false, include_symlinks: false, with_size: false };
    match view.list(path, &nothing) {
        Ok(listed) => Ok(PathKind::Directory(listed.path)),
        Err(WorkspaceError::NotADirectory { .. }) => Ok(PathKind::File),
        Err(error) => Err(error),
    }
}
