//! Reload: replaces the gate's configuration while it runs, when a file changes.
//!
//! A check costs a handful of `stat` calls. If the new files cannot be loaded, the gate keeps its configuration and warns once. State directory,
//! audit log, profile and approvals are fixed at the start; an edit of one of these keys is reported by name. A stricter trust level applies from the
//! next call on, a laxer one from the next start. The upstream servers are polled as well, since their tools may change at any time.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use toolgate_gate::{Gate, needs_question};
use toolgate_manifest::{AgentConfig, Config};
use toolgate_types::{ToolClass, Trust};

use crate::ambient::{FileFingerprint, HostEnvironment, fingerprint};
use crate::config_files::{MANIFEST_EXTENSIONS, POLICY_EXTENSIONS};
use crate::error::BuildError;
use crate::gate_builder::{self, AssembledGate};
use crate::load::{self, TokenVerification, UpstreamServers};
use crate::notices::{debug, warn};
use crate::overrides::SettingsOverrides;
use crate::protected_paths::GateOwnedPaths;
use crate::servers::Servers;
use crate::settings::{Settings, re_resolve_settings};
use crate::supplied::SuppliedParts;
use crate::trust::ConfigOrigin;

/// The result of a check.
#[derive(Debug)]
pub enum ReloadOutcome {
    /// Nothing has changed since the last check.
    Unchanged,
    /// The gate uses the new files.
    Replaced {
        /// How often the configuration has been replaced so far.
        generation: u64,
    },
    /// The files changed and cannot be used; the gate keeps its configuration.
    Rejected(BuildError),
}

/// How often the files are checked.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Watches the files that a gate was loaded from, and the upstream servers.
pub struct Reloader {
    overrides: SettingsOverrides,
    environment: HostEnvironment,
    supplied: SuppliedParts,
    /// The file in use stays the watched one, even if another appears nearer.
    origin: ConfigOrigin,
    trust: Trust,
    /// The configuration at the start.
    initial_config: Config,
    /// Keys whose change has been reported, so that each is reported once.
    reported_keys: Vec<String>,
    gate: Arc<Gate>,
    servers: Option<(Arc<Servers>, watch::Receiver<u64>)>,
    /// Settings that cannot change while the gate runs.
    fixed: FixedSettings,
    /// The fingerprints from before the files were last read.
    fingerprints: Vec<(PathBuf, Option<FileFingerprint>)>,
    /// The servers whose tools are not loaded yet.
    pending: watch::Sender<Vec<String>>,
    /// The declared agents.
    agents: watch::Sender<Vec<AgentConfig>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FixedSettings {
    profile: &'static str,
    state_dir: PathBuf,
    audit_dir: PathBuf,
}

impl FixedSettings {
    fn of(settings: &Settings) -> Self {
        Self {
            profile: settings.profile.name(),
            state_dir: settings.state_dir.clone(),
            audit_dir: settings.audit_dir.clone(),
        }
    }

    /// The changed keys that require a restart.
    fn changed(&self, now: &Self) -> Vec<&'static str> {
        let keys = [
            ("profile", self.profile != now.profile),
            ("state_dir", self.state_dir != now.state_dir),
            ("audit.directory", self.audit_dir != now.audit_dir),
        ];
        keys.into_iter().filter(|(_, changed)| *changed).map(|(key, _)| key).collect()
    }
}

/// Keys that are read once, at the start. All other keys apply from the next check on.
const RESTART_KEYS: [&str; 9] = [
    "approval",
    "audit",
    "conversation",
    "model",
    "models",
    "on_violation",
    "retention",
    "serve",
    "telemetry",
];

/// The trust level that the file sets for the agent that this process acts as.
fn trust_of(config: &Config, overrides: &SettingsOverrides) -> Option<Trust> {
    let agent = overrides.agent.as_ref().and_then(|name| config.agent(name.as_str()));
    let said = agent.and_then(|agent| agent.trust.as_ref()).or(config.trust.as_ref());
    said.map(|trust| trust.value)
}

