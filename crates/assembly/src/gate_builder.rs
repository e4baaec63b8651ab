//! Builds a gate from settings.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::{Dir, DirBuilder, DirBuilderExt as _};
use tokio::runtime::{Handle, Runtime};
use toolgate_audit::{AuditError, AuditLog, AuditRecovery, LogOptions};
use toolgate_gate::{
    Approver, AuditMode, BlockingStrategy, Clock, FlowLabelStore, Gate, GateOptions, GrantStore, Journal,
    UnrecoveredJournal,
};
use toolgate_manifest::OnAuditFailure;
use toolgate_tools::ProfiledGate;
use toolgate_types::{CallId, ChangeFate, ErrorCode, StateKey};
use toolgate_workspace::{Mount, MountAccess, MountError, MountRules, Workspace};

use crate::ambient::{open_directory, open_or_create_directory, open_private_directory};
use crate::error::BuildError;
use crate::load::{self, TokenVerification, UpstreamServers};
use crate::notices::warn;
use crate::personal_paths::{personal_paths, refuse_root};
use crate::protected_paths::GateOwnedPaths;
use crate::sandbox_settings::{self, hard_links};
use crate::servers::{PINS, ServerSelection, Servers};
use crate::settings::{MountSettings, Settings};
use crate::state_dir;

/// A gate with its profile, ready to be called.
pub struct AssembledGate {
    /// The gate, behind its profile.
    pub gate: ProfiledGate,
    /// The mounts.
    pub workspace: Arc<Workspace>,
    /// The names of all tools, before permissions are applied.
    pub tools: Vec<String>,
    /// The upstream MCP servers, if any were started.
    pub servers: Option<Arc<Servers>>,
    /// The calls of an earlier process that had an intent and no record.
    pub interrupted: Vec<CallId>,
}

/// How a gate is built.
pub struct GateBuildOptions<'r> {
    /// Decides calls that need an approval.
    pub approver: Arc<dyn Approver>,
    /// Whether calls may carry tokens.
    pub verify_tokens: TokenVerification,
    /// Where blocking work runs.
    pub blocking: BlockingStrategy,
    /// The MCP servers that are started, and the runtime that they run on; without it there are none.
    pub servers: Option<(ServerSelection, Handle)>,
    /// The runtime to block on until each has listed its tools. Without it, the tools that are known already count.
    pub wait_on: Option<&'r Runtime>,
    /// The clock of rate limits and circuit breakers; `CLOCK_MONOTONIC` by default.
    pub clock: Clock,
    /// The clock of audit records, in place of `CLOCK_REALTIME`.
    pub audit_clock: Option<toolgate_audit::Clock>,
    /// Receives the warnings of the running gate; [`notices::warn`](crate::notices::warn) by default.
    pub warn: Arc<dyn Fn(&str) + Send + Sync>,
}

impl GateBuildOptions<'_> {
    /// For one call at a time, without servers.
    pub fn without_servers(approver: Arc<dyn Approver>, verify_tokens: TokenVerification) -> Self {
        Self {
            approver,
            verify_tokens,
            blocking: BlockingStrategy::Inline,
            servers: None,
            wait_on: None,
            clock: Arc::new(std::time::Instant::now),
            audit_clock: None,
            warn: Arc::new(warn),
        }
    }
}

/// Files of a run that the gate writes and that are read-only for the model; the state of the workflow changes only through its guard.
const RUN_PROTECTED: &[&str] = &["logs", "logs/**", "workflow.md", "workflow.md/**"];

/// Opens the mounts.
pub fn workspace(settings: &Settings, own: &GateOwnedPaths) -> Result<Workspace, BuildError> {
    own.refuse_links(settings)?;
    let mut mounts = Vec::new();
    own.refuse_mount("@project", &settings.workspace)?;
    let project = open_or_create_directory(&settings.workspace)
        .map_err(|source| cannot_open("@project", &settings.workspace, source))?;
    refuse_root("@project", &settings.workspace, &project)?;
    let personal = personal_paths(&settings.environment);
    let project_rules = rules(settings, &[], &[])?;
    let project = Mount::new("@project", project, &settings.workspace, MountAccess::ReadWrite, project_rules);
    let project = project.map_err(|error| BuildError::usage(error.to_string()))?.hide_gate_files(own.paths());
    mounts.push(project.protect_personal(Arc::clone(&personal)).as_default());
    for MountSettings { alias, path, read_only, scope, deny, .. } in &settings.mounts {
        own.refuse_mount(alias, path)?;
        let opened = if *read_only { open_directory(path) } else { open_or_create_directory(path) };
        let opened = opened.map_err(|source| cannot_open(alias, path, source))?;
        refuse_root(alias, path, &opened)?;
        let access = if *read_only { MountAccess::ReadOnly } else { MountAccess::ReadWrite };
        let rules = rules(settings, deny, scope)?;
        let mount = Mount::new(alias, opened, path, access, rules)
            .map_err(|error| BuildError::usage(error.to_string()))?;
        mounts.push(mount.hide_gate_files(own.paths()).protect_personal(Arc::clone(&personal)));
    }
    if settings.profile.has_runs() {
        mounts.push(state_mount(settings)?);
    }
    let workspace = Workspace::new(mounts).map_err(|error| BuildError::usage(error.to_string()))?;
    Ok(workspace.with_hard_links(hard_links(&settings.loaded.config.sandbox)))
}

