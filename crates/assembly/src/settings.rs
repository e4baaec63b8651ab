//! Configuration and command line, joined: what this process is to do.

use std::path::{Path, PathBuf};

use toolgate_gate::Credential;
use toolgate_manifest::{
    Access, Config, DeclaredPath, KeySourceConfig, Located, ModelKey, MountConfig, OnAuditFailure,
};
use toolgate_tools::Profile;
use toolgate_types::{Caller, Limits, RunId, SessionId, Sha256, Trust};

use crate::ambient::{HostEnvironment, read_file};
use crate::arguments::GlobalOptions;
use crate::config_files::{ConfiguredPath, FileSource};
use crate::exit::CliError;
use crate::state_dir;
use crate::terminal::{debug, warn};
use crate::trust::{self, AgreementStore, ConfigOrigin, TrustPrompt};

/// A configuration with the place it came from.
pub(crate) struct LoadedConfig {
    pub(crate) config: Config,
    pub(crate) origin: ConfigOrigin,
    /// Where the content of the files comes from that it names.
    pub(crate) file_source: FileSource,
    directory: PathBuf,
}

/// Everything decided before a gate is built.
pub(crate) struct Settings {
    pub(crate) profile: Profile,
    pub(crate) workspace: PathBuf,
    pub(crate) mounts: Vec<MountSettings>,
    pub(crate) deny: Vec<String>,
    pub(crate) state_dir: PathBuf,
    pub(crate) audit_dir: PathBuf,
    /// Where other gates of this user keep their state; hidden as well.
    pub(crate) default_state_dir: Option<PathBuf>,
    pub(crate) checkpoints: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) checkpoint_every: Option<u64>,
    pub(crate) on_audit_failure: OnAuditFailure,
    pub(crate) limits: Limits,
    pub(crate) approval_timeout: std::time::Duration,
    pub(crate) run: RunId,
    pub(crate) caller: Caller,
    /// Manifests, policies, keys, and what models are told first: files of the operator that tools must not reach.
    pub(crate) tools: Vec<ConfiguredPath>,
    pub(crate) policies: Vec<ConfiguredPath>,
    pub(crate) key_files: Vec<PathBuf>,
    pub(crate) system_files: Vec<PathBuf>,
    pub(crate) loaded: LoadedConfig,
    pub(crate) environment: HostEnvironment,
}

/// One more folder.
pub(crate) struct MountSettings {
    pub(crate) alias: String,
    pub(crate) path: PathBuf,
    pub(crate) read_only: bool,
    pub(crate) scope: Vec<String>,
    pub(crate) deny: Vec<String>,
}

/// What a question waits by default.
const DEFAULT_APPROVAL_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// Reads the configuration that is in use: the named one, one that was found and agreed to, or none.
pub(crate) fn load(common: &GlobalOptions, surroundings: &HostEnvironment) -> Result<LoadedConfig, CliError> {
    load_from(ConfigOrigin::choose(common, surroundings)?, surroundings, TrustPrompt::OnTerminal)
}

/// Reads the configuration of an origin.
pub(crate) fn load_from(
    origin: ConfigOrigin,
    surroundings: &HostEnvironment,
    asking: TrustPrompt,
) -> Result<LoadedConfig, CliError> {
    let Some(file) = origin.file() else {
        let config =
            Config::parse("built-in defaults", "").map_err(|problems| CliError::usage(problems.render()))?;
        let folder = surroundings.current_dir.clone();
        return Ok(LoadedConfig { config, origin, file_source: FileSource::OnDisk, directory: folder });
    };
    if let ConfigOrigin::Found(file) = &origin {
        let covered = trust::agreed(file, surroundings, asking)?;
        let (config, folder) = (covered.config.clone(), covered.directory.clone());
        return Ok(LoadedConfig {
            config,
            origin,
            file_source: FileSource::Agreed(covered),
            directory: folder,
        });
    }
    let bytes = read_file(file).map_err(|error| {
        CliError::usage(format!("the configuration `{}` cannot be read: {error}", file.display()))
            .help("name an existing file with --config, or leave it out")
    })?;
    trust::require_owner(file)?;
    LoadedConfig::read(origin, &bytes, surroundings)
}

