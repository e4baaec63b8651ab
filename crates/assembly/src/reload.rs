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
use toolgate_manifest::Config;
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
    /// Signals that the tools of all servers are loaded, if a receiver was requested.
    complete: Option<watch::Sender<bool>>,
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
            complete: None,
        }
    }

    /// A receiver that turns `true` when the tools of all servers are loaded; `None` if they already are. Only servers without any pinned tool are
    /// waited for.
    pub fn completion(&mut self) -> Option<watch::Receiver<bool>> {
        let (servers, _) = self.servers.as_ref()?;
        if servers.unknown_servers().is_empty() {
            return None;
        }
        let (sender, receiver) = watch::channel(false);
        self.complete = Some(sender);
        Some(receiver)
    }

    /// Waits for servers without any pinned tool, and loads their tools.
    async fn complete(&mut self) {
        let (Some(complete), Some((servers, _))) = (self.complete.take(), &self.servers) else { return };
        servers.wait_for_unknown(&servers.unknown_servers()).await;
        self.poll();
        // The receiver may have been dropped.
        let _ = complete.send(true);
    }

    /// Checks, and reports the outcome.
    fn poll(&mut self) {
        match self.check() {
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
        Ok(self.gate.replace_config(loaded))
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

/// Checks the files about once a second, and the servers whenever they signal a change, until the future is dropped.
pub async fn watch_files(mut reloader: Reloader) {
    reloader.complete().await;
    loop {
        match reloader.servers.clone() {
            Some((_, mut changed)) => {
                let _ = tokio::time::timeout(POLL_INTERVAL, changed.changed()).await;
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
mod tests {
    #![allow(clippy::disallowed_methods, reason = "tests arrange files by hand")]

    use std::path::Path;

    use tokio::runtime::Runtime;
    use toolgate_gate::Gate;

    use super::*;
    use crate::gate_builder::GateBuildOptions;
    use crate::servers::ServerSelection;
    use crate::trust::TrustPrompt;

    struct Running {
        folder: tempfile::TempDir,
        gate: Arc<Gate>,
        settings: Settings,
        reloader: Reloader,
    }

    fn manifest(name: &str) -> String {
        format!(
            "tool: {name}\ndescription: says a word\nclass: read\npermissions: []\ninput: {{properties: {{}}}}\ncommand: [echo, {name}]\npolicy: {{\"*\": allow}}\n"
        )
    }

    fn write(folder: &Path, name: &str, content: &str) {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    const CONFIG: &str = "workspace: w\nstate_dir: s\ntools: [tools.d]\npolicies: [rules]\n";

    /// Without the default state directory of the user who runs the tests.
    fn alone(settings: Settings) -> Settings {
        Settings { default_state_dir: None, ..settings }
    }

    impl Running {
        fn start() -> Self {
            Self::start_as(None, "")
        }

        /// Acts as an agent, with more lines in the configuration.
        fn start_as(agent: Option<&str>, more: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            write(folder.path(), "toolgate.yaml", &format!("{CONFIG}{more}"));
            write(folder.path(), "tools.d/one.yaml", &manifest("one"));
            std::fs::create_dir(folder.path().join("rules")).unwrap();
            let config = Some(folder.path().join("toolgate.yaml"));
            let agent = agent.map(|agent| agent.parse().unwrap());
            let overrides = SettingsOverrides { config, agent, ..SettingsOverrides::default() };
            let settings = alone(
                crate::settings::resolve_settings(
                    &overrides,
                    Trust::Guided,
                    HostEnvironment::detect().unwrap(),
                    TrustPrompt::Never,
                )
                .unwrap(),
            );
            let seen = fingerprints(&settings);
            let built = gate_builder::build_gate(
                &settings,
                GateBuildOptions::without_servers(
                    Arc::new(toolgate_gate::NoApprover { remedy: String::new() }),
                    TokenVerification::Enabled,
                ),
            )
            .unwrap();
            let gate = Arc::clone(built.gate.gate());
            let reloader = Reloader::new(&overrides, &settings, &built, seen);
            Self { folder, gate, settings, reloader }
        }

        fn write(&self, name: &str, content: &str) {
            write(self.folder.path(), name, content);
        }

        /// The declared tools that the caller sees.
        fn tools(&self) -> Vec<String> {
            let built_in = self.settings.profile.tool_names();
            let tools = self.gate.visible_tools(&self.settings.caller);
            let names = tools.iter().map(|tool| tool.spec().name.as_str().to_owned());
            names.filter(|name| !built_in.contains(&name.as_str())).collect()
        }
    }

    #[test]
    fn what_is_edited_holds_from_the_next_look() {
        let mut running = Running::start();
        assert_eq!(running.tools(), ["one"]);
        assert!(matches!(running.reloader.check(), ReloadOutcome::Unchanged));

        running.write("tools.d/two.yaml", &manifest("two"));
        assert!(matches!(running.reloader.check(), ReloadOutcome::Replaced { generation: 1 }));
        assert_eq!(running.tools(), ["one", "two"]);
        assert!(matches!(running.reloader.check(), ReloadOutcome::Unchanged));

        running.write("tools.d/two.yaml", &manifest("three"));
        assert!(matches!(running.reloader.check(), ReloadOutcome::Replaced { generation: 2 }));
        assert_eq!(running.tools(), ["one", "three"]);

        std::fs::remove_file(running.folder.path().join("tools.d/one.yaml")).unwrap();
        assert!(matches!(running.reloader.check(), ReloadOutcome::Replaced { generation: 3 }));
        assert_eq!(running.tools(), ["three"]);

        running.write("more.yaml", &manifest("four"));
        running.write("toolgate.yaml", &CONFIG.replace("[tools.d]", "[tools.d, more.yaml]"));
        assert!(matches!(running.reloader.check(), ReloadOutcome::Replaced { generation: 4 }));
        assert_eq!(running.tools(), ["three", "four"]);
    }

    #[test]
    fn what_cannot_be_used_changes_nothing_and_is_told_once() {
        let mut running = Running::start();
        for (file, content, told) in [
            ("tools.d/one.yaml", "tool: one\n", "one.yaml:1"),
            ("tools.d/one.yaml", &manifest("read_file"), "read_file"),
            ("rules/bad.cedar", "forbid(principal, action, resource) when { nonsense };", "bad.cedar:1"),
            (
                "toolgate.yaml",
                "tools: [nowhere]\n",
                "`state_dir`, `audit.directory` cannot change while the gate runs",
            ),
            ("toolgate.yaml", "tool: [tools.d]\n", "unknown key"),
        ] {
            running.write(file, content);
            match running.reloader.check() {
                ReloadOutcome::Rejected(failed) => {
                    assert!(failed.message.contains(told), "{file}: {}", failed.message)
                }
                other => panic!("{file}: {other:?}"),
            }
            assert_eq!(running.tools(), ["one"], "{file}");
            assert!(matches!(running.reloader.check(), ReloadOutcome::Unchanged), "{file} is told twice");
            // Restore the file, except for what is wrong now.
            if file.starts_with("tools.d") {
                running.write(file, &manifest("one"));
            }
        }
        std::fs::remove_file(running.folder.path().join("toolgate.yaml")).unwrap();
        assert!(matches!(running.reloader.check(), ReloadOutcome::Rejected(_)));
        assert_eq!(running.gate.generation(), 0);

        running.write("toolgate.yaml", CONFIG);
        running.write("tools.d/one.yaml", &manifest("mended"));
        std::fs::remove_file(running.folder.path().join("rules/bad.cedar")).unwrap();
        assert!(matches!(running.reloader.check(), ReloadOutcome::Replaced { generation: 1 }));
        assert_eq!(running.tools(), ["mended"]);
    }

    impl Running {
        /// The error code of a call; `None` if it succeeded.
        fn call(&self, tool: &str, arguments: serde_json::Value) -> Option<toolgate_types::ErrorCode> {
            let call = toolgate_types::ToolCall::new(tool, arguments);
            let calling = self.gate.call(call, self.settings.caller.clone(), Default::default());
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            match runtime.block_on(calling).outcome {
                toolgate_types::Outcome::Done(_) => None,
                toolgate_types::Outcome::Failed { failure, .. } => Some(failure.code),
            }
        }
    }

    #[test]
    fn a_trust_level_that_asks_more_counts_from_the_next_look_and_one_that_asks_less_does_not() {
        use serde_json::json;
        use toolgate_types::ErrorCode::ApprovalUnavailable;

        let mut running = Running::start();
        running.settings.caller.trust = Trust::Autonomous;
        let (write, list) = (json!({"path": "a", "content": "x"}), json!({}));
        for (said, writing, listing) in [
            ("", None, None),
            ("trust: guided\n", Some(ApprovalUnavailable), None),
            ("trust: supervised\ndeny: [x]\n", Some(ApprovalUnavailable), Some(ApprovalUnavailable)),
            (
                "# the same\ndeny: [y]\ntrust: supervised\n",
                Some(ApprovalUnavailable),
                Some(ApprovalUnavailable),
            ),
            ("trust: autonomous\n", None, None),
        ] {
            running.write("toolgate.yaml", &format!("{CONFIG}{said}"));
            running.reloader.check();
            let found =
                (running.call("write_file", write.clone()), running.call("list_directory", list.clone()));
            assert_eq!(found, (writing, listing), "{said:?}");
        }
        // A caller with a stricter trust level keeps it.
        running.settings.caller.trust = Trust::Supervised;
        assert_eq!(running.call("list_directory", list), Some(ApprovalUnavailable));
    }

    #[test]
    fn keys_that_count_after_a_restart_are_named_once() {
        let mut running = Running::start();
        for (said, told) in [
            ("approval: {timeout: 5s}\n", vec!["approval.timeout"]),
            (
                "approval: {timeout: 5s}\naudit: {on_failure: deny}\n",
                vec!["approval.timeout", "audit.on_failure"],
            ),
            ("serve: {listen: \"127.0.0.1:1\"}\ntrust: autonomous\n", vec!["serve.listen", "trust"]),
            ("retention: {undo: {max_bytes: 2GiB}}\n", vec!["retention.undo"]),
            ("trust: supervised\ndeny: [x]\nlimits: {max_entries: 5}\n", vec![]),
            ("", vec![]),
        ] {
            running.write("toolgate.yaml", &format!("{CONFIG}{said}"));
            assert!(matches!(running.reloader.check(), ReloadOutcome::Replaced { .. }), "{said:?}");
            assert_eq!(running.reloader.reported_keys, told, "{said:?}");
        }
    }

    #[test]
    fn an_edit_that_removes_the_agent_counts_as_a_whole_and_its_calls_are_denied() {
        use serde_json::json;
        use toolgate_types::ErrorCode::{ApprovalUnavailable, DeniedPath, Unauthenticated};

        let with_agent = "agents: {night: {tool_permissions: {read_file: {allowed: true}}}}\n";
        let mut running = Running::start_as(Some("night"), with_agent);
        running.write("w/a.txt", "x");
        let agent = running.settings.caller.agent.clone();
        let read = |running: &Running| running.call("read_file", json!({"path": "a.txt"}));
        let as_person = |running: &mut Running| {
            running.settings.caller.agent = None;
            let found = read(running);
            running.settings.caller.agent = agent.clone();
            found
        };
        assert_eq!((read(&running), as_person(&mut running)), (None, None));
        // What is written together with the removal takes effect immediately: the denial, and then the trust level.
        for (rest, of_person) in
            [("deny: [a.txt]\n", Some(DeniedPath)), ("trust: supervised\n", Some(ApprovalUnavailable))]
        {
            running.write("toolgate.yaml", &format!("{CONFIG}{rest}"));
            assert!(matches!(running.reloader.check(), ReloadOutcome::Replaced { .. }), "{rest}");
            assert_eq!(
                (read(&running), as_person(&mut running)),
                (Some(Unauthenticated), of_person),
                "{rest}"
            );
        }
        running.write("toolgate.yaml", &format!("{CONFIG}{with_agent}"));
        running.reloader.check();
        assert_eq!(read(&running), None, "declared again");
    }

    /// A gate whose upstream servers are all dead, so that nothing has to be installed for them.
    fn with_servers(folder: &Path, runtime: &Runtime) -> (AssembledGate, Reloader) {
        let overrides =
            SettingsOverrides { config: Some(folder.join("toolgate.yaml")), ..SettingsOverrides::default() };
        let settings = alone(
            crate::settings::resolve_settings(
                &overrides,
                Trust::Guided,
                HostEnvironment::detect().unwrap(),
                TrustPrompt::Never,
            )
            .unwrap(),
        );
        let seen = fingerprints(&settings);
        let servers = Some((ServerSelection::All, runtime.handle().clone()));
        let how = GateBuildOptions {
            servers,
            ..GateBuildOptions::without_servers(
                Arc::new(toolgate_gate::NoApprover { remedy: String::new() }),
                TokenVerification::Enabled,
            )
        };
        let built = gate_builder::build_gate(&settings, how).unwrap();
        let reloader = Reloader::new(&overrides, &settings, &built, seen);
        (built, reloader)
    }

    #[test]
    fn servers_follow_the_file_and_stay_when_it_cannot_be_used() {
        let folder = tempfile::tempdir().unwrap();
        let config = |rest: &str| write(folder.path(), "toolgate.yaml", &format!("{CONFIG}{rest}"));
        write(folder.path(), "tools.d/one.yaml", &manifest("one"));
        write(folder.path(), "rules/good.cedar", "forbid(principal, action == Action::\"one\", resource);");
        config("");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (built, mut reloader) = with_servers(folder.path(), &runtime);
        let servers = built.servers.as_deref().unwrap();
        let names = || servers.names().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(
            matches!(reloader.check(), ReloadOutcome::Unchanged),
            "there is no news before anything happened"
        );

        config("mcp_servers: {a: {command: \"false\"}, b: {command: \"false\", disabled: true}}\n");
        assert!(matches!(reloader.check(), ReloadOutcome::Replaced { .. }));
        assert_eq!(names(), ["a"]);

        // The error is found after the servers were asked for their tools.
        write(
            folder.path(),
            "rules/bad.cedar",
            "forbid(principal, action == Action::\"nothing\", resource);",
        );
        config("mcp_servers: {c: {command: \"false\"}}\n");
        assert!(matches!(reloader.check(), ReloadOutcome::Rejected(_)));
        assert_eq!(names(), ["a"]);

        std::fs::remove_file(folder.path().join("rules/bad.cedar")).unwrap();
        assert!(matches!(reloader.check(), ReloadOutcome::Replaced { .. }));
        assert_eq!(names(), ["c"]);
        runtime.block_on(servers.close());
    }
}
