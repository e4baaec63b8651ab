//! From what was seen to what is mounted: each place once, parents before children, and nobody can move a cover away by moving what it lies in.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use super::look::{Seal, Sightings};
use super::{Cover, MOST_COVERS};

/// The covers for all that was seen; `None` when there are too many.
pub(super) fn assemble(seen: Sightings, writable: bool) -> Option<Vec<Cover>> {
    let hidden = out_of_scope(&seen.out_of_scope, &seen.reachable);
    let mut seals: BTreeMap<PathBuf, Seal> = BTreeMap::new();
    for (place, seal) in seen.seals.into_iter().chain(hidden) {
        let strongest = seals.entry(place).or_insert(Seal::Freeze);
        // Of two that are as strong, the one from the latest walk stands first.
        if strength(&seal) > strength(strongest) {
            *strongest = seal;
        }
    }
    let seals = without_needless(seals, writable);
    let pins = if writable { pins(&seals, &seen.repositories) } else { BTreeSet::new() };
    if seals.len() + pins.len() > MOST_COVERS {
        return None;
    }
    let mut covers: BTreeMap<PathBuf, Cover> = BTreeMap::new();
    covers.extend(pins.into_iter().map(|path| (path.clone(), Cover::Pin { path })));
    covers.extend(seals.into_iter().map(|(path, seal)| (path.clone(), seal.over(path))));
    Some(covers.into_values().collect())
}

impl Seal {
    fn over(self, path: PathBuf) -> Cover {
        match self {
            Self::Freeze => Cover::Freeze { path },
            Self::Replace(content) => Cover::Replace { path, content },
            Self::Hide { directory } => Cover::Hide { path, directory },
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
