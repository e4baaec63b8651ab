//! Reads a large file: compares it with the cached text, or hashes it on a second thread while this one does everything else.

use std::fs::File;
use std::io::ErrorKind;
use std::sync::{Arc, mpsc};
use std::thread;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use toolgate_types::digest::Sha256Hasher;

use crate::digest_cache::CachedText;
use crate::error::WorkspaceError;
use crate::file_contents::{FileContents, count_newlines};
use crate::read::CHUNK_BYTES;
use crate::view::WorkspaceView;

/// The size from which a second thread is worth its start.
pub(crate) const MIN_PARALLEL_HASH_BYTES: usize = 4 * CHUNK_BYTES;

/// The size of a chunk sent to the hashing thread: small, because the result waits for the hash, which starts with the first chunk.
const HASH_CHUNK_BYTES: usize = CHUNK_BYTES / 4;

/// How many chunks are queued before reading blocks: 2 MiB, because waking a thread takes long on a busy machine.
const MAX_QUEUED_CHUNKS: usize = (2 << 20) / HASH_CHUNK_BYTES;

impl WorkspaceView<'_> {
    /// Reads a file that is expected to be large; `None` if it has grown beyond the expected size.
    pub(crate) fn read_large(
        &self,
        file: &File,
        expected: usize,
        shown: &str,
    ) -> Result<Option<FileContents>, WorkspaceError> {
        let mut reading = LargeFileReader { view: self, file, shown, expected, read: 0, ended: false };
        let Some(known) = self.workspace.digest_cache.get(expected) else {
            return reading.hash("", Vec::new(), None);
        };
        let (same, other) = reading.compare(&known)?;
        if reading.ended && same == known.text.len() && other.is_empty() {
            // The content equals the cached text to the last byte.
            let (text, bytes) = (Some(known.text.clone()), same as u64);
            return Ok(Some(FileContents { text, bytes, newlines: known.newlines, sha256: known.sha256 }));
        }
        let (begun, cut) = known
            .text
            .split_at_checked(known.text.floor_char_boundary(same))
            .ok_or_else(WorkspaceError::out_of_bounds)?;
        let cut = cut.as_bytes().get(..same - begun.len()).ok_or_else(WorkspaceError::out_of_bounds)?;
        reading.hash(begun, [cut, &other].concat(), Some(&known))
    }
}

/// A file that is being read.
struct LargeFileReader<'a> {
    view: &'a WorkspaceView<'a>,
    file: &'a File,
    shown: &'a str,
    expected: usize,
    read: usize,
    ended: bool,
}

