//! The HTTP front end: MCP at `/mcp`, and the endpoints for operators.
//!
//! ```text
//! connection → Host, Origin → who? → session → body → MCP
//! ```
//!
//! Everything before the last arrow is decided here, before the gate is involved. It is closed by default: only known values of `Host` and `Origin`
//! are accepted, every client is authenticated unless that is switched off, and every wait has a timeout. It makes no decision about a call.

mod error;
mod host_check;
mod rejected_hosts;
mod auth;
mod event_log;
mod sessions;
mod protocol_check;
mod running_request;
mod body;
mod responses;
mod request_metrics;
mod request_span;
mod server;
mod auth_failures;
mod mcp_route;
mod application;
mod problem;
mod cookie;
mod issued_logins;
mod api_route;
mod page_route;
mod connected_clients;
mod connection_slots;
mod connection;

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use self::application::{
    ApiClient, ApiStream, Application, ClientKind, ClientOwner, PageFile, PageSource,
};
pub use self::auth::{Auth, AuthRequirement};
pub use self::connected_clients::ServedClient;
pub use self::error::HttpError;
pub use self::problem::Problem;
pub use self::rejected_hosts::RejectedHosts;

use self::connection::accept;
use self::host_check::{AllowedHosts, is_loopback};
use self::server::HttpServer;
use crate::service::Service;

/// Returns whether everything behind the gate has started.
pub struct ReadyCheck(pub Arc<dyn Fn() -> bool + Send + Sync>);

impl fmt::Debug for ReadyCheck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ReadyCheck(…)")
    }
}

/// Options of the HTTP server.
#[derive(Debug)]
pub struct HttpOptions {
    /// How clients authenticate.
    pub auth: Auth,
    /// Accepted values of `Host` in addition to the listening address: `name` or `name:port`.
    pub allowed_hosts: Vec<String>,
    /// Accepted values of `Origin` in addition to its own: `scheme://host:port`.
    pub allowed_origins: Vec<String>,
    /// The URL that clients use, if there is a reverse proxy.
    pub public_url: Option<String>,
    /// Limits and timeouts.
    pub limits: HttpLimits,
    /// Whether everything behind the gate has started.
    pub ready: ReadyCheck,
    /// Notified of rejected values of `Host`.
    pub rejected_hosts: RejectedHosts,
    /// The API and the page.
    pub application: Application,
}

impl HttpOptions {
    /// Checks whether a server with these options may listen on an address, before the address is announced.
    ///
    /// # Errors
    /// It may not.
    pub fn check(&self, listening: SocketAddr) -> Result<(), HttpError> {
        self.allowed_names(listening).map(drop)
    }

    fn allowed_names(&self, listening: SocketAddr) -> Result<AllowedHosts, HttpError> {
        if matches!(self.auth.requirement, AuthRequirement::None) && !is_loopback(listening) {
            return Err(HttpError::OpenToOthers(listening));
        }
        AllowedHosts::new(listening, &self.allowed_hosts, &self.allowed_origins, self.public_url.as_deref())
    }
}

/// Limits and timeouts of the HTTP server.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// Maximum body of one request.
    pub max_body_bytes: usize,
    /// Maximum memory of all bodies that are being read.
    pub max_all_bodies_bytes: usize,
    /// Maximum concurrent connections.
    pub max_connections: usize,
    /// Maximum concurrent streams without an end of their own (GET and `subscriptions/listen`).
    pub max_streams: usize,
    /// Maximum of these per caller.
    pub max_streams_per_caller: usize,
    /// Maximum concurrent sessions of the session protocol.
    pub max_sessions: usize,
    /// Maximum of these per caller. One more evicts the caller's least recently used session.
    pub max_sessions_per_caller: usize,
    /// A session ends after being unused for this long.
    pub session_idle: Duration,
    /// Rate limit per caller, if there is one.
    pub requests_per_second: Option<NonZeroU32>,
    /// Per address and minute, this many calls with a bad token are recorded.
    pub bad_tokens_per_minute: u32,
    /// After this many bad tokens from one address in a second, only tokens that were valid before are verified.
    pub unknown_tokens_per_second: u32,
    /// Timeout for the header of a request; also the keep-alive timeout between requests.
    pub header_timeout: Duration,
    /// Timeout for the body of a request.
    pub body_timeout: Duration,
    /// Timeout for writes: a client that reads nothing for this long is disconnected.
    pub write_timeout: Duration,
    /// On shutdown, calls in flight may finish within this time before they are cancelled.
    pub grace: Duration,
    /// How long cancelled calls may take to end: as long as a process may take after its termination signal.
    pub cancel_timeout: Duration,
    /// How long sending the last responses may then take.
    pub flush_timeout: Duration,
}

impl HttpLimits {
    /// The streams of the API (WebSockets and server-sent events) that there may be: an eighth of the connections stays for single requests, such as
    /// the answer to a question.
    pub(crate) fn api_streams(&self) -> usize {
        let most = self.max_connections.saturating_sub(self.max_connections.div_ceil(8));
        most.clamp(1, Semaphore::MAX_PERMITS)
    }

    /// The same for one caller. With other callers about, one gets half of them at most.
    pub(crate) fn api_streams_per_caller(&self, has_callers: bool) -> usize {
        if has_callers { self.api_streams().div_ceil(2) } else { self.api_streams() }
    }
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            max_body_bytes: 8 * 1024 * 1024,
            max_all_bodies_bytes: 64 * 1024 * 1024,
            max_connections: 512,
            max_streams: 256,
            max_streams_per_caller: 32,
            max_sessions: 1024,
            max_sessions_per_caller: 256,
            session_idle: Duration::from_secs(60 * 60),
            requests_per_second: None,
            bad_tokens_per_minute: 60,
            unknown_tokens_per_second: 50,
            header_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            grace: Duration::from_secs(10),
            cancel_timeout: Duration::from_secs(7),
            flush_timeout: Duration::from_secs(2),
        }
    }
}

/// Serves until `shutdown` is cancelled. Then no new requests are accepted; calls in flight may finish within the grace period, are then cancelled,
/// and each is answered while its client is connected. Needs a runtime with I/O and time enabled.
///
/// # Errors
/// The server cannot be started with these options. Errors of connections or requests are never returned.
pub async fn serve_http(
    options: HttpOptions,
    service: Arc<Service>,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<(), HttpError> {
    listener.set_nonblocking(true)?;
    let door = Arc::new(HttpServer::new(options, service, listener.local_addr()?)?);
    let listener = tokio::net::TcpListener::from_std(listener)?;
    accept(&door, &listener, &shutdown).await;
    // Cancelled before the listener closes: a client that gets connection refused can rely on no request being accepted any more, on open connections
    // either.
    door.leaving.cancel();
    drop(listener);
    close(&door).await;
    Ok(())
}

/// Shuts down in order: wait, cancel the calls, flush the responses, cut the connections.
async fn close(door: &HttpServer) {
    let HttpLimits { grace, cancel_timeout: last_words, flush_timeout: farewell, .. } = *door.limits();
    door.connections.close();
    if tokio::time::timeout(grace, door.wait_until_idle()).await.is_err() {
        door.end_calls();
        // Calls that do not end in time are recorded as abandoned when their future is dropped.
        let _ = tokio::time::timeout(last_words, door.wait_until_idle()).await;
    }
    // Responses may still be on their way to slow clients.
    let _ = tokio::time::timeout(farewell, door.connections.wait()).await;
    door.close();
}