impl LoadedConfig {
    /// A configuration whose files are read from disk: a person named it, or it is only looked at.
    pub(crate) fn read(
        origin: ConfigOrigin,
        bytes: &[u8],
        surroundings: &HostEnvironment,
    ) -> Result<Self, CliError> {
        let shown = origin.file().map_or_else(String::new, |file| surroundings.display_path(file));
        let config = Config::parse_bytes(&shown, bytes).map_err(|problems| {
            CliError::usage(problems.render().trim_end())
                .help("correct the file; `toolgate check` says when nothing is left")
        })?;
        let folder = origin.file().and_then(|file| file.parent());
        let folder = folder.map_or_else(|| surroundings.current_dir.clone(), Path::to_path_buf);
        Ok(Self { config, origin, file_source: FileSource::OnDisk, directory: folder })
    }

    /// The file, if there is one.
    pub(crate) fn file(&self) -> Option<&PathBuf> {
        self.origin.file()
    }

    /// Where the agreement is kept that makes it count, if it needs one.
    pub(crate) fn agreement(&self, surroundings: &HostEnvironment) -> Option<PathBuf> {
        let ConfigOrigin::Found(file) = &self.origin else { return None };
        Some(AgreementStore::of(surroundings).ok()?.path_of(file))
    }

    /// The folder that relative paths start at.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// A path of the configuration, on this machine.
    pub(crate) fn resolve(
        &self,
        path: &DeclaredPath,
        surroundings: &HostEnvironment,
    ) -> Result<PathBuf, CliError> {
        resolve(path, &self.directory, surroundings)
    }
}

/// A path of a configuration that lies in `folder`, on this machine.
pub(crate) fn resolve(
    path: &DeclaredPath,
    folder: &Path,
    surroundings: &HostEnvironment,
) -> Result<PathBuf, CliError> {
    let resolved = path.resolve(folder, surroundings.home.as_deref()).ok_or_else(|| {
        CliError::usage(format!("`{}` needs a home folder, and HOME is not set", path.as_str()))
    })?;
    surroundings.absolute(&resolved)
}

/// Joins command line and configuration; the command line wins.
pub(crate) fn resolve_settings(common: &GlobalOptions, default_trust: Trust) -> Result<Settings, CliError> {
    let surroundings = HostEnvironment::detect()?;
    let loaded = load(common, &surroundings)?;
    merge_settings(common, default_trust, loaded, surroundings)
}

/// The same while a gate runs: the file that was in use is the file that counts, whatever appears nearer, and no question is asked. An agent that is not
/// declared any more is no reason to go on with the rest as it was: the gate denies its calls, since it knows no such agent.
pub(crate) fn re_resolve_settings(
    common: &GlobalOptions,
    trust: Trust,
    origin: &ConfigOrigin,
) -> Result<Settings, CliError> {
    let surroundings = HostEnvironment::detect()?;
    let loaded = load_from(origin.clone(), &surroundings, TrustPrompt::Never)?;
    join_any(common, trust, loaded, surroundings)
}

/// Joins the command line and a configuration.
pub(crate) fn merge_settings(
    common: &GlobalOptions,
    default_trust: Trust,
    loaded: LoadedConfig,
    surroundings: HostEnvironment,
) -> Result<Settings, CliError> {
    check_agent(common, &loaded.config)?;
    join_any(common, default_trust, loaded, surroundings)
}

