//! Reads a large file: compares it with the cached text, or hashes it on a second thread while this one does everything else.

use std::fs::File;
use std::sync::Arc;
use std::thread;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use toolgate_types::hashed_text::{HashedContent, HashedTextWriter};

use crate::digest_cache::CachedText;
use crate::error::WorkspaceError;
use crate::file_contents::{FileContents, count_newlines};
use crate::read::CHUNK_BYTES;
use crate::view::WorkspaceView;

/// The size from which a second thread is worth its start.
pub(crate) const MIN_PARALLEL_HASH_BYTES: usize = 4 * CHUNK_BYTES;

/// The size of a chunk sent to the hashing thread: small, because the result waits for the hash, which starts with the first chunk.
const HASH_CHUNK_BYTES: usize = CHUNK_BYTES / 4;

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
            let (text, sha256) = (known.text.clone(), known.text.sha256());
            return Ok(Some(FileContents {
                text: Some(text),
                bytes: same as u64,
                newlines: known.newlines,
                sha256,
            }));
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
        thread::scope(|scope| {
            let mut writer = HashedTextWriter::new(scope, begun, self.expected);
            let mut newlines = count_newlines(begun.as_bytes());
            let mut chunk = next;
            let last = loop {
                newlines += count_newlines(&chunk);
                if memchr::memchr(0, &chunk).is_some() {
                    writer.discard_text();
                }
                let incomplete = writer.push(chunk);
                if self.read > self.expected {
                    return Ok(None);
                }
                if self.ended {
                    break incomplete;
                }
                chunk = Vec::with_capacity(HASH_CHUNK_BYTES);
                chunk.extend_from_slice(&incomplete);
                self.read(&mut chunk)?;
            };
            let mut slot = None;
            let content = writer.finish(last, |text| {
                slot = self.view.workspace.digest_cache.reserve(text.len(), compared);
                slot.is_some()
            });
            let content = content.map_err(|error| WorkspaceError::io("hashing", self.shown, error))?;
            if let (Some(slot), Some(text)) = (slot, content.copy) {
                slot.store(CachedText { text, newlines });
            }
            let HashedContent { text, bytes, sha256, .. } = content;
            Ok(Some(FileContents { text, bytes, newlines, sha256 }))
        })
    }
}
