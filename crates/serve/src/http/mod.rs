//! The HTTP door: MCP at `/mcp`, and what operators look at.
//!
//! ```text
//! connection → Host, Origin → who? → session → body → MCP
//! ```
//!
//! Everything before the last arrow is decided here and costs the gate nothing. The door is closed by default: it answers only to names that it knows,
//! it lets in only who can say who it is, and it never waits for anybody without end. It decides nothing about a call.

mod error;
mod host_check;
mod rejected_hosts;
mod auth;
mod rate_limiter;
mod sessions;
mod body;
mod responses;
mod request_metrics;
mod server;
mod auth_failures;
mod mcp_route;
mod connection_slots;
mod connection;

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub use self::auth::{Auth, AuthRequirement};
pub use self::error::HttpError;
pub use self::rejected_hosts::RejectedHosts;

use self::connection::accept;
use self::host_check::{AllowedHosts, is_loopback};
use self::server::HttpServer;
use crate::service::Service;

/// Whether everything behind the gate is there.
pub struct ReadyCheck(pub Arc<dyn Fn() -> bool + Send + Sync>);

impl fmt::Debug for ReadyCheck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Ready(…)")
    }
}

/// How this door is opened.
#[derive(Debug)]
pub struct HttpOptions {
    /// Who is let in.
    pub auth: Auth,
    /// Names that it answers to, beside its address: `name` or `name:port`.
    pub allowed_hosts: Vec<String>,
    /// Pages that may use it, beside its own: `scheme://host:port`.
    pub allowed_origins: Vec<String>,
    /// The address that others know it by, where something stands before it.
    pub public_url: Option<String>,
    /// What it can bear.
    pub limits: HttpLimits,
    /// Whether everything behind the gate is there.
    pub ready: ReadyCheck,
    /// Who is told under which other names it was asked for.
    pub rejected_hosts: RejectedHosts,
}

impl HttpOptions {
    /// Whether a door can be opened like this on an address, which says so before anybody is told of it.
    ///
    /// # Errors
    /// It cannot.
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

/// What the door can bear.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// The longest body.
    pub max_body_bytes: usize,
    /// All bodies that are being read, together.
    pub max_all_bodies_bytes: usize,
    /// Connections at once.
    pub max_connections: usize,
    /// Streams at once that go on until somebody ends them.
    pub max_streams: usize,
    /// Of these, one caller's.
    pub max_streams_per_caller: usize,
    /// Sessions of the older era at once. A few more may be there for a moment.
    pub max_sessions: usize,
    /// Of these, one caller's. Beyond them, the one that was used longest ago ends.
    pub max_sessions_per_caller: usize,
    /// How long a session lasts that is not used.
    pub session_idle: Duration,
    /// Requests of one caller in a second, if that is bounded.
    pub requests_per_second: Option<NonZeroU32>,
    /// Bad tokens from one address in a minute whose calls are recorded.
    pub bad_tokens_per_minute: u32,
    /// Bad tokens from one address in a second, after which only tokens are looked at that were good before.
    pub unknown_tokens_per_second: u32,
    /// How long a connection may take to say what it wants; also how long it may be silent between requests.
    pub header_timeout: Duration,
    /// How long a body may take.
    pub body_timeout: Duration,
    /// How long a client may take nothing of what it is sent.
    pub write_timeout: Duration,
    /// How long calls under way may go on once the door closes.
    pub grace: Duration,
    /// How long those that were told to end then may take to do so: as long as a process may take that is told to.
    pub cancel_timeout: Duration,
    /// How long what was answered may then take to leave.
    pub flush_timeout: Duration,
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

/// Serves until `shutdown`. Then nothing new is taken, calls under way end within the grace or are ended, and each is answered as long as its client is
/// there. Must run on a runtime with I/O and time.
///
/// # Errors
/// The door cannot be opened as it was asked for. Nothing that comes through it is an error.
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
    // Before it can be seen from outside: whoever finds nobody listening knows that nothing more is taken from anybody.
    door.leaving.cancel();
    drop(listener);
    close(&door).await;
    Ok(())
}

/// From the gentlest way to the last.
async fn close(door: &HttpServer) {
    let HttpLimits { grace, cancel_timeout: last_words, flush_timeout: farewell, .. } = *door.limits();
    door.connections.close();
    if tokio::time::timeout(grace, door.wait_until_idle()).await.is_err() {
        door.end_calls();
        // Whoever does not end even now is recorded as abandoned when its work is dropped.
        let _ = tokio::time::timeout(last_words, door.wait_until_idle()).await;
    }
    // Answers are on their way to clients that may be slow.
    let _ = tokio::time::timeout(farewell, door.connections.wait()).await;
    door.close().await;
}
