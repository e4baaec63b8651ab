//! The upstream MCP servers: from their declarations to a bridge that stays up while files are edited.

mod absent_tools;
mod agreed_tools;
mod container;
mod container_process;
mod pin_origin;
mod server_state;
mod server_login;
mod server_settings;
mod server_log;
mod sandbox_launcher;
mod package_installer;

use std::collections::HashSet;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, Runtime};
use tokio::sync::{broadcast, watch};
use toolgate_command::CommandRunner;
use toolgate_connect::{
    Bridge, BridgeOptions, BridgedResource, HeldSubscription, PinKey, Pins, RESTART_BACKOFF, ServerHealth,
    ServerName, ServerSettings, ServerTimeouts, confusable_key,
};
use toolgate_gate::Registry;
use toolgate_manifest::{ConfigProblem, ServerConfig};

use absent_tools::AbsentServerTools;
pub use agreed_tools::agreed_tools;
pub use package_installer::PackageInstaller;
use pin_origin::pin_origin;
use sandbox_launcher::{LaunchContext, SandboxLauncher};
pub use server_log::last_lines;
pub use server_login::{LoginState, ServerLogin};
pub use server_settings::{UnusableServer, declared_servers};
pub use server_state::{ServerStatePaths, start_problem};

use crate::error::BuildError;
use crate::gate_builder;
use crate::load::LoadError;
use crate::notices::{debug, warn};
use crate::protected_paths::GateOwnedPaths;
use crate::sandbox_settings;
use crate::settings::Settings;
use crate::state_dir;

/// Added to the longest startup timeout of the servers when the command waits for all of them.
const WAIT_MARGIN: Duration = Duration::from_secs(1);

/// How often files left by servers with write access are scanned while no call is running.
const QUARANTINE_SCAN_INTERVAL: Duration = Duration::from_secs(2);

/// After this delay the terminal shows which servers are being waited for.
const WAIT_NOTICE_DELAY: Duration = Duration::from_secs(1);

/// Which servers are started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerSelection {
    /// All that are declared.
    All,
    /// The one of this name, if it is declared.
    Only(String),
}

impl ServerSelection {
    /// The declared server that a tool of this name would be one of.
    pub fn of_tool(tool: &str, declared: &[ServerConfig]) -> Option<Self> {
        let server = declared.iter().find(|server| server.own_tool_name(tool).is_some());
        server.map(|server| Self::Only(server.name.value.clone()))
    }

    fn includes(&self, server: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(name) => name == server,
        }
    }
}

/// The upstream servers of a gate.
pub struct Servers {
    bridge: Arc<Bridge>,
    launcher: Arc<SandboxLauncher>,
    pins: Pins,
    which: ServerSelection,
    report: fn(&str),
    /// Subscribed before any server is started, so that no change is missed.
    changes: watch::Receiver<u64>,
    settlements: watch::Receiver<u64>,
    /// In place of the installed packages.
    installation: Option<PathBuf>,
    state: Mutex<DeclaredServers>,
}

/// The servers as last declared.
#[derive(Clone, Default)]
struct DeclaredServers {
    servers: Vec<ServerSettings>,
    unknown: Vec<ServerSettings>,
    unusable: Vec<UnusableServer>,
    /// Of all declared servers, also of those that are not started.
    pin_keys: Vec<PinKey>,
    /// What else decides what a process sees: if it changes, running servers are restarted.
    launch_fingerprint: String,
}

/// The previous declaration, to revert to.
pub struct PreviousServers(DeclaredServers, Option<LaunchContext>);

impl Servers {
    /// A bridge without servers, supervised by this runtime.
    pub fn new(settings: &Settings, runtime: Handle, which: ServerSelection) -> Self {
        Self::with_reporter(settings, runtime, which, warn, pins(settings))
    }

    /// The same, with warnings going to `report` instead of the operator's notices.
    fn with_reporter(
        settings: &Settings,
        runtime: Handle,
        which: ServerSelection,
        report: fn(&str),
        pins: Pins,
    ) -> Self {
        let launcher = Arc::new(SandboxLauncher::default());
        let bridge = Bridge::new(BridgeOptions {
            launcher: Arc::clone(&launcher) as _,
            pins: pins.clone(),
            tokens: Arc::new(server_login::token_store(settings)),
            warn: Arc::new(report),
            // Reports of quarantined files always reach the operator: a file may be the operator's own.
            error: Arc::new(warn),
            backoff: RESTART_BACKOFF,
            timeouts: ServerTimeouts::default(),
            scan_interval: QUARANTINE_SCAN_INTERVAL,
            runtime,
        });
        let (changes, settlements) = (bridge.changed(), bridge.settlements());
        Self {
            bridge,
            launcher,
            pins,
            which,
            report,
            changes,
            settlements,
            installation: None,
            state: Mutex::default(),
        }
    }

