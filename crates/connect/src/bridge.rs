//! All servers behind the gate.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use toolgate_gate::Tool;

use crate::definition::confusable_key;
use crate::launch::ServerLauncher;
use crate::pins::Pins;
use crate::server::{Backoff, Server, ServerHealth, ServerTimeouts};
use crate::settings::ServerSettings;
use crate::tool::BridgedTool;
use crate::untrusted_schema::PatternBudget;

/// What a bridge is made of.
pub struct BridgeOptions {
    /// Starts the processes of servers.
    pub launcher: Arc<dyn ServerLauncher>,
    /// What was agreed about their tools.
    pub pins: Pins,
    /// Where complaints for the operator go.
    pub warn: Arc<dyn Fn(&str) + Send + Sync>,
    /// Where it is told what was taken away, which may have been somebody's own.
    pub error: Arc<dyn Fn(&str) + Send + Sync>,
    /// How long to wait before a server is started again.
    pub backoff: Backoff,
    /// What is borne of a server.
    pub timeouts: ServerTimeouts,
    /// How long to wait between two looks at what a process left that can write. After each of its calls it is looked at besides.
    pub scan_interval: Duration,
    /// Where servers are looked after.
    pub runtime: Handle,
}

/// The servers behind a gate. It outlives reloads: what is declared may change, and a server for which nothing changed stays as it is.
pub struct Bridge {
    options: Arc<BridgeOptions>,
    changed: watch::Sender<u64>,
    servers: Mutex<Vec<SupervisedServer>>,
    /// Servers that are on their way out.
    retiring: Mutex<Vec<SupervisedServer>>,
}

/// A server and the task that keeps it.
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
            servers: Mutex::default(),
            retiring: Mutex::default(),
        })
    }

    /// These are the servers from now on, in this order. One whose connection is declared as before keeps running; others are ended, once the calls that
    /// they are working on have ended, and started.
    /// This alone never makes [`Bridge::changed`] fire.
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
        let server = Server::new(settings, Arc::clone(&self.options), self.changed.clone());
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

    /// Waits until every server was connected, or has failed in every way that there is to begin, but no longer than this.
    pub async fn ready(&self, patience: Duration) {
        let all = async {
            for server in self.current() {
                server.wait_settled().await;
            }
        };
        // Those that are late show in the health of their servers.
        let _ = tokio::time::timeout(patience, all).await;
    }

    /// The tools, server by server as these were declared, each one's by name. One that is suspended says why. One that cannot be a tool is complained
    /// about and left out, and so are all of several whose names look the same: a server does not stand in for another by a name such as `b__c` of `a`
    /// beside `c` of `a__b`.
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

    /// Every tool that can be one, with its server.
    fn build_tools(&self) -> Vec<(Arc<Server>, BridgedTool)> {
        let mut made = Vec::new();
        for server in self.current() {
            let (settings, mut room) = (server.settings(), PatternBudget::for_server());
            for entry in server.catalogue().entries() {
                let shown = || {
                    toolgate_tools::escape_control_chars(&crate::definition::truncate(
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

    /// Tells when [`Bridge::tools`] would answer something else.
    #[must_use]
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// How every server is.
    #[must_use]
    pub fn health(&self) -> Vec<ServerHealth> {
        self.current().iter().map(|server| server.health()).collect()
    }

    /// Ends every server, whatever it is doing, and returns when nothing of them is left.
    pub async fn close(&self) {
        let mut gone: Vec<SupervisedServer> = locked(&self.servers).drain(..).collect();
        gone.append(&mut locked(&self.retiring));
        gone.iter().for_each(|gone| gone.server.stop());
        for gone in gone {
            // A keeper that ended unexpectedly has let go of its process, which ends it.
            let _ = gone.supervisor.await;
        }
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
