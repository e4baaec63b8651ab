//! Where a walk begins, and what of it may be seen.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

/// Asked about every entry before it is returned, opened or walked into.
///
/// The deny list and the scopes live behind this question. A directory that is not visible is not entered, so that
/// nothing beneath it is asked about.
pub trait VisibilityFilter: Sync {
    /// Whether the entry at this place, relative to the root of the mount, may be seen.
    fn visible(&self, relative: &Path, is_directory: bool) -> bool;

    /// Whether whatever has this name may be seen in any folder that may be seen. Told of most names where the name is all that matters, and sooner; `false`
    /// says that the place has to be asked about.
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

/// An open directory, and where it lies in its mount.
#[derive(Clone, Copy, Debug)]
pub struct WalkRoot<'a> {
    /// The directory. Its position is left alone, so the handle may be shared.
    pub directory: BorrowedFd<'a>,
    /// Where it lies, relative to the root of the mount; empty for the root itself. Only names count: a `.` or `..` in
    /// it is left out, for the directory has been opened already.
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

    /// The names on the way from the root of the mount.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'a OsStr> {
        self.base.components().filter_map(|component| match component {
            Component::Normal(name) => Some(name),
            _ => None,
        })
    }

    /// The same, as the beginning of every path in an answer.
    pub(crate) fn path_prefix(&self) -> Vec<u8> {
        self.names().map(OsStr::as_bytes).collect::<Vec<_>>().join(&b'/')
    }
}
