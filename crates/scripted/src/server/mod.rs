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
use crate::wire::Wire;
pub use logged_request::LoggedRequest;
use logged_request::RequestLog;

/// How long nothing is accepted after accepting failed, as it does when there are no descriptors left.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// How a script is served.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where to listen, on this machine only. Port 0 is any that is free.
    pub listen: SocketAddr,
    /// The key that clients must send. Without one any will do, and is wanted where the vendor always wants one.
    pub key: Option<String>,
    /// How many requests are kept for [`ScriptServer::requests`]; older ones are forgotten.
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
    /// The address can be reached from elsewhere.
    #[error(
        "`{0}` can be reached from other machines; a script is served on this one only, such as on `127.0.0.1:0`"
    )]
    NotLoopback(SocketAddr),
    /// The address cannot be had.
    #[error("`{address}` cannot be listened on: {source}; choose another port, or 0 for any that is free")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
}

/// A script that is being served. Dropping it ends every connection.
#[derive(Debug)]
pub struct ScriptServer {
    address: SocketAddr,
    stage: Arc<ScriptServerState>,
    accepting: JoinHandle<()>,
}

/// What all connections share.
#[derive(Debug)]
pub(crate) struct ScriptServerState {
    script: Script,
    counts: FaultCounts,
    key: Option<String>,
    log: RequestLog,
}

impl ScriptServer {
    /// Serves a script. Must be called within a runtime.
    ///
    /// # Errors
    /// The address is not on this machine or cannot be had.
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

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address that clients of a wire are configured with: they add their own paths to it.
    #[must_use]
    pub fn base_url(&self, wire: Wire) -> String {
        format!("http://{}{}", self.address, wire.base_path())
    }

    /// What was asked so far, oldest first, without keys.
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

/// Takes connections for as long as the server is there; they end with it.
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
    // Deltas are small and waited for.
    let _ = stream.set_nodelay(true);
    let service = TowerToHyperService::new(router);
    // How a connection ended is its client's concern.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