/// The same, whether or not the agent of the command line is declared.
fn join_any(
    common: &GlobalOptions,
    default_trust: Trust,
    loaded: LoadedConfig,
    surroundings: HostEnvironment,
) -> Result<Settings, CliError> {
    let config = &loaded.config;
    let profile = profile(common, config)?;
    let agent = common.agent.as_ref().and_then(|name| config.agent(name.as_str()));
    let state_dir = match (&common.state_dir, &config.state_dir) {
        (Some(path), _) => surroundings.absolute(path)?,
        (None, Some(path)) => loaded.resolve(&path.value, &surroundings)?,
        (None, None) => default_state_dir(&surroundings)?,
    };
    let audit_dir = match &config.audit.directory {
        Some(path) => loaded.resolve(&path.value, &surroundings)?,
        None => state_dir.join("audit"),
    };
    let optional = |path: &Option<Located<DeclaredPath>>| {
        path.as_ref().map(|path| loaded.resolve(&path.value, &surroundings)).transpose()
    };
    let named = |paths: &[Located<DeclaredPath>]| {
        let one = |at: &Located<DeclaredPath>| {
            Ok(ConfiguredPath { path: loaded.resolve(&at.value, &surroundings)?, at: at.clone() })
        };
        paths.iter().map(one).collect::<Result<Vec<ConfiguredPath>, CliError>>()
    };
    let workspace = match (&common.workspace, &config.workspace) {
        (Some(path), _) => surroundings.absolute(path)?,
        (None, Some(path)) => loaded.resolve(&path.value, &surroundings)?,
        (None, None) => surroundings.current_dir.clone(),
    };
    let trust = common.trust.or(agent.and_then(|agent| agent.trust.as_ref()).map(|trust| trust.value));
    let trust = trust.or(config.trust.as_ref().map(|trust| trust.value)).unwrap_or(default_trust);
    let run = match &common.run {
        Some(run) => run.clone(),
        None => default_run(&workspace)?,
    };
    let caller = Caller {
        subject: surroundings.user.clone(),
        permissions: std::collections::BTreeSet::new(),
        agent: common.agent.clone(),
        session: session(common)?,
        run: common.run.clone(),
        trust,
    };
    let settings = Settings {
        profile,
        mounts: mounts(common, &loaded, &surroundings)?,
        deny: config.deny.patterns().to_vec(),
        checkpoints: optional(&config.audit.checkpoints)?,
        key: optional(&config.audit.key)?,
        checkpoint_every: config.audit.checkpoint_every.map(std::num::NonZeroU64::get),
        on_audit_failure: config.audit.on_failure.as_ref().map_or(OnAuditFailure::Warn, |mode| mode.value),
        limits: config.limits.over(profile.limits()),
        approval_timeout: config.approval.timeout.unwrap_or(DEFAULT_APPROVAL_TIMEOUT),
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
        environment: surroundings,
    };
    debug(|| settings.summary());
    state_dir::check(&settings)?;
    Ok(settings)
}

