//! The confinement of commands: the `sandbox` section of the configuration as sandbox options.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cap_std::fs::Dir;
pub use toolgate_command::CacheUsage;
use toolgate_command::{
    CommandOptions, CommandRunner, CommitIdentity, Confinement, EscalationRule, GateDirectories,
    PackageCaches, ShellTimeouts,
};
use toolgate_confine::Quarantined;
use toolgate_egress::{NetworkAllowlist, SystemDialer};
use toolgate_manifest::{Config, ConfigProblem, HardLinkRule, PackageCacheConfig, SandboxConfig};
use toolgate_sandbox::{
    Layer, Layers, ResourceLimits, Sandbox, SandboxOptions, refused_place, refused_variable,
};
use toolgate_types::{ErrorCode, Failure};
use toolgate_workspace::{DiskReserve, HardLinks, Workspace};

use crate::ambient::{
    HostEnvironment, has_entry, open_directory, open_private_directory, read_regular_file, real_path,
};
use crate::error::BuildError;
use crate::gate_builder::{baselines_directories, caches_directory, quarantine_directory};
use crate::lendable_directories::directory_opener;
use crate::load::LoadError;
use crate::notices::warn;
use crate::protected_paths::GateOwnedPaths;
use crate::settings::Settings;
use crate::toolchains::Toolchains;

/// The operator's requirements for the sandbox.
pub fn sandbox_options(settings: &Settings, own: &GateOwnedPaths) -> Result<SandboxOptions, BuildError> {
    Ok(deferred_options(settings, own, ToolchainConfig::Hidden)?())
}

/// Whether the files of toolchains that may hold credentials of registries are masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToolchainConfig {
    /// For commands and servers.
    Hidden,
    /// For package managers.
    Shown,
}

/// The same, where the toolchains are only looked for when the options are needed: most processes run no command, and the search reads dozens of
/// directories.
fn deferred_options(
    settings: &Settings,
    own: &GateOwnedPaths,
    configs: ToolchainConfig,
) -> Result<impl Fn() -> SandboxOptions + Send + Sync + use<>, BuildError> {
    let config = &settings.loaded.config.sandbox;
    let read: Vec<PathBuf> =
        config.read.iter().map(|path| settings.resolve(&path.value)).collect::<Result<_, _>>()?;
    let refused = read.iter().zip(&config.read).find_map(|(path, named)| Some((named, refused_place(path)?)));
    if let Some((named, reason)) = refused {
        let message = format!("commands cannot be shown `{}`: it {reason}", named.value.as_str());
        let help = Some("name the folders below it that commands need".to_owned());
        let problem = settings.loaded.config.problem_at(named, message, help);
        return Err(BuildError::usage(problem.render().trim_end()));
    }
    let path = config.path.iter().flatten().map(|path| settings.resolve(&path.value));
    let path: Vec<_> = path.collect::<Result<_, _>>()?;
    let (require, own, find) = (required(config), own.paths().to_vec(), toolchain_search(settings));
    Ok(move || {
        let (toolchains, standard) = (find(), SandboxOptions::default());
        SandboxOptions {
            require,
            read: read.iter().chain(toolchains.shown()).cloned().collect(),
            hide: own
                .iter()
                .chain(toolchains.hidden().filter(|_| configs == ToolchainConfig::Hidden))
                .cloned()
                .collect(),
            path: search_path(&toolchains, &path, &standard.path),
            variables: toolchains.variables().cloned().collect(),
            ..standard
        }
    })
}

/// The toolchains of the home directory that commands are shown.
#[must_use]
pub fn toolchains(settings: &Settings) -> Toolchains {
    toolchain_search(settings)()
}

fn toolchain_search(settings: &Settings) -> impl Fn() -> Toolchains + Send + Sync + use<> {
    let mounts = settings.mounts.iter().filter(|mount| !mount.read_only).map(|mount| &mount.path);
    let writable: Vec<PathBuf> = mounts.chain([&settings.workspace]).map(|path| real_path(path)).collect();
    let (selection, environment) =
        (settings.loaded.config.sandbox.toolchains.clone(), settings.environment.clone());
    move || Toolchains::detect(&selection, &environment, &writable)
}

/// Where programs are looked up: the toolchains come before the system, as in the person's own shell, but after directories that the operator named.
fn search_path(toolchains: &Toolchains, named: &[PathBuf], standard: &[PathBuf]) -> Vec<PathBuf> {
    let system = if named.is_empty() { standard } else { &[] };
    let mut path = Vec::new();
    for directory in named.iter().chain(toolchains.programs()).chain(system) {
        if !path.contains(directory) {
            path.push(directory.clone());
        }
    }
    path
}

