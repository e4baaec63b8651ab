//! Turns the result of a scan into overlay mounts: each place once, parents before children, with the directories above pinned so that no rename
//! moves an overlay away.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use crate::scanner::{Protection, ScanResult};
use crate::{MAX_OVERLAYS, MAX_PROTECTIONS, MountOverlay};

/// The overlays of a mount.
pub(super) struct OverlayPlan {
    pub(super) overlays: Vec<MountOverlay>,
    /// Directories that are masked as a whole because too much in them is denied.
    pub(super) bundled: Vec<PathBuf>,
}

/// The overlays for everything that was seen. If there are too many even after masking whole directories: the directory with the most of them.
pub(super) fn plan_overlays(seen: ScanResult, writable: bool) -> Result<OverlayPlan, PathBuf> {
    let is_complete = seen.protections.len() <= MAX_PROTECTIONS;
    let hidden = out_of_scope(&seen.out_of_scope, &seen.reachable);
    let mut seals: BTreeMap<PathBuf, Protection> = BTreeMap::new();
    for (place, seal) in seen.protections.into_iter().chain(hidden) {
        let strongest = seals.entry(place).or_insert(Protection::ReadOnly);
        // Of two that are equally strong, the one from the latest walk comes first.
        if priority(&seal) > priority(strongest) {
            *strongest = seal;
        }
    }
    let mut seals = without_redundant(seals, writable);
    let widest = densest_directories(&seals).into_iter().next().map(|(folder, _)| folder).unwrap_or_default();
    let mut bundled = Vec::new();
    loop {
        let pins = if writable { pins(&seals, &seen.repositories) } else { BTreeSet::new() };
        if is_complete && seals.len() + pins.len() <= MAX_OVERLAYS {
            bundled.retain(|folder| seals.contains_key(folder));
            return Ok(OverlayPlan { overlays: to_overlays(seals, pins), bundled });
        }
        let folders = directories_to_mask(&seals, pins.len());
        if !is_complete || folders.is_empty() {
            return Err(widest);
        }
        seals.extend(folders.iter().map(|folder| (folder.clone(), Protection::Mask { directory: true })));
        seals = without_redundant(seals, writable);
        bundled.extend(folders);
    }
}

fn to_overlays(seals: BTreeMap<PathBuf, Protection>, pins: BTreeSet<PathBuf>) -> Vec<MountOverlay> {
    let mut covers: BTreeMap<PathBuf, MountOverlay> = BTreeMap::new();
    covers.extend(pins.into_iter().map(|path| (path.clone(), MountOverlay::PinDirectory { path })));
    covers.extend(seals.into_iter().map(|(path, seal)| (path.clone(), seal.into_overlay(path))));
    covers.into_values().collect()
}

/// The directories that contain something masked, with the count, the fullest first.
fn densest_directories(seals: &BTreeMap<PathBuf, Protection>) -> Vec<(PathBuf, usize)> {
    let mut counts: BTreeMap<&Path, usize> = BTreeMap::new();
    for (place, _) in seals.iter().filter(|(_, seal)| matches!(seal, Protection::Mask { .. })) {
        *counts.entry(place.parent().unwrap_or(Path::new(""))).or_default() += 1;
    }
    let mut counts: Vec<(PathBuf, usize)> =
        counts.into_iter().map(|(folder, count)| (folder.to_path_buf(), count)).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

/// Directories to mask as a whole: as many of the fullest as needed, or all of them where each holds little, so that their parents are next. The
/// mount itself cannot be masked.
fn directories_to_mask(seals: &BTreeMap<PathBuf, Protection>, pins: usize) -> Vec<PathBuf> {
    let mut left = (seals.len() + pins).saturating_sub(MAX_OVERLAYS);
    let folders = densest_directories(seals).into_iter().filter(|(folder, _)| !folder.as_os_str().is_empty());
    let needed = folders.take_while(|(_, count)| {
        let is_needed = left > 0;
        left = left.saturating_sub(count - 1);
        is_needed
    });
    needed.map(|(folder, _)| folder).collect()
}

impl Protection {
    fn into_overlay(self, path: PathBuf) -> MountOverlay {
        match self {
            Self::ReadOnly => MountOverlay::ReadOnly { path },
            Self::Substitute(content) => MountOverlay::Substitute { path, content },
            Self::Mask { directory } => MountOverlay::Mask { path, directory },
        }
    }
}

fn priority(seal: &Protection) -> u8 {
    match seal {
        Protection::ReadOnly => 0,
        Protection::Substitute(_) => 1,
        Protection::Mask { .. } => 2,
    }
}

/// Masks each file that is out of scope, or the largest directory above it that contains nothing reachable.
fn out_of_scope(files: &[PathBuf], reachable: &[PathBuf]) -> Vec<(PathBuf, Protection)> {
    let open: HashSet<&Path> = reachable.iter().flat_map(|folder| folder.ancestors()).collect();
    let hide = |file: &PathBuf| {
        let folders = file.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
        match folders.take_while(|folder| !open.contains(folder)).last() {
            Some(folder) => (folder.to_path_buf(), Protection::Mask { directory: true }),
            None => (file.clone(), Protection::Mask { directory: false }),
        }
    };
    let hidden: BTreeMap<PathBuf, Protection> = files.iter().map(hide).collect();
    hidden.into_iter().collect()
}

/// Removes what lies in a masked directory, and read-only overlays on what is read-only anyway.
fn without_redundant(seals: BTreeMap<PathBuf, Protection>, writable: bool) -> BTreeMap<PathBuf, Protection> {
    let mut kept = BTreeMap::new();
    let (mut hidden, mut frozen): (Option<PathBuf>, Option<PathBuf>) = (None, None);
    // Paths sort by component, so the content of a directory directly follows it.
    for (place, seal) in seals {
        let is_below =
            |folder: &Option<PathBuf>| folder.as_ref().is_some_and(|folder| place.starts_with(folder));
        if is_below(&hidden) {
            continue;
        }
        match seal {
            Protection::Mask { directory: true } => hidden = Some(place.clone()),
            Protection::ReadOnly if !writable || is_below(&frozen) => continue,
            Protection::ReadOnly => frozen = Some(place.clone()),
            Protection::Mask { .. } | Protection::Substitute(_) => {}
        }
        kept.insert(place, seal);
    }
    kept
}

/// The repositories, and every directory on the path to an overlay, unless they are masked or read-only themselves.
fn pins(seals: &BTreeMap<PathBuf, Protection>, repositories: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut pins = BTreeSet::new();
    let places = seals.keys().map(PathBuf::as_path).chain(repositories.iter().map(PathBuf::as_path));
    for place in places {
        let folders: Vec<&Path> = place.ancestors().filter(|folder| !folder.as_os_str().is_empty()).collect();
        // From the top down to the first one that protects everything in it.
        let free = folders.iter().rev().take_while(|folder| !seals.contains_key(**folder));
        pins.extend(free.map(|folder| folder.to_path_buf()));
    }
    pins
}
