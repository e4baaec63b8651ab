//! The walk before a command: what there is that it must not reach.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use cap_std::fs::{OpenOptions, OpenOptionsExt as _};
use rustix::fs::OFlags;
use toolgate_search::{EntryKind, SurveyedEntry, SurveyedFolder, Surveyor};

use super::MOST_COVERS;
use super::ground::{
    Ground, Identity, identity, is_denied_by_name, is_version_control, read_beginning, read_small,
};
use super::repositories::{Part, is_repository, part};
use crate::fold::fold;
use crate::git_config::{LARGEST_CONFIG, sanitised_git_config};
use crate::open::{Opened, identify};
use crate::rules::PathGrant;

/// How a place is kept from a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seal {
    Freeze,
    Replace(Vec<u8>),
    Hide { directory: bool },
}

/// What a walk has seen.
#[derive(Debug, Default)]
pub(super) struct Sightings {
    pub(super) seals: Vec<(PathBuf, Seal)>,
    /// Files that the mount or the call is not limited to.
    pub(super) out_of_scope: Vec<PathBuf>,
    /// Folders that hold a file which may be reached; told only where there are files that may not.
    pub(super) reachable: Vec<PathBuf>,
    pub(super) repositories: Vec<PathBuf>,
    /// Links with a protected name.
    pub(super) links: Vec<(PathBuf, Identity)>,
}

impl Sightings {
    pub(super) fn add(&mut self, other: Self) {
        self.seals.extend(other.seals);
        self.out_of_scope.extend(other.out_of_scope);
        self.reachable.extend(other.reachable);
        self.repositories.extend(other.repositories);
        self.links.extend(other.links);
    }

    /// What an earlier walk has seen and is where it was: what is gone cannot be covered.
    pub(super) fn still_there(mut self, ground: &Ground<'_>) -> Self {
        let kind =
            |place: &Path| ground.mount.directory().symlink_metadata(place).ok().map(|found| found.is_dir());
        self.seals.retain(|(place, seal)| match (kind(place), seal) {
            (Some(found), Seal::Hide { directory }) => found == *directory,
            (Some(found), Seal::Replace(_)) => !found,
            (found, Seal::Freeze) => found.is_some(),
            (None, _) => false,
        });
        self.out_of_scope.retain(|place| kind(place) == Some(false));
        self.repositories.retain(|place| kind(place) == Some(true));
        // What a link was in the latest walk is what counts.
        self.links.clear();
        self
    }
}

/// One thread of the walk.
pub(super) struct Look<'l> {
    ground: &'l Ground<'l>,
    writable: bool,
    grant: Option<&'l dyn PathGrant>,
    asks_everything: bool,
    is_limited: bool,
    seen: Sightings,
}

impl<'l> Look<'l> {
    pub(super) fn new(ground: &'l Ground<'l>, writable: bool, grant: Option<&'l dyn PathGrant>) -> Self {
        let is_limited = grant.is_some() || ground.has_scope();
        let asks_everything = is_limited || ground.has_globs();
        Self { ground, writable, grant, asks_everything, is_limited, seen: Sightings::default() }
    }

    pub(super) fn into_sightings(self) -> Sightings {
        self.seen
    }

    fn seal(&mut self, place: PathBuf, seal: Seal) {
        self.seen.seals.push((place, seal));
    }

    /// Whether to go into the entry.
    fn entry(&mut self, folder: &SurveyedFolder<'_>, in_repository: bool, entry: SurveyedEntry<'_>) -> bool {
        let is_directory = entry.kind == EntryKind::Directory;
        let name = entry.name.to_bytes();
        let is_ordinary = !in_repository && !self.asks_everything && entry.kind != EntryKind::Other;
        if is_ordinary && !self.ground.is_remarkable(name) {
            return is_directory;
        }
        let name = Path::new(OsStr::from_bytes(name));
        let (place, folded) = (folder.place().join(name), fold(name));
        let part = part(&folded).filter(|_| in_repository);
        match entry.kind {
            EntryKind::Symlink => self.link(folder, entry, place, &folded, part),
            // A socket or a pipe has somebody at its other end, who may not be confined.
            EntryKind::Other => self.seal(place, Seal::Hide { directory: false }),
            EntryKind::File => self.file(folder, entry, place, &folded, part),
            EntryKind::Directory => return self.directory(place, part),
        }
        false
    }

