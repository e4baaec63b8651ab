//! The file of grants: a line with its seal, and a line of JSON.
//!
//! The seal is an HMAC under the user's state key. It covers the identity of the directory and of the file itself, so a file that was planted, modified,
//! or copied from another place or from an earlier time is not believed: a copy has another inode and another birth time.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use toolgate_types::StateKey;

use super::LastingGrant;

const PURPOSE: &str = "toolgate grants 1";
const VERSION: u32 = 1;

/// A larger file is not believed, and not written.
pub(super) const MAX_FILE_BYTES: u64 = 1 << 20;

/// What the file holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GrantList {
    version: u32,
    /// Greater in every later file.
    pub(super) generation: u64,
    pub(super) grants: Vec<LastingGrant>,
}

impl Default for GrantList {
    fn default() -> Self {
        Self { version: VERSION, generation: 0, grants: Vec::new() }
    }
}

/// Seals files of one directory.
#[derive(Debug)]
pub(super) struct GrantSealer {
    key: StateKey,
    directory: u64,
}

impl GrantSealer {
    pub(super) fn new(key: StateKey, directory: impl AsFd) -> io::Result<Self> {
        Ok(Self { key, directory: rustix::fs::fstat(directory)?.st_ino })
    }

    /// Writes a list into a new file and syncs it.
    pub(super) fn write(&self, file: &mut File, list: &GrantList) -> io::Result<()> {
        let body = serde_json::to_vec(list)?;
        let seal = self.key.seal(PURPOSE, &[&self.identity(file)?, &body]);
        let text = [format!("{seal}\n").as_bytes(), &body, b"\n"].concat();
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(io::Error::other("the list of grants is too long"));
        }
        file.write_all(&text)?;
        file.sync_all()
    }

    /// Reads a file; the reason if it is not believed.
    pub(super) fn read(&self, file: &mut File) -> Result<GrantList, String> {
        let wrong = |error: io::Error| error.to_string();
        let metadata = file.metadata().map_err(wrong)?;
        if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
            return Err("it is not a file of a sensible size".to_owned());
        }
        let mut bytes = Vec::new();
        file.rewind().and_then(|()| file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)).map_err(wrong)?;
        let damaged = || "it is damaged, or was not written here by this user's gate".to_owned();
        let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(damaged)?;
        let (seal, body) = (bytes.get(..end), bytes.get(end + 1..).and_then(|body| body.strip_suffix(b"\n")));
        let (Some(seal), Some(body)) = (seal, body) else { return Err(damaged()) };
        let identity = self.identity(file).map_err(wrong)?;
        if !self.key.verifies(PURPOSE, &[&identity, body], seal) {
            return Err(damaged());
        }
        let list: GrantList = serde_json::from_slice(body).map_err(|_| damaged())?;
        if list.version != VERSION {
            return Err(format!("its version {} is not known", list.version));
        }
        Ok(list)
    }

    /// The identity of the directory and the file. The birth time distinguishes a file from one that had the same inode before; 0 where the filesystem keeps
    /// none.
    fn identity(&self, file: &File) -> io::Result<Vec<u8>> {
        let metadata = file.metadata()?;
        let born = metadata.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        let numbers =
            [u128::from(self.directory), u128::from(metadata.ino()), born.unwrap_or_default().as_nanos()];
        Ok(numbers.map(u128::to_le_bytes).concat())
    }
}
