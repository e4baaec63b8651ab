//! Configuration and command line, joined: what this process is to do.

use std::path::{Path, PathBuf};

use toolgate_gate::Credential;
use toolgate_manifest::{
    Access, Config, DeclaredPath, KeySourceConfig, Located, ModelKey, MountConfig, OnAuditFailure,
};
use toolgate_tools::Profile;
use toolgate_types::{Caller, Limits, RunId, SessionId, Sha256, Trust};

use crate::ambient::{Surroundings, read_file};
use crate::arguments::Common;
use crate::exit::Failed;
use crate::files::{Named, NamedFiles};
use crate::state_dir;
use crate::terminal::{complain, remark};
use crate::trust::{self, Agreements, Asking, Origin};

/// A configuration with the place it came from.
pub(crate) struct Loaded {
    pub(crate) config: Config,
    pub(crate) origin: Origin,
    /// Where the content of the files comes from that it names.
    pub(crate) named_files: NamedFiles,
    folder: PathBuf,
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
    pub(crate) approval_patience: std::time::Duration,
    pub(crate) run: RunId,
    pub(crate) caller: Caller,
    /// Manifests, policies, keys, and what models are told first: files of the operator that tools must not reach.
    pub(crate) tools: Vec<Named>,
    pub(crate) policies: Vec<Named>,
    pub(crate) key_files: Vec<PathBuf>,
    pub(crate) system_files: Vec<PathBuf>,
    pub(crate) loaded: Loaded,
    pub(crate) surroundings: Surroundings,
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
const APPROVAL_PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// Reads the configuration that is in use: the named one, one that was found and agreed to, or none.
pub(crate) fn load(common: &Common, surroundings: &Surroundings) -> Result<Loaded, Failed> {
    load_from(Origin::choose(common, surroundings)?, surroundings, Asking::OnTerminal)
}

/// Reads the configuration of an origin.
pub(crate) fn load_from(
    origin: Origin,
    surroundings: &Surroundings,
    asking: Asking,
) -> Result<Loaded, Failed> {
    let Some(file) = origin.file() else {
        let config =
            Config::parse("built-in defaults", "").map_err(|problems| Failed::usage(problems.render()))?;
        let folder = surroundings.current.clone();
        return Ok(Loaded { config, origin, named_files: NamedFiles::OnDisk, folder });
    };
    if let Origin::Found(file) = &origin {
        let covered = trust::agreed(file, surroundings, asking)?;
        let (config, folder) = (covered.config.clone(), covered.folder.clone());
        return Ok(Loaded { config, origin, named_files: NamedFiles::Agreed(covered), folder });
    }
    let bytes = read_file(file).map_err(|error| {
        Failed::usage(format!("the configuration `{}` cannot be read: {error}", file.display()))
            .help("name an existing file with --config, or leave it out")
    })?;
    trust::refuse_others(file)?;
    Loaded::read(origin, &bytes, surroundings)
}

impl Loaded {
    /// A configuration whose files are read from disk: a person named it, or it is only looked at.
    pub(crate) fn read(origin: Origin, bytes: &[u8], surroundings: &Surroundings) -> Result<Self, Failed> {
        let shown = origin.file().map_or_else(String::new, |file| surroundings.shown(file));
        let config = Config::parse_bytes(&shown, bytes).map_err(|problems| {
            Failed::usage(problems.render().trim_end())
                .help("correct the file; `toolgate check` says when nothing is left")
        })?;
        let folder = origin.file().and_then(|file| file.parent());
        let folder = folder.map_or_else(|| surroundings.current.clone(), Path::to_path_buf);
        Ok(Self { config, origin, named_files: NamedFiles::OnDisk, folder })
    }

    /// The file, if there is one.
    pub(crate) fn file(&self) -> Option<&PathBuf> {
        self.origin.file()
    }

