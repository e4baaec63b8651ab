//! The output buffer, and the memory budget permits of responses until they are written.

use std::collections::VecDeque;

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use tokio::sync::OwnedSemaphorePermit;

use crate::response_writer::ChunkedSink;
use crate::stdio::descriptor::Descriptor;

/// While a message is serialised, output is flushed whenever this much is buffered.
const FLUSH_BYTES: usize = 64 * 1024;

/// A buffer up to this size is kept for the next message; a larger one is freed.
const MAX_IDLE_BUFFER_BYTES: usize = 256 * 1024;

/// Pipe sizes to try with `F_SETPIPE_SZ`, so that a long response fits while the client is busy. Above
/// /proc/sys/fs/pipe-max-size (1 MiB by default) it needs `CAP_SYS_RESOURCE`.
const PIPE_BYTES: [usize; 2] = [4 * 1024 * 1024, 1024 * 1024];

/// The result of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlushState {
    /// The buffer is empty.
    Everything,
    /// The descriptor is full; the client must read first.
    Waiting,
    /// The client closed its end.
    Broken,
}

/// The buffer in front of the output descriptor.
#[derive(Debug)]
pub(super) struct OutputBuffer {
    pub(super) descriptor: Descriptor,
    bytes: Vec<u8>,
    written: usize,
    /// Bytes written before the current content of `bytes`.
    before: u64,
    /// Offsets in the output where responses end, with the permits held until that byte is written.
    held: VecDeque<(u64, OwnedSemaphorePermit)>,
    broken: bool,
}

impl OutputBuffer {
    pub(super) fn new(descriptor: Descriptor) -> Self {
        // Fails for anything but a pipe; a smaller pipe works too.
        let _ =
            PIPE_BYTES.iter().find(|size| rustix::pipe::fcntl_setpipe_size(descriptor.fd(), **size).is_ok());
        Self { descriptor, bytes: Vec::new(), written: 0, before: 0, held: VecDeque::new(), broken: false }
    }

    /// Whether nothing is left to write.
    pub(super) fn is_empty(&self) -> bool {
        self.broken || self.written == self.bytes.len()
    }

    /// Bytes that are not written yet.
    pub(super) fn waiting(&self) -> usize {
        if self.broken { 0 } else { self.bytes.len() - self.written }
    }

    /// Bytes written since the start.
    pub(super) fn bytes_written(&self) -> u64 {
        self.before + self.written as u64
    }

    /// Gives up on the client: nothing more is written.
    pub(super) fn abandon(&mut self) {
        self.broken = true;
        self.release();
    }

    /// Holds a permit until everything buffered so far is written.
    pub(super) fn hold(&mut self, room: OwnedSemaphorePermit) {
        self.held.push_back((self.before + self.bytes.len() as u64, room));
    }

    /// Writes as much as the descriptor takes.
    pub(super) fn flush(&mut self) -> FlushState {
        if self.broken {
            self.release();
            return FlushState::Broken;
        }
        let flushed = write_out(self.descriptor.fd(), &self.bytes, &mut self.written);
        self.broken = flushed == FlushState::Broken;
        self.release();
        flushed
    }

    /// Waits until the descriptor is writable, then writes.
    pub(super) async fn drain(&mut self) -> FlushState {
        let Ok(ready) = self.descriptor.writable().await else {
            self.broken = true;
            return FlushState::Broken;
        };
        let flushed = write_out(self.descriptor.fd(), &self.bytes, &mut self.written);
        if flushed == FlushState::Waiting {
            ready.end();
        }
        self.broken |= flushed == FlushState::Broken;
        self.release();
        flushed
    }

    /// Releases permits of written responses and memory that is no longer needed.
    fn release(&mut self) {
        let gone = self.bytes_written();
        while self.held.front().is_some_and(|(end, _)| *end <= gone || self.broken) {
            self.held.pop_front();
        }
        if self.broken || self.written == self.bytes.len() {
            self.bytes.clear();
            if self.bytes.capacity() > MAX_IDLE_BUFFER_BYTES {
                self.bytes = Vec::new();
            }
        } else if self.written >= MAX_IDLE_BUFFER_BYTES {
            self.bytes.drain(..self.written);
        } else {
            return;
        }
        (self.before, self.written) = (gone, 0);
    }
}

fn write_out(descriptor: BorrowedFd<'_>, bytes: &[u8], written: &mut usize) -> FlushState {
    loop {
        let Some(rest) = bytes.get(*written..) else { return FlushState::Broken };
        if rest.is_empty() {
            return FlushState::Everything;
        }
        match rustix::io::write(descriptor, rest) {
            Ok(count) => *written += count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return FlushState::Waiting,
            Err(_) => return FlushState::Broken,
        }
    }
}

/// Buffers a message while it is serialised, flushing the start of a long one early.
impl ChunkedSink for OutputBuffer {
    fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    fn maybe_flush(&mut self) {
        if self.bytes.len() - self.written >= FLUSH_BYTES {
            self.flush();
        }
    }
}
