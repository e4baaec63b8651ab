//! All servers behind the gate.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;
use toolgate_gate::{AbsentTool, FailedServer, Tool};
use toolgate_oauth::TokenStore;
use toolgate_types::Backoff;

use crate::definition::confusable_key;
use crate::launch::ServerLauncher;
use crate::pins::Pins;
use crate::server::{Server, ServerHealth, ServerTimeouts};
use crate::settings::ServerSettings;
use crate::surface::{BridgedResource, READ_RESOURCE};
use crate::tool::{BridgedTool, absent_tool, failed_server};
use crate::untrusted_schema::PatternBudget;

/// The delays between two starts of a server that exits or does not answer.
pub const RESTART_BACKOFF: Backoff =
    Backoff { initial_delay: Duration::from_millis(500), max_delay: Duration::from_secs(60) };

/// Updates of resources that a slow receiver may miss.
const MAX_PENDING_UPDATES: usize = 256;

/// The parts of a bridge.
pub struct BridgeOptions {
    /// Starts the processes of servers.
    pub launcher: Arc<dyn ServerLauncher>,
    /// The approved tool definitions.
    pub pins: Pins,
    /// The tokens of logins.
    pub tokens: Arc<TokenStore>,
    /// Receives warnings for the operator.
    pub warn: Arc<dyn Fn(&str) + Send + Sync>,
    /// Receives reports of quarantined files, which may have been the user's own.
    pub error: Arc<dyn Fn(&str) + Send + Sync>,
    /// The backoff before a server is restarted.
    pub backoff: Backoff,
    /// Timeouts and limits for servers.
    pub timeouts: ServerTimeouts,
    /// How often the mounts of a process that can write are scanned, in addition to the scan after each call.
    pub scan_interval: Duration,
    /// The runtime for the supervisor tasks.
    pub runtime: Handle,
}

/// The servers behind a gate. It outlives configuration reloads: a server whose settings did not change keeps running.
pub struct Bridge {
    options: Arc<BridgeOptions>,
    changed: watch::Sender<u64>,
    settlements: watch::Sender<u64>,
    updates: broadcast::Sender<Arc<str>>,
    servers: Mutex<Vec<SupervisedServer>>,
    /// Servers that finish their last calls.
    retiring: Mutex<Vec<SupervisedServer>>,
}

/// A server and its supervisor task.
struct SupervisedServer {
    server: Arc<Server>,
    supervisor: JoinHandle<()>,
}

impl Bridge {
    /// A bridge without servers.
    #[must_use]
    pub fn new(options: BridgeOptions) -> Arc<Self> {
        Arc::new(Self {
            options: Arc::new(options),
            changed: watch::Sender::new(0),
            settlements: watch::Sender::new(0),
            updates: broadcast::Sender::new(MAX_PENDING_UPDATES),
            servers: Mutex::default(),
            retiring: Mutex::default(),
        })
    }

    /// Sets the servers, in this order. One with the same connection settings keeps running; the others are stopped once their calls in flight have
    /// ended, and new ones are started. This alone never triggers [`Bridge::changed`].
    pub fn configure(&self, servers: Vec<ServerSettings>) {
        let mut kept = locked(&self.servers);
        let mut before: Vec<SupervisedServer> = kept.drain(..).collect();
        for settings in servers {
            let known = before.iter().position(|old| {
                old.server.name == settings.name && old.server.settings().same_connection(&settings)
            });
            match known {
                Some(index) => {
                    let same = before.remove(index);
                    same.server.declare(settings);
                    kept.push(same);
                }
                None => kept.push(self.start(settings)),
            }
        }
        before.into_iter().for_each(|gone| self.retire(gone));
    }

    fn start(&self, settings: ServerSettings) -> SupervisedServer {
        let (changed, settlements) = (self.changed.clone(), self.settlements.clone());
        let (options, updates) = (Arc::clone(&self.options), self.updates.clone());
        let server = Server::new(settings, options, changed, settlements, updates);
        let keeper = self.options.runtime.spawn(Arc::clone(&server).supervise());
        SupervisedServer { server, supervisor: keeper }
    }

    fn retire(&self, gone: SupervisedServer) {
        gone.server.retire();
        let mut leaving = locked(&self.retiring);
        leaving.retain(|earlier| !earlier.supervisor.is_finished());
        leaving.push(gone);
    }

    fn current(&self) -> Vec<Arc<Server>> {
        locked(&self.servers).iter().map(|kept| Arc::clone(&kept.server)).collect()
    }

    /// Waits until every server has connected or failed with every protocol, up to a timeout.
    pub async fn ready(&self, patience: Duration) {
        let all = async {
            for server in self.current() {
                server.wait_settled().await;
            }
        };
        // Late servers show in their health.
        let _ = tokio::time::timeout(patience, all).await;
    }

