//! Reads a large file: hashes it on a second thread while this one does everything else.

use std::fs::File;
use std::thread;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use toolgate_types::hashed_text::{HashedContent, HashedTextWriter};

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
        LargeFileReader { view: self, file, shown, expected, read: 0, ended: false }.hash()
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

    /// Hashing takes longer than all other work, so a second thread does it in parallel.
    fn hash(&mut self) -> Result<Option<FileContents>, WorkspaceError> {
        thread::scope(|scope| {
            let mut writer = HashedTextWriter::new(scope, self.expected);
            let mut newlines = 0;
            let mut incomplete = Vec::new();
            while !self.ended {
                let mut chunk = Vec::with_capacity(HASH_CHUNK_BYTES);
                chunk.append(&mut incomplete);
                self.read(&mut chunk)?;
                if self.read > self.expected {
                    return Ok(None);
                }
                newlines += count_newlines(&chunk);
                if memchr::memchr(0, &chunk).is_some() {
                    writer.discard_text();
                }
                incomplete = writer.push(chunk);
            }
            let content = writer.finish(incomplete);
            let HashedContent { text, bytes, sha256 } =
                content.map_err(|error| WorkspaceError::io("hashing", self.shown, error))?;
            Ok(Some(FileContents { text, bytes, newlines, sha256 }))
        })
    }
}
