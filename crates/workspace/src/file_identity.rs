//! The identity of the file at a place of a mount, and its first bytes; symlinks are not followed.

use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::mount::Mount;

/// Identity and last change of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
    /// `st_ctime`, in seconds and nanoseconds; zero for a directory.
    pub changed: (i64, i64),
    /// Filesystem timestamps are coarse; a quick change may show in the size only.
    pub size: i64,
    /// Whether it is a directory.
    pub is_directory: bool,
}

impl FileIdentity {
    /// From the result of `fstat`.
    #[must_use]
    pub fn of(stat: &Stat) -> Self {
        let (device, inode) = (stat.st_dev, stat.st_ino);
        // The content of a directory is compared by itself, so a directory is unchanged as long as it exists.
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            return Self { device, inode, changed: (0, 0), size: 0, is_directory: true };
        }
        let changed = (signed(stat.st_ctime), signed(stat.st_ctime_nsec));
        Self { device, inode, changed, size: signed(stat.st_size), is_directory: false }
    }

    /// Whether both have the same device and inode; the content may differ.
    #[must_use]
    pub fn is_same_file(&self, other: &Self) -> bool {
        self.device == other.device && self.inode == other.inode
    }
}

/// The kernel's time types differ between architectures.
fn signed(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// The identity of the file with this name; symlinks are not followed.
#[must_use]
pub fn identity(folder: BorrowedFd<'_>, name: &CStr) -> Option<FileIdentity> {
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| FileIdentity::of(&stat))
}

/// The content of a small regular file, or its first bytes: `O_NOFOLLOW`, and `O_NONBLOCK` so that a FIFO does not block.
///
/// # Errors
/// I/O errors, and a file that is not regular.
pub fn read_small(folder: BorrowedFd<'_>, name: &CStr, most: usize) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(folder, name, flags, Mode::empty())?);
    read_prefix(&file, most)
}

/// The content of an open regular file up to one byte more than `most`, so that the caller can detect a larger file.
///
/// # Errors
/// I/O errors, and a file that is not regular.
pub fn read_prefix(file: &File, most: usize) -> io::Result<Vec<u8>> {
    let stat = rustix::fs::fstat(file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // With room for one byte more than the size, the second `read(2)` finds the end of the file.
    let expected = usize::try_from(stat.st_size).unwrap_or(most).min(most);
    let mut content = Vec::with_capacity(expected + 1);
    file.take(most as u64 + 1).read_to_end(&mut content)?;
    Ok(content)
}

/// The identity of the file at a place; `None` when it does not exist, or only behind a symlink.
#[must_use]
pub fn identify_place(mount: &Mount, place: &Path) -> Option<FileIdentity> {
    let (folder, name) = open_parent(mount, place).ok()??;
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| FileIdentity::of(&stat))
}

/// Opens the directory of a place name by name, so that no symlink is followed; `None` when it no longer exists.
///
/// # Errors
/// Other I/O errors.
pub fn open_parent(mount: &Mount, place: &Path) -> io::Result<Option<(File, OsString)>> {
    let Some(name) = place.file_name() else { return Ok(None) };
    let mut folder = open_directory(mount.as_fd(), OsStr::new("."))?;
    for component in place.parent().unwrap_or(Path::new("")).components() {
        let Component::Normal(next) = component else { return Ok(None) };
        folder = match open_directory(folder.as_fd(), next) {
            Ok(folder) => folder,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
    }
    Ok(Some((File::from(folder), name.to_owned())))
}

fn open_directory(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}
