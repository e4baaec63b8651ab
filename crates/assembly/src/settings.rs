//! The settings of this process: configuration and command line joined.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use toolgate_gate::Credential;
use toolgate_manifest::{
    Access, AuditDetail, Config, DeclaredPath, DetailStorage, KeySourceConfig, Located, ModelKey,
    MountConfig, OnAuditFailure,
};
use toolgate_tools::Profile;
use toolgate_types::{Caller, FlowLabels, Limits, RunId, SessionId, Sha256, Trust};

use crate::ambient::{HostEnvironment, read_file};
use crate::config_files::{ConfiguredPath, FileSource, parse_config};
use crate::error::BuildError;
use crate::notices::{debug, warn};
use crate::overrides::SettingsOverrides;
use crate::state_dir;
use crate::supplied::SuppliedParts;
use crate::trust::{self, AgreementStore, ConfigOrigin, TrustPrompt};

/// A configuration and its origin.
pub struct LoadedConfig {
    /// The parsed file.
    pub config: Config,
    /// Where it comes from.
    pub origin: ConfigOrigin,
    /// Where the content of the files comes from that it names.
    pub file_source: FileSource,
    directory: PathBuf,
}

/// Everything decided before a gate is built.
pub struct Settings {
    /// The profile in which tools are offered.
    pub profile: Profile,
    /// The directory mounted as `@project`.
    pub workspace: PathBuf,
    /// The other mounts.
    pub mounts: Vec<MountSettings>,
    /// Globs that no tool may access, in every mount.
    pub deny: Vec<String>,
    /// The state directory.
    pub state_dir: PathBuf,
    /// The directory of the audit log.
    pub audit_dir: PathBuf,
    /// The state directory of this user's other gates; hidden from tools as well.
    pub default_state_dir: Option<PathBuf>,
    /// The directory of the log's checkpoints, if not beside it.
    pub checkpoints: Option<PathBuf>,
    /// The key that checkpoints are signed with.
    pub key: Option<PathBuf>,
    /// Records between two checkpoints.
    pub checkpoint_every: Option<u64>,
    /// What happens to calls that cannot be recorded.
    pub on_audit_failure: OnAuditFailure,
    /// What a record says of what its call touched.
    pub audit_detail: AuditDetail,
    /// Whether that is encrypted.
    pub encrypts_details: bool,
    /// The limits of calls: those of the configuration over those of the profile.
    pub limits: Limits,
    /// The timeout of an approval question.
    pub approval_timeout: std::time::Duration,
    /// The run that `@state` belongs to.
    pub run: RunId,
    /// The caller of calls without a token.
    pub caller: Caller,
    /// Tool manifests. Like the next three, files of the operator that tools must not access.
    pub tools: Vec<ConfiguredPath>,
    /// Cedar policies.
    pub policies: Vec<ConfiguredPath>,
    /// Keys of callers and of model providers.
    pub key_files: Vec<PathBuf>,
    /// System prompts.
    pub system_files: Vec<PathBuf>,
    /// The configuration itself.
    pub loaded: LoadedConfig,
    /// What the program that builds the gate supplies.
    pub supplied: SuppliedParts,
    /// The environment of the process.
    pub environment: HostEnvironment,
}

/// A further mount.
#[derive(Debug)]
pub struct MountSettings {
    /// Its name, with `@`.
    pub alias: String,
    /// The directory.
    pub path: PathBuf,
    /// Whether it is read-only for tools.
    pub read_only: bool,
    /// Globs outside of which tools have no access; empty for the whole mount.
    pub scope: Vec<String>,
    /// Globs that no tool may access.
    pub deny: Vec<String>,
    /// The labels of what is read in it.
    pub labels: FlowLabels,
}

/// Reads the configuration in use: the named one, a found one that was agreed to, or none.
pub fn load(
    overrides: &SettingsOverrides,
    surroundings: &HostEnvironment,
    prompt: TrustPrompt<'_>,
) -> Result<LoadedConfig, BuildError> {
    load_from(ConfigOrigin::choose(overrides, surroundings)?, surroundings, prompt)
}