impl LargeFileReader<'_> {
    /// One `read` into the buffer's spare capacity.
    fn read(&mut self, place: &mut Vec<u8>) -> Result<(), WorkspaceError> {
        loop {
            self.view.stop.check()?;
            let room = place.capacity() - place.len();
            match rustix::io::read(self.file, spare_capacity(place)) {
                Ok(count) => {
                    self.read += count;
                    // A short read after all expected bytes is the end of the file.
                    self.ended = count == 0 || (count < room && self.read >= self.expected);
                    return Ok(());
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(WorkspaceError::io("reading", self.shown, error.into())),
            }
        }
    }

    /// Reads while the content equals a known text; returns how many bytes were equal, and the bytes read in place of its continuation.
    fn compare(&mut self, known: &CachedText) -> Result<(usize, Vec<u8>), WorkspaceError> {
        let mut rest = known.text.as_bytes();
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        loop {
            chunk.clear();
            self.read(&mut chunk)?;
            let same = known.text.len() - rest.len();
            match rest.strip_prefix(chunk.as_slice()) {
                Some(after) => rest = after,
                None => return Ok((same, chunk)),
            }
            if self.ended {
                return Ok((same + chunk.len(), Vec::new()));
            }
        }
    }

    /// Reads the rest and hashes everything. Hashing takes longer than all other work, so a second thread does it in parallel. The cache entry
    /// `compared` may be replaced by the result.
    fn hash(
        &mut self,
        begun: &str,
        next: Vec<u8>,
        compared: Option<&Arc<CachedText>>,
    ) -> Result<Option<FileContents>, WorkspaceError> {
        let last_large = &self.view.workspace.digest_cache;
        thread::scope(|scope| {
            let (pieces, to_hash) = mpsc::sync_channel::<Vec<u8>>(MAX_QUEUED_CHUNKS);
            let hashing = thread::Builder::new().spawn_scoped(scope, move || {
                let mut hasher = Sha256Hasher::new();
                hasher.update(begun.as_bytes());
                to_hash.iter().for_each(|piece| hasher.update(&piece));
                hasher.finish()
            });
            let mut own = Sha256Hasher::new();
            if hashing.is_err() {
                own.update(begun.as_bytes());
            }
            let gathered = self.read_rest(begun, next, |piece| match &hashing {
                // The hashing thread receives until the channel closes, so `send` does not fail.
                Ok(_) => drop(pieces.send(piece)),
                // If no thread could be started, hash here.
                Err(_) => own.update(&piece),
            });
            drop(pieces);
            let Some(UnhashedContents { text, bytes, newlines }) = gathered? else { return Ok(None) };
            // Copied for the cache while the hash is still being computed.
            let copy = text.as_ref().and_then(|text| {
                let room = last_large.reserve(text.len(), compared)?;
                Some((room, text.clone()))
            });
            let ended_early = |_| WorkspaceError::io("hashing", self.shown, ErrorKind::Other.into());
            let sha256 = match hashing {
                Ok(hashing) => hashing.join().map_err(ended_early)?,
                Err(_) => own.finish(),
            };
            if let Some((room, text)) = copy {
                room.store(CachedText { text, newlines, sha256 });
            }
            Ok(Some(FileContents { text, bytes, newlines, sha256 }))
        })
    }
}

/// Everything about a file but its digest.
struct UnhashedContents {
    text: Option<String>,
    bytes: u64,
    newlines: u64,
}

impl LargeFileReader<'_> {
    /// Reads to the end of the file and checks it. The chunks passed to `give`, concatenated, are the file.
    fn read_rest(
        &mut self,
        begun: &str,
        next: Vec<u8>,
        mut give: impl FnMut(Vec<u8>),
    ) -> Result<Option<UnhashedContents>, WorkspaceError> {
        let mut text = String::with_capacity(self.expected);
        text.push_str(begun);
        let newlines = count_newlines(begun.as_bytes());
        let mut gathered = UnhashedContents { text: Some(text), bytes: begun.len() as u64, newlines };
        let mut piece = next;
        loop {
            let cut = gathered.push_chunk(&mut piece);
            give(piece);
            if self.read > self.expected {
                return Ok(None);
            }
            if self.ended {
                if !cut.is_empty() {
                    gathered.text = None;
                    gathered.bytes += cut.len() as u64;
                    give(cut);
                }
                return Ok(Some(gathered));
            }
            piece = Vec::with_capacity(HASH_CHUNK_BYTES);
            piece.extend_from_slice(&cut);
            self.read(&mut piece)?;
        }
    }
}

impl UnhashedContents {
    /// Appends a chunk; returns the incomplete character at its end, which belongs to the next chunk.
    fn push_chunk(&mut self, piece: &mut Vec<u8>) -> Vec<u8> {
        let cut = match self.text {
            Some(_) => piece.split_off(complete_utf8_len(piece)),
            None => Vec::new(),
        };
        self.bytes += piece.len() as u64;
        self.newlines += count_newlines(piece);
        self.text = self.text.take().filter(|_| memchr::memchr(0, piece).is_none()).and_then(|mut text| {
            text.push_str(std::str::from_utf8(piece).ok()?);
            Some(text)
        });
        cut
    }
}

/// The length without an incomplete character at the end. Invalid UTF-8 may be cut anywhere.
fn complete_utf8_len(bytes: &[u8]) -> usize {
    let last_begins = bytes.iter().rev().take(4).position(|byte| byte & 0b1100_0000 != 0b1000_0000);
    let Some(begin) = last_begins.map(|back| bytes.len() - back - 1) else { return bytes.len() };
    match bytes.get(begin..).map(std::str::from_utf8) {
        Some(Err(error)) if error.error_len().is_none() => begin,
        _ => bytes.len(),
    }
}
