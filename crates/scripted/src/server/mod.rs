//! The server: one address, all four wires.

mod answer;
mod logged_request;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::reply::FaultCounts;
use crate::script::Script;
use crate::wires::Wire;
pub use logged_request::LoggedRequest;
use logged_request::RequestLog;

/// The delay after a failed `accept`, such as with `EMFILE`.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// The options of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The loopback address to listen on. Port 0 chooses a free one.
    pub listen: SocketAddr,
    /// The key that clients must send. Without one any key is accepted, but required where the vendor always requires one.
    pub key: Option<String>,
    /// How many requests are kept for [`ScriptServer::requests`]; older ones are dropped.
    pub keep_requests: usize,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self { listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), key: None, keep_requests: 1_000 }
    }
}

/// Why a script cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address is reachable from other machines.
    #[error(
        "`{0}` can be reached from other machines; a script is served on this one only, such as on `127.0.0.1:0`"
    )]
    NotLoopback(SocketAddr),
    /// The address cannot be bound.
    #[error("`{address}` cannot be listened on: {source}; choose another port, or 0 for any that is free")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
}

/// A running server. Dropping it closes every connection.
#[derive(Debug)]
pub struct ScriptServer {
    address: SocketAddr,
    stage: Arc<ScriptServerState>,
    accepting: JoinHandle<()>,
}

/// The state that all connections share.
#[derive(Debug)]
pub(crate) struct ScriptServerState {
    script: Script,
    counts: FaultCounts,
    key: Option<String>,
    log: RequestLog,
}

impl ScriptServer {
    /// Serves a script. Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// The address is not loopback or cannot be bound.
    pub async fn start(script: Script, options: ServerOptions) -> Result<Self, ServerError> {
        let address = options.listen;
        if !address.ip().is_loopback() {
            return Err(ServerError::NotLoopback(address));
        }
        let failed = |source| ServerError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let stage = Arc::new(ScriptServerState {
            counts: FaultCounts::new(&script),
            script,
            key: options.key,
            log: RequestLog::new(options.keep_requests),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&stage)));
        Ok(Self { address, stage, accepting })
    }

    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL for clients of a wire: they append their own paths.
    #[must_use]
    pub fn base_url(&self, wire: Wire) -> String {
        format!("http://{}{}", self.address, wire.spec().base_path)
    }

    /// The requests so far, oldest first, without keys.
    #[must_use]
    pub fn requests(&self) -> Vec<LoggedRequest> {
        self.stage.log.all()
    }
}

impl Drop for ScriptServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Accepts connections until the server is dropped, which closes them.
async fn accept(listener: TcpListener, stage: Arc<ScriptServerState>) {
    let router = Router::new().fallback(answer::answer).with_state(stage);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(handle_connection(stream, router.clone()))),
                Err(_) => tokio::time::sleep(ACCEPT_RETRY_INTERVAL).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn handle_connection(stream: TcpStream, router: Router) {
    // Deltas are small and latency matters.
    let _ = stream.set_nodelay(true);
    let service = TowerToHyperService::new(router);
    // How a connection ended is the client's concern.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