/// Reads the configuration of an origin.
pub fn load_from(
    origin: ConfigOrigin,
    surroundings: &HostEnvironment,
    prompt: TrustPrompt<'_>,
) -> Result<LoadedConfig, BuildError> {
    if let ConfigOrigin::Supplied(text) = &origin {
        let text = Arc::clone(text);
        return LoadedConfig::read(origin, text.as_bytes(), surroundings);
    }
    let Some(file) = origin.file() else {
        let config = Config::parse("built-in defaults", "")
            .map_err(|problems| BuildError::usage(problems.render()))?;
        let folder = surroundings.current_dir.clone();
        return Ok(LoadedConfig { config, origin, file_source: FileSource::OnDisk, directory: folder });
    };
    if let ConfigOrigin::Found(file) = &origin {
        let covered = trust::agreed(file, surroundings, prompt)?;
        let (config, folder) = (covered.config.clone(), covered.directory.clone());
        return Ok(LoadedConfig {
            config,
            origin,
            file_source: FileSource::Agreed(covered),
            directory: folder,
        });
    }
    let bytes = read_file(file).map_err(|error| {
        BuildError::usage(format!("the configuration `{}` cannot be read: {error}", file.display()))
            .help("name an existing file with --config, or leave it out")
    })?;
    trust::require_owner(file)?;
    LoadedConfig::read(origin, &bytes, surroundings)
}

impl LoadedConfig {
    /// A configuration whose files are read from disk: it was named explicitly, or is only inspected.
    pub fn read(
        origin: ConfigOrigin,
        bytes: &[u8],
        surroundings: &HostEnvironment,
    ) -> Result<Self, BuildError> {
        let shown = origin
            .file()
            .map_or_else(|| "configuration text".to_owned(), |file| surroundings.display_path(file));
        let config = parse_config(&shown, bytes).map_err(|problems| {
            BuildError::usage(problems.render().trim_end())
                .help("correct the file; `toolgate check` says when nothing is left")
        })?;
        let folder = origin.file().and_then(|file| file.parent());
        let folder = folder.map_or_else(|| surroundings.current_dir.clone(), Path::to_path_buf);
        Ok(Self { config, origin, file_source: FileSource::OnDisk, directory: folder })
    }

    /// The file, if there is one.
    pub fn file(&self) -> Option<&PathBuf> {
        self.origin.file()
    }

    /// The file of the agreement that makes it effective, if it needs one.
    pub fn agreement(&self, surroundings: &HostEnvironment) -> Option<PathBuf> {
        let ConfigOrigin::Found(file) = &self.origin else { return None };
        Some(AgreementStore::of(surroundings).ok()?.path_of(file))
    }

    /// The directory that relative paths start at.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Resolves a path of the configuration.
    pub fn resolve(
        &self,
        path: &DeclaredPath,
        surroundings: &HostEnvironment,
    ) -> Result<PathBuf, BuildError> {
        resolve(path, &self.directory, surroundings)
    }
}

/// Resolves a path of a configuration, relative to the directory of its file.
pub fn resolve(
    path: &DeclaredPath,
    folder: &Path,
    surroundings: &HostEnvironment,
) -> Result<PathBuf, BuildError> {
    let resolved = path.resolve(folder, surroundings.home.as_deref()).ok_or_else(|| {
        BuildError::usage(format!("`{}` needs a home folder, and HOME is not set", path.as_str()))
    })?;
    surroundings.absolute(&resolved)
}

/// Joins command line and configuration; the command line takes precedence.
pub fn resolve_settings(
    overrides: &SettingsOverrides,
    default_trust: Trust,
    surroundings: HostEnvironment,
    prompt: TrustPrompt<'_>,
) -> Result<Settings, BuildError> {
    let loaded = load(overrides, &surroundings, prompt)?;
    merge_settings(overrides, default_trust, loaded, surroundings)
}

/// The same while a gate runs: the file in use stays in use, even if another appears nearer, and no question is asked. An agent that is no longer
/// declared does not prevent the reload: the gate denies the calls of an agent it does not know.
pub fn re_resolve_settings(
    overrides: &SettingsOverrides,
    trust: Trust,
    origin: &ConfigOrigin,
    surroundings: HostEnvironment,
) -> Result<Settings, BuildError> {
    let loaded = load_from(origin.clone(), &surroundings, TrustPrompt::Never)?;
    join_any(overrides, trust, loaded, surroundings)
}

