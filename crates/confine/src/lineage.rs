//! The identity of a mount's directory and of its ancestors: two gates may have mounted the same one, or one inside the other.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags};
use toolgate_workspace::Mount;

use crate::codec::Codec;

/// A directory. Its birth time (`stx_btime`) distinguishes it from a later one with the same inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirectoryId {
    device: (u64, u64),
    inode: u64,
    born: (i64, u64),
}

impl DirectoryId {
    fn of(directory: impl std::os::fd::AsFd, path: &Path, flags: AtFlags) -> io::Result<Self> {
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        let found = rustix::fs::statx(directory, path, flags, wanted)?;
        let has_birth = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
        let born = if has_birth { (found.stx_btime.tv_sec, found.stx_btime.tv_nsec.into()) } else { (0, 0) };
        let device = (found.stx_dev_major.into(), found.stx_dev_minor.into());
        Ok(Self { device, inode: found.stx_ino, born })
    }
}

/// A directory with its ancestors, from the root of the filesystem down, each with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lineage(Vec<(DirectoryId, PathBuf)>);

impl Lineage {
    pub(super) fn of(mount: &Mount) -> io::Result<Self> {
        let own = DirectoryId::of(mount.as_fd(), Path::new(""), AtFlags::EMPTY_PATH)?;
        let step = |directory: &Path| {
            let id = DirectoryId::of(CWD, directory, AtFlags::SYMLINK_NOFOLLOW)?;
            Ok((id, directory.file_name().map(PathBuf::from).unwrap_or_default()))
        };
        let steps: io::Result<Vec<_>> = mount.host_root().ancestors().map(step).collect();
        // A directory that was renamed since it was opened keeps its identity; its ancestors are then unknown.
        let steps = steps.ok().filter(|steps| steps.first().is_some_and(|(id, _)| *id == own));
        let mut steps = steps.unwrap_or_else(|| vec![(own, PathBuf::new())]);
        steps.reverse();
        Ok(Self(steps))
    }

    /// Where the other directory lies in this one; empty when both are the same.
    pub(super) fn path_to(&self, inner: &Self) -> Option<PathBuf> {
        let (own, _) = self.0.last()?;
        let above = inner.0.iter().position(|(id, _)| id == own)?;
        Some(inner.0.iter().skip(above + 1).map(|(_, name)| name).collect())
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.path_to(other).is_some() || other.path_to(self).is_some()
    }
}

impl Codec for Lineage {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        Vec::decode(input).filter(|steps: &Vec<_>| !steps.is_empty()).map(Self)
    }
}

impl Codec for DirectoryId {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.device, (self.inode, self.born)).encode(out);
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        let (device, (inode, born)) = Codec::decode(input)?;
        Some(Self { device, inode, born })
    }
}
