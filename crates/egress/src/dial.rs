//! DNS resolution and dialling from the gate's network: the ambient authority of this crate, passed in as a value.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::allowlist::{AdmittedHost, Destination, NetworkAllowlist};
use crate::host::Host;
use crate::limits::ProxyLimits;
use crate::refusal_reason::RefusalReason;

/// How many addresses of one name are tried.
const MAX_TRIED_ADDRESSES: usize = 8;
/// Each address gets at most this fraction of the timeout, so that a dead one does not use it up.
const ADDRESS_TIMEOUT_DIVISOR: u32 = 3;

/// Resolves names.
pub trait Resolve: Send + Sync {
    /// Every address of a name. May block: it runs on its own thread, and is awaited for at most [`ProxyLimits::connect_timeout`]. Called once per
    /// connection.
    ///
    /// # Errors
    /// When the name has no address, or no resolver can be reached.
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// A pending connection.
pub type DialFuture = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

/// Dials checked addresses, and no others.
pub trait Dial: Resolve {
    /// Starts a connection; dropping the future cancels it.
    fn dial(&self, address: SocketAddr) -> DialFuture;

    /// Starts a connection to an admitted host through something that resolves its name itself; `None` where there is no such thing: then the name is
    /// resolved here, and its addresses are checked.
    fn dial_host(&self, host: &Host, port: u16) -> Option<DialFuture> {
        let _ = (host, port);
        None
    }
}

/// The system's resolver and network.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemDialer;

impl Resolve for SystemDialer {
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
    }
}

impl Dial for SystemDialer {
    fn dial(&self, address: SocketAddr) -> DialFuture {
        Box::pin(TcpStream::connect(address))
    }
}

/// Where a request of the gate itself may go: the host is admitted, resolved once, and its addresses are checked. For clients that dial these
/// addresses, and no others, themselves.
///
/// # Errors
/// Why it is refused, and the address that caused it.
pub async fn resolve_allowed(
    rules: &NetworkAllowlist,
    host: Host,
    port: u16,
    resolver: Arc<dyn Resolve>,
    patience: Duration,
) -> Result<Destination, (RefusalReason, Option<IpAddr>)> {
    let admitted = rules.admit(host, port).map_err(|reason| (reason, None))?;
    resolve_and_check(&admitted, resolver, patience).await
}

/// A connection to an admitted host, or why there is none and which address caused it.
pub(crate) async fn dial_host(
    admitted: &AdmittedHost<'_>,
    dialer: &Arc<dyn Dial>,
    bounds: &ProxyLimits,
) -> Result<TcpStream, (RefusalReason, Option<IpAddr>)> {
    if let Some(pending) = dialer.dial_host(admitted.host(), admitted.port()) {
        let dialled = timeout(bounds.connect_timeout, pending).await;
        return dialled.ok().and_then(Result::ok).ok_or((RefusalReason::Unreachable, None));
    }
    let destination =
        resolve_and_check(admitted, Arc::clone(dialer) as Arc<dyn Resolve>, bounds.connect_timeout).await?;
    let dialled =
        timeout(bounds.connect_timeout, dial_any(&destination, dialer, bounds.connect_timeout)).await;
    dialled.ok().flatten().ok_or((RefusalReason::Unreachable, None))
}

async fn resolve_and_check(
    admitted: &AdmittedHost<'_>,
    resolver: Arc<dyn Resolve>,
    limit: Duration,
) -> Result<Destination, (RefusalReason, Option<IpAddr>)> {
    let resolved = match admitted.name_to_resolve() {
        Some(name) => resolve(name, resolver, limit).await?,
        None => Vec::new(),
    };
    admitted.check_addresses(&resolved)
}

async fn resolve(
    name: &str,
    resolver: Arc<dyn Resolve>,
    limit: Duration,
) -> Result<Vec<IpAddr>, (RefusalReason, Option<IpAddr>)> {
    let name = name.to_owned();
    let answer = tokio::task::spawn_blocking(move || resolver.resolve(&name));
    match timeout(limit, answer).await {
        Ok(Ok(Ok(addresses))) => Ok(addresses),
        _ => Err((RefusalReason::Unresolved, None)),
    }
}

async fn dial_any(destination: &Destination, dialer: &Arc<dyn Dial>, limit: Duration) -> Option<TcpStream> {
    for address in destination.addresses().take(MAX_TRIED_ADDRESSES) {
        if let Ok(Ok(stream)) = timeout(limit / ADDRESS_TIMEOUT_DIVISOR, dialer.dial(address)).await {
            return Some(stream);
        }
    }
    None
}
