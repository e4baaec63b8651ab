//! Which folders git takes for a repository, told by the names in them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use toolgate_search::{EntryKind, SurveyedEntry, SurveyedFolder};

use crate::fold::{fold, is_plain};

/// The parts of a repository that decide what git runs and obeys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Hooks,
    Config,
    CommonDirectory,
}

/// Which part of a repository has this folded name.
pub(super) fn part(folded: &str) -> Option<Part> {
    match folded {
        "hooks" => Some(Part::Hooks),
        "config" | "config.worktree" => Some(Part::Config),
        "commondir" => Some(Part::CommonDirectory),
        _ => None,
    }
}

/// A folder called `.git`, or one with what git asks for: `HEAD`, and either `objects` and `refs` or a `commondir` that tells where they are.
pub(super) fn is_repository(folder: &SurveyedFolder<'_>) -> bool {
    has_name(folder.place(), ".git") || looks_like_repository(folder.entries())
}

/// Whether the last name of a place is this one, or a twin of it.
pub(super) fn has_name(place: &Path, name: &str) -> bool {
    place.file_name().is_some_and(|last| fold(Path::new(last)) == name)
}

fn looks_like_repository<'e>(entries: impl Iterator<Item = SurveyedEntry<'e>>) -> bool {
    let (mut head, mut objects, mut references, mut common) = (false, false, false, false);
    for entry in entries {
        let name = entry.name.to_bytes();
        let is = |wanted: &str| is_called(name, wanted);
        match entry.kind {
            EntryKind::Directory | EntryKind::Symlink if is("objects") => objects = true,
            EntryKind::Directory | EntryKind::Symlink if is("refs") => references = true,
            EntryKind::File | EntryKind::Symlink if is("HEAD") => head = true,
            EntryKind::File | EntryKind::Symlink if is("commondir") => common = true,
            _ => {}
        }
    }
    head && (common || (objects && references))
}

/// Whether a folder is no repository without an entry of this name.
pub(super) fn is_head(name: &[u8]) -> bool {
    is_called(name, "HEAD")
}

fn is_called(name: &[u8], wanted: &str) -> bool {
    if name.len() == wanted.len() && name.eq_ignore_ascii_case(wanted.as_bytes()) {
        return true;
    }
    // Twins are longer than the name, and never plain.
    name.len() > wanted.len()
        && !is_plain(name)
        && fold(Path::new(OsStr::from_bytes(name))) == wanted.to_ascii_lowercase()
}
