//! Bytes on their way out, and the room that their answers take until they have left.

use std::collections::VecDeque;

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use tokio::sync::OwnedSemaphorePermit;

use crate::stdio::descriptor::Descriptor;
use crate::stdio::response_writer::ChunkedSink;

/// So much is collected before it is written while a message is still being put into words.
const FLUSH_BYTES: usize = 64 * 1024;

/// Kept for the next message; more than this is given back once it is not needed.
const MAX_IDLE_BUFFER_BYTES: usize = 256 * 1024;

/// Asked of a pipe: a long answer then fits while the client is still at work. Only root may ask for more than the second.
const PIPE_BYTES: [usize; 2] = [4 * 1024 * 1024, 1024 * 1024];

/// Whether everything has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlushState {
    /// Nothing is left.
    Everything,
    /// The client has to read first.
    Waiting,
    /// The client will never read again.
    Broken,
}

/// The way out.
#[derive(Debug)]
pub(super) struct OutputBuffer {
    pub(super) descriptor: Descriptor,
    bytes: Vec<u8>,
    written: usize,
    /// How many bytes had been written when `bytes` last began anew.
    before: u64,
    /// Where answers end, counted from the first byte ever, and the room they take until then.
    held: VecDeque<(u64, OwnedSemaphorePermit)>,
    broken: bool,
}

impl OutputBuffer {
    pub(super) fn new(descriptor: Descriptor) -> Self {
        // Only pipes have a size, and a smaller one is no harm.
        let _ =
            PIPE_BYTES.iter().find(|size| rustix::pipe::fcntl_setpipe_size(descriptor.fd(), **size).is_ok());
        Self { descriptor, bytes: Vec::new(), written: 0, before: 0, held: VecDeque::new(), broken: false }
    }

    /// Whether anything has to leave yet.
    pub(super) fn is_empty(&self) -> bool {
        self.broken || self.written == self.bytes.len()
    }

    /// How many bytes the client has not taken yet.
    pub(super) fn waiting(&self) -> usize {
        if self.broken { 0 } else { self.bytes.len() - self.written }
    }

    /// How many bytes have left since the beginning.
    pub(super) fn bytes_written(&self) -> u64 {
        self.before + self.written as u64
    }

    /// Gives the client up: nothing more leaves.
    pub(super) fn abandon(&mut self) {
        self.broken = true;
        self.release();
    }

    /// Gives room back once everything that was put in so far has left.
    pub(super) fn hold(&mut self, room: OwnedSemaphorePermit) {
        self.held.push_back((self.before + self.bytes.len() as u64, room));
    }

    /// Writes what the client takes.
    pub(super) fn flush(&mut self) -> FlushState {
        if self.broken {
            return FlushState::Broken;
        }
        let flushed = write_out(self.descriptor.fd(), &self.bytes, &mut self.written);
        self.broken = flushed == FlushState::Broken;
        self.release();
        flushed
    }

    /// The same, once the client takes something.
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

    /// Gives back what is no longer needed: memory, and the room of answers that have left.
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
        let rest = bytes.get(*written..).unwrap_or_default();
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

/// Collects a message as it is put into words, and lets the client have the beginning of a long one meanwhile.
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
