//! Files with another hard link outside of what a command may change.
//!
//! A write goes to the inode, whatever its name: in a `node_modules` of pnpm, an environment of uv or a tree made by `cp -al`, writing a file writes
//! the package store, the cache or the backup. So the walk before a command reads the link count of each regular file of a writable mount (`statx`, 1
//! to 2 µs per file) and counts the links that it meets; a file that has links elsewhere is mounted read-only. The command can then neither change
//! nor replace it; file tools still can, since they exchange the inode.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::CStr;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, StatxFlags};

use crate::scanner::{Protection, ScanResult};

/// Beyond this number whole directories are made read-only: each overlay is a mount, which costs every command about 15 µs.
const MAX_PROTECTED_FILES: usize = 500;

/// A regular file with more than one hard link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HardLinkedFile {
    inode: (u32, u32, u64),
    names: u32,
}

impl HardLinkedFile {
    /// Examines a file; `None` if it has one link, or no longer exists.
    pub(super) fn look(folder: BorrowedFd<'_>, name: &CStr) -> Option<Self> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
        let found = rustix::fs::statx(folder, name, flags, StatxFlags::NLINK | StatxFlags::INO).ok()?;
        let inode = (found.stx_dev_major, found.stx_dev_minor, found.stx_ino);
        (found.stx_nlink > 1).then_some(Self { inode, names: found.stx_nlink })
    }
}

/// Makes files read-only that have a hard link elsewhere, or at a place that the command may not change: a second link to a hook is a hook. Returns
/// their number.
pub(super) fn protect_hard_links(sightings: &mut ScanResult) -> usize {
    let elsewhere = with_names_elsewhere(sightings);
    let count = elsewhere.len();
    sightings.protections.extend(places(elsewhere).into_iter().map(|place| (place, Protection::ReadOnly)));
    count
}

fn with_names_elsewhere(sightings: &ScanResult) -> BTreeSet<PathBuf> {
    let sealed: HashSet<&Path> = sightings.protections.iter().map(|(place, _)| place.as_path()).collect();
    let mut seen: HashMap<_, u32> = HashMap::new();
    for (place, linked) in &sightings.linked {
        let is_sealed = place.ancestors().any(|above| sealed.contains(above));
        *seen.entry(linked.inode).or_default() += u32::from(!is_sealed);
    }
    let is_elsewhere =
        |linked: &HardLinkedFile| seen.get(&linked.inode).is_none_or(|seen| *seen < linked.names);
    let elsewhere = sightings.linked.iter().filter(|(_, linked)| is_elsewhere(linked));
    elsewhere.map(|(place, _)| place.clone()).collect()
}

/// The files themselves, or the directories that hold most of them.
fn places(mut files: BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let mut whole = BTreeSet::new();
    while files.len() > MAX_PROTECTED_FILES
        && let Some(directory) = densest_directory(&files)
    {
        files.retain(|file| !file.starts_with(&directory));
        whole.insert(directory);
    }
    files.append(&mut whole);
    files
}

/// The top-level directory that holds most of them, or a subdirectory of it with nine tenths of those: `node_modules/.pnpm` rather than
/// `node_modules`.
fn densest_directory(files: &BTreeSet<PathBuf>) -> Option<PathBuf> {
    let mut directory = PathBuf::new();
    let mut within: Vec<&PathBuf> = files.iter().collect();
    loop {
        let depth = directory.components().count() + 1;
        let mut counts: BTreeMap<PathBuf, usize> = BTreeMap::new();
        for file in &within {
            let child: PathBuf = file.components().take(depth).collect();
            *counts.entry(child).or_default() += usize::from(file.components().count() > depth);
        }
        let fullest = counts.into_iter().max_by_key(|(_, count)| *count).filter(|(_, count)| *count > 0);
        let is_top = directory.as_os_str().is_empty();
        match fullest {
            Some((child, count)) if is_top || count * 10 >= within.len() * 9 => directory = child,
            _ => return (!is_top).then_some(directory),
        }
        within.retain(|file| file.starts_with(&directory));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linked(inode: u64, names: u32) -> HardLinkedFile {
        HardLinkedFile { inode: (8, 1, inode), names }
    }

    #[test]
    fn a_file_is_frozen_when_a_name_of_it_is_elsewhere_or_sealed() {
        let mut sightings = ScanResult {
            linked: [
                ("a/inside", linked(1, 2)),
                ("b/inside", linked(1, 2)),
                ("outside", linked(2, 2)),
                ("hooks/hook", linked(3, 2)),
                ("alias-of-hook", linked(3, 2)),
            ]
            .map(|(place, linked)| (PathBuf::from(place), linked))
            .into(),
            protections: vec![("hooks".into(), Protection::ReadOnly)],
            ..ScanResult::default()
        };
        assert_eq!(protect_hard_links(&mut sightings), 3);
        let sealed: Vec<&str> =
            sightings.protections.iter().map(|(place, _)| place.to_str().unwrap()).collect();
        assert_eq!(sealed, ["hooks", "alias-of-hook", "hooks/hook", "outside"]);
    }

    #[test]
    fn too_many_files_become_the_directories_that_hold_them_and_others_stay_single() {
        let mut files: BTreeSet<PathBuf> = (0..3 * MAX_PROTECTED_FILES)
            .map(|number| format!("node_modules/.pnpm/p{}/f{number}", number % 40).into())
            .collect();
        files.extend(["node_modules/other", "src/one", "top"].map(PathBuf::from));
        let expected = ["node_modules/.pnpm", "node_modules/other", "src/one", "top"];
        assert_eq!(places(files), expected.map(PathBuf::from).into());
        let top: BTreeSet<PathBuf> =
            (0..=MAX_PROTECTED_FILES).map(|number| number.to_string().into()).collect();
        assert_eq!(places(top.clone()), top);
    }
}