    fn directory(&mut self, place: PathBuf, part: Option<Part>) -> bool {
        if self.ground.is_denied_by_operator(&place) {
            self.seal(place, Seal::Hide { directory: true });
            return false;
        }
        let is_read_only = self.ground.is_read_only_mount(&place);
        if part == Some(Part::Hooks) || is_read_only {
            self.seal(place, Seal::Freeze);
        } else if is_denied_by_name(&place) {
            self.seal(place, Seal::Hide { directory: true });
            return false;
        }
        true
    }

    fn file(
        &mut self,
        folder: &SurveyedFolder<'_>,
        entry: SurveyedEntry<'_>,
        place: PathBuf,
        folded: &str,
        part: Option<Part>,
    ) {
        if self.ground.is_denied_by_operator(&place) {
            return self.seal(place, Seal::Hide { directory: false });
        }
        if self.is_limited && !self.ground.is_in_scope(&place, self.grant) {
            return self.seen.out_of_scope.push(place);
        }
        let seal = match part {
            Some(Part::Config) => sanitised(read_small(folder.handle(), entry.name, LARGEST_CONFIG)),
            Some(Part::Hooks | Part::CommonDirectory) => Some(Seal::Freeze),
            // It tells git where the repository is.
            None if folded == ".git" => Some(Seal::Freeze),
            None if is_denied_by_name(&place) => Some(Seal::Hide { directory: false }),
            None if !self.ground.may_change(&place) => Some(Seal::Freeze),
            None => None,
        };
        match seal {
            Some(seal) => self.seal(place, seal),
            None if self.is_limited => self.note_reachable(folder.place()),
            None => {}
        }
    }

    fn note_reachable(&mut self, folder: &Path) {
        if self.seen.reachable.last().is_none_or(|last| last != folder) {
            self.seen.reachable.push(folder.to_path_buf());
        }
    }

    /// A link cannot be covered: what it leads to is covered where it lies, and what becomes of the link is seen afterwards.
    fn link(
        &mut self,
        folder: &SurveyedFolder<'_>,
        entry: SurveyedEntry<'_>,
        place: PathBuf,
        folded: &str,
        part: Option<Part>,
    ) {
        if let Some(part) = part {
            self.behind_link(&place, part);
        }
        let is_protected = part.is_some()
            || is_version_control(folded)
            || is_denied_by_name(&place)
            || self.ground.is_denied_by_operator(&place);
        if self.writable
            && is_protected
            && let Some(identity) = identity(folder.handle(), entry.name)
        {
            self.seen.links.push((place, identity));
        }
    }

    /// Git follows links to its hooks and its configuration, so what they lead to in the mount is kept like these.
    fn behind_link(&mut self, place: &Path, part: Part) {
        let Some(opened) = self.follow(place) else { return };
        if opened.location.as_os_str().is_empty() || (part == Part::Config && opened.is_directory()) {
            return;
        }
        let seal = match part {
            Part::Config => sanitised(read_beginning(&opened.file, LARGEST_CONFIG)),
            Part::Hooks | Part::CommonDirectory => Some(Seal::Freeze),
        };
        if let Some(seal) = seal {
            self.seal(opened.location, seal);
        }
    }

    fn follow(&self, place: &Path) -> Option<Opened> {
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or(0));
        let file = self.ground.mount.directory().open_with(place, &options).ok()?.into_std();
        identify(self.ground.mount, file, "").ok()
    }
}

/// What is shown of a configuration; one that cannot be read is not shown at all.
fn sanitised(content: io::Result<Vec<u8>>) -> Option<Seal> {
    match content {
        Ok(content) => Some(Seal::Replace(sanitised_git_config(&content))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(_) => Some(Seal::Hide { directory: false }),
    }
}

impl Surveyor for Look<'_> {
    fn folder(&mut self, folder: &SurveyedFolder<'_>, enter: &mut dyn FnMut(SurveyedEntry<'_>)) {
        // What is too much already only gets more.
        if self.seen.seals.len() > MOST_COVERS {
            return;
        }
        let in_repository = is_repository(folder);
        if in_repository {
            self.seen.repositories.push(folder.place().to_path_buf());
        }
        for entry in folder.entries() {
            if self.entry(folder, in_repository, entry) {
                enter(entry);
            }
        }
    }

    fn closed(&mut self, place: &Path) {
        // The command may own it, and open it.
        self.seal(place.to_path_buf(), Seal::Hide { directory: true });
    }
}
