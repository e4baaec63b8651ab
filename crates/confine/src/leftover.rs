//! Files left by a command that endanger neither git nor the gate, but possibly the user: they are reported, and stay.
//!
//! A symlink that leads out of the mount is followed by `cp -rL`, by archivers and by editors, though by no tool of the gate. Programs that open a
//! FIFO block until its other end is opened. Both have legitimate uses: `venv/bin/python` leads to `/usr/bin`, and tests make FIFOs.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};
use std::time::Duration;

use rustix::fs::{AtFlags, FileType};
use toolgate_search::{EntryKind, ScannedDir, ScannedEntry};
use toolgate_workspace::Mount;

use crate::mount_tree::MountTree;

/// The limit for one thread of a walk.
pub(super) const MAX_LEFTOVERS: usize = 1000;

/// Something that a command left and that stays.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Leftover {
    /// Where it is, as answers show it.
    pub path: String,
    /// What it is.
    pub kind: LeftoverKind,
}

/// The kind of leftover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftoverKind {
    /// A symlink to a place outside of the mount.
    OutwardLink,
    /// A FIFO.
    Fifo,
    /// A socket.
    Socket,
}

impl LeftoverKind {
    /// The kind as answers write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OutwardLink => "outward_symlink",
            Self::Fifo => "fifo",
            Self::Socket => "socket",
        }
    }
}

/// A reported leftover, by its path and its inode.
pub(super) type ReportedLeftover = (String, u64);

/// Whether an entry is to be reported and got its name since the mount was first scanned; with its inode.
pub(super) fn classify_leftover(
    ground: &MountTree<'_>,
    folder: &ScannedDir<'_>,
    entry: ScannedEntry<'_>,
) -> Option<(Leftover, u64)> {
    if !matches!(entry.kind, EntryKind::Symlink | EntryKind::Other) {
        return None;
    }
    let (mount, since) = (ground.mount, ground.since);
    let stat = rustix::fs::statat(folder.handle(), entry.name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let seconds = u64::try_from(stat.st_ctime).unwrap_or(0);
    let changed = Duration::new(seconds, u32::try_from(stat.st_ctime_nsec).unwrap_or(0));
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Fifo => LeftoverKind::Fifo,
        FileType::Socket => LeftoverKind::Socket,
        FileType::Symlink if changed >= since => {
            let target = rustix::fs::readlinkat(folder.handle(), entry.name, Vec::new()).ok()?;
            let target = Path::new(OsStr::from_bytes(target.to_bytes()));
            points_outside(mount, folder.path(), target).then_some(LeftoverKind::OutwardLink)?
        }
        _ => return None,
    };
    let name = OsStr::from_bytes(entry.name.to_bytes());
    let path = mount.show_with_alias(&folder.path().join(name));
    (changed >= since).then_some((Leftover { path, kind }, stat.st_ino))
}

/// Whether a target is outside, lexically: a symlink on the path that leads out is reported itself.
fn points_outside(mount: &Mount, folder: &Path, target: &Path) -> bool {
    let (mut place, rest) = match target.is_absolute() {
        false => (folder.to_path_buf(), target),
        true => match mount.strip_root(target) {
            Some(rest) => (Path::new("").to_path_buf(), rest),
            None => return true,
        },
    };
    for component in rest.components() {
        match component {
            Component::Normal(name) => place.push(name),
            Component::ParentDir if !place.pop() => return true,
            _ => {}
        }
    }
    false
}
