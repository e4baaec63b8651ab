//! Reading a file that is wanted whole and may be kept whole: straight to where it stays, and looked at once.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::sync::mpsc;
use std::thread;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use toolgate_types::digest::Sha256Hasher;

use crate::error::WorkspaceError;
use crate::open::Opened;
use crate::read::CHUNK;
use crate::view::View;

/// From here on a second thread pays.
const LARGE: usize = 4 * CHUNK;

/// What a file held when it was read, as far as it is known how much that should be.
pub(crate) struct Whole {
    pub(crate) bytes: Vec<u8>,
    /// Has seen all of it.
    pub(crate) hasher: Sha256Hasher,
    pub(crate) newlines: u64,
    /// Whether the file ended there. It may have grown meanwhile.
    pub(crate) ended: bool,
}

impl View<'_> {
    /// Takes in as much as a file is expected to have, and a little more, so that its end is seen when it comes.
    pub(crate) fn read_whole(
        &self,
        opened: &Opened,
        expected: usize,
        shown: &str,
    ) -> Result<Whole, WorkspaceError> {
        match expected >= LARGE {
            true => self.read_large(&opened.file, expected, shown),
            false => self.read_small(&opened.file, expected, shown),
        }
    }

    fn read_small(&self, file: &File, expected: usize, shown: &str) -> Result<Whole, WorkspaceError> {
        let mut bytes = Vec::with_capacity(expected.saturating_add(1));
        let mut ended = false;
        while !ended && bytes.len() <= expected {
            self.stop.check()?;
            let room = bytes.capacity() - bytes.len();
            match rustix::io::read(file, spare_capacity(&mut bytes)) {
                Ok(count) => ended = count == 0 || (count < room && bytes.len() >= expected),
                Err(Errno::INTR) => {}
                Err(error) => return Err(WorkspaceError::io("reading", shown, error.into())),
            }
        }
        let mut hasher = Sha256Hasher::new();
        hasher.update(&bytes);
        let newlines = count_newlines(&bytes);
        Ok(Whole { bytes, hasher, newlines, ended })
    }

    /// Hashing takes longer than everything else, so a second thread does it meanwhile.
    fn read_large(&self, file: &File, expected: usize, shown: &str) -> Result<Whole, WorkspaceError> {
        let mut bytes = vec![0; expected.saturating_add(1)];
        let (chunks, to_hash) = mpsc::channel::<&[u8]>();
        let (read, hasher, newlines) = thread::scope(|scope| {
            let mut own = Sha256Hasher::new();
            let hashing = thread::Builder::new().spawn_scoped(scope, move || {
                let mut hasher = Sha256Hasher::new();
                to_hash.iter().for_each(|chunk| hasher.update(chunk));
                hasher
            });
            let mut newlines = 0;
            let read = self.fill(file, &mut bytes, expected, shown, |chunk| {
                match &hashing {
                    // Whoever hashes listens to the end.
                    Ok(_) => drop(chunks.send(chunk)),
                    // Where no thread can be had, this one does it.
                    Err(_) => own.update(chunk),
                }
                newlines += count_newlines(chunk);
            });
            drop(chunks);
            let ended_early = |_| WorkspaceError::io("hashing", shown, ErrorKind::Other.into());
            let hasher = match hashing {
                Ok(hashing) => hashing.join().map_err(ended_early)?,
                Err(_) => own,
            };
            Ok::<_, WorkspaceError>((read?, hasher, newlines))
        })?;
        let ended = read < bytes.len();
        bytes.truncate(read);
        Ok(Whole { bytes, hasher, newlines, ended })
    }

    /// All bytes of a file that is to be changed and is expected to have so many. It may have grown, or go on growing; one byte more than may be is enough
    /// to know that.
    pub(crate) fn whole(
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
            let rest = bytes.get_mut(read..).unwrap_or_default();
            let left = rest.len().saturating_sub(1);
            read += self.fill(file, rest, left, shown, |_| {})?;
            if read < bytes.len() {
                bytes.truncate(read);
                return Ok(bytes);
            }
            let length = read as u64;
            if length > limit {
                return Err(WorkspaceError::WriteLimit { path: shown.to_owned(), bytes: length, limit });
            }
            bytes.resize(room(length.saturating_mul(2)), 0);
        }
    }

    /// Reads until a place is full or the file ends; tells how far it came. A file that gave all that was expected of it, and then less than it was asked
    /// for, has come to its end.
    fn fill<'k>(
        &self,
        mut file: &File,
        place: &'k mut [u8],
        expected: usize,
        shown: &str,
        mut seen: impl FnMut(&'k [u8]),
    ) -> Result<usize, WorkspaceError> {
        let mut rest = place;
        let mut read = 0;
        while !rest.is_empty() {
            self.stop.check()?;
            // The last piece asks for the one byte more: that it does not come is the end.
            let next = if rest.len() > CHUNK + 1 { CHUNK } else { rest.len() };
            match file.read(rest.get_mut(..next).unwrap_or_default()) {
                Ok(0) => break,
                Ok(count) => {
                    let (chunk, after) = rest.split_at_mut_checked(count).unwrap_or_default();
                    seen(chunk);
                    rest = after;
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