    /// Where the agreement is kept that makes it count, if it needs one.
    pub(crate) fn agreement(&self, surroundings: &Surroundings) -> Option<PathBuf> {
        let Origin::Found(file) = &self.origin else { return None };
        Some(Agreements::of(surroundings).ok()?.place(file))
    }

    /// The folder that relative paths start at.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A path of the configuration, on this machine.
    pub(crate) fn resolve(
        &self,
        path: &DeclaredPath,
        surroundings: &Surroundings,
    ) -> Result<PathBuf, Failed> {
        resolve(path, &self.folder, surroundings)
    }
}

/// A path of a configuration that lies in `folder`, on this machine.
pub(crate) fn resolve(
    path: &DeclaredPath,
    folder: &Path,
    surroundings: &Surroundings,
) -> Result<PathBuf, Failed> {
    let resolved = path.resolve(folder, surroundings.home.as_deref()).ok_or_else(|| {
        Failed::usage(format!("`{}` needs a home folder, and HOME is not set", path.as_str()))
    })?;
    surroundings.absolute(&resolved)
}

/// Joins command line and configuration; the command line wins.
pub(crate) fn settle(common: &Common, default_trust: Trust) -> Result<Settings, Failed> {
    let surroundings = Surroundings::look()?;
    let loaded = load(common, &surroundings)?;
    join(common, default_trust, loaded, surroundings)
}

/// The same while a gate runs: the file that was in use is the file that counts, whatever appears nearer, and no question is asked. An agent that is not
/// declared any more is no reason to go on with the rest as it was: the gate denies its calls, since it knows no such agent.
pub(crate) fn settle_again(common: &Common, trust: Trust, origin: &Origin) -> Result<Settings, Failed> {
    let surroundings = Surroundings::look()?;
    let loaded = load_from(origin.clone(), &surroundings, Asking::Never)?;
    join_any(common, trust, loaded, surroundings)
}

/// Joins the command line and a configuration.
pub(crate) fn join(
    common: &Common,
    default_trust: Trust,
    loaded: Loaded,
    surroundings: Surroundings,
) -> Result<Settings, Failed> {
    check_agent(common, &loaded.config)?;
    join_any(common, default_trust, loaded, surroundings)
}

/// The same, whether or not the agent of the command line is declared.
fn join_any(
    common: &Common,
    default_trust: Trust,
    loaded: Loaded,
    surroundings: Surroundings,
) -> Result<Settings, Failed> {
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
            Ok(Named { path: loaded.resolve(&at.value, &surroundings)?, at: at.clone() })
        };
        paths.iter().map(one).collect::<Result<Vec<Named>, Failed>>()
    };
    let workspace = match (&common.workspace, &config.workspace) {
        (Some(path), _) => surroundings.absolute(path)?,
        (None, Some(path)) => loaded.resolve(&path.value, &surroundings)?,
        (None, None) => surroundings.current.clone(),
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
        approval_patience: config.approval.timeout.unwrap_or(APPROVAL_PATIENCE),
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
        surroundings,
    };
    remark(|| settings.told());
    state_dir::check(&settings)?;
    Ok(settings)
}

