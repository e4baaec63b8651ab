//! Connections: their number and their timeouts.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use super::connection_slots::{ConnectionSlot, ConnectionSlots};
use super::request_metrics::add;
use super::server::{HttpServer, Peer};

/// Maximum size of a request's headers.
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// Pause after a failed `accept`, which fails while no descriptors are left (`EMFILE`).
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// Sent to connections beyond the limit.
const UNAVAILABLE_RESPONSE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";

/// Accepts connections until cancelled.
pub(crate) async fn accept(door: &Arc<HttpServer>, listener: &TcpListener, until: &CancellationToken) {
    let slots = ConnectionSlots::new(door.limits().max_connections);
    let router = door.router();
    loop {
        let accept = async {
            let descriptor = slots.descriptor().await;
            (descriptor, listener.accept().await)
        };
        let (descriptor, accepted) = tokio::select! {
            biased;
            () = until.cancelled() => return,
            accepted = accept => accepted,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(ACCEPT_RETRY_INTERVAL).await;
            continue;
        };
        let peer = peer.ip().to_canonical();
        match slots.acquire(peer, descriptor) {
            Some((slot, gave_way)) => {
                add(&door.meter.rejected_connections, u64::from(gave_way));
                let (slot, peer) = (Arc::new(slot), Peer(peer));
                door.connections.spawn(handle_connection(
                    Arc::clone(door),
                    router.clone(),
                    stream,
                    peer,
                    slot,
                ));
            }
            None => {
                add(&door.meter.rejected_connections, 1);
                // Best effort: if the socket buffer takes nothing, the client sees only the close.
                let _ = stream.try_write(UNAVAILABLE_RESPONSE);
            }
        }
    }
}

async fn handle_connection(
    door: Arc<HttpServer>,
    router: Router,
    stream: TcpStream,
    peer: Peer,
    slot: Arc<ConnectionSlot>,
) {
    // Responses are small and latency matters: no Nagle delay.
    let _ = stream.set_nodelay(true);
    let (head, stall) = (door.limits().header_timeout, door.limits().write_timeout);
    limit_unacknowledged(&stream, stall);
    let router = TowerToHyperService::new(router);
    let own = Arc::clone(&slot);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(Arc::clone(&own));
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .max_buf_size(MAX_HEADER_BYTES)
        // hyper panics at a `Date` before 1970.
        .auto_date_header(SystemTime::now() >= UNIX_EPOCH)
        .serve_connection(TokioIo::new(WriteTimeoutStream::new(stream, stall)), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        // The result of a connection is not logged: it is caused by the client.
        _ = connection.as_mut() => return,
        () = slot.evicted.cancelled() => return,
        () = door.leaving.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        _ = connection => {}
        () = door.cut.cancelled() => {}
    }
}

/// Ends the connection once a peer has acknowledged nothing for the timeout: one that vanished without a word would otherwise be kept for a quarter of an
/// hour, as long as what is sent to it fits into the buffers of the system.
fn limit_unacknowledged(stream: &TcpStream, timeout: Duration) {
    let milliseconds = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
    // Without it the connection lives as long as the system lets it.
    let _ = rustix::net::sockopt::set_tcp_user_timeout(stream, milliseconds);
}

/// A stream that fails with `TimedOut` if the peer reads nothing for the timeout.
struct WriteTimeoutStream<S> {
    inner: S,
    timeout: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeoutStream<S> {
    fn new(inner: S, timeout: Duration) -> Self {
        Self { inner, timeout, stalled: None }
    }

    /// Passes on the result of a write, or fails once writes have been pending for the timeout.
    fn check_stall<T>(
        &mut self,
        context: &mut Context<'_>,
        tried: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if tried.is_ready() {
            self.stalled = None;
            return tried;
        }
        let (patience, now) = (self.timeout, Instant::now());
        let deadline = now.checked_add(patience).unwrap_or(now);
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        match stalled.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeoutStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.check_stall(context, tried)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.check_stall(context, tried)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let tried = Pin::new(&mut self.inner).poll_flush(context);
        self.check_stall(context, tried)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_peer_that_acknowledges_nothing_is_given_up_by_the_system() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        limit_unacknowledged(&stream, Duration::from_secs(30));
        assert_eq!(rustix::net::sockopt::tcp_user_timeout(&stream).unwrap(), 30_000);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_takes_nothing_is_given_up_and_whoever_is_slow_is_not() {
        let (near, mut far) = tokio::io::duplex(16);
        let mut near = WriteTimeoutStream::new(near, Duration::from_secs(30));
        let reading = tokio::spawn(async move {
            let mut taken = 0;
            while taken < 160 {
                tokio::time::sleep(Duration::from_secs(20)).await;
                taken += far.read(&mut [0; 16]).await.unwrap();
            }
            far
        });
        near.write_all(&[b'x'; 160]).await.unwrap();
        let _far = reading.await.unwrap();
        let error = near.write_all(&[b'x'; 160]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