/// Joins the command line and a configuration.
pub fn merge_settings(
    overrides: &SettingsOverrides,
    default_trust: Trust,
    loaded: LoadedConfig,
    surroundings: HostEnvironment,
) -> Result<Settings, BuildError> {
    check_agent(overrides, &loaded.config)?;
    join_any(overrides, default_trust, loaded, surroundings)
}

/// The same, without checking that the agent of the command line is declared.
fn join_any(
    overrides: &SettingsOverrides,
    default_trust: Trust,
    loaded: LoadedConfig,
    surroundings: HostEnvironment,
) -> Result<Settings, BuildError> {
    let config = &loaded.config;
    let profile = profile(overrides, config)?;
    let agent = overrides.agent.as_ref().and_then(|name| config.agent(name.as_str()));
    let state_dir = match (&overrides.state_dir, &config.state_dir) {
        (Some(path), _) => surroundings.absolute(path)?,
        (None, Some(path)) => loaded.resolve(&path.value, &surroundings)?,
        (None, None) => default_state_dir(&surroundings)?,
    };
    let audit_dir = match (&overrides.audit_dir, &config.audit.directory) {
        (Some(path), _) => surroundings.absolute(path)?,
        (None, Some(path)) => loaded.resolve(&path.value, &surroundings)?,
        (None, None) => state_dir.join("audit"),
    };
    let optional = |path: &Option<Located<DeclaredPath>>| {
        path.as_ref().map(|path| loaded.resolve(&path.value, &surroundings)).transpose()
    };
    let named = |paths: &[Located<DeclaredPath>]| {
        let one = |at: &Located<DeclaredPath>| {
            Ok(ConfiguredPath { path: loaded.resolve(&at.value, &surroundings)?, at: at.clone() })
        };
        paths.iter().map(one).collect::<Result<Vec<ConfiguredPath>, BuildError>>()
    };
    let workspace = match (&overrides.workspace, &config.workspace) {
        (Some(path), _) => surroundings.absolute(path)?,
        (None, Some(path)) => loaded.resolve(&path.value, &surroundings)?,
        (None, None) => surroundings.current_dir.clone(),
    };
    let trust = overrides.trust.or(agent.and_then(|agent| agent.trust.as_ref()).map(|trust| trust.value));
    let trust = trust.or(config.trust.as_ref().map(|trust| trust.value)).unwrap_or(default_trust);
    let run = match &overrides.run {
        Some(run) => run.clone(),
        None => default_run(&workspace)?,
    };
    let caller = Caller {
        subject: surroundings.user.clone(),
        permissions: std::collections::BTreeSet::new(),
        agent: overrides.agent.clone(),
        session: session(overrides)?,
        run: overrides.run.clone(),
        trust,
    };
    let settings = Settings {
        profile,
        mounts: mounts(overrides, &loaded, &surroundings)?,
        deny: config.deny.patterns().to_vec(),
        checkpoints: optional(&config.audit.checkpoints)?,
        key: optional(&config.audit.key)?,
        checkpoint_every: config.audit.checkpoint_every.map(std::num::NonZeroU64::get),
        on_audit_failure: config.audit.on_failure.as_ref().map_or(OnAuditFailure::Warn, |mode| mode.value),
        audit_detail: config.audit.details.as_ref().map_or(AuditDetail::Paths, |detail| detail.value),
        encrypts_details: config
            .audit
            .details_storage
            .as_ref()
            .is_some_and(|storage| storage.value == DetailStorage::Encrypted),
        limits: config.limits.over(profile.limits()),
        approval_timeout: config.approval.timeout.unwrap_or(profile.approval_timeout()),
        default_state_dir: default_state_dir(&surroundings).ok(),
        tools: named(&config.tools)?,
        policies: named(&config.policies)?,
        key_files: key_files(config, |path| loaded.resolve(path, &surroundings))?,
        system_files: system_files(config, |path| loaded.resolve(path, &surroundings))?,
        workspace,
        state_dir,
        audit_dir,
        run,
        caller,
        loaded,
        supplied: SuppliedParts::default(),
        environment: surroundings,
    };
    debug(|| settings.summary());
    state_dir::check(&settings)?;
    Ok(settings)
}