/// The required layers. `Descriptors` and `Session` are always present, so the configuration has no name for them.
fn required(config: &SandboxConfig) -> Layers {
    let named = config.required();
    let is_named = |layer: &Layer| named.iter().any(|name| name.as_str() == layer.as_str());
    let always = |layer: &Layer| matches!(layer, Layer::Descriptors | Layer::Session);
    Layer::ALL.iter().copied().filter(|layer| is_named(layer) || always(layer)).collect()
}

/// The resource limits of one command.
pub fn limits(config: &SandboxConfig) -> ResourceLimits {
    let standard = ResourceLimits::default();
    ResourceLimits {
        memory: config.memory.unwrap_or(standard.memory),
        processes: config.processes.unwrap_or(standard.processes),
        file_size: config.file_size.unwrap_or(standard.file_size),
        open_files: config.open_files.unwrap_or(standard.open_files),
        cpu_seconds: config.cpu_time.map_or(standard.cpu_seconds, |time| time.as_secs().max(1)),
        temporary: config.tmp_size.unwrap_or(standard.temporary),
    }
}

/// The timeouts of shell lines: the general `limits.timeout` counts where `sandbox` names none.
fn timeouts(config: &Config) -> ShellTimeouts {
    let (sandbox, general) = (&config.sandbox, config.limits.timeout);
    let at_least = |most: Duration| sandbox.timeout.map_or(most, |default| most.max(default));
    ShellTimeouts { default: sandbox.timeout.or(general), max: sandbox.max_timeout.or(general.map(at_least)) }
}

fn escalation(config: &SandboxConfig) -> EscalationRule {
    let toolgate_manifest::EscalationConfig { hosts, time, directories } = config.escalation;
    EscalationRule { hosts, time, directories }
}

/// What package managers of commands keep.
fn package_caches(settings: &Settings) -> Option<PackageCaches> {
    let PackageCacheConfig::Bytes(max_bytes) = settings.loaded.config.sandbox.cache else { return None };
    let directory = caches_directory(settings);
    Some(PackageCaches::new(move || open_readable_directory(&directory), max_bytes))
}

/// The package managers that have a cache.
pub fn package_managers() -> impl Iterator<Item = &'static str> {
    PackageCaches::managers()
}

/// The package caches of this gate, if it has any.
pub fn package_cache_usage(settings: &Settings) -> Vec<CacheUsage> {
    let directory = open_readable_directory(&caches_directory(settings));
    directory.and_then(|directory| PackageCaches::usage(&directory)).unwrap_or_default()
}

/// Creates and opens a directory whose entries are listed: `O_PATH` would not do.
fn open_readable_directory(path: &Path) -> std::io::Result<Dir> {
    open_private_directory(path)?;
    Ok(Dir::from_std_file(open_directory(path)?))
}

/// What commands may do to files that have a hard link outside of the workspace.
pub fn hard_links(config: &SandboxConfig) -> HardLinks {
    match config.hard_links.as_ref().map(|rule| rule.value) {
        Some(HardLinkRule::Allow) => HardLinks::Allow,
        Some(HardLinkRule::Protect) | None => HardLinks::Protect,
    }
}

/// Problems in the `sandbox` section.
pub fn problems(config: &Config) -> Vec<ConfigProblem> {
    let refused = config.sandbox.environment.iter().filter_map(|name| {
        let reason = refused_variable(&name.value)?;
        let help = Some("remove it: the sandbox sets what a command needs".to_owned());
        Some(config.problem_at(name, format!("`{}` {reason}", name.value), help))
    });
    let hosts = config.sandbox.network.iter().filter_map(|host| {
        let error = NetworkAllowlist::parse(&[host.value.as_str()]).err()?;
        Some(config.problem_at(host, error.to_string(), Some(error.help())))
    });
    refused.chain(hosts).collect()
}

/// The runner of commands. The sandbox itself is created by the first command.
pub fn runner(
    settings: &Settings,
    own: &GateOwnedPaths,
    workspace: &Arc<Workspace>,
) -> Result<Arc<CommandRunner>, LoadError> {
    runner_with(settings, own, workspace, ToolchainConfig::Hidden)
}

/// The runner of package managers: no mounts, and the configuration of toolchains is not masked.
pub fn install_runner(settings: &Settings, own: &GateOwnedPaths) -> Result<Arc<CommandRunner>, LoadError> {
    let nothing = Workspace::new(Vec::new()).map_err(|error| BuildError::usage(error.to_string()))?;
    runner_with(settings, own, &Arc::new(nothing), ToolchainConfig::Shown)
}