impl Settings {
    /// What was decided, for operators who wonder.
    fn summary(&self) -> String {
        let config = self.loaded.file().map_or("none".to_owned(), |file| file.display().to_string());
        let Limits { max_read_bytes, max_write_bytes, max_entries, max_matches, max_output_bytes, timeout } =
            self.limits;
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

    /// A path of the configuration, on this machine.
    pub(crate) fn resolve(&self, path: &DeclaredPath) -> Result<PathBuf, CliError> {
        self.loaded.resolve(path, &self.environment)
    }

    /// What calls come with: the token that was given, else the person at this machine.
    pub(crate) fn credential(&self, common: &GlobalOptions) -> Result<Credential, CliError> {
        let Some(token) = &common.token else { return Ok(self.caller.clone().into()) };
        if let Some(agent) = &common.agent {
            return Err(CliError::usage(format!(
                "a token says itself for which agent it calls, so not for `{agent}`"
            ))
            .help("leave out --agent, or --token and the variable TOOLGATE_TOKEN"));
        }
        let Caller { session, run, trust, .. } = self.caller.clone();
        Ok(Credential::Token { token: token.0.clone(), session, run, trust })
    }

    /// A permission for a tool that does not exist permits nothing, and its author may believe otherwise.
    pub(crate) fn warn_of_unknown_tools(&self, known: &[String]) {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        for problem in self.loaded.config.check_tools(&known) {
            let help = problem.help.map(|help| format!("; {help}")).unwrap_or_default();
            warn(&format!("{}:{}: {}{help}", problem.file, problem.line, problem.message));
        }
    }
}

/// The files that tokens are checked with, and those of keys of models.
fn key_files(
    config: &Config,
    resolve: impl Fn(&DeclaredPath) -> Result<PathBuf, CliError>,
) -> Result<Vec<PathBuf>, CliError> {
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

/// The files with what stands before conversations. A model that could write there would speak to the next one as the operator does.
fn system_files(
    config: &Config,
    resolve: impl Fn(&DeclaredPath) -> Result<PathBuf, CliError>,
) -> Result<Vec<PathBuf>, CliError> {
    let agents = config.agents.iter().map(|agent| &agent.conversation);
    let files =
        agents.chain([&config.conversation]).filter_map(|conversation| conversation.system_file.as_ref());
    files.map(|at| resolve(&at.value)).collect()
}

fn profile(common: &GlobalOptions, config: &Config) -> Result<Profile, CliError> {
    match (&common.profile, &config.profile) {
        (Some(name), _) => name.parse().map_err(CliError::usage),
        (None, Some(name)) => name.value.as_str().parse().map_err(CliError::usage),
        (None, None) => Ok(Profile::Native),
    }
}

fn check_agent(common: &GlobalOptions, config: &Config) -> Result<(), CliError> {
    let Some(name) = common.agent.as_ref().filter(|name| config.agent(name.as_str()).is_none()) else {
        return Ok(());
    };
    let known: Vec<&str> = config.agents.iter().map(|agent| agent.name.value.as_str()).collect();
    let failed = CliError::usage(format!("there is no agent `{name}` in the configuration"));
    Err(match known.is_empty() {
        true => failed.help("declare it under `agents:` in toolgate.yaml"),
        false => failed.help(format!("declared are {}", known.join(", "))),
    })
}

/// Calls of one run belong together; calls without a run belong to the command line.
fn session(common: &GlobalOptions) -> Result<SessionId, CliError> {
    let name = common.run.as_ref().map_or("cli", RunId::as_str);
    name.parse().map_err(|error| CliError::usage(format!("{error}")))
}

/// A run that nobody named is one per workspace.
fn default_run(workspace: &Path) -> Result<RunId, CliError> {
    let digest = Sha256::of(workspace.as_os_str().as_encoded_bytes()).to_string();
    let short: String = digest.chars().take(12).collect();
    format!("default-{short}").parse().map_err(|error| CliError::usage(format!("{error}")))
}

pub(crate) fn default_state_dir(surroundings: &HostEnvironment) -> Result<PathBuf, CliError> {
    let base = match (&surroundings.state_home, &surroundings.home) {
        (Some(state_home), _) => state_home.clone(),
        (None, Some(home)) => home.join(".local/state"),
        (None, None) => {
            return Err(CliError::usage(
                "there is no place for audit records: neither XDG_STATE_HOME nor HOME is set",
            )
            .help("name a folder with --state-dir"));
        }
    };
    Ok(base.join("toolgate"))
}

fn mounts(
    common: &GlobalOptions,
    loaded: &LoadedConfig,
    surroundings: &HostEnvironment,
) -> Result<Vec<MountSettings>, CliError> {
    let mut mounts = Vec::new();
    for MountConfig { alias, path, access, scope, deny } in &loaded.config.mounts {
        if let Some(help) = reserved_alias(&alias.value) {
            return Err(CliError::usage(format!("`{}` cannot be mounted by hand", alias.value)).help(help));
        }
        mounts.push(MountSettings {
            read_only: *access == Access::ReadOnly || alias.value == "@pkg",
            alias: alias.value.clone(),
            path: loaded.resolve(&path.value, surroundings)?,
            scope: scope.as_ref().map(|globs| globs.patterns().to_vec()).unwrap_or_default(),
            deny: deny.patterns().to_vec(),
        });
    }
    for text in &common.mounts {
        let mount = parse_mount(text, surroundings)?;
        mounts.retain(|other: &MountSettings| other.alias != mount.alias);
        mounts.push(mount);
    }
    Ok(mounts)
}

/// Why an alias is not free, if it is not.
pub(crate) fn reserved_alias(alias: &str) -> Option<&'static str> {
    match alias {
        "@project" => Some("@project is the workspace: use --workspace or `workspace:`"),
        "@state" => Some("@state is made for each run"),
        _ => None,
    }
}

/// `@name=DIR` or `@name=DIR:ro`.
fn parse_mount(text: &str, surroundings: &HostEnvironment) -> Result<MountSettings, CliError> {
    let wrong = || {
        CliError::usage(format!("`{text}` is not a mount"))
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
        return Err(CliError::usage(format!("`{alias}` cannot be mounted by hand")).help(help));
    }
    let path = surroundings.absolute(Path::new(path))?;
    // A package is what a run was made from; nothing in a run may change it.
    let read_only = read_only || alias == "@pkg";
    Ok(MountSettings { alias: alias.to_owned(), path, read_only, scope: Vec::new(), deny: Vec::new() })
}
