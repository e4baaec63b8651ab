//! Whether another user of this machine could have written a file or directory that the gate is about to believe.
#![expect(
    clippy::disallowed_methods,
    reason = "owner and mode are read from host paths, before anything is opened through a handle"
)]

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

const GROUP_WRITE: u32 = 0o020;
const OTHER_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Why a path is not this user's alone.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotOwned {
    #[error("`{}` belongs to another user (uid {owner})", path.display())]
    OtherOwner { path: PathBuf, owner: u32 },
    #[error("`{}` can be written by other users (mode {mode:04o})", path.display())]
    WritableByOthers { path: PathBuf, mode: u32 },
    #[error("`{}` cannot be examined: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Refuses a file that another user could have written: the file itself, and the directory in which it could be replaced.
pub(crate) fn check_file(path: &Path) -> Result<(), NotOwned> {
    check(path, &metadata(path)?, Sticky::Refused)?;
    let parent = path.parent().unwrap_or(Path::new("/"));
    // In a sticky directory only the owner of an entry renames or removes it, so an entry of this user's stays what it is.
    check(parent, &metadata(parent)?, Sticky::Allowed)
}

/// Refuses a directory in which another user could plant an entry.
pub(crate) fn check_directory(path: &Path) -> Result<(), NotOwned> {
    check(path, &metadata(path)?, Sticky::Refused)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sticky {
    Allowed,
    Refused,
}

fn metadata(path: &Path) -> Result<Metadata, NotOwned> {
    std::fs::metadata(path).map_err(|source| NotOwned::Io { path: path.to_path_buf(), source })
}

fn check(path: &Path, found: &Metadata, sticky: Sticky) -> Result<(), NotOwned> {
    let (path, mode) = (path.to_path_buf(), found.mode() & 0o7777);
    let this_user = rustix::process::geteuid().as_raw();
    // Root can write everything anyway.
    if found.uid() != this_user && found.uid() != 0 {
        return Err(NotOwned::OtherOwner { path, owner: found.uid() });
    }
    // A group with the number of its owner is that user's private group (the `umask 002` convention of Debian and Fedora).
    let shared_group = mode & GROUP_WRITE != 0 && found.gid() != found.uid();
    let writable = shared_group || mode & OTHER_WRITE != 0;
    let is_safe = sticky == Sticky::Allowed && mode & STICKY != 0;
    if writable && !is_safe { Err(NotOwned::WritableByOthers { path, mode }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_path_that_another_user_can_write_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let (directory, file) = (scratch.path().join("d"), scratch.path().join("d/f"));
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(&file, "").unwrap();
        for (directory_mode, file_mode, is_fine) in [
            (0o700, 0o600, true),
            (0o755, 0o644, true),
            (0o1777, 0o644, true),
            (0o777, 0o644, false),
            (0o755, 0o646, false),
            (0o1777, 0o646, false),
        ] {
            set_mode(&directory, directory_mode);
            set_mode(&file, file_mode);
            assert_eq!(check_file(&file).is_ok(), is_fine, "{directory_mode:o} {file_mode:o}");
            let is_private = directory_mode & 0o022 == 0;
            assert_eq!(check_directory(&directory).is_ok(), is_private, "{directory_mode:o}");
        }
    }

    #[test]
    fn only_a_private_group_may_write() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("f");
        std::fs::write(&file, "").unwrap();
        set_mode(&file, 0o664);
        let found = std::fs::metadata(&file).unwrap();
        assert_eq!(check_file(&file).is_ok(), found.uid() == found.gid());
    }

    #[test]
    fn a_file_of_another_user_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("f");
        std::fs::write(&file, "").unwrap();
        // Only root may give files away.
        if std::os::unix::fs::chown(&file, Some(4711), None).is_ok() {
            assert!(matches!(check_file(&file), Err(NotOwned::OtherOwner { owner: 4711, .. })));
        }
    }
}