/// The deny and scope globs of a mount, joined with those that hold for all mounts.
pub fn rules(settings: &Settings, deny: &[String], scope: &[String]) -> Result<MountRules, BuildError> {
    let all: Vec<String> = settings.deny.iter().chain(deny).cloned().collect();
    let rules = MountRules::new().deny(&all).and_then(|rules| rules.scope(scope));
    rules.map_err(|error| BuildError::usage(error.to_string()))
}

fn cannot_open(alias: &str, path: &Path, source: std::io::Error) -> BuildError {
    BuildError::usage(
        MountError::Open { alias: alias.to_owned(), path: path.to_path_buf(), source }.to_string(),
    )
    .help("name a folder that exists and that you may read")
}

fn run_directory(settings: &Settings) -> PathBuf {
    settings.state_dir.join("runs").join(settings.run.as_str())
}

fn state_mount(settings: &Settings) -> Result<Mount, BuildError> {
    let path = run_directory(settings);
    let folder = open_private_directory(&path).map_err(|source| cannot_open("@state", &path, source))?;
    let rules = MountRules::new().deny(&settings.deny).and_then(|rules| rules.protect(RUN_PROTECTED));
    let rules = rules.map_err(|error| BuildError::usage(error.to_string()))?;
    Mount::new("@state", folder.into_std_file(), &path, MountAccess::ReadWrite, rules)
        .map_err(|error| BuildError::usage(error.to_string()))
}

/// The options of the audit log.
pub fn log_options(settings: &Settings) -> LogOptions {
    let mut options = LogOptions::new(&settings.audit_dir);
    options.checkpoints = settings.checkpoints.clone();
    options.key = settings.key.clone();
    options.details_key = settings.encrypts_details.then(|| state_dir::details_key_path(settings));
    options.warn = Arc::new(|warning| warn(&warning.to_string()));
    if let Some(every) = settings.checkpoint_every {
        options.checkpoint_every = every;
    }
    options
}

/// Opens workspace, journal and audit log, and builds the gate.
pub fn build_gate(settings: &Settings, how: GateBuildOptions<'_>) -> Result<AssembledGate, BuildError> {
    let GateBuildOptions {
        approver,
        verify_tokens: tokens,
        blocking,
        servers,
        wait_on,
        clock,
        audit_clock,
        warn: sink,
    } = how;
    let state = open_private_directory(&settings.state_dir).map_err(|error| state_error(settings, &error))?;
    let key = state_dir::key(settings)?;
    let own = GateOwnedPaths::of(settings);
    let workspace = Arc::new(workspace(settings, &own)?);
    // Files that commands of a killed gate left under protected names are quarantined before anything else happens in the mounts.
    sandbox_settings::recover(settings, &own, &workspace)?;
    // Interrupted changes are rolled back before the audit log records their calls as interrupted, and under the rules of the current mounts.
    let bounds = settings.loaded.config.retention.undo.into();
    let reserve = sandbox_settings::disk_reserve(settings);
    let journal = open_journal(&state, &key)
        .and_then(|journal| journal.bounded(bounds).reserving(reserve).recover(&workspace));
    let journal = Arc::new(journal.map_err(|error| state_error(settings, &error))?);
    let asked = Arc::clone(&journal);
    let mut options =
        LogOptions { fate_of: Arc::new(move |call| asked.fate_of(call)), ..log_options(settings) };
    options.clock = audit_clock.unwrap_or(options.clock);
    let mut interrupted = Vec::new();
    let audit = match AuditLog::open(options, &key) {
        Ok((audit, recovered)) => {
            report_recovery(&recovered, &journal);
            interrupted = recovered.interrupted;
            Ok(audit)
        }
        Err(error) if continues_without_audit(settings, &error) => {
            warn(&format!(
                "there is no record of calls: {error}; calls that only read go on (`audit.on_failure: warn`), all others are refused; {}",
                error.help()
            ));
            Err(error)
        }
        Err(error) => return Err(BuildError::usage(error.to_string()).help(error.help())),
    };
    let servers = servers.map(|(which, runtime)| Arc::new(Servers::new(settings, runtime, which)));
    let behind = servers.as_deref().map(|servers| UpstreamServers { servers, wait_on });
    let loaded = load::load(settings, &own, &workspace, tokens, behind)?;
    let tools = loaded.registry.names().map(str::to_owned).collect();
    let audit_mode = match settings.on_audit_failure {
        OnAuditFailure::Deny => AuditMode::Deny,
        OnAuditFailure::Warn => AuditMode::Warn,
    };
    let gate = Gate::new(GateOptions {
        config: loaded,
        audit,
        audit_mode,
        audit_detail: settings.audit_detail,
        journal,
        approver,
        grants: Arc::new(open_grants(settings)?),
        flow_labels: Arc::new(open_flow_labels(settings)?),
        approval_timeout: settings.approval_timeout,
        blocking,
        clock,
        warn: sink,
    });
    let mut front = ProfiledGate::new(settings.profile, Arc::new(gate)).over(Arc::clone(&workspace));
    if settings.profile.has_runs() {
        let initialised = settings.profile.initialise_run(&workspace, &settings.limits);
        initialised.map_err(|error| BuildError::usage(error.to_string()))?;
        let folder = open_private_directory(&run_directory(settings))
            .map_err(|error| state_error(settings, &error))?;
        front = front.with_run_log(folder, settings.loaded.config.retention.logs);
    }
    Ok(AssembledGate { gate: front, workspace, tools, servers, interrupted })
}