impl Settings {
    /// What was decided, for operators who wonder.
    fn told(&self) -> String {
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
    pub(crate) fn resolve(&self, path: &DeclaredPath) -> Result<PathBuf, Failed> {
        self.loaded.resolve(path, &self.surroundings)
    }

    /// What calls come with: the token that was given, else the person at this machine.
    pub(crate) fn credential(&self, common: &Common) -> Result<Credential, Failed> {
        let Some(token) = &common.token else { return Ok(self.caller.clone().into()) };
        if let Some(agent) = &common.agent {
            return Err(Failed::usage(format!(
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
            complain(&format!("{}:{}: {}{help}", problem.file, problem.line, problem.message));
        }
    }
}

/// The files that tokens are checked with, and those of keys of models.
fn key_files(
    config: &Config,
    resolve: impl Fn(&DeclaredPath) -> Result<PathBuf, Failed>,
) -> Result<Vec<PathBuf>, Failed> {
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
    resolve: impl Fn(&DeclaredPath) -> Result<PathBuf, Failed>,
) -> Result<Vec<PathBuf>, Failed> {
    let agents = config.agents.iter().map(|agent| &agent.conversation);
    let files =
        agents.chain([&config.conversation]).filter_map(|conversation| conversation.system_file.as_ref());
    files.map(|at| resolve(&at.value)).collect()
}

fn profile(common: &Common, config: &Config) -> Result<Profile, Failed> {
    match (&common.profile, &config.profile) {
        (Some(name), _) => name.parse().map_err(Failed::usage),
        (None, Some(name)) => name.value.as_str().parse().map_err(Failed::usage),
        (None, None) => Ok(Profile::Native),
    }
}

fn check_agent(common: &Common, config: &Config) -> Result<(), Failed> {
    let Some(name) = common.agent.as_ref().filter(|name| config.agent(name.as_str()).is_none()) else {
        return Ok(());
    };
    let known: Vec<&str> = config.agents.iter().map(|agent| agent.name.value.as_str()).collect();
    let failed = Failed::usage(format!("there is no agent `{name}` in the configuration"));
    Err(match known.is_empty() {
        true => failed.help("declare it under `agents:` in toolgate.yaml"),
        false => failed.help(format!("declared are {}", known.join(", "))),
    })
}

/// Calls of one run belong together; calls without a run belong to the command line.
fn session(common: &Common) -> Result<SessionId, Failed> {
    let name = common.run.as_ref().map_or("cli", RunId::as_str);
    name.parse().map_err(|error| Failed::usage(format!("{error}")))
}

/// A run that nobody named is one per workspace.
fn default_run(workspace: &Path) -> Result<RunId, Failed> {
    let digest = Sha256::of(workspace.as_os_str().as_encoded_bytes()).to_string();
    let short: String = digest.chars().take(12).collect();
    format!("default-{short}").parse().map_err(|error| Failed::usage(format!("{error}")))
}

pub(crate) fn default_state_dir(surroundings: &Surroundings) -> Result<PathBuf, Failed> {
    let base = match (&surroundings.state_home, &surroundings.home) {
        (Some(state_home), _) => state_home.clone(),
        (None, Some(home)) => home.join(".local/state"),
        (None, None) => {
            return Err(Failed::usage(
                "there is no place for audit records: neither XDG_STATE_HOME nor HOME is set",
            )
            .help("name a folder with --state-dir"));
        }
    };
    Ok(base.join("toolgate"))
}

fn mounts(
    common: &Common,
    loaded: &Loaded,
    surroundings: &Surroundings,
) -> Result<Vec<MountSettings>, Failed> {
    let mut mounts = Vec::new();
    for MountConfig { alias, path, access, scope, deny } in &loaded.config.mounts {
        if let Some(help) = reserved(&alias.value) {
            return Err(Failed::usage(format!("`{}` cannot be mounted by hand", alias.value)).help(help));
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
pub(crate) fn reserved(alias: &str) -> Option<&'static str> {
    match alias {
        "@project" => Some("@project is the workspace: use --workspace or `workspace:`"),
        "@state" => Some("@state is made for each run"),
        _ => None,
    }
}

/// `@name=DIR` or `@name=DIR:ro`.
fn parse_mount(text: &str, surroundings: &Surroundings) -> Result<MountSettings, Failed> {
    let wrong = || {
        Failed::usage(format!("`{text}` is not a mount"))
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
    if let Some(help) = reserved(alias) {
        return Err(Failed::usage(format!("`{alias}` cannot be mounted by hand")).help(help));
    }
    let path = surroundings.absolute(Path::new(path))?;
    // A package is what a run was made from; nothing in a run may change it.
    let read_only = read_only || alias == "@pkg";
    Ok(MountSettings { alias: alias.to_owned(), path, read_only, scope: Vec::new(), deny: Vec::new() })
}
