//! Moving bytes between two sockets, counted, with bounded buffers and an end for the silent.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::ledger::{Direction, Ledger};
use crate::reason::Reason;

/// Bytes that one direction of one connection holds at most.
const BUFFER: usize = 32 << 10;
/// Bytes that are read and thrown away after an answer, so that closing does not tear the answer up.
const MAX_DRAINED: usize = 256 << 10;

/// Why bytes stopped moving before both sides had finished.
#[derive(Debug)]
pub(crate) enum Broken {
    /// A side went away, or was silent for too long.
    Gone,
    /// The proxy says no.
    Refused(Reason),
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

impl From<Reason> for Broken {
    fn from(reason: Reason) -> Self {
        Self::Refused(reason)
    }
}

/// One end of a relay. Unless it ended well it is reset when dropped, so that nobody takes half a transfer
/// for a whole one.
pub(crate) struct Side {
    pub(crate) stream: TcpStream,
    pub(crate) ended_well: bool,
}

impl Side {
    pub(crate) fn new(stream: TcpStream) -> Self {
        // Without it small messages wait for each other; a socket that cannot do it still works.
        let _ = stream.set_nodelay(true);
        Self { stream, ended_well: false }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        if !self.ended_well {
            let _ = self.stream.set_zero_linger();
        }
    }
}

/// When bytes last moved, in either direction.
pub(crate) struct Activity {
    start: Instant,
    last: AtomicU64,
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), last: AtomicU64::new(0) }
    }

    fn touch(&self) {
        self.last.store(self.elapsed(), Ordering::Relaxed);
    }

    fn elapsed(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns once nothing has moved for so long.
    pub(crate) async fn silence(&self, limit: Duration) {
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

/// What both directions of a relay share.
pub(crate) struct Meter<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) activity: &'a Activity,
}

impl Meter<'_> {
    /// Passes on bytes that were read.
    pub(crate) async fn pass(
        &self,
        direction: Direction,
        bytes: &[u8],
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> Result<(), Broken> {
        self.activity.touch();
        self.ledger.count(direction, bytes.len())?;
        writer.write_all(bytes).await?;
        self.activity.touch();
        Ok(())
    }

    /// Passes on everything up to the end, and then the end.
    pub(crate) async fn copy(
        &self,
        direction: Direction,
        reader: &mut (impl AsyncRead + Unpin),
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> Result<(), Broken> {
        let mut buffer = vec![0; BUFFER];
        loop {
            let length = reader.read(&mut buffer).await?;
            match buffer.get(..length) {
                None | Some([]) => break,
                Some(bytes) => self.pass(direction, bytes, writer).await?,
            }
        }
        Ok(writer.shutdown().await?)
    }
}

/// Ends a side after an answer: says that nothing follows, then reads what is still under way, for a while.
pub(crate) async fn finish(side: &mut Side, limit: Duration) {
    side.ended_well = true;
    let drain = async {
        side.stream.shutdown().await?;
        let mut buffer = [0; 4096];
        let mut drained = 0;
        while drained < MAX_DRAINED {
            match side.stream.read(&mut buffer).await? {
                0 => break,
                length => drained += length,
            }
        }
        Ok::<(), io::Error>(())
    };
    let _ = tokio::time::timeout(limit, drain).await;
}