    /// Starts servers without a gate, and waits until each has listed its tools or failed. The caller reports the result.
    pub fn start(settings: &Settings, runtime: &Runtime, which: ServerSelection) -> Result<Self, BuildError> {
        let say = |text: &str| debug(|| text.to_owned());
        let servers = Self::with_reporter(settings, runtime.handle().clone(), which, say, pins(settings));
        servers.run(settings, runtime)?;
        Ok(servers)
    }

    fn run(&self, settings: &Settings, runtime: &Runtime) -> Result<(), BuildError> {
        let own = GateOwnedPaths::of(settings);
        let workspace = Arc::new(gate_builder::workspace(settings, &own)?);
        let runner = sandbox_settings::runner(settings, &own, &workspace)?;
        self.configure(settings, &runner).map_err(LoadError::from)?;
        self.wait(runtime);
        // Tools that cannot be used are only found when they are built.
        drop(self.bridge.tools());
        Ok(())
    }

    /// Starts one server from another installation of its package, with a copy of its pins beside that, and without its home directory: what it lists can be
    /// compared with what was agreed to, and nothing in use is touched.
    pub fn preview(
        settings: &Settings,
        runtime: &Runtime,
        server: &str,
        installation: &Path,
    ) -> Result<Self, BuildError> {
        let say = |text: &str| debug(|| text.to_owned());
        let which = ServerSelection::Only(server.to_owned());
        let copied = Pins::new(installation.join(PINS));
        for key in pin_keys(settings).iter().filter(|key| key.server().as_str() == server) {
            copied.copy_from(&pins(settings), key).map_err(|error| BuildError::usage(error.to_string()))?;
        }
        let mut servers = Self::with_reporter(settings, runtime.handle().clone(), which, say, copied);
        servers.installation = Some(installation.to_path_buf());
        servers.run(settings, runtime)?;
        Ok(servers)
    }

    /// Replaces the declared servers. Servers that cannot be used are reported and left out.
    pub fn configure(
        &self,
        settings: &Settings,
        runner: &Arc<CommandRunner>,
    ) -> Result<PreviousServers, Vec<ConfigProblem>> {
        let (mut servers, mut unusable) = declared_servers(settings, &|name| settings.environment.var(name))?;
        servers.retain(|server| self.which.includes(server.name.as_str()));
        unusable.retain(|server| self.which.includes(&server.name));
        if let Some(installation) = &self.installation {
            servers.iter_mut().for_each(|server| server.use_installation(installation));
        }
        for server in &unusable {
            (self.report)(&format!(
                "the server `{}` is not started: {}",
                server.name, server.problem.message
            ));
        }
        let limits = sandbox_settings::limits(&settings.loaded.config.sandbox);
        let quarantine = gate_builder::quarantine_directory(settings);
        let key = state_dir::key(settings).ok();
        let environment = settings.environment.clone();
        let means = LaunchContext { runner: Arc::clone(runner), limits, quarantine, key, environment };
        let before = PreviousServers(self.state().clone(), self.launcher.replace(Some(means)));
        // Evaluated before any of them is started, since a start may pin its tools.
        let is_strange = |server: &&ServerSettings| {
            self.pins.for_server(&server.pin_key()).is_ok_and(|pins| pins.tools().next().is_none())
        };
        let strangers = servers.iter().filter(is_strange).cloned().collect();
        self.apply(DeclaredServers {
            servers,
            unknown: strangers,
            unusable,
            pin_keys: pin_keys(settings),
            launch_fingerprint: launch_fingerprint(settings),
        });
        Ok(before)
    }

    /// Reverts to the previous declaration.
    pub fn revert(&self, before: PreviousServers) {
        self.launcher.replace(before.1);
        self.apply(before.0);
    }

    fn apply(&self, state: DeclaredServers) {
        let mut current = self.state();
        if current.launch_fingerprint != state.launch_fingerprint {
            self.bridge.configure(Vec::new());
        }
        self.bridge.configure(state.servers.clone());
        *current = state;
    }

    fn state(&self) -> std::sync::MutexGuard<'_, DeclaredServers> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until every server has listed its tools or failed. On a terminal, it shows which servers are being waited for.
    pub fn wait(&self, runtime: &Runtime) {
        let servers = self.state().servers.clone();
        let Some(slowest) = servers.iter().map(|server| server.startup_timeout).max() else { return };
        let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
        runtime.block_on(async {
            let ready = self.bridge.ready(slowest.saturating_add(WAIT_MARGIN));
            let mut ready = std::pin::pin!(ready);
            if tokio::time::timeout(WAIT_NOTICE_DELAY, &mut ready).await.is_err() {
                if std::io::stderr().is_terminal() {
                    warn(&format!("waiting for {}", names.join(", ")));
                }
                ready.await;
            }
        });
    }