impl Reloader {
    /// Watches the files that `settings` were made of. `fingerprints` is the result of [`fingerprints`] from before the gate was built, so that a
    /// change in between is not missed.
    pub fn new(
        overrides: &SettingsOverrides,
        settings: &Settings,
        built: &AssembledGate,
        fingerprints: Vec<(PathBuf, Option<FileFingerprint>)>,
    ) -> Self {
        let (overrides, origin) = (overrides.clone(), settings.loaded.origin.clone());
        let (environment, supplied) = (settings.environment.clone(), settings.supplied.clone());
        let servers = built.servers.clone().map(|servers| {
            let changed = servers.changed();
            (servers, changed)
        });
        let pending = watch::Sender::new(
            built.servers.as_ref().map(|servers| servers.first_contacts()).unwrap_or_default(),
        );
        let gate = Arc::clone(built.gate.gate());
        let (trust, fixed) = (settings.caller.trust, FixedSettings::of(settings));
        let (initial_config, reported_keys) = (settings.loaded.config.clone(), Vec::new());
        Self {
            trust,
            initial_config,
            reported_keys,
            fixed,
            overrides,
            environment,
            supplied,
            origin,
            gate,
            servers,
            fingerprints,
            pending,
            agents: watch::Sender::new(settings.loaded.config.agents.clone()),
        }
    }

    /// The prefixes of the tools of servers that are not loaded yet: those without any pinned tool that have neither listed their tools nor failed.
    pub fn pending(&self) -> watch::Receiver<Vec<String>> {
        self.pending.subscribe()
    }

    /// The agents that the configuration in use declares.
    pub fn agents(&self) -> watch::Receiver<Vec<AgentConfig>> {
        self.agents.subscribe()
    }

    /// Checks, and reports the outcome.
    fn poll(&mut self) {
        // Looked at before the tools are loaded: what has settled by now has been loaded afterwards.
        let pending = self.servers.as_ref().map(|(servers, _)| servers.pending()).unwrap_or_default();
        let outcome = self.check();
        self.pending.send_if_modified(|known| {
            let is_other = *known != pending;
            *known = pending;
            is_other
        });
        match outcome {
            ReloadOutcome::Unchanged => {}
            ReloadOutcome::Replaced { generation } => debug(|| format!("loaded anew ({generation})")),
            ReloadOutcome::Rejected(failed) => {
                let help = failed.help.map(|help| format!("; {help}")).unwrap_or_default();
                warn(&format!("nothing was reloaded: {}{help}", failed.message));
            }
        }
    }

    /// Compares the fingerprints, and reloads if one changed.
    pub fn check(&mut self) -> ReloadOutcome {
        let now: Vec<_> =
            self.fingerprints.iter().map(|(path, _)| (path.clone(), fingerprint(path))).collect();
        let news = self.servers.as_ref().is_some_and(|(_, changed)| changed.has_changed().unwrap_or(false));
        if now == self.fingerprints && !news {
            return ReloadOutcome::Unchanged;
        }
        self.fingerprints = now;
        match self.reload() {
            Ok(generation) => ReloadOutcome::Replaced { generation },
            Err(failed) => ReloadOutcome::Rejected(failed),
        }
    }

    fn reload(&mut self) -> Result<u64, BuildError> {
        let mut settings =
            re_resolve_settings(&self.overrides, self.trust, &self.origin, self.environment.clone())?;
        settings.supplied = self.supplied.clone();
        // Set before anything else is read, and also if loading fails: the edit that corrects it is then noticed.
        self.fingerprints = fingerprints(&settings);
        let fixed = self.fixed.changed(&FixedSettings::of(&settings));
        if !fixed.is_empty() {
            let message = format!("`{}` cannot change while the gate runs", fixed.join("`, `"));
            return Err(BuildError::usage(message).help("start it anew"));
        }
        let own = GateOwnedPaths::of(&settings);
        let workspace = Arc::new(gate_builder::workspace(&settings, &own)?);
        // Marked before the servers are asked, so that no later change is missed.
        if let Some((_, changed)) = &mut self.servers {
            changed.mark_unchanged();
        }
        let behind = self.servers.as_ref().map(|(servers, _)| UpstreamServers { servers, wait_on: None });
        let mut loaded = load::load(&settings, &own, &workspace, TokenVerification::Enabled, behind)?;
        loaded.trust = self.trust_now(&settings);
        self.report_restart_keys(&settings);
        self.tell_of_agent(&settings);
        let names: Vec<String> = loaded.registry.names().map(str::to_owned).collect();
        settings.warn_of_unknown_tools(&names);
        let generation = self.gate.replace_config(loaded);
        // After the gate: a client that sees a new agent can call as it.
        self.agents.send_replace(settings.loaded.config.agents.clone());
        Ok(generation)
    }
}