/// The entries that the gate keeps in its state directory.
pub const STATE_DIRECTORIES: [&str; 18] = [
    "audit",
    "keys",
    "runs",
    JOURNAL,
    QUARANTINE,
    BASELINES,
    OUTPUTS,
    PINS,
    SESSIONS,
    TRUST,
    GRANTS,
    PACKAGES,
    HOMES,
    SERVER_LOGS,
    TOKENS,
    WRAPPED,
    CACHES,
    FLOW,
];

/// Installed packages of servers; hidden by the suffix.
pub const PACKAGES: &str = "packages.toolgate";

/// Home directories of servers; hidden by the suffix.
pub const HOMES: &str = "homes.toolgate";

/// What servers wrote to standard error; hidden by the suffix.
pub const SERVER_LOGS: &str = "logs.toolgate";

/// Tokens of logins at servers, encrypted; hidden by the suffix.
pub const TOKENS: &str = "tokens.toolgate";

/// Files of clients as they were before `mcp wrap`; hidden by the suffix.
pub const WRAPPED: &str = "wrapped.toolgate";

/// Every gate hides names with this suffix, also one with another state directory.
pub const JOURNAL: &str = "journal.toolgate";
/// Quarantined files; hidden by the suffix, like [`JOURNAL`].
pub const QUARANTINE: &str = "quarantine.toolgate";

/// Baselines of command runs; hidden by the suffix.
const BASELINES: &str = "baselines.toolgate";

/// Long outputs; hidden by the suffix.
pub const OUTPUTS: &str = "outputs.toolgate";

/// Conversations; hidden by the suffix.
pub const SESSIONS: &str = "sessions.toolgate";

/// Agreements to found configurations; only in the default state directory.
pub const TRUST: &str = "trust.toolgate";

/// Lasting grants; hidden by the suffix.
const GRANTS: &str = "grants.toolgate";

/// Package caches of commands; hidden by the suffix.
const CACHES: &str = "caches.toolgate";

/// Labels of sessions; hidden by the suffix.
const FLOW: &str = "flow.toolgate";

/// The labels of sessions.
fn open_flow_labels(settings: &Settings) -> Result<FlowLabelStore, BuildError> {
    let path = settings.state_dir.join(FLOW);
    let store = open_private_directory(&path).and_then(|directory| FlowLabelStore::open(&directory));
    store.map_err(|error| state_error(settings, &error))
}

/// The directory of package caches.
pub fn caches_directory(settings: &Settings) -> PathBuf {
    settings.state_dir.join(CACHES)
}

/// The lasting grants.
pub fn open_grants(settings: &Settings) -> Result<GrantStore, BuildError> {
    let path = settings.state_dir.join(GRANTS);
    let key = state_dir::key(settings)?;
    // Opened again for reading: on a descriptor opened with `O_PATH`, `fsync` fails with `EBADF`.
    let directory = open_private_directory(&path).and_then(|_| open_directory(&path));
    let store = directory.and_then(|directory| GrantStore::open(Dir::from_std_file(directory), key));
    store.map_err(|error| state_error(settings, &error))
}

