//! Detects directories that git takes for a repository, by the names in them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use toolgate_search::{EntryKind, ScannedDir, ScannedEntry};

use crate::name_fold::{fold, is_plain};

/// The parts of a repository that decide what git executes or reads as configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepositoryPart {
    /// `hooks`.
    Hooks,
    /// `config` and `config.worktree`.
    Config,
    /// `commondir`.
    CommonDirectory,
}

/// The part of a repository with this folded name.
#[must_use]
pub fn part(folded: &str) -> Option<RepositoryPart> {
    match folded {
        "hooks" => Some(RepositoryPart::Hooks),
        "config" | "config.worktree" => Some(RepositoryPart::Config),
        "commondir" => Some(RepositoryPart::CommonDirectory),
        _ => None,
    }
}

/// A directory called `.git`, or one with what git requires: `HEAD`, and either `objects` and `refs` or a `commondir` that points to them.
#[must_use]
pub fn is_repository(folder: &ScannedDir<'_>) -> bool {
    has_name(folder.path(), ".git") || looks_like_repository(folder.entries())
}

/// Whether the last name of a place is this one, or a folded twin.
#[must_use]
pub fn has_name(place: &Path, name: &str) -> bool {
    place.file_name().is_some_and(|last| fold(Path::new(last)) == name)
}

fn looks_like_repository<'e>(entries: impl Iterator<Item = ScannedEntry<'e>>) -> bool {
    let (mut head, mut objects, mut references, mut common) = (false, false, false, false);
    for entry in entries {
        let Some(name) = marker_name(entry.name.to_bytes()) else { continue };
        match (entry.kind, name) {
            (EntryKind::Directory | EntryKind::Symlink, "objects") => objects = true,
            (EntryKind::Directory | EntryKind::Symlink, "refs") => references = true,
            (EntryKind::File | EntryKind::Symlink, "head") => head = true,
            (EntryKind::File | EntryKind::Symlink, "commondir") => common = true,
            _ => {}
        }
    }
    head && (common || (objects && references))
}

/// Whether an entry of this name is required for a directory to be a repository.
#[must_use]
pub fn is_head(name: &[u8]) -> bool {
    marker_name(name) == Some("head")
}

/// Which of the names that mark a repository this is, or is a folded twin of.
fn marker_name(name: &[u8]) -> Option<&'static str> {
    const NAMES: [&str; 4] = ["head", "refs", "objects", "commondir"];
    if is_plain(name) {
        let is_one = matches!(name.len(), 4 | 7 | 9);
        return NAMES.into_iter().find(|wanted| is_one && name.eq_ignore_ascii_case(wanted.as_bytes()));
    }
    let folded = fold(Path::new(OsStr::from_bytes(name)));
    NAMES.into_iter().find(|wanted| folded == *wanted)
}
