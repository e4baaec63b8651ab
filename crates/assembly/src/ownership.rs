//! Whether another user of this machine could have written a file or directory that the gate is about to trust.
#![expect(
    clippy::disallowed_methods,
    reason = "owner and mode are read from host paths, before anything is opened through a handle"
)]

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use toolgate_types::{OtherWriter, Ownership};

use crate::symlink_walk::ResolvedPath;

const STICKY: u32 = 0o1000;
/// `/proc/sys/kernel/overflowuid`.
const OVERFLOW_UID: u32 = 65534;

/// Why a path is not this user's alone.
#[derive(Debug, thiserror::Error)]
pub enum OwnershipError {
    /// Another user owns it.
    #[error("`{}` belongs to another user (uid {owner})", path.display())]
    OtherOwner {
        /// The file or directory.
        path: PathBuf,
        /// `st_uid`.
        owner: u32,
    },
    /// Its mode lets other users write.
    #[error("`{}` can be written by other users (mode {mode:04o})", path.display())]
    WritableByOthers {
        /// The file or directory.
        path: PathBuf,
        /// `st_mode`.
        mode: u32,
    },
    /// `stat` failed.
    #[error("`{}` cannot be examined: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Refuses a file that another user could have written, or replaced through its directory.
pub fn check_file(path: &Path) -> Result<(), OwnershipError> {
    check(path, &metadata(path)?, Sticky::Refused)?;
    let parent = path.parent().unwrap_or(Path::new("/"));
    // In a sticky directory only the owner of an entry can rename or remove it, so this user's entry cannot be replaced.
    check(parent, &metadata(parent)?, Sticky::Allowed)
}

/// Refuses a directory in which another user could plant an entry.
pub fn check_directory(path: &Path) -> Result<(), OwnershipError> {
    check(path, &metadata(path)?, Sticky::Refused)
}

/// Refuses a directory of this user's own in which another user could plant an entry, or that another user could replace: through its mode, the mode
/// of a directory above it, or a symlink on the path. A directory that does not exist yet is judged by where it would be created.
pub fn check_own_directory(path: &Path) -> Result<(), OwnershipError> {
    let way = ResolvedPath::resolve(path)
        .map_err(|source| OwnershipError::Io { path: path.to_path_buf(), source })?;
    for link in &way.links {
        let found = std::fs::symlink_metadata(link)
            .map_err(|source| OwnershipError::Io { path: link.clone(), source })?;
        // The mode of a symlink is ignored by the kernel: whether it can be replaced depends on its directory.
        check_owner(link, &found)?;
        check_above(link)?;
    }
    match std::fs::symlink_metadata(&way.target) {
        Ok(found) => check(&way.target, &found, Sticky::Refused)?,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
        Err(source) => return Err(OwnershipError::Io { path: way.target, source }),
    }
    check_above(&way.target)
}

/// Refuses a path below a directory in which another user could rename an entry on the path.
fn check_above(path: &Path) -> Result<(), OwnershipError> {
    for directory in path.ancestors().skip(1) {
        let found = match std::fs::symlink_metadata(directory) {
            Ok(found) => found,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                continue;
            }
            Err(source) => return Err(OwnershipError::Io { path: directory.to_path_buf(), source }),
        };
        // In a user namespace every unmapped user has this uid, the host's root included.
        if found.uid() != OVERFLOW_UID {
            check(directory, &found, Sticky::Allowed)?;
        }
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sticky {
    Allowed,
    Refused,
}

fn metadata(path: &Path) -> Result<Metadata, OwnershipError> {
    std::fs::metadata(path).map_err(|source| OwnershipError::Io { path: path.to_path_buf(), source })
}

fn check_owner(path: &Path, found: &Metadata) -> Result<(), OwnershipError> {
    match other_writer(found) {
        Some(OtherWriter::Owner(owner)) => {
            Err(OwnershipError::OtherOwner { path: path.to_path_buf(), owner })
        }
        Some(OtherWriter::Mode(_)) | None => Ok(()),
    }
}

fn check(path: &Path, found: &Metadata, sticky: Sticky) -> Result<(), OwnershipError> {
    check_owner(path, found)?;
    match other_writer(found) {
        Some(OtherWriter::Mode(mode)) if sticky == Sticky::Refused || mode & STICKY == 0 => {
            Err(OwnershipError::WritableByOthers { path: path.to_path_buf(), mode })
        }
        _ => Ok(()),
    }
}

fn other_writer(found: &Metadata) -> Option<OtherWriter> {
    let ownership = Ownership { owner: found.uid(), group: found.gid(), mode: found.mode() };
    ownership.other_writer(rustix::process::geteuid().as_raw())
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
    fn an_own_directory_that_others_can_replace_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        std::fs::create_dir_all(at("above/own")).unwrap();
        std::os::unix::fs::symlink("above", at("link")).unwrap();
        for (above, own, is_fine) in [
            (0o755, 0o700, true),
            (0o1777, 0o755, true),
            (0o777, 0o700, false),
            (0o755, 0o777, false),
            (0o755, 0o1777, false),
        ] {
            set_mode(&at("above"), above);
            set_mode(&at("above/own"), own);
            for name in ["above/own", "link/own"] {
                assert_eq!(check_own_directory(&at(name)).is_ok(), is_fine, "{name} {above:o} {own:o}");
            }
            let is_safe_to_make = above & 0o002 == 0 || above & 0o1000 != 0;
            assert_eq!(check_own_directory(&at("above/missing/below")).is_ok(), is_safe_to_make, "{above:o}");
        }
        set_mode(&at("above"), 0o755);
        set_mode(&at("above/own"), 0o700);
        // Only root may `chown`.
        if std::os::unix::fs::lchown(at("link"), Some(4711), None).is_ok() {
            assert!(matches!(check_own_directory(&at("link/own")), Err(OwnershipError::OtherOwner { .. })));
            std::os::unix::fs::chown(at("above"), Some(4711), None).unwrap();
            assert!(matches!(check_own_directory(&at("above/own")), Err(OwnershipError::OtherOwner { .. })));
        }
    }

    #[test]
    fn a_file_of_another_user_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("f");
        std::fs::write(&file, "").unwrap();
        // Only root may `chown`.
        if std::os::unix::fs::chown(&file, Some(4711), None).is_ok() {
            assert!(matches!(check_file(&file), Err(OwnershipError::OtherOwner { owner: 4711, .. })));
        }
    }
}