    /// The prefixes of the tools of servers that had no pinned tools when they were declared, and have neither listed their tools since nor failed. The tools of all others are
    /// available from the start, as they were agreed to.
    pub fn pending(&self) -> Vec<String> {
        let health = self.health();
        let is_settled = |name: &ServerName| {
            health.iter().find(|health| health.name == *name).is_none_or(|health| health.is_settled)
        };
        let unknown = self.state().unknown.clone();
        let pending = unknown.iter().filter(|server| !is_settled(&server.name));
        pending.map(|server| server.tool_name("")).collect()
    }

    /// The prefixes of the tools of all servers that had no pinned tools when they were declared. Where tools were loaded before now, one of these
    /// servers may have listed its own in between.
    pub fn first_contacts(&self) -> Vec<String> {
        self.state().unknown.iter().map(|server| server.tool_name("")).collect()
    }

    /// Adds the tools of the servers, and what knows those that are not there yet. One whose name is taken is reported and left out: the operator's
    /// declaration takes precedence over a server's.
    pub fn register_tools(&self, registry: &mut Registry) {
        registry.set_absent(Arc::new(AbsentServerTools::new(Arc::clone(&self.bridge), self.unusable())));
        let taken: HashSet<String> = registry.names().map(confusable_key).collect();
        for tool in self.bridge.tools() {
            // Without a prefix a server's name could look like one of the gate's own.
            let name = tool.spec().name.as_str();
            if taken.contains(&confusable_key(name)) {
                (self.report)(&format!("a tool of a server is left out: another tool looks like `{name}`"));
                continue;
            }
            if let Err(error) = registry.register(tool) {
                (self.report)(&format!("a tool of a server is left out: {error}"));
            }
        }
    }

    /// Signals when the tools change.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    /// Signals when a server has listed its tools for the first time, or failed.
    pub fn settlements(&self) -> watch::Receiver<u64> {
        self.settlements.clone()
    }

    /// The resources of the servers, as far as they are known.
    pub fn resources(&self) -> Vec<BridgedResource> {
        self.bridge.resources()
    }

    /// The tool that reads a URI, if it is one of exactly one server.
    pub fn resource_reader(&self, uri: &str) -> Option<String> {
        self.bridge.resource_reader(uri)
    }

    /// Receives the URIs of subscribed resources that changed.
    pub fn resource_updates(&self) -> broadcast::Receiver<Arc<str>> {
        self.bridge.resource_updates()
    }

    /// Keeps a subscription to a resource until the guard is dropped. `None` if no server reads it.
    pub fn hold_subscription(&self, uri: &str) -> Option<HeldSubscription> {
        self.bridge.hold_subscription(uri)
    }

    /// The state of each server.
    pub fn health(&self) -> Vec<ServerHealth> {
        self.bridge.health()
    }

    /// Declared servers that cannot be started because something is missing, such as an environment variable.
    pub fn unusable(&self) -> Vec<UnusableServer> {
        self.state().unusable.clone()
    }

    /// The pins of their tools.
    pub fn pins(&self) -> &Pins {
        &self.pins
    }

    /// Whose pins the tools of a server have; `None` if it is not declared.
    pub fn pin_key(&self, name: &ServerName) -> Option<PinKey> {
        self.state().pin_keys.iter().find(|key| key.server() == name).cloned()
    }

    /// The gate's name for a tool of a server; `None` if the server was not started.
    pub fn tool_name(&self, server: &ServerName, tool: &str) -> Option<String> {
        let state = self.state();
        let settings = state.servers.iter().find(|settings| settings.name == *server)?;
        Some(settings.tool_name(tool))
    }

    /// The servers that were started.
    pub fn names(&self) -> Vec<ServerName> {
        self.state().servers.iter().map(|server| server.name.clone()).collect()
    }

    /// Ends every server, and returns when all of their processes have ended.
    pub async fn close(&self) {
        self.bridge.close().await;
    }
}

/// The pins of the tools of servers.
fn pins(settings: &Settings) -> Pins {
    Pins::new(pins_directory(settings))
}

/// Whose pins the declared servers have.
fn pin_keys(settings: &Settings) -> Vec<PinKey> {
    let key = |server: &ServerConfig| {
        Some(PinKey::new(server.name.value.parse().ok()?, pin_origin(settings, server)))
    };
    settings.loaded.config.mcp_servers.iter().filter_map(key).collect()
}

/// Every gate hides names with this suffix, also one with another state directory.
pub const PINS: &str = "pins.toolgate";

fn pins_directory(settings: &Settings) -> PathBuf {
    settings.state_dir.join(PINS)
}

fn launch_fingerprint(settings: &Settings) -> String {
    let mounts: Vec<_> = settings
        .mounts
        .iter()
        .map(|mount| (&mount.alias, &mount.path, mount.read_only, &mount.scope, &mount.deny))
        .collect();
    format!("{:?}", (&settings.workspace, mounts, &settings.deny, &settings.loaded.config.sandbox))
}
