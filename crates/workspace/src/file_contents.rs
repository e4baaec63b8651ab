//! Reads a whole file directly into the buffer that is returned, in one pass.

use std::fs::File;
use std::io::{ErrorKind, Read as _};

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use toolgate_types::{HashedText, Sha256};

use crate::error::WorkspaceError;
use crate::large_file::MIN_PARALLEL_HASH_BYTES;
use crate::open::OpenedFile;
use crate::read::{CHUNK_BYTES, digested};
use crate::view::WorkspaceView;

/// The content of a file when it was read.
pub(crate) struct FileContents {
    /// `None` if it is not UTF-8 without NUL.
    pub(crate) text: Option<HashedText>,
    pub(crate) bytes: u64,
    pub(crate) newlines: u64,
    pub(crate) sha256: Sha256,
}

impl WorkspaceView<'_> {
    /// Reads a file of an expected size; `None` if it has grown beyond that.
    pub(crate) fn read_contents(
        &self,
        opened: &OpenedFile,
        expected: usize,
        shown: &str,
    ) -> Result<Option<FileContents>, WorkspaceError> {
        match expected >= MIN_PARALLEL_HASH_BYTES {
            true => self.read_large(&opened.file, expected, shown),
            false => self.read_small(&opened.file, expected, shown),
        }
    }

    fn read_small(
        &self,
        file: &File,
        expected: usize,
        shown: &str,
    ) -> Result<Option<FileContents>, WorkspaceError> {
        // One byte more than expected: a short read then proves the end of the file.
        let mut bytes = Vec::with_capacity(expected.saturating_add(1));
        let mut ended = false;
        while !ended {
            self.stop.check()?;
            let room = bytes.capacity() - bytes.len();
            match rustix::io::read(file, spare_capacity(&mut bytes)) {
                Ok(count) => ended = count == 0 || (count < room && bytes.len() >= expected),
                Err(Errno::INTR) => {}
                Err(error) => return Err(WorkspaceError::io("reading", shown, error.into())),
            }
            if bytes.len() > expected {
                return Ok(None);
            }
        }
        let (length, newlines) = (bytes.len() as u64, count_newlines(&bytes));
        let (text, sha256) = digested(bytes);
        Ok(Some(FileContents { text: text.ok(), bytes: length, newlines, sha256 }))
    }

    /// All bytes of a file that is to be changed, of an expected size. It may have grown, or keep growing; one byte over the limit is enough to
    /// detect that.
    pub(crate) fn read_bytes(
        &self,
        file: &File,
        expected: u64,
        limit: u64,
        shown: &str,
    ) -> Result<Vec<u8>, WorkspaceError> {
        let room = |bytes: u64| usize::try_from(bytes.min(limit).saturating_add(1)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; room(expected)];
        let mut read = 0;
        loop {
            let rest = bytes.get_mut(read..).ok_or_else(WorkspaceError::out_of_bounds)?;
            let left = rest.len().saturating_sub(1);
            read += self.fill(file, rest, left, shown)?;
            if read < bytes.len() {
                bytes.truncate(read);
                return Ok(bytes);
            }
            let length = read as u64;
            if length > limit {
                return Err(WorkspaceError::TooLargeToChange {
                    path: shown.to_owned(),
                    bytes: length,
                    limit,
                });
            }
            bytes.resize(room(length.saturating_mul(2)), 0);
        }
    }

    /// Reads until the buffer is full or the file ends; returns the number of bytes. A short read after all expected bytes is the end of the file.
    fn fill(
        &self,
        mut file: &File,
        place: &mut [u8],
        expected: usize,
        shown: &str,
    ) -> Result<usize, WorkspaceError> {
        let mut rest = place;
        let mut read = 0;
        while !rest.is_empty() {
            self.stop.check()?;
            // The last read asks for one byte more: a short read then proves the end of the file.
            let next = if rest.len() > CHUNK_BYTES + 1 { CHUNK_BYTES } else { rest.len() };
            match file.read(rest.get_mut(..next).ok_or_else(WorkspaceError::out_of_bounds)?) {
                Ok(0) => break,
                Ok(count) => {
                    rest = rest.get_mut(count..).ok_or_else(WorkspaceError::out_of_bounds)?;
                    read += count;
                    if count < next && read >= expected {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(WorkspaceError::io("reading", shown, error)),
            }
        }
        Ok(read)
    }
}

pub(crate) fn count_newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}
