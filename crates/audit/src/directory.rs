//! A directory handle, and the system calls made relative to it.
//!
//! Every file is opened by name relative to the handle and with `O_NOFOLLOW`, so that nothing planted in the directory can redirect a write.

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, RenameFlags, StatxFlags};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::{AuditError, Day};

/// An open file, shared by the writer and the sync thread.
pub(crate) type SharedFile = Arc<File>;

/// Identity and length of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileState {
    pub(crate) inode: u64,
    pub(crate) length: u64,
}

/// An open directory.
#[derive(Clone, Debug)]
pub(crate) struct DirHandle {
    handle: SharedFile,
    path: PathBuf,
}

impl DirHandle {
    /// Opens an existing directory.
    pub(crate) fn open(path: &Path) -> Result<Self, AuditError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(path, flags, Mode::empty()).map_err(|cause| AuditError::Io {
            action: "open",
            path: path.to_owned(),
            cause,
        })?;
        Ok(Self { handle: Arc::new(handle.into()), path: path.to_owned() })
    }

    /// Opens a directory, creating it and its parents (mode 0700) if missing.
    pub(crate) fn open_or_create(path: &Path) -> Result<Self, AuditError> {
        match Self::open(path) {
            Err(AuditError::Io { cause: Errno::NOENT, .. }) => {
                DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| {
                    AuditError::Io {
                        action: "create",
                        path: path.to_owned(),
                        cause: Errno::from_io_error(&error).unwrap_or(Errno::IO),
                    }
                })?;
                Self::open(path)
            }
            other => other,
        }
    }

    /// Opens or creates a subdirectory, and returns whether it was created.
    pub(crate) fn subdirectory(&self, name: &str) -> Result<(Self, bool), AuditError> {
        let made = match rustix::fs::mkdirat(&self.handle, name, Mode::RWXU) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(cause) => return Err(self.error("create", name, cause)),
        };
        let opened = self.existing_subdirectory(name)?;
        opened.map(|folder| (folder, made)).ok_or_else(|| self.error("open", name, Errno::NOENT))
    }

    /// Opens a subdirectory, if it exists.
    pub(crate) fn existing_subdirectory(&self, name: &str) -> Result<Option<Self>, AuditError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.handle, name, flags, Mode::empty()) {
            Ok(handle) => Ok(Some(Self { handle: Arc::new(handle.into()), path: self.path_of(name) })),
            Err(Errno::NOENT) => Ok(None),
            Err(cause) => Err(self.error("open", name, cause)),
        }
    }

    /// Opens a file for appending, creating it (mode 0600) if missing.
    pub(crate) fn append_to(&self, name: &str) -> Result<SharedFile, AuditError> {
        self.open_file(name, OFlags::RDWR | OFlags::APPEND | OFlags::CREATE).map(Arc::new)
    }

    /// Opens a file for reading and writing, creating it (mode 0600) if missing.
    pub(crate) fn open_or_create_file(&self, name: &str) -> Result<File, AuditError> {
        self.open_file(name, OFlags::RDWR | OFlags::CREATE)
    }

    /// Opens a file for reading and writing, if it exists.
    pub(crate) fn open_existing(&self, name: &str) -> Result<Option<File>, AuditError> {
        match self.open_file(name, OFlags::RDWR) {
            Ok(file) => Ok(Some(file)),
            Err(AuditError::Io { cause: Errno::NOENT, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates a file that must not exist (`O_EXCL`).
    pub(crate) fn create_new(&self, name: &str) -> Result<SharedFile, AuditError> {
        self.open_file(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL).map(Arc::new)
    }

    /// Opens a file for reading, if it exists.
    pub(crate) fn read(&self, name: &str) -> Result<Option<SharedFile>, AuditError> {
        Ok(self.read_owned(name)?.map(Arc::new))
    }

    /// Opens a file for one reader, if it exists. `O_NONBLOCK`, in case it is a FIFO without a writer.
    pub(crate) fn read_owned(&self, name: &str) -> Result<Option<File>, AuditError> {
        match self.open_file(name, OFlags::RDONLY | OFlags::NONBLOCK) {
            Ok(file) => Ok(Some(file)),
            Err(AuditError::Io { cause: Errno::NOENT, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn open_file(&self, name: &str, flags: OFlags) -> Result<File, AuditError> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.handle, name, flags, Mode::RUSR | Mode::WUSR)
            .map(File::from)
            .map_err(|cause| self.error("open", name, cause))
    }

    /// The current state of a file, by name.
    pub(crate) fn state(&self, name: impl Arg + Copy) -> Result<Option<FileState>, AuditError> {
        match stat_at(&self.handle, name) {
            Ok(state) => Ok(Some(state)),
            Err(Errno::NOENT) => Ok(None),
            Err(cause) => Err(self.error("look at", &name.to_string_lossy(), cause)),
        }
    }

    /// Removes a file.
    pub(crate) fn remove(&self, name: &str) -> Result<(), AuditError> {
        rustix::fs::unlinkat(&self.handle, name, AtFlags::empty())
            .map_err(|cause| self.error("remove", name, cause))
    }

    /// Renames a file within this directory.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), AuditError> {
        rustix::fs::renameat(&self.handle, from, &self.handle, to)
            .map_err(|cause| self.error("rename", from, cause))
    }

    /// Renames a file within this directory; fails if the target exists (`RENAME_NOREPLACE`).
    pub(crate) fn rename_if_absent(&self, from: &str, to: &str) -> Result<(), AuditError> {
        rustix::fs::renameat_with(&self.handle, from, &self.handle, to, RenameFlags::NOREPLACE)
            .map_err(|cause| self.error("rename", from, cause))
    }

    /// Hard-links a file to a new name; returns `false` if the name exists.
    pub(crate) fn link_if_absent(&self, from: &str, to: &str) -> Result<bool, AuditError> {
        match rustix::fs::linkat(&self.handle, from, &self.handle, to, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(cause) => Err(self.error("create", to, cause)),
        }
    }

    /// The names of all entries.
    pub(crate) fn names(&self) -> Result<Vec<String>, AuditError> {
        let failed = |cause| AuditError::Io { action: "list", path: self.path.clone(), cause };
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.handle).map_err(failed)? {
            if let Ok(name) = entry.map_err(failed)?.file_name().to_str() {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// The days that have a file, oldest first.
    pub(crate) fn days(&self) -> Result<Vec<Day>, AuditError> {
        let mut days: Vec<Day> = self.names()?.iter().filter_map(|name| Day::from_file_name(name)).collect();
        days.sort_unstable();
        Ok(days)
    }

    /// Syncs the directory's entries (`fsync`).
    pub(crate) fn sync(&self) -> Result<(), AuditError> {
        rustix::fs::fsync(&self.handle).map_err(|cause| AuditError::NotDurable { cause })
    }

    /// The directory's resolved path, independent of symlinks; the path it was opened with if `/proc` is unavailable.
    pub(crate) fn location(&self) -> PathBuf {
        let link = format!("/proc/self/fd/{}", self.handle.as_raw_fd());
        let found = rustix::fs::readlink(link, Vec::new());
        found.map_or_else(|_| self.path.clone(), |found| OsString::from_vec(found.into_bytes()).into())
    }

    /// Fails if its path no longer leads to this directory: a file created by that path would be elsewhere.
    pub(crate) fn check_in_place(&self) -> Result<(), AuditError> {
        let failed = |cause| AuditError::Io { action: "find", path: self.path.clone(), cause };
        let (own, found) =
            (rustix::fs::fstat(&self.handle).map_err(failed)?, rustix::fs::stat(&self.path).map_err(failed)?);
        let is_same = (own.st_dev, own.st_ino) == (found.st_dev, found.st_ino);
        if is_same { Ok(()) } else { Err(failed(Errno::NOENT)) }
    }

    pub(crate) fn handle(&self) -> &SharedFile {
        &self.handle
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// An I/O error about a file in this directory.
    pub(crate) fn error(&self, action: &'static str, name: &str, cause: Errno) -> AuditError {
        AuditError::Io { action, path: self.path_of(name), cause }
    }

    /// An error about the content of a file in this directory.
    pub(crate) fn damaged(&self, name: &str, problem: impl Into<String>) -> AuditError {
        AuditError::Damaged { path: self.path_of(name), problem: problem.into() }
    }
}

/// `statx` without times: asking for them makes newer kernels store fine-grained timestamps with the next write, and journal them.
fn stat_at(folder: &SharedFile, name: impl Arg + Copy) -> Result<FileState, Errno> {
    let wanted = StatxFlags::INO | StatxFlags::SIZE;
    match rustix::fs::statx(folder, name, AtFlags::SYMLINK_NOFOLLOW, wanted) {
        Ok(found) if StatxFlags::from_bits_retain(found.stx_mask).contains(wanted) => {
            Ok(FileState { inode: found.stx_ino, length: found.stx_size })
        }
        Err(Errno::NOENT) => Err(Errno::NOENT),
        // The kernel, or a sandbox around this process, does not support `statx`.
        _ => rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| to_file_state(&stat)),
    }
}

fn to_file_state(stat: &rustix::fs::Stat) -> FileState {
    FileState { inode: stat.st_ino, length: u64::try_from(stat.st_size).unwrap_or(0) }
}

/// The current state of an open file.
pub(crate) fn fstat_state(file: impl AsFd) -> Result<FileState, Errno> {
    rustix::fs::fstat(file).map(|stat| to_file_state(&stat))
}

/// Writes everything to a file opened with `O_APPEND`, in one system call unless the disk is full.
pub(crate) fn write_all(file: impl AsFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::write(&file, bytes))?;
        if written == 0 {
            return Err(Errno::IO);
        }
        bytes = bytes.get(written..).ok_or(Errno::IO)?;
    }
    Ok(())
}

/// Writes everything at this offset.
pub(crate) fn write_at(file: impl AsFd, mut bytes: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::pwrite(&file, bytes, offset))?;
        if written == 0 {
            return Err(Errno::IO);
        }
        bytes = bytes.get(written..).ok_or(Errno::IO)?;
        offset += written as u64;
    }
    Ok(())
}

/// Reads at this offset; shorter at end of file.
pub(crate) fn read_at(file: impl AsFd, length: usize, offset: u64) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; length];
    let filled = read_into(file, &mut bytes, offset)?;
    bytes.truncate(filled);
    Ok(bytes)
}

/// Fills the buffer from this offset and returns the number of bytes read before end of file.
pub(crate) fn read_into(file: impl AsFd, bytes: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let at = offset.saturating_add(filled as u64);
        match rustix::io::retry_on_intr(|| rustix::io::pread(&file, &mut *rest, at))? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}
