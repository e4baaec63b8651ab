//! From what was seen to what is mounted: each place once, parents before children, and nobody can move a cover away by moving what it lies in.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use super::look::{Seal, Sightings};
use super::{MAX_SEALS, MOST_COVERS, MountOverlay};

/// What is mounted over a mount.
pub(super) struct Assembled {
    pub(super) covers: Vec<MountOverlay>,
    /// Directories that are hidden as a whole because too much in them is denied.
    pub(super) bundled: Vec<PathBuf>,
}

/// The covers for all that was seen; where even hiding whole directories leaves too many, the directory with the most of them.
pub(super) fn assemble(seen: Sightings, writable: bool) -> Result<Assembled, PathBuf> {
    let is_complete = seen.seals.len() <= MAX_SEALS;
    let hidden = out_of_scope(&seen.out_of_scope, &seen.reachable);
    let mut seals: BTreeMap<PathBuf, Seal> = BTreeMap::new();
    for (place, seal) in seen.seals.into_iter().chain(hidden) {
        let strongest = seals.entry(place).or_insert(Seal::Freeze);
        // Of two that are as strong, the one from the latest walk stands first.
        if strength(&seal) > strength(strongest) {
            *strongest = seal;
        }
    }
    let mut seals = without_needless(seals, writable);
    let widest = widest(&seals).into_iter().next().map(|(folder, _)| folder).unwrap_or_default();
    let mut bundled = Vec::new();
    loop {
        let pins = if writable { pins(&seals, &seen.repositories) } else { BTreeSet::new() };
        if is_complete && seals.len() + pins.len() <= MOST_COVERS {
            bundled.retain(|folder| seals.contains_key(folder));
            return Ok(Assembled { covers: covers(seals, pins), bundled });
        }
        let folders = to_bundle(&seals, pins.len());
        if !is_complete || folders.is_empty() {
            return Err(widest);
        }
        seals.extend(folders.iter().map(|folder| (folder.clone(), Seal::Hide { directory: true })));
        seals = without_needless(seals, writable);
        bundled.extend(folders);
    }
}

fn covers(seals: BTreeMap<PathBuf, Seal>, pins: BTreeSet<PathBuf>) -> Vec<MountOverlay> {
    let mut covers: BTreeMap<PathBuf, MountOverlay> = BTreeMap::new();
    covers.extend(pins.into_iter().map(|path| (path.clone(), MountOverlay::PinDirectory { path })));
    covers.extend(seals.into_iter().map(|(path, seal)| (path.clone(), seal.over(path))));
    covers.into_values().collect()
}

/// The directories that hold something hidden, and how much, the fullest first.
fn widest(seals: &BTreeMap<PathBuf, Seal>) -> Vec<(PathBuf, usize)> {
    let mut counts: BTreeMap<&Path, usize> = BTreeMap::new();
    for (place, _) in seals.iter().filter(|(_, seal)| matches!(seal, Seal::Hide { .. })) {
        *counts.entry(place.parent().unwrap_or(Path::new(""))).or_default() += 1;
    }
    let mut counts: Vec<(PathBuf, usize)> =
        counts.into_iter().map(|(folder, count)| (folder.to_path_buf(), count)).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

/// Directories to hide as a whole: as many of the fullest as it takes, or all of them where each holds little, so that those around them are next. The
/// mount itself cannot be hidden.
fn to_bundle(seals: &BTreeMap<PathBuf, Seal>, pins: usize) -> Vec<PathBuf> {
    let mut left = (seals.len() + pins).saturating_sub(MOST_COVERS);
    let folders = widest(seals).into_iter().filter(|(folder, _)| !folder.as_os_str().is_empty());
    let needed = folders.take_while(|(_, count)| {
        let is_needed = left > 0;
        left = left.saturating_sub(count - 1);
        is_needed
    });
    needed.map(|(folder, _)| folder).collect()
}

impl Seal {
    fn over(self, path: PathBuf) -> MountOverlay {
        match self {
            Self::Freeze => MountOverlay::ReadOnly { path },
            Self::Replace(content) => MountOverlay::Substitute { path, content },
            Self::Hide { directory } => MountOverlay::Mask { path, directory },
        }
    }
}

fn strength(seal: &Seal) -> u8 {
    match seal {
        Seal::Freeze => 0,
        Seal::Replace(_) => 1,
        Seal::Hide { .. } => 2,
    }
}

/// Hides each file that is out of scope, or the largest folder around it in which nothing else may be reached.
fn out_of_scope(files: &[PathBuf], reachable: &[PathBuf]) -> Vec<(PathBuf, Seal)> {
    let open: HashSet<&Path> = reachable.iter().flat_map(|folder| folder.ancestors()).collect();
    let hide = |file: &PathBuf| {
        let folders = file.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
        match folders.take_while(|folder| !open.contains(folder)).last() {
            Some(folder) => (folder.to_path_buf(), Seal::Hide { directory: true }),
            None => (file.clone(), Seal::Hide { directory: false }),
        }
    };
    let hidden: BTreeMap<PathBuf, Seal> = files.iter().map(hide).collect();
    hidden.into_iter().collect()
}

/// Leaves out what lies in a hidden folder, and freezing what cannot be changed anyway.
fn without_needless(seals: BTreeMap<PathBuf, Seal>, writable: bool) -> BTreeMap<PathBuf, Seal> {
    let mut kept = BTreeMap::new();
    let (mut hidden, mut frozen): (Option<PathBuf>, Option<PathBuf>) = (None, None);
    // Paths sort by component, so that all that lies in a folder follows it at once.
    for (place, seal) in seals {
        let is_below =
            |folder: &Option<PathBuf>| folder.as_ref().is_some_and(|folder| place.starts_with(folder));
        if is_below(&hidden) {
            continue;
        }
        match seal {
            Seal::Hide { directory: true } => hidden = Some(place.clone()),
            Seal::Freeze if !writable || is_below(&frozen) => continue,
            Seal::Freeze => frozen = Some(place.clone()),
            Seal::Hide { .. } | Seal::Replace(_) => {}
        }
        kept.insert(place, seal);
    }
    kept
}

/// The repositories, and every folder on the way to a cover, as far as they are not covered or frozen themselves.
fn pins(seals: &BTreeMap<PathBuf, Seal>, repositories: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut pins = BTreeSet::new();
    let places = seals.keys().map(PathBuf::as_path).chain(repositories.iter().map(PathBuf::as_path));
    for place in places {
        let folders: Vec<&Path> = place.ancestors().filter(|folder| !folder.as_os_str().is_empty()).collect();
        // From the top down to the first one that keeps all that is in it.
        let free = folders.iter().rev().take_while(|folder| !seals.contains_key(**folder));
        pins.extend(free.map(|folder| folder.to_path_buf()));
    }
    pins
}
