//! The pin files: read whole, written atomically, updated under a lock.
#![expect(clippy::disallowed_methods, reason = "the gate's own state, in a folder that no mount shows")]

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use toolgate_fs::FileLock;

use super::pin_file::PinFile;
use crate::error::ConnectError;
use crate::settings::ServerName;

/// Maximum size of a pin file.
const MAX_FILE_BYTES: u64 = 64 << 20;

pub(super) struct PinStore {
    directory: PathBuf,
    /// Serialises updates within this process, before the file lock is taken.
    update_lock: Mutex<()>,
}

impl PinStore {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory, update_lock: Mutex::default() }
    }

    fn path(&self, server: &ServerName) -> PathBuf {
        self.directory.join(format!("{server}.json"))
    }

    pub(super) fn servers(&self) -> Result<Vec<ServerName>, ConnectError> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(ConnectError::io("*", &error)),
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut servers: Vec<ServerName> =
            names.filter_map(|name| name.strip_suffix(".json")?.parse().ok()).collect();
        servers.sort();
        Ok(servers)
    }

    /// A missing file has no pins; one that cannot be read is an error.
    pub(super) fn read(&self, server: &ServerName) -> Result<PinFile, ConnectError> {
        let mut file = match OpenOptions::new().read(true).custom_flags(nonblocking()).open(self.path(server))
        {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(PinFile::default()),
            Err(error) => return Err(ConnectError::io(server.as_str(), &error)),
        };
        let bytes = content(&mut file).map_err(|error| ConnectError::io(server.as_str(), &error))?;
        PinFile::parse(&bytes).map_err(|reason| ConnectError::pins(server.as_str(), reason))
    }

    /// Reads, changes and writes under the lock. An unchanged file is not written.
    pub(super) fn update(
        &self,
        server: &ServerName,
        change: impl FnOnce(&mut PinFile) -> Result<(), ConnectError>,
    ) -> Result<(), ConnectError> {
        let _changing = self.update_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let _lock = self.lock().map_err(|error| ConnectError::io(server.as_str(), &error))?;
        let before = self.read(server)?;
        let mut after = before.clone();
        change(&mut after)?;
        if after == before {
            return Ok(());
        }
        self.write(server, &after.to_text()).map_err(|error| ConnectError::io(server.as_str(), &error))
    }

    pub(super) fn remove(&self, server: &ServerName) -> Result<(), ConnectError> {
        match fs::remove_file(self.path(server)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(ConnectError::io(server.as_str(), &error))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn stamp(&self, server: &ServerName) -> Option<[u64; 4]> {
        let about = fs::symlink_metadata(self.path(server)).ok()?;
        let nanoseconds = u64::try_from(about.mtime_nsec()).unwrap_or_default();
        Some([about.ino(), about.len(), u64::try_from(about.mtime()).unwrap_or_default(), nanoseconds])
    }

    /// The lock file's `flock`, released on drop.
    fn lock(&self) -> io::Result<FileLock<File>> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let mut options = OpenOptions::new();
        let lock =
            options.create(true).truncate(false).write(true).mode(0o600).open(self.directory.join("lock"))?;
        FileLock::lock(lock)
    }

    /// Atomic: written to a temporary file, fsynced, renamed, and the directory fsynced. A crash
    /// leaves the old file or the new one.
    fn write(&self, server: &ServerName, text: &str) -> io::Result<()> {
        let fresh = self.directory.join(format!("{server}.new"));
        let mut options = OpenOptions::new();
        let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, self.path(server))?;
        File::open(&self.directory)?.sync_all()
    }
}

/// `O_NONBLOCK`: opening a FIFO must not block. `O_NOFOLLOW`: no symlinks.
fn nonblocking() -> i32 {
    i32::try_from((rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW).bits()).unwrap_or_default()
}

fn content(file: &mut File) -> io::Result<Vec<u8>> {
    let about = file.metadata()?;
    if !about.is_file() || about.len() > MAX_FILE_BYTES {
        return Err(io::Error::other("it is not a file of a sensible size"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}
