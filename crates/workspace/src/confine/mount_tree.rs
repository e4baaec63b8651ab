//! A mount with all rules that apply to its content.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use toolgate_search::earliest_timestamp;

use super::codec::Codec;
use super::git_discovery::{GitConfigFile, personal_configurations};
use super::hard_links::HardLinks;
use super::protected_artifact::autorun_kind;
use super::rebase_todo::{SEQUENCER_FILE_NAMES, is_sequencer_file};
use super::repositories::{RepositoryPart, has_name};
use crate::autorun_files::{autorun_directories, may_trigger_execution};
use crate::deny_prefilter::cannot_match;
use crate::mount::{Mount, MountAccess};
use crate::name_fold::fold;
use crate::rules::PathGrant;
use crate::view::Workspace;

/// Directories of version control: one that is a symlink would lead to a directory that was not checked.
const VERSION_CONTROL: [&str; 3] = [".git", ".hg", ".jj"];

/// Identity and last change of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileIdentity {
    pub(super) device: u64,
    pub(super) inode: u64,
    changed: (i64, i64),
    /// Filesystem timestamps are coarse; a quick change may show in the size only.
    size: i64,
    pub(super) is_directory: bool,
}

impl FileIdentity {
    pub(super) fn of(stat: &Stat) -> Self {
        let (device, inode) = (stat.st_dev, stat.st_ino);
        // The content of a directory is compared by itself, so a directory is unchanged as long as it exists.
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            return Self { device, inode, changed: (0, 0), size: 0, is_directory: true };
        }
        let changed = (signed(stat.st_ctime), signed(stat.st_ctime_nsec));
        Self { device, inode, changed, size: signed(stat.st_size), is_directory: false }
    }

    pub(super) fn is_same_file(&self, other: &Self) -> bool {
        self.device == other.device && self.inode == other.inode
    }
}

impl Codec for FileIdentity {
    fn encode(&self, out: &mut Vec<u8>) {
        ((self.device, self.inode), (self.changed, self.size)).encode(out);
        u8::from(self.is_directory).encode(out);
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        let ((device, inode), (changed, size)) = Codec::decode(input)?;
        Some(Self { device, inode, changed, size, is_directory: u8::decode(input)? == 1 })
    }
}

/// The kernel's time types differ between architectures.
fn signed(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// A mount, and the mounts nested in it.
#[derive(Debug)]
pub(super) struct MountTree<'a> {
    pub(super) mount: &'a Mount,
    inner: Vec<(&'a Mount, &'a Path)>,
    /// Last names of places with a meaning of their own.
    names: Vec<String>,
    /// Whether there are globs, so that every place must be checked.
    has_globs: bool,
    has_scope: bool,
    /// What git reads in every repository.
    pub(super) personal: Vec<GitConfigFile>,
    protects_links: bool,
    /// When it was first scanned.
    pub(super) since: Duration,
}

impl<'a> MountTree<'a> {
    pub(super) fn new(workspace: &'a Workspace, mount: &'a Mount) -> Self {
        let inner: Vec<_> = workspace.nested_mounts(mount).collect();
        let rules = || std::iter::once(mount.rules()).chain(inner.iter().map(|(inner, _)| inner.rules()));
        let last = |folded: &str| folded.rsplit('/').next().unwrap_or(folded).to_owned();
        let own = rules().flat_map(|rules| rules.gate_places()).map(|own| last(own));
        let roots = inner.iter().map(|(_, place)| last(&fold(place)));
        let folders = VERSION_CONTROL
            .into_iter()
            .chain(autorun_directories())
            .chain(SEQUENCER_FILE_NAMES)
            .map(str::to_owned);
        let protected = rules().flat_map(|rules| rules.protected_places());
        let protected = protected.flat_map(|place| place.split('/')).map(str::to_owned);
        let mut names: Vec<String> = own.chain(protected).chain(roots).chain(folders).collect();
        names.sort_unstable();
        names.dedup();
        let (has_globs, has_scope) =
            (rules().any(|rules| rules.has_globs()), rules().any(|rules| rules.has_scope()));
        Self {
            mount,
            inner,
            names,
            has_globs,
            has_scope,
            personal: personal_configurations(mount),
            protects_links: workspace.hard_links == HardLinks::Protect,
            since: earliest_timestamp(),
        }
    }

    /// Whether every place must be checked.
    pub(super) fn has_globs(&self) -> bool {
        self.has_globs
    }

    /// Whether files with a hard link elsewhere are write-protected.
    pub(super) fn protects_links(&self) -> bool {
        self.protects_links
    }

