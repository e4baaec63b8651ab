//! What the handlers share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use toolgate_assembly::servers::Servers;
use toolgate_assembly::settings::Settings;
use toolgate_conversation::Conversations;
use toolgate_serve::Service;
use toolgate_session::SessionOwner;
use toolgate_workspace::Workspace;

use crate::idempotency::IdempotencyCache;

/// How often a stream without events sends a heartbeat.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

/// What the API is built from.
pub struct ApiParts {
    /// The calls of this process.
    pub service: Arc<Service>,
    /// The conversations.
    pub conversations: Conversations,
    /// The configuration.
    pub settings: Arc<Settings>,
    /// The mounts.
    pub workspace: Arc<Workspace>,
    /// The upstream MCP servers.
    pub servers: Option<Arc<Servers>>,
    /// How clients authenticate: `token`, `jwt` or `none`.
    pub auth: &'static str,
}

/// What the handlers share.
pub(crate) struct ApiState {
    pub(crate) service: Arc<Service>,
    pub(crate) conversations: Conversations,
    pub(crate) settings: Arc<Settings>,
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) servers: Option<Arc<Servers>>,
    pub(crate) auth: &'static str,
    pub(crate) started: Instant,
    pub(crate) heartbeat: Duration,
    pub(crate) idempotency: IdempotencyCache,
    pub(crate) connections: Arc<ConnectionNames>,
}

/// The names of the open WebSockets, so that clients know their own answers and those of others.
#[derive(Default)]
pub(crate) struct ConnectionNames {
    count: AtomicU64,
    open: Mutex<HashMap<String, SessionOwner>>,
}

/// The name of an open WebSocket. It counts until this is dropped.
pub(crate) struct ConnectionName {
    pub(crate) name: String,
    names: Arc<ConnectionNames>,
}

impl ConnectionNames {
    /// A name that no other connection has or had.
    pub(crate) fn open(self: &Arc<Self>, owner: SessionOwner) -> ConnectionName {
        let name = format!("c{}", self.count.fetch_add(1, Ordering::Relaxed) + 1);
        self.lock().insert(name.clone(), owner);
        ConnectionName { name, names: Arc::clone(self) }
    }

    /// Whether a connection of this owner has this name.
    pub(crate) fn is_of(&self, name: &str, owner: &SessionOwner) -> bool {
        self.lock().get(name) == Some(owner)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, SessionOwner>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionName {
    fn drop(&mut self) {
        self.names.lock().remove(&self.name);
    }
}

impl ApiState {
    pub(crate) fn new(parts: ApiParts) -> Arc<Self> {
        let ApiParts { service, conversations, settings, workspace, servers, auth } = parts;
        Arc::new(Self {
            service,
            conversations,
            settings,
            workspace,
            servers,
            auth,
            started: Instant::now(),
            heartbeat: HEARTBEAT_INTERVAL,
            idempotency: IdempotencyCache::default(),
            connections: Arc::default(),
        })
    }
}
