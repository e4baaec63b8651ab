//! A mount: an open directory handle, an alias, an access mode and rules.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;

use crate::home_files::home_autorun_places;
use crate::location::real_location;
use crate::requested_path::MAX_PATH_BYTES;
use crate::rules::MountRules;

/// Whether a mount may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountAccess {
    /// Reading only.
    ReadOnly,
    /// Reading and writing.
    ReadWrite,
}

/// Identity of a mount's root directory, independent of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootIdentity {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
    /// `f_fsid`. Device numbers may change with a reboot; this one does not where the filesystem has an id of its own, and is 0 elsewhere.
    pub filesystem: u64,
}

impl RootIdentity {
    /// Whether both are the same directory.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let same_filesystem = self.filesystem != 0 && self.filesystem == other.filesystem;
        self.inode == other.inode && (self.device == other.device || same_filesystem)
    }

    fn of(directory: BorrowedFd<'_>) -> std::io::Result<Self> {
        let (stat, filesystem) = (rustix::fs::fstat(directory)?, rustix::fs::fstatvfs(directory)?);
        Ok(Self { device: stat.st_dev, inode: stat.st_ino, filesystem: filesystem.f_fsid })
    }
}

/// An open directory with a name and rules.
#[derive(Debug)]
pub struct Mount {
    alias: String,
    directory: Dir,
    root: PathBuf,
    identity: RootIdentity,
    declared: PathBuf,
    access: MountAccess,
    rules: MountRules,
    is_default: bool,
    nested: Vec<NestedMount>,
    personal: Arc<PersonalPaths>,
}

/// Where the user keeps files that programs execute or read as configuration in any working directory. All paths are absolute.
#[derive(Clone, Debug, Default)]
pub struct PersonalPaths {
    /// Home directories; `~` is the first.
    pub homes: Vec<PathBuf>,
    /// Configurations that git reads in every repository.
    pub git_configs: Vec<PathBuf>,
}

/// A mount that lies inside another one.
#[derive(Debug)]
pub(crate) struct NestedMount {
    /// Its index in the workspace.
    pub(crate) index: usize,
    /// Where it lies in the outer one.
    pub(crate) path: PathBuf,
}

/// Why a directory could not be mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// Not `@` and a lower-case name.
    #[error("`{0}` is not a mount alias; write `@` and a lower-case name, such as `@docs`")]
    InvalidAlias(String),
    /// The directory could not be opened.
    #[error("cannot open `{}` for `{alias}`: {source}", path.display())]
    Open {
        /// The alias.
        alias: String,
        /// The directory as declared.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// Two mounts with one alias.
    #[error("the alias `{0}` is mounted twice")]
    Duplicate(String),
}

impl Mount {
    /// Mounts an open directory. `declared` is the absolute path that the operator wrote.
    ///
    /// # Errors
    /// A bad alias, or a handle whose location the kernel does not report.
    pub fn new(
        alias: &str,
        directory: std::fs::File,
        declared: &Path,
        access: MountAccess,
        rules: MountRules,
    ) -> Result<Self, MountError> {
        if !is_alias(alias) {
            return Err(MountError::InvalidAlias(alias.to_owned()));
        }
        let failed =
            |source| MountError::Open { alias: alias.to_owned(), path: declared.to_path_buf(), source };
        let root = real_location(directory.as_fd()).map_err(failed)?;
        let identity = RootIdentity::of(directory.as_fd()).map_err(failed)?;
        Ok(Self {
            alias: alias.to_owned(),
            directory: Dir::from_std_file(directory),
            root,
            identity,
            declared: declared.to_path_buf(),
            access,
            rules,
            is_default: false,
            nested: Vec::new(),
            personal: Arc::default(),
        })
    }

    /// Makes these files and directories of the gate (absolute host paths) unreachable where they lie in this mount.
    #[must_use]
    pub fn hide_gate_files(mut self, host_paths: &[PathBuf]) -> Self {
        let inside = host_paths.iter().filter_map(|path| self.strip_root(path));
        // A mount whose root is one of the gate's directories, such as `@state`, is meant to be reached.
        let inside = inside.filter(|rest| !rest.as_os_str().is_empty()).map(Path::to_path_buf).collect();
        self.rules = std::mem::take(&mut self.rules).gate_files(inside);
        self
    }