impl Settings {
    /// The settings in one line, for verbose output.
    fn summary(&self) -> String {
        let config = self.loaded.file().map_or("none".to_owned(), |file| file.display().to_string());
        let Limits {
            max_read_bytes,
            max_write_bytes,
            max_entries,
            max_matches,
            max_output_bytes,
            timeout,
            ..
        } = self.limits;
        format!(
            "configuration {config}, workspace {}, profile {}, state directory {}, trust {}, limits: read {max_read_bytes}, \
             write {max_write_bytes}, entries {max_entries}, matches {max_matches}, output {max_output_bytes}, {} s",
            self.workspace.display(),
            self.profile,
            self.state_dir.display(),
            self.caller.trust,
            timeout.as_secs_f64()
        )
    }

    /// Resolves a path of the configuration.
    pub fn resolve(&self, path: &DeclaredPath) -> Result<PathBuf, BuildError> {
        self.loaded.resolve(path, &self.environment)
    }

    /// The credential of calls: the given token, else the local user.
    pub fn credential(&self, overrides: &SettingsOverrides) -> Result<Credential, BuildError> {
        let Some(token) = &overrides.token else { return Ok(self.caller.clone().into()) };
        if overrides.agent.is_some() {
            return Err(BuildError::usage("`--agent` cannot be combined with a token")
                .help("leave out --agent, or --token and the variable TOOLGATE_TOKEN"));
        }
        let Caller { session, run, trust, .. } = self.caller.clone();
        Ok(Credential::Token { token: token.clone(), session, run, trust })
    }

    /// Warns of permissions for unknown tools: they permit nothing, and their author may believe otherwise.
    pub fn warn_of_unknown_tools(&self, known: &[String]) {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        for problem in self.loaded.config.check_tools(&known) {
            let help = problem.help.map(|help| format!("; {help}")).unwrap_or_default();
            warn(&format!("{}:{}: {}{help}", problem.file, problem.line, problem.message));
        }
    }
}

/// The key files of callers and of model providers.
fn key_files(
    config: &Config,
    resolve: impl Fn(&DeclaredPath) -> Result<PathBuf, BuildError>,
) -> Result<Vec<PathBuf>, BuildError> {
    let keys = config.callers.iter().flat_map(|callers| &callers.keys);
    let files = keys.filter_map(|key| match &key.source {
        KeySourceConfig::PublicKey(at) | KeySourceConfig::Secret(at) | KeySourceConfig::KeySetFile(at) => {
            Some(at)
        }
        KeySourceConfig::KeySetUrl(_) => None,
    });
    let of_models = config.models.iter().filter_map(|server| match &server.key {
        Some(ModelKey::File(at)) => Some(at),
        _ => None,
    });
    files.chain(of_models).map(|at| resolve(&at.value)).collect()
}

/// The files of system prompts. A model that could write there would speak to the next one with the operator's authority.
fn system_files(
    config: &Config,
    resolve: impl Fn(&DeclaredPath) -> Result<PathBuf, BuildError>,
) -> Result<Vec<PathBuf>, BuildError> {
    let agents = config.agents.iter().map(|agent| &agent.conversation);
    let files =
        agents.chain([&config.conversation]).filter_map(|conversation| conversation.system_file.as_ref());
    files.map(|at| resolve(&at.value)).collect()
}

fn profile(overrides: &SettingsOverrides, config: &Config) -> Result<Profile, BuildError> {
    match (&overrides.profile, &config.profile) {
        (Some(name), _) => name.parse().map_err(BuildError::usage),
        (None, Some(name)) => Ok(Profile::named(name.value)),
        (None, None) => Ok(Profile::default()),
    }
}

fn check_agent(overrides: &SettingsOverrides, config: &Config) -> Result<(), BuildError> {
    let Some(name) = overrides.agent.as_ref().filter(|name| config.agent(name.as_str()).is_none()) else {
        return Ok(());
    };
    let known: Vec<&str> = config.agents.iter().map(|agent| agent.name.value.as_str()).collect();
    let failed = BuildError::usage(format!("there is no agent `{name}` in the configuration"));
    Err(match known.is_empty() {
        true => failed.help("declare it under `agents:` in toolgate.yaml"),
        false => failed.help(format!("declared are {}", known.join(", "))),
    })
}