    /// The tools, server by server in configuration order, each one's by name. A suspended tool says why. An invalid tool is reported and left out,
    /// and so are all tools whose names look alike: a server must not impersonate another by a name such as `b__c` of `a` beside `c` of `a__b`.
    #[must_use]
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let made = self.build_tools();
        let mut counts: HashMap<String, usize> = HashMap::new();
        for (_, tool) in &made {
            *counts.entry(confusable_key(tool.spec().name.as_str())).or_default() += 1;
        }
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for (server, tool) in made {
            let name = tool.spec().name.as_str();
            match counts.get(&confusable_key(name)) {
                Some(1) => tools.push(Arc::new(tool)),
                _ => server.report_rejected(&format!(
                    "the tool `{name}` is left out: a tool of another server looks like it"
                )),
            }
        }
        tools
    }

    /// Every valid tool, with its server.
    fn build_tools(&self) -> Vec<(Arc<Server>, BridgedTool)> {
        let mut made = Vec::new();
        for server in self.current() {
            let (settings, mut room) = (server.settings(), PatternBudget::for_server());
            for entry in server.catalogue().entries() {
                let shown = || {
                    toolgate_text::escape_control_chars(&crate::definition::truncate(
                        &entry.definition.name,
                        100,
                    ))
                };
                match BridgedTool::build(&server, &settings, entry, &mut room) {
                    Ok(Some(tool)) => made.push((Arc::clone(&server), tool)),
                    Ok(None) => {}
                    Err(reason) => {
                        server.report_rejected(&format!("the tool `{}` is left out: {reason}", shown()))
                    }
                }
            }
        }
        made
    }

    /// Changes when [`Bridge::tools`] would return something else.
    #[must_use]
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Changes when a server has settled: it has connected, or failed with every protocol.
    #[must_use]
    pub fn settlements(&self) -> watch::Receiver<u64> {
        self.settlements.subscribe()
    }

    /// The resources of all servers that are known, and their templates. A URI of two servers is left out: one must not answer in place of the other.
    #[must_use]
    pub fn resources(&self) -> Vec<BridgedResource> {
        let servers = self.current();
        let all: Vec<BridgedResource> = servers
            .iter()
            .flat_map(|server| server.resources().iter().cloned().collect::<Vec<_>>())
            .collect();
        let is_alone =
            |one: &BridgedResource| !all.iter().any(|other| other.uri == one.uri && other.tool != one.tool);
        all.iter().filter(|one| is_alone(one)).cloned().collect()
    }

    /// The tool that reads this URI: that of the only server which lists it, or else of the only one with a template for it.
    #[must_use]
    pub fn resource_reader(&self, uri: &str) -> Option<String> {
        let all = self.resources();
        let reader = |is_template: bool| {
            let fits = all.iter().filter(|one| one.is_template == is_template && one.is_at(uri));
            let mut tools: Vec<&str> = fits.map(|one| one.tool.as_str()).collect();
            tools.dedup();
            match tools.as_slice() {
                [only] => Some((*only).to_owned()),
                _ => None,
            }
        };
        reader(false).or_else(|| reader(true))
    }

    /// Receives the URIs of subscribed resources that changed.
    #[must_use]
    pub fn resource_updates(&self) -> broadcast::Receiver<Arc<str>> {
        self.updates.subscribe()
    }

    /// Keeps a subscription to a resource until the guard is dropped. `None` if no server reads it.
    #[must_use]
    pub fn hold_subscription(&self, uri: &str) -> Option<HeldSubscription> {
        let reader = self.resource_reader(uri)?;
        let of_reader = |server: &Arc<Server>| server.settings().tool_name(READ_RESOURCE) == reader;
        let server = self.current().into_iter().find(of_reader)?;
        server.subscriptions.hold(uri);
        Some(HeldSubscription { server, uri: uri.to_owned() })
    }

    /// The tool of this name as its server's declaration describes it, and why it cannot be called, if its server is declared and not up.
    #[must_use]
    pub fn absent_tool(&self, name: &str) -> Option<AbsentTool> {
        self.current().iter().find_map(|server| absent_tool(server, name))
    }

    /// The servers that failed.
    #[must_use]
    pub fn failed_servers(&self) -> Vec<FailedServer> {
        self.current().iter().filter_map(|server| failed_server(server)).collect()
    }

    /// The health of every server.
    #[must_use]
    pub fn health(&self) -> Vec<ServerHealth> {
        self.current().iter().map(|server| server.health()).collect()
    }

    /// Stops every server, even with calls in flight, and returns when all processes are gone.
    pub async fn close(&self) {
        let mut gone: Vec<SupervisedServer> = locked(&self.servers).drain(..).collect();
        gone.append(&mut locked(&self.retiring));
        gone.iter().for_each(|gone| gone.server.stop());
        for gone in gone {
            // A supervisor that panicked has dropped its process, which ends it.
            let _ = gone.supervisor.await;
        }
    }
}

/// A client's subscription to a resource.
pub struct HeldSubscription {
    server: Arc<Server>,
    uri: String,
}

impl Drop for HeldSubscription {
    fn drop(&mut self) {
        self.server.release_subscription(&self.uri);
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        for kept in [&self.servers, &self.retiring] {
            locked(kept).iter().for_each(|kept| kept.server.stop());
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
