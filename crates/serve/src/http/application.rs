//! What is served beside MCP: an API with its streams, and a page.
//!
//! The server authenticates each request, limits it and reads its body as for MCP; then it passes the request on with an [`ApiClient`] among its
//! extensions. A browser authenticates with a cookie, which it gets in exchange for the person's token. A request with a cookie changes something only if
//! it comes from the page of this server: `Origin` says so, and `SameSite=Strict` keeps the cookie out of other sites' requests.

use std::sync::Arc;

use axum::Router;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use toolgate_gate::Credential;
use toolgate_types::{Caller, Sha256};

use super::connected_clients::{ConnectedClients, CountedStream, ServedClient};
use super::connection_slots::ConnectionSlot;
use crate::admission::KeyedSemaphore;
use crate::mcp::{AuthMethod, IdentityDigests};

/// The API, and the page.
#[derive(Clone, Default)]
pub struct Application {
    /// Routes below `/api/` and at `/ws`. Each request has an [`ApiClient`] among its extensions.
    pub routes: Option<Router>,
    /// The files of the page.
    pub page: Option<Arc<dyn PageSource>>,
}

impl std::fmt::Debug for Application {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Application").finish_non_exhaustive()
    }
}

/// Files of a page, which everyone may read.
pub trait PageSource: Send + Sync {
    /// The file for the path of a request, in a form that the client accepts.
    fn file(&self, path: &str, accept_encoding: &str) -> Option<PageFile>;

    /// Headers of every response with a file.
    fn headers(&self) -> &'static [(&'static str, &'static str)];

    /// What is answered for `/` without a page.
    fn fallback(&self) -> &'static str;
}

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub struct PageFile {
    /// The bytes, in the encoding below.
    pub bytes: &'static [u8],
    /// The value of `Content-Encoding`, if they are compressed.
    pub encoding: Option<&'static str>,
    /// The value of `Content-Type`.
    pub content_type: &'static str,
    /// The value of `ETag`.
    pub etag: &'static str,
    /// The value of `Cache-Control`.
    pub cache_control: &'static str,
}

/// Whose the conversations and questions of a client are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientOwner {
    /// The configured person.
    Person,
    /// A caller with a token of its own: a digest of its identity, without its permissions.
    Caller(Sha256),
}

impl ClientOwner {
    /// Whose the questions are of a caller that proved itself with a token of its own.
    #[must_use]
    pub fn of_token(caller: &Caller) -> Self {
        Self::Caller(IdentityDigests::new(AuthMethod::Verified, caller).owner.into())
    }
}

/// How a client authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// A browser, by its cookie.
    Browser,
    /// A program, by a token, or without one where none is needed.
    Program,
}

/// The authenticated client of a request.
#[derive(Clone)]
pub struct ApiClient {
    /// The credential of its calls.
    pub credential: Credential,
    /// Its caller.
    pub caller: Arc<Caller>,
    /// Whose conversations and questions it may see.
    pub owner: ClientOwner,
    /// How it authenticated.
    pub kind: ClientKind,
    pub(super) streams: StreamLimits,
}

/// The limits on streams, which all clients share.
#[derive(Clone)]
pub(super) struct StreamLimits {
    pub(super) global: Arc<Semaphore>,
    pub(super) per_caller: Arc<KeyedSemaphore>,
    pub(super) key: [u8; 32],
    pub(super) slot: Option<Arc<ConnectionSlot>>,
    pub(super) open: TaskTracker,
    pub(super) leaving: CancellationToken,
    pub(super) clients: Arc<ConnectedClients>,
}

/// The permit of a stream that goes on until its client or the server ends it.
pub struct ApiStream {
    _global: OwnedSemaphorePermit,
    _per_caller: OwnedSemaphorePermit,
    _slot: Option<Arc<ConnectionSlot>>,
    _open: TaskTrackerToken,
    _counted: CountedStream,
    leaving: CancellationToken,
}

impl ApiClient {
    /// A digest of its identity, without its permissions: limits per caller are counted by it.
    #[must_use]
    pub fn key(&self) -> [u8; 32] {
        self.streams.key
    }

    /// How many connections the server has.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.streams.open.len()
    }

    /// The callers of this server. For operators alone: it names them.
    #[must_use]
    pub fn connected_clients(&self) -> Vec<ServedClient> {
        self.streams.clients.list()
    }

    /// A permit for a stream; `None` if there are too many, of all callers or of this one.
    #[must_use]
    pub fn open_stream(&self) -> Option<ApiStream> {
        let StreamLimits { global, per_caller, key, slot, open, leaving, clients } = &self.streams;
        Some(ApiStream {
            _per_caller: per_caller.try_acquire(*key)?,
            _global: Arc::clone(global).try_acquire_owned().ok()?,
            _slot: slot.clone(),
            _open: open.token(),
            _counted: clients.stream(*key),
            leaving: leaving.clone(),
        })
    }
}

impl ApiStream {
    /// Cancelled when the server shuts down.
    #[must_use]
    pub fn ending(&self) -> &CancellationToken {
        &self.leaving
    }
}