/// Calls of one run share a session; calls without a run belong to the session `cli`.
fn session(overrides: &SettingsOverrides) -> Result<SessionId, BuildError> {
    let name = overrides.run.as_ref().map_or("cli", RunId::as_str);
    name.parse().map_err(|error| BuildError::usage(format!("{error}")))
}

/// Without a name, there is one run per workspace.
fn default_run(workspace: &Path) -> Result<RunId, BuildError> {
    let digest = Sha256::of(workspace.as_os_str().as_encoded_bytes()).to_string();
    let short: String = digest.chars().take(12).collect();
    format!("default-{short}").parse().map_err(|error| BuildError::usage(format!("{error}")))
}

/// `$XDG_STATE_HOME/toolgate`, else `~/.local/state/toolgate`.
pub fn default_state_dir(surroundings: &HostEnvironment) -> Result<PathBuf, BuildError> {
    let base = match (&surroundings.state_home, &surroundings.home) {
        (Some(state_home), _) => state_home.clone(),
        (None, Some(home)) => home.join(".local/state"),
        (None, None) => {
            return Err(BuildError::usage(
                "there is no place for audit records: neither XDG_STATE_HOME nor HOME is set",
            )
            .help("name a folder with --state-dir"));
        }
    };
    Ok(base.join("toolgate"))
}

fn mounts(
    overrides: &SettingsOverrides,
    loaded: &LoadedConfig,
    surroundings: &HostEnvironment,
) -> Result<Vec<MountSettings>, BuildError> {
    let mut mounts = Vec::new();
    for MountConfig { alias, path, access, scope, deny, labels } in &loaded.config.mounts {
        if let Some(help) = reserved_alias(&alias.value) {
            return Err(BuildError::usage(format!("`{}` cannot be mounted by hand", alias.value)).help(help));
        }
        mounts.push(MountSettings {
            read_only: *access == Access::ReadOnly || alias.value == "@pkg",
            alias: alias.value.clone(),
            path: loaded.resolve(&path.value, surroundings)?,
            scope: scope.as_ref().map(|globs| globs.patterns().to_vec()).unwrap_or_default(),
            deny: deny.patterns().to_vec(),
            labels: *labels,
        });
    }
    for text in &overrides.mounts {
        let mount = parse_mount(text, surroundings)?;
        mounts.retain(|other: &MountSettings| other.alias != mount.alias);
        mounts.push(mount);
    }
    Ok(mounts)
}

/// Why an alias is reserved, if it is.
pub fn reserved_alias(alias: &str) -> Option<&'static str> {
    match alias {
        "@project" => Some("@project is the workspace: use --workspace or `workspace:`"),
        "@state" => Some("@state is made for each run"),
        _ => None,
    }
}

/// `@name=DIR` or `@name=DIR:ro`.
fn parse_mount(text: &str, surroundings: &HostEnvironment) -> Result<MountSettings, BuildError> {
    let wrong = || {
        BuildError::usage(format!("`{text}` is not a mount"))
            .help("write --mount @name=DIR or --mount @name=DIR:ro")
    };
    let (alias, path) = text.split_once('=').ok_or_else(wrong)?;
    let (path, read_only) = match path.strip_suffix(":ro") {
        Some(path) => (path, true),
        None => (path.strip_suffix(":rw").unwrap_or(path), false),
    };
    if !toolgate_workspace::is_alias(alias) || path.is_empty() {
        return Err(wrong());
    }
    if let Some(help) = reserved_alias(alias) {
        return Err(BuildError::usage(format!("`{alias}` cannot be mounted by hand")).help(help));
    }
    let path = surroundings.absolute(Path::new(path))?;
    // `@pkg` is the package that a run was made from; nothing in a run may change it.
    let read_only = read_only || alias == "@pkg";
    Ok(MountSettings {
        alias: alias.to_owned(),
        path,
        read_only,
        scope: Vec::new(),
        deny: Vec::new(),
        labels: FlowLabels::NONE,
    })
}
