//! What the handlers share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use toolgate_assembly::servers::Servers;
use toolgate_assembly::settings::Settings;
use toolgate_conversation::Conversations;
use toolgate_serve::Service;
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
    connections: AtomicU64,
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
            connections: AtomicU64::new(0),
        })
    }

    /// A name for a connection, so that clients know their own answers.
    pub(crate) fn connection_name(&self) -> String {
        format!("c{}", self.connections.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
