//! Copies bytes between two sockets: counted, with bounded buffers and an idle timeout.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::ledger::{Ledger, TransferDirection};
use crate::refusal_reason::RefusalReason;

/// Buffer size of one direction of one connection.
const BUFFER_BYTES: usize = 32 << 10;
/// Bytes that are read and discarded after a response: closing a socket with unread data resets it and may destroy the response.
const MAX_DRAINED_BYTES: usize = 256 << 10;

/// Why a relay ended before both sides had finished.
#[derive(Debug)]
pub(crate) enum RelayError {
    /// A side disconnected, or the idle timeout passed.
    Disconnected,
    /// The proxy refused.
    Refused(RefusalReason),
}

impl From<io::Error> for RelayError {
    fn from(_: io::Error) -> Self {
        Self::Disconnected
    }
}

impl From<RefusalReason> for RelayError {
    fn from(reason: RefusalReason) -> Self {
        Self::Refused(reason)
    }
}

/// One end of a relay. Unless it was closed cleanly it is reset (`SO_LINGER` 0) when dropped, so that a partial transfer is not mistaken for a
/// complete one.
pub(crate) struct RelaySocket {
    pub(crate) stream: TcpStream,
    pub(crate) closed_cleanly: bool,
}

impl RelaySocket {
    pub(crate) fn new(stream: TcpStream) -> Self {
        // `TCP_NODELAY`: small messages are not delayed. A socket without it still works.
        let _ = stream.set_nodelay(true);
        Self { stream, closed_cleanly: false }
    }
}

impl Drop for RelaySocket {
    fn drop(&mut self) {
        if !self.closed_cleanly {
            let _ = self.stream.set_zero_linger();
        }
    }
}

/// When bytes last moved, in either direction.
pub(crate) struct IdleTimer {
    start: Instant,
    last: AtomicU64,
}

impl IdleTimer {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), last: AtomicU64::new(0) }
    }

    fn touch(&self) {
        self.last.store(self.elapsed(), Ordering::Relaxed);
    }

    fn elapsed(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns once nothing has moved for this long.
    pub(crate) async fn wait_idle(&self, limit: Duration) {
        loop {
            let quiet =
                Duration::from_millis(self.elapsed().saturating_sub(self.last.load(Ordering::Relaxed)));
            match limit.checked_sub(quiet) {
                Some(left) if !left.is_zero() => sleep(left).await,
                _ => return,
            }
        }
    }
}

/// Shared by both directions of a relay.
pub(crate) struct RelayMeter<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) activity: &'a IdleTimer,
}

impl RelayMeter<'_> {
    /// Forwards bytes that were read.
    pub(crate) async fn forward(
        &self,
        direction: TransferDirection,
        bytes: &[u8],
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> Result<(), RelayError> {
        self.activity.touch();
        self.ledger.count(direction, bytes.len())?;
        writer.write_all(bytes).await?;
        self.activity.touch();
        Ok(())
    }

    /// Copies until end of file, and then shuts down the writer.
    pub(crate) async fn copy(
        &self,
        direction: TransferDirection,
        reader: &mut (impl AsyncRead + Unpin),
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> Result<(), RelayError> {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let length = reader.read(&mut buffer).await?;
            match buffer.get(..length) {
                None | Some([]) => break,
                Some(bytes) => self.forward(direction, bytes, writer).await?,
            }
        }
        Ok(writer.shutdown().await?)
    }
}

/// Closes a side after a response: shuts down the write half, then reads and discards what is still in flight, for a limited time.
pub(crate) async fn drain_and_close(side: &mut RelaySocket, limit: Duration) {
    side.closed_cleanly = true;
    let drain = async {
        side.stream.shutdown().await?;
        let mut buffer = [0; 4096];
        let mut drained = 0;
        while drained < MAX_DRAINED_BYTES {
            match side.stream.read(&mut buffer).await? {
                0 => break,
                length => drained += length,
            }
        }
        Ok::<(), io::Error>(())
    };
    let _ = tokio::time::timeout(limit, drain).await;
}
