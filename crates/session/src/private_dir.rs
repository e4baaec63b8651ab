//! The directory of the database: private to this user, and refused if other users could have written to it.

use std::fs::{DirBuilder, File, TryLockError};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::geteuid;
use toolgate_fs::FileLock;
use toolgate_types::{OtherWriter, Ownership};

use crate::error::SessionError;

/// An open directory owned by this user.
#[derive(Debug)]
pub(crate) struct PrivateDir {
    handle: OwnedFd,
    /// Its resolved path.
    path: PathBuf,
}

/// Mode 0600.
const PRIVATE_FILE: Mode = Mode::RUSR.union(Mode::WUSR);

impl PrivateDir {
    /// Opens it, creating it and its parents (mode 0700) if missing.
    pub(crate) fn open_or_create(path: &Path) -> Result<Self, SessionError> {
        let failed =
            |action: &'static str| move |cause| SessionError::Io { action, path: path.to_owned(), cause };
        let (handle, made) = match open_dir(path) {
            Ok(handle) => (handle, false),
            Err(Errno::NOENT) => {
                let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
                made.map_err(|error| failed("make")(cause_of(&error)))?;
                (open_dir(path).map_err(failed("open"))?, true)
            }
            Err(Errno::LOOP | Errno::NOTDIR) => {
                return Err(untrusted(path, "it is a link, or not a folder"));
            }
            Err(cause) => return Err(failed("open")(cause)),
        };
        if made {
            // Independent of the umask.
            rustix::fs::fchmod(&handle, Mode::RWXU).map_err(failed("restrict"))?;
        }
        let stat = rustix::fs::fstat(&handle).map_err(failed("look at"))?;
        match other_writer(&stat) {
            None => {}
            Some(OtherWriter::Owner(_)) => return Err(untrusted(path, OTHER_OWNER)),
            Some(OtherWriter::Mode(_)) => return Err(untrusted(path, "others may write into it")),
        }
        let link = format!("/proc/self/fd/{}", handle.as_raw_fd());
        let real = rustix::fs::readlink(link, Vec::new()).map_err(failed("find"))?;
        let path = PathBuf::from(std::ffi::OsString::from_vec(real.into_bytes()));
        Ok(Self { handle, path })
    }

    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Ensures that a file exists, is owned by this user, and is not accessible to others.
    ///
    /// An existing file is checked with `fstatat` and not opened: closing any descriptor of it would release SQLite's POSIX locks in this process.
    pub(crate) fn ensure_private_file(&self, name: &str) -> Result<(), SessionError> {
        match self.open_file(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL) {
            Ok(file) => {
                rustix::fs::fchmod(&file, PRIVATE_FILE)
                    .map_err(|cause| self.failed("restrict", name, cause))?;
                rustix::fs::fsync(&self.handle).map_err(|cause| self.failed("keep", name, cause))
            }
            Err(Errno::EXIST) => self.check_private_file(name),
            Err(cause) => Err(self.failed("make", name, cause)),
        }
    }

    fn check_private_file(&self, name: &str) -> Result<(), SessionError> {
        let stat = self.stat(name).map_err(|cause| self.failed("look at", name, cause))?;
        let path = self.path_of(name);
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(untrusted(&path, "it is a link, or not a file"));
        }
        // A wrong mode is corrected below.
        if let Some(OtherWriter::Owner(_)) = other_writer(&stat) {
            return Err(untrusted(&path, OTHER_OWNER));
        }
        if stat.st_nlink > 1 {
            return Err(untrusted(&path, "it has a second name"));
        }
        if Mode::from_raw_mode(stat.st_mode) != PRIVATE_FILE {
            rustix::fs::chmodat(&self.handle, name, PRIVATE_FILE, AtFlags::empty())
                .map_err(|cause| self.failed("restrict", name, cause))?;
        }
        Ok(())
    }

    /// Locks a file of this directory, creating it if missing; `None` if it is locked already.
    pub(crate) fn lock(&self, name: &str) -> Result<Option<FileLock<File>>, SessionError> {
        let failed = |cause| self.failed("lock", name, cause);
        loop {
            let file = self.open_file(name, OFlags::RDWR | OFlags::CREATE).map_err(failed)?;
            let file = match FileLock::try_lock(File::from(file)) {
                Ok(file) => file,
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(failed(cause_of(&error))),
            };
            // The previous holder may have removed it between open and lock; then this lock protects nothing, so retry.
            if self.is_named(&file, name).map_err(failed)? {
                return Ok(Some(file));
            }
        }
    }

    /// Removes a file that is not locked. A process that tries to lock it at the same time finds it in use.
    pub(crate) fn remove_unlocked(&self, name: &str) {
        let Ok(file) = self.open_file(name, OFlags::RDWR | OFlags::NONBLOCK) else { return };
        let Ok(file) = FileLock::try_lock(File::from(file)) else { return };
        // It may have been removed between open and lock, and the name may belong to another file now.
        if self.is_named(&file, name).unwrap_or(false) {
            self.remove(name);
        }
    }

    /// The files with this prefix.
    pub(crate) fn names(&self, beginning: &str) -> Vec<String> {
        let Ok(entries) = Dir::read_from(&self.handle) else { return Vec::new() };
        let names = entries.flatten().filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
        names.filter(|name| name.starts_with(beginning)).collect()
    }

    /// The first bytes of a file.
    pub(crate) fn read_prefix(&self, name: &str) -> Option<String> {
        let file = self.open_file(name, OFlags::RDONLY | OFlags::NONBLOCK).ok()?;
        let mut bytes = [0; 32];
        let count = rustix::io::read(&file, &mut bytes).ok()?;
        std::str::from_utf8(bytes.get(..count)?).ok().map(str::to_owned)
    }

    /// Removes a file; a missing one is fine.
    pub(crate) fn remove(&self, name: &str) {
        // A file that stays is harmless.
        let _ = rustix::fs::unlinkat(&self.handle, name, AtFlags::empty());
    }

    fn open_file(&self, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.handle, name, flags, PRIVATE_FILE)
    }

    /// Whether this name still refers to this file.
    fn is_named(&self, file: &File, name: &str) -> Result<bool, Errno> {
        let opened = rustix::fs::fstat(file)?;
        match self.stat(name) {
            Ok(named) => Ok((named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)),
            Err(Errno::NOENT) => Ok(false),
            Err(cause) => Err(cause),
        }
    }

    /// Device and inode of the file with this name.
    pub(crate) fn identity(&self, name: &str) -> Option<(u64, u64)> {
        self.stat(name).ok().map(|stat| (stat.st_dev, stat.st_ino))
    }

    fn stat(&self, name: &str) -> Result<Stat, Errno> {
        rustix::fs::statat(self.handle.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn failed(&self, action: &'static str, name: &str, cause: Errno) -> SessionError {
        SessionError::Io { action, path: self.path_of(name), cause }
    }
}

fn cause_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

fn open_dir(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

const OTHER_OWNER: &str = "it belongs to another user";

fn other_writer(stat: &Stat) -> Option<OtherWriter> {
    let ownership = Ownership { owner: stat.st_uid, group: stat.st_gid, mode: stat.st_mode };
    ownership.other_writer(geteuid().as_raw())
}

fn untrusted(path: &Path, problem: &'static str) -> SessionError {
    SessionError::Untrusted { path: path.to_owned(), problem }
}