    /// Write-protects the autorun files of these home directories where they lie in this mount.
    #[must_use]
    pub fn protect_personal(mut self, personal: Arc<PersonalPaths>) -> Self {
        let places = home_autorun_places(&self.root, &personal.homes);
        self.rules = std::mem::take(&mut self.rules).protect_places(places);
        self.personal = personal;
        self
    }

    /// Whether a home directory is this mount or lies in it, so that its autorun files are protected.
    #[must_use]
    pub fn holds_home(&self) -> bool {
        self.personal.homes.iter().any(|home| home.starts_with(&self.root))
    }

    /// Makes bare relative paths mean this mount.
    #[must_use]
    pub fn as_default(mut self) -> Self {
        self.is_default = true;
        self
    }

    /// The alias, with its `@`.
    #[must_use]
    pub fn alias(&self) -> &str {
        &self.alias
    }

    /// Whether bare relative paths mean this mount.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.is_default
    }

    /// Whether it may be changed.
    #[must_use]
    pub fn access(&self) -> MountAccess {
        self.access
    }

    /// The real path on the host. For the operator and the journal, never for a model.
    #[must_use]
    pub fn host_root(&self) -> &Path {
        &self.root
    }

    /// Identity of its root directory.
    #[must_use]
    pub fn identity(&self) -> RootIdentity {
        self.identity
    }

    /// The mounts of its workspace that lie inside it.
    pub(crate) fn nested(&self) -> &[NestedMount] {
        &self.nested
    }

    /// The mounts that lie inside this one, among all mounts of the workspace in their order.
    pub(crate) fn find_nested(&self, all: &[Self]) -> Vec<NestedMount> {
        let inside = all.iter().enumerate().filter_map(|(index, inner)| {
            let place = inner.root.strip_prefix(&self.root).ok()?;
            (!place.as_os_str().is_empty()).then(|| NestedMount { index, path: place.to_path_buf() })
        });
        inside.collect()
    }

    pub(crate) fn set_nested(&mut self, inside: Vec<NestedMount>) {
        self.nested = inside;
    }

    /// Its rules.
    #[must_use]
    pub fn rules(&self) -> &MountRules {
        &self.rules
    }

    pub(crate) fn personal(&self) -> &PersonalPaths {
        &self.personal
    }

    /// Whether the directory was removed since it was opened (`st_nlink` of its handle is 0). A renamed one still counts as present.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        rustix::fs::fstat(self.as_fd()).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// The open directory. Opening a file through it applies no rules.
    #[must_use]
    pub fn directory(&self) -> &Dir {
        &self.directory
    }

    /// The descriptor of the open directory.
    #[must_use]
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Whether a path below the mount can be opened and located: the kernel accepts at most `PATH_MAX` bytes, and `/proc/self/fd` reports no longer
    /// path.
    pub(crate) fn can_locate(&self, location: &Path) -> bool {
        self.root.as_os_str().len() + 1 + location.as_os_str().len() <= MAX_PATH_BYTES
    }

    /// The rest of an absolute host path below this mount, compared by component: `/w/a_evil` is not below `/w/a`.
    #[must_use]
    pub fn strip_root<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        path.strip_prefix(&self.root).or_else(|_| path.strip_prefix(&self.declared)).ok()
    }

    /// How answers show a location of this mount: relative in the default mount, with the alias elsewhere.
    #[must_use]
    pub fn show(&self, location: &Path) -> String {
        if !self.is_default {
            return self.show_with_alias(location);
        }
        let text = location.to_string_lossy().into_owned();
        match text.chars().next() {
            None => ".".to_owned(),
            // Looks like an alias or a home directory: `./` makes it a valid relative path again.
            Some('@' | '~') => format!("./{text}"),
            Some(_) => text,
        }
    }

    /// How answers show a location where every path carries its alias.
    #[must_use]
    pub fn show_with_alias(&self, location: &Path) -> String {
        if location.as_os_str() == OsStr::new("") {
            return self.alias.clone();
        }
        format!("{}/{}", self.alias, location.to_string_lossy())
    }
}

/// `@` and a lower-case name.
#[must_use]
pub fn is_alias(text: &str) -> bool {
    text.strip_prefix('@').is_some_and(|name| {
        name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.len() <= 64
            && name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte))
    })
}