    /// Whether the mount is limited to some of its files.
    pub(super) fn has_scope(&self) -> bool {
        self.has_scope
    }

    /// Whether any rule other than a glob could match an entry of this name. For most names of a tree this is the only check.
    pub(super) fn may_match(&self, name: &[u8]) -> bool {
        !cannot_match(name)
            || may_trigger_execution(name)
            || self.names.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
    }

    /// This mount, and the nested ones that contain the place, each with the rest of the path.
    fn mounts_at<'p>(&'p self, place: &'p Path) -> impl Iterator<Item = (&'a Mount, &'p Path)> {
        let inner =
            self.inner.iter().filter_map(move |(inner, root)| Some((*inner, place.strip_prefix(root).ok()?)));
        std::iter::once((self.mount, place)).chain(inner)
    }

    /// Whether the operator denies it, or it belongs to the gate.
    pub(super) fn is_denied_by_operator(&self, place: &Path) -> bool {
        self.mounts_at(place).any(|(mount, rest)| mount.rules().is_denied_by_operator(rest))
    }

    /// The gate's own files and directories, as folded places of this mount.
    pub(super) fn gate_owned_places(&self) -> impl Iterator<Item = PathBuf> {
        let inner = self.inner.iter().flat_map(|(inner, root)| {
            let root = PathBuf::from(fold(root).into_owned());
            inner.rules().gate_places().iter().map(move |own| root.join(own))
        });
        self.mount.rules().gate_places().iter().map(PathBuf::from).chain(inner)
    }

    /// Whether it belongs to the gate.
    pub(super) fn is_gate_owned(&self, place: &Path) -> bool {
        self.mounts_at(place).any(|(mount, rest)| mount.rules().is_gate_owned(rest))
    }

    /// Whether it is, or lies in, a place that is protected as a whole.
    pub(super) fn is_protected_place(&self, place: &Path) -> bool {
        self.mounts_at(place).any(|(mount, rest)| mount.rules().is_protected_place(rest))
    }

    /// Whether a symlink here would redirect a protected place.
    pub(super) fn is_above_protected_place(&self, place: &Path) -> bool {
        self.mounts_at(place).any(|(mount, rest)| mount.rules().is_above_protected_place(rest))
    }

    /// Whether anything at this place is judged after a command, whatever it is.
    pub(super) fn is_judged(&self, place: &Path, part: Option<RepositoryPart>) -> bool {
        part.is_some()
            || place.parent().is_some_and(|folder| has_name(folder, "hooks"))
            || has_name(place, ".git")
            || autorun_kind(&fold(place)).is_some()
            || is_sequencer_file(&fold(place))
            || self.is_gate_owned(place)
            || self.is_protected_place(place)
    }

    /// Whether the scope of the mount and the grant of the call include a file.
    pub(super) fn is_in_scope(&self, place: &Path, grant: Option<&dyn PathGrant>) -> bool {
        let inner = self.mounts_at(place).skip(1).all(|(mount, rest)| mount.rules().is_in_scope(rest, None));
        inner && self.mount.rules().is_in_scope(place, grant)
    }

    /// Whether the rules allow a file to be changed.
    pub(super) fn may_change(&self, place: &Path) -> bool {
        self.mounts_at(place).all(|(mount, rest)| mount.rules().may_change(rest))
    }

    /// Whether this is the root of a read-only mount.
    pub(super) fn is_read_only_mount(&self, place: &Path) -> bool {
        self.inner.iter().any(|(inner, root)| inner.access() == MountAccess::ReadOnly && *root == place)
    }
}

/// Whether a symlink of this folded name leads into a repository, or to autorun files.
pub(super) fn is_autorun_directory(folded: &str) -> bool {
    VERSION_CONTROL.contains(&folded) || autorun_directories().any(|name| name == folded)
}

/// The identity of the file with this name; symlinks are not followed.
pub(super) fn identity(folder: BorrowedFd<'_>, name: &CStr) -> Option<FileIdentity> {
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| FileIdentity::of(&stat))
}

/// The content of a small regular file, or its first bytes: `O_NOFOLLOW`, and `O_NONBLOCK` so that a FIFO does not block.
pub(super) fn read_small(folder: BorrowedFd<'_>, name: &CStr, most: usize) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(folder, name, flags, Mode::empty())?);
    read_prefix(&file, most)
}

/// The content of an open regular file up to one byte more than `most`, so that the caller can detect a larger file.
pub(super) fn read_prefix(file: &File, most: usize) -> io::Result<Vec<u8>> {
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
