//! Where a walk begins, and which entries are visible.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

/// Called for every entry before it is returned, opened or entered.
///
/// The deny list and the scopes are applied here. A directory that is not visible is not entered, so nothing beneath it is checked.
pub trait VisibilityFilter: Sync {
    /// Whether the entry at this place, relative to the root of the mount, is visible.
    fn visible(&self, relative: &Path, is_directory: bool) -> bool;

    /// Whether every entry of this name is visible in any visible directory. A fast path for filters that decide by the name alone; `false` means
    /// that [`Self::visible`] must decide.
    fn visible_anywhere(&self, name: &[u8]) -> bool {
        let _ = name;
        false
    }
}

impl<F: Fn(&Path, bool) -> bool + Sync> VisibilityFilter for F {
    fn visible(&self, relative: &Path, is_directory: bool) -> bool {
        self(relative, is_directory)
    }
}

/// An open directory, and its place in its mount.
#[derive(Clone, Copy, Debug)]
pub struct WalkRoot<'a> {
    /// The directory. Its position does not move, so the handle may be shared.
    pub directory: BorrowedFd<'a>,
    /// Its path, relative to the root of the mount; empty for the root itself. `.` and `..` in it are skipped, because the directory is already open.
    pub base: &'a Path,
    /// The root of the mount, for the ignore files between it and `base`; without it they are not read.
    pub mount: Option<BorrowedFd<'a>>,
}

impl<'a> WalkRoot<'a> {
    /// The root of a mount.
    #[must_use]
    pub fn root(directory: &'a impl AsFd) -> Self {
        Self { directory: directory.as_fd(), base: Path::new(""), mount: None }
    }

    /// A directory further down in a mount.
    #[must_use]
    pub fn beneath(mount: &'a impl AsFd, directory: &'a impl AsFd, base: &'a Path) -> Self {
        Self { directory: directory.as_fd(), base, mount: Some(mount.as_fd()) }
    }

    /// The names on the path from the root of the mount.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'a OsStr> {
        self.base.components().filter_map(|component| match component {
            Component::Normal(name) => Some(name),
            _ => None,
        })
    }

    /// The same, as the prefix of every path in a result.
    pub(crate) fn path_prefix(&self) -> Vec<u8> {
        self.names().map(OsStr::as_bytes).collect::<Vec<_>>().join(&b'/')
    }
}