impl Reloader {
    /// The minimum trust level: the one that was written into the file since the start. The value at the start was already weighed against the
    /// command line, and the user may have changed the level since.
    fn trust_now(&self, settings: &Settings) -> Trust {
        let [begun, now] =
            [&self.initial_config, &settings.loaded.config].map(|config| trust_of(config, &self.overrides));
        now.filter(|_| now != begun).unwrap_or(Trust::Autonomous)
    }

    /// Warns if the agent that this process acts as is no longer declared. The gate denies the calls of an unknown agent.
    fn tell_of_agent(&self, settings: &Settings) {
        let agent = self.overrides.agent.as_ref();
        let removed = agent.filter(|name| settings.loaded.config.agent(name.as_str()).is_none());
        if let Some(name) = removed {
            warn(&format!(
                "the agent `{name}` is not in the configuration any more: its calls are denied until it is declared again"
            ));
        }
    }

    /// Reports the keys whose change takes effect only at the next start.
    fn report_restart_keys(&mut self, settings: &Settings) {
        let changed = self.initial_config.changed_keys(&settings.loaded.config);
        let waits = |key: &String| RESTART_KEYS.contains(&key.split('.').next().unwrap_or_default());
        let mut keys: Vec<String> = changed.into_iter().filter(waits).collect();
        let [begun, now] =
            [&self.initial_config, &settings.loaded.config].map(|config| trust_of(config, &self.overrides));
        let asks_less = |now| {
            let classes = [ToolClass::Read, ToolClass::Write];
            classes.into_iter().any(|class| needs_question(self.trust, class) && !needs_question(now, class))
        };
        if now != begun && now.is_none_or(asks_less) {
            keys.push("trust".to_owned());
        }
        let news: Vec<&str> =
            keys.iter().filter(|key| !self.reported_keys.contains(key)).map(String::as_str).collect();
        if !news.is_empty() {
            warn(&format!("`{}` counts when the gate is started anew", news.join("`, `")));
        }
        self.reported_keys = keys;
    }
}

/// Checks the files about once a second, and the servers whenever they signal a change or have settled, until the future is dropped.
pub async fn watch_files(mut reloader: Reloader) {
    loop {
        match reloader.servers.clone() {
            Some((servers, mut changed)) => {
                let mut settled = servers.settlements();
                settled.mark_unchanged();
                let is_pending = !reloader.pending.borrow().is_empty();
                // Looked at after the mark, so that no settlement in between is missed.
                let has_settled = is_pending && *reloader.pending.borrow() != servers.pending();
                tokio::select! {
                    () = std::future::ready(()), if has_settled => {}
                    _ = tokio::time::sleep(POLL_INTERVAL) => {}
                    _ = changed.changed() => {}
                    _ = settled.changed(), if is_pending => {}
                }
            }
            None => tokio::time::sleep(POLL_INTERVAL).await,
        }
        reloader.poll();
    }
}

/// The current fingerprints of all files that the settings depend on.
pub fn fingerprints(settings: &Settings) -> Vec<(PathBuf, Option<FileFingerprint>)> {
    let loaded = &settings.loaded;
    let mut paths: Vec<PathBuf> = loaded.file().into_iter().chain(&settings.key_files).cloned().collect();
    // A found configuration is valid as long as its agreement, and a new agreement makes a change take effect.
    if let Some(agreement) = loaded.agreement(&settings.environment) {
        paths.push(agreement);
        paths.extend(settings.system_files.iter().cloned());
    }
    paths.push(crate::callers::local_secret(settings));
    for (named, endings) in [(&settings.tools, MANIFEST_EXTENSIONS), (&settings.policies, POLICY_EXTENSIONS)]
    {
        for one in named {
            // The directory's own `mtime` changes when a file is added or removed.
            paths.push(one.path.clone());
            paths.extend(one.files(endings, &loaded.file_source).unwrap_or_default());
        }
    }
    paths.into_iter().map(|path| (path.clone(), fingerprint(&path))).collect()
}

#[cfg(test)]
mod tests;