fn runner_with(
    settings: &Settings,
    own: &GateOwnedPaths,
    workspace: &Arc<Workspace>,
    configs: ToolchainConfig,
) -> Result<Arc<CommandRunner>, LoadError> {
    let config = &settings.loaded.config;
    let problems = problems(config);
    if !problems.is_empty() {
        return Err(problems.into());
    }
    let passed = config.sandbox.environment.iter();
    let passed = passed.filter_map(|name| Some((name.value.clone(), settings.environment.var(&name.value)?)));
    let (options, quarantine) = (deferred_options(settings, own, configs)?, quarantine_directory(settings));
    let baselines = baselines_directories(settings);
    let retention = config.retention.quarantine;
    let folders = move || {
        let quarantine = open_first_usable(std::slice::from_ref(&quarantine))?;
        Ok(GateDirectories { quarantine, baselines: open_first_usable(&baselines)?, retention })
    };
    let supplied = &settings.supplied;
    let prepare = supplied.prepare_sandbox.clone();
    let sandbox = move || {
        let prepared = match &prepare {
            Some(prepare) => prepare(options()),
            None => Sandbox::prepare(options()),
        };
        Ok(Arc::new(prepared?))
    };
    let confinement = Confinement::lazy(sandbox, folders);
    let runner = CommandRunner::new(CommandOptions {
        workspace: Arc::clone(workspace),
        confinement,
        environment: passed.collect(),
        limits: limits(&config.sandbox),
        network: config.sandbox.network.iter().map(|host| host.value.clone()).collect(),
        escalation: escalation(&config.sandbox),
        timeouts: timeouts(config),
        dialer: supplied.dialer.clone().unwrap_or_else(|| Arc::new(SystemDialer)),
        reserve: Some(disk_reserve(settings)),
        package_caches: package_caches(settings),
        open_directory: Some(directory_opener(settings, own)?),
    });
    let runner = runner.map_err(|error| BuildError::usage(error.to_string()).help(error.help()))?;
    Ok(Arc::new(runner.committing_as(identity(&settings.environment))))
}

/// The space that commands and changes must leave free on the filesystem of the audit log.
pub fn disk_reserve(settings: &Settings) -> DiskReserve {
    let audit_dir = settings.audit_dir.clone();
    let open = move || open_private_directory(&audit_dir).map(Dir::into_std_file);
    DiskReserve::new(open, settings.loaded.config.audit.reserve)
}

/// Opens the first of these directories that can be used.
fn open_first_usable(folders: &[PathBuf]) -> Result<Dir, Failure> {
    let mut notes = Vec::new();
    for folder in folders {
        match open_private_directory(folder) {
            Ok(opened) => return Ok(opened),
            Err(error) => notes.push(format!("`{}` cannot be used: {error}", folder.display())),
        }
    }
    Err(Failure::new(ErrorCode::Internal, "the command could not be started").operator_note(notes.join("; ")))
}

/// Quarantines what commands left behind of a gate that was killed before its own check. A failure is only reported: the runner tries again before
/// the next command.
pub fn recover(
    settings: &Settings,
    own: &GateOwnedPaths,
    workspace: &Arc<Workspace>,
) -> Result<(), LoadError> {
    if !baselines_directories(settings).iter().any(|folder| has_entry(folder, ".run")) {
        return Ok(());
    }
    match runner(settings, own, workspace)?.recover() {
        Ok(taken) => {
            let place = quarantine_directory(settings);
            for Quarantined { path, kept_as, in_place } in taken {
                let kept = if in_place { kept_as } else { place.join(kept_as).display().to_string() };
                warn(&format!(
                    "`{path}` was left under a protected name by a command whose gate was killed; it was taken away and is kept as `{kept}`"
                ));
            }
        }
        Err(failure) => {
            let note = failure.operator_note.map(|note| format!(": {note}")).unwrap_or_default();
            warn(&format!("{}{note}", failure.message));
        }
    }
    Ok(())
}

/// The author of commits that commands make: as in the operator's git configuration. The files are parsed here and git itself is not run, since it
/// would also obey the rest of them.
fn identity(environment: &HostEnvironment) -> CommitIdentity {
    let set = |name| environment.var(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let files = match (set("GIT_CONFIG_GLOBAL"), set("HOME")) {
        (Some(only), _) => vec![only],
        (None, home) => {
            let config = set("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
            let config = config.map(|folder| folder.join("git/config"));
            config.into_iter().chain(home.map(|home| home.join(".gitconfig"))).collect()
        }
    };
    let configs: Vec<Vec<u8>> = files.iter().filter_map(|file| read_regular_file(file).ok()).collect();
    CommitIdentity::from_git_configs(configs.iter().map(Vec::as_slice))
}
