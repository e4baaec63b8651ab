//! Removes trees that commands made.
//!
//! Such a tree may be arbitrarily deep and wide. It is removed without recursion: each subdirectory is first moved up into a trash directory, so that
//! one descriptor suffices; and a bounded number of names at a time.

use std::ffi::OsStr;
use std::io;

use cap_std::fs::Dir;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use toolgate_types::CallId;

/// How many names one sweep removes.
const MAX_REMOVED: usize = 100_000;

/// Moves something to the trash directory under a fresh name. Moving a directory needs write permission on it, because its `..` changes.
///
/// # Errors
/// It is gone, or a system call fails.
pub fn move_to_trash(directory: &Dir, name: &OsStr, trash: &Dir) -> io::Result<()> {
    let fresh = CallId::fresh().to_string();
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        rustix::fs::chmodat(directory, name, Mode::RWXU, AtFlags::empty())?;
    }
    Ok(rustix::fs::renameat(directory, name, trash, fresh)?)
}

/// Removes everything in the trash, up to the limit; returns whether it is empty. Concurrent calls for one directory must be excluded.
///
/// # Errors
/// Something in it cannot be removed.
pub fn empty_trash(trash: &Dir) -> io::Result<bool> {
    let mut removed = 0;
    loop {
        let mut is_empty = true;
        for entry in trash.entries()? {
            let entry = entry?;
            is_empty = false;
            removed += 1;
            if removed > MAX_REMOVED {
                return Ok(false);
            }
            if entry.file_type()?.is_dir() {
                let directory = open_directory(trash, &entry.file_name())?;
                removed += flatten(&directory, trash, MAX_REMOVED - removed)?;
                // Fails if the directory still has content.
                let _ = trash.remove_dir(entry.file_name());
            } else {
                trash.remove_file(entry.file_name())?;
            }
        }
        if is_empty {
            return Ok(true);
        }
    }
}

/// Removes the files of a directory, and moves its subdirectories to the trash; returns how many entries there were.
fn flatten(directory: &Dir, trash: &Dir, most: usize) -> io::Result<usize> {
    let mut removed = 0;
    for entry in directory.entries()? {
        let entry = entry?;
        removed += 1;
        if removed > most {
            break;
        }
        match entry.file_type()?.is_dir() {
            true => move_to_trash(directory, &entry.file_name(), trash)?,
            false => directory.remove_file(entry.file_name())?,
        }
    }
    Ok(removed)
}

/// Opens a directory with `O_NOFOLLOW`.
pub(crate) fn open_directory(directory: &Dir, name: &OsStr) -> io::Result<Dir> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(Dir::from_std_file(rustix::fs::openat(directory, name, flags, Mode::empty())?.into()))
}