/// The directory of conversations.
pub fn sessions_directory(settings: &Settings) -> PathBuf {
    settings.state_dir.join(SESSIONS)
}

/// The directory of outputs that are too long for a response.
pub fn outputs_directory(settings: &Settings) -> PathBuf {
    settings.state_dir.join(OUTPUTS)
}

/// The directory of files that commands left under protected names.
pub fn quarantine_directory(settings: &Settings) -> PathBuf {
    settings.state_dir.join(QUARANTINE)
}

/// Where the state before each command run is recorded. All gates of one user share the default state directory for this, whatever state directory
/// each of them has; if there is none or it cannot be used, gates with the same state directory share that.
pub fn baselines_directories(settings: &Settings) -> Vec<PathBuf> {
    let states = settings.default_state_dir.iter().chain([&settings.state_dir]);
    states.map(|state| state.join(BASELINES)).collect()
}

/// Whether read-only calls continue without an audit log. A directory that the operator cannot write is a mishap. A full disk (which a model can
/// cause), a log that was tampered with, or one that another process has locked is a reason to stop.
pub fn continues_without_audit(settings: &Settings, error: &AuditError) -> bool {
    let is_mishap = matches!(error, AuditError::Io { .. })
        && matches!(
            error.code(),
            ErrorCode::PermissionDenied
                | ErrorCode::ReadOnlyFilesystem
                | ErrorCode::NotADirectory
                | ErrorCode::NotAFile
                | ErrorCode::NotFound
        );
    settings.on_audit_failure == OnAuditFailure::Warn && is_mishap
}

fn report_recovery(recovered: &AuditRecovery, journal: &Journal) {
    tell_of_interruptions(&recovered.interrupted, journal);
    if recovered.calls_without_record > 0 {
        warn(&format!(
            "calls that earlier processes could not record: {}; the record says so now, and `toolgate audit verify` when",
            recovered.calls_without_record
        ));
    }
    for path in &recovered.damaged {
        warn(&format!(
            "a file of intents was not written by this version of the gate, or is damaged; what could be read of it is recorded, and it is kept as `{}`",
            path.display()
        ));
    }
}

/// Reports calls and changes that earlier processes left unfinished, and what became of them.
fn tell_of_interruptions(recorded: &[CallId], journal: &Journal) {
    let recovery = journal.recovery();
    for call in recorded {
        let changes = match journal.fate_of(*call) {
            ChangeFate::NoEntry => String::new(),
            fate => format!("; {}", fate.describe()),
        };
        warn(&format!("call {call} was interrupted; it is recorded as an error{changes}"));
    }
    for call in recovery.restored.iter().filter(|call| !recorded.contains(call)) {
        warn(&format!("call {call} was interrupted; its changes were put back"));
    }
    for (call, reason) in &recovery.unrestored {
        warn(&format!("the changes of call {call} could not be put back and are kept: {reason}"));
    }
    report_unsealed_entries(recovery.unsealed);
    report_torn_entries(recovery.torn);
}

/// Warns of journal entries without a valid seal of this user's state key.
pub fn report_unsealed_entries(count: usize) {
    if count > 0 {
        let entries = if count == 1 { "entry" } else { "entries" };
        warn(&format!(
            "{count} {entries} of the undo journal {} not written by this user's gate here, and {} left alone",
            if count == 1 { "was" } else { "were" },
            if count == 1 { "is" } else { "are" },
        ));
    }
}

/// Warns of journal entries that were torn by a power loss.
pub fn report_torn_entries(count: usize) {
    if count > 0 {
        let entries = if count == 1 { "entry is" } else { "entries are" };
        warn(&format!(
            "{count} {entries} empty or cut off in the undo journal, as after a power cut: those changes cannot be undone"
        ));
    }
}

fn open_journal(state: &Dir, key: &StateKey) -> std::io::Result<UnrecoveredJournal> {
    match state.open_dir(JOURNAL) {
        Ok(folder) => Journal::open(&folder, key),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            match state.create_dir_with(JOURNAL, DirBuilder::new().mode(0o700)) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            Journal::open(&state.open_dir(JOURNAL)?, key)
        }
        Err(error) => Err(error),
    }
}

fn state_error(settings: &Settings, error: &std::io::Error) -> BuildError {
    BuildError::usage(format!(
        "the state directory `{}` cannot be used: {error}",
        settings.state_dir.display()
    ))
    .help("name another one with --state-dir")
}
