//! The pin files: read whole, written atomically, updated under a lock.
#![expect(clippy::disallowed_methods, reason = "the gate's own state, in a folder that no mount shows")]

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use toolgate_fs::FileLock;

use super::pin_file::PinFile;
use super::pin_key::PinKey;
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

    fn path(&self, key: &PinKey) -> PathBuf {
        self.directory.join(key.file_name())
    }

    /// The file of pins that belonged to the server's name alone, if this one's belong to more.
    fn legacy_path(&self, key: &PinKey) -> Option<PathBuf> {
        key.origin().map(|_| self.directory.join(key.legacy_file_name()))
    }

    pub(super) fn servers(&self) -> Result<Vec<ServerName>, ConnectError> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(ConnectError::io("*", &error)),
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut servers: Vec<ServerName> =
            names.filter_map(|name| name.strip_suffix(".json")?.split('.').next()?.parse().ok()).collect();
        servers.sort();
        servers.dedup();
        Ok(servers)
    }

    /// A missing file has no pins; one that cannot be read is an error. Pins of the server's name alone count until its own are written.
    pub(super) fn read(&self, key: &PinKey) -> Result<PinFile, ConnectError> {
        let own = self.read_file(key, &self.path(key))?;
        let legacy = || self.legacy_path(key).map(|path| self.read_file(key, &path));
        match own {
            Some(own) => Ok(own),
            None => Ok(legacy().transpose()?.flatten().unwrap_or_default()),
        }
    }

    fn read_file(&self, key: &PinKey, path: &Path) -> Result<Option<PinFile>, ConnectError> {
        let server = key.server().as_str();
        let mut file = match OpenOptions::new().read(true).custom_flags(nonblocking()).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ConnectError::io(server, &error)),
        };
        let bytes = content(&mut file).map_err(|error| ConnectError::io(server, &error))?;
        PinFile::parse(&bytes).map(Some).map_err(|reason| ConnectError::pins(server, reason))
    }

    /// Reads, changes and writes under the lock, and returns whether pins of the server's name alone were adopted: then they are no one else's any
    /// more. An unchanged file is not written.
    pub(super) fn update(
        &self,
        key: &PinKey,
        change: impl FnOnce(&mut PinFile) -> Result<(), ConnectError>,
    ) -> Result<bool, ConnectError> {
        let failed = |error: io::Error| ConnectError::io(key.server().as_str(), &error);
        let _changing = self.update_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let _lock = self.lock().map_err(failed)?;
        let own = self.path(key);
        let legacy = self.legacy_path(key).filter(|legacy| !exists(&own) && exists(legacy));
        let before = self.read(key)?;
        let mut after = before.clone();
        change(&mut after)?;
        if let Some(origin) = key.origin() {
            after.set_configuration(origin.configuration());
        }
        if after == before && legacy.is_none() {
            return Ok(false);
        }
        self.write(key, &after.to_text()).map_err(failed)?;
        match &legacy {
            Some(legacy) => fs::remove_file(legacy).map(|()| true).map_err(failed),
            None => Ok(false),
        }
    }

    pub(super) fn remove(&self, key: &PinKey) -> Result<(), ConnectError> {
        let legacy = self.legacy_path(key).filter(|_| !exists(&self.path(key)));
        for path in [Some(self.path(key)), legacy].into_iter().flatten() {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(ConnectError::io(key.server().as_str(), &error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn stamp(&self, key: &PinKey) -> Option<[u64; 4]> {
        let about = fs::symlink_metadata(self.path(key)).ok()?;
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
    fn write(&self, key: &PinKey, text: &str) -> io::Result<()> {
        let fresh = self.directory.join(format!("{}.new", key.server()));
        let mut options = OpenOptions::new();
        let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, self.path(key))?;
        File::open(&self.directory)?.sync_all()
    }
}

/// Whether there is anything of this name.
fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
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
