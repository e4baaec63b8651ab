//! The walk before a command: what there is that it must not reach.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use toolgate_search::{EntryKind, SurveyedEntry, SurveyedFolder, Surveyor};

use super::MAX_SEALS;
use super::codec::Codec;
use super::ground::{Ground, Identity, identity, is_obeyed_folder, read_beginning, read_small};
use super::hard_links::Linked;
use super::inventory::{Inventory, inventory};
use super::leftover::{Told, leftover};
use super::quarantine::identify_place;
use super::repositories::{Part, has_name, is_repository, part};
use super::stray::{StrayKind, obeyed};
use super::targets::{Target, follow, targets, targets_from_above, worktree_targets};
use super::todo::{MAX_STATE_BYTES, is_state, running_steps};
use crate::fold::fold;
use crate::git_config::{LARGEST_CONFIG, Refused, sanitised_git_config};
use crate::obeyed::{ends_at_obeyed, is_in_package};
use crate::rules::{PathGrant, is_denied_by_name};

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
    /// What is there of all that would be judged afterwards.
    pub(super) known: HashMap<PathBuf, Known>,
    /// What git is made to obey.
    pub(super) targets: Vec<Target>,
    /// Regular files with several names, where those matter.
    pub(super) linked: HashMap<PathBuf, Linked>,
    /// What would be told if a command had left it.
    pub(super) told: HashSet<Told>,
}

/// Something that was there before the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) identity: Identity,
    /// Of a git configuration: what it lets git run and obey.
    pub(super) refused: Refused,
    /// Of a rebase that is under way: the steps that run something.
    pub(super) steps: HashSet<Vec<u8>>,
    /// Of a directory that programs obey and that is not frozen: what is in it.
    pub(super) below: Option<Inventory>,
}

impl Known {
    fn new(identity: Identity) -> Self {
        Self { identity, refused: Refused::default(), steps: HashSet::new(), below: None }
    }
}

impl Known {
    /// The same for a mount whose places are others.
    pub(super) fn moved(&self, place: impl Fn(&Path) -> Option<PathBuf>) -> Self {
        let moved = |below: &Inventory| {
            below.iter().filter_map(|(path, identity)| Some((place(path)?, *identity))).collect()
        };
        Self { below: self.below.as_ref().map(moved), ..self.clone() }
    }
}

impl Codec for Known {
    fn encode(&self, out: &mut Vec<u8>) {
        self.identity.encode(out);
        self.refused.settings().encode(out);
        self.steps.encode(out);
        self.below.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        let identity = Codec::decode(input)?;
        let refused = Refused::from_settings(Codec::decode(input)?);
        Some(Self { identity, refused, steps: Codec::decode(input)?, below: Codec::decode(input)? })
    }
}

impl Sightings {
    pub(super) fn add(&mut self, other: Self) {
        self.seals.extend(other.seals);
        self.out_of_scope.extend(other.out_of_scope);
        self.reachable.extend(other.reachable);
        self.repositories.extend(other.repositories);
        self.links.extend(other.links);
        self.targets.extend(other.targets);
        self.linked.extend(other.linked);
        self.told.extend(other.told);
        for (place, known) in other.known {
            self.known.entry(place).or_insert(known);
        }
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
        // What a link was in the latest walk is what counts, and where a target leads.
        self.links.clear();
        self.targets.clear();
        self.linked.clear();
        self
    }
}

/// What is known about the folder of an entry.
#[derive(Clone, Copy)]
struct Around {
    in_repository: bool,
    in_hooks: bool,
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
    fn entry(&mut self, folder: &SurveyedFolder<'_>, around: Around, entry: SurveyedEntry<'_>) -> bool {
        let is_directory = entry.kind == EntryKind::Directory;
        let name = entry.name.to_bytes();
        let is_special = around.in_repository || around.in_hooks || self.asks_everything;
        let is_ordinary = !is_special && entry.kind != EntryKind::Other;
        if is_ordinary && !self.ground.is_remarkable(name) {
            return is_directory;
        }
        let name = Path::new(OsStr::from_bytes(name));
        let (place, folded) = (folder.place().join(name), fold(name));
        let part = part(&folded).filter(|_| around.in_repository);
        if self.writable && self.ground.is_judged(&place, part) {
            self.remember(folder.handle(), entry.name, &place);
        }
        if self.writable && folded == ".git" {
            let directory = self.ground.mount.host_root().join(folder.place());
            self.targets(worktree_targets(self.ground.mount, &directory, &self.ground.personal));
        }
        match entry.kind {
            EntryKind::Symlink => self.link(folder, entry, place, &folded, part),
            // A socket or a pipe has somebody at its other end, who may not be confined.
            EntryKind::Other => self.seal(place, Seal::Hide { directory: false }),
            EntryKind::File => self.file(folder, entry, place, &folded, part),
            EntryKind::Directory => {
                let enters = self.directory(place.clone(), part);
                // Nobody looks into it, so that it counts as a whole.
                if self.writable && !enters {
                    self.remember(folder.handle(), entry.name, &place);
                }
                return enters;
            }
        }
        false
    }

    /// Asked before anything else is, so that what is looked at is this or something newer.
    fn remember(&mut self, folder: BorrowedFd<'_>, name: &CStr, place: &Path) {
        let Some(identity) = identity(folder, name) else { return };
        let mut known = Known::new(identity);
        if is_state(&fold(place)) {
            let content = read_small(folder, name, MAX_STATE_BYTES).unwrap_or_default();
            known.steps = running_steps(&fold(place), &content);
        }
        self.seen.known.insert(place.to_path_buf(), known);
    }

    fn directory(&mut self, place: PathBuf, part: Option<Part>) -> bool {
        if self.ground.is_denied_by_operator(&place) {
            self.seal(place, Seal::Hide { directory: true });
            return false;
        }
        let is_read_only = self.ground.is_read_only_mount(&place);
        if part == Some(Part::Hooks) || is_read_only {
            self.seal(place, Seal::Freeze);
        } else if is_denied_by_name(&place, true) {
            self.seal(place, Seal::Hide { directory: true });
            return false;
        } else if self.ground.is_protected_place(&place)
            || (ends_at_obeyed(&fold(&place), true) && !self.is_left_to_packages(&place))
        {
            self.seal(place, Seal::Freeze);
        }
        true
    }

    /// Whether a directory lies among packages, and all that is in it could be remembered.
    fn is_left_to_packages(&mut self, place: &Path) -> bool {
        if !self.writable || !is_in_package(&fold(place)) {
            return false;
        }
        let below = inventory(self.ground.mount, place);
        let is_known = below.is_some();
        if let Some(known) = self.seen.known.get_mut(place) {
            known.below = below;
        }
        is_known
    }

    fn file(
        &mut self,
        folder: &SurveyedFolder<'_>,
        entry: SurveyedEntry<'_>,
        place: PathBuf,
        folded: &str,
        part: Option<Part>,
    ) {
        // Git obeys a configuration also where nobody may see it.
        let config = (part == Some(Part::Config)).then(|| {
            let content = read_small(folder.handle(), entry.name, LARGEST_CONFIG);
            self.config(folder.place(), &place, content)
        });
        if self.ground.is_denied_by_operator(&place) {
            return self.seal(place, Seal::Hide { directory: false });
        }
        if self.is_limited && !self.ground.is_in_scope(&place, self.grant) {
            return self.seen.out_of_scope.push(place);
        }
        let seal = match part {
            Some(Part::Config) => config.flatten(),
            Some(Part::Hooks | Part::CommonDirectory) => Some(Seal::Freeze),
            // It tells git where the repository is.
            None if folded == ".git" => Some(Seal::Freeze),
            None if is_denied_by_name(&place, false) => Some(Seal::Hide { directory: false }),
            None if is_frozen_file(&fold(&place)) || !self.ground.may_change(&place) => Some(Seal::Freeze),
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
        let is_denied = is_denied_by_name(&place, false) || self.ground.is_denied_by_operator(&place);
        let is_obeyed = obeyed(&fold(&place)).is_some() || self.ground.is_protected_place(&place);
        if part.is_none() && is_denied {
            self.hide_behind_link(&place);
        }
        if part.is_none() && is_obeyed && self.writable {
            self.target(Target::new(self.ground.mount, &place, StrayKind::ProgramConfig));
        }
        let is_above = is_obeyed_folder(folded) || self.ground.is_above_protected_place(&place);
        let is_protected = part.is_some() || is_above || is_denied || is_obeyed;
        if self.writable
            && is_protected
            && let Some(identity) = identity(folder.handle(), entry.name)
        {
            self.seen.links.push((place, identity));
        }
    }

    /// A secret is one under every name. What holds the link itself is more than the secret.
    fn hide_behind_link(&mut self, place: &Path) {
        let Some(opened) = follow(self.ground.mount, place) else { return };
        let directory = opened.is_directory();
        let is_denied = is_denied_by_name(place, directory) || self.ground.is_denied_by_operator(place);
        if is_denied && !place.starts_with(&opened.location) {
            self.seal(opened.location, Seal::Hide { directory });
        }
    }

    /// Git follows links to its hooks and its configuration, so what they lead to in the mount is kept like these.
    fn behind_link(&mut self, place: &Path, part: Part) {
        let Some(opened) = follow(self.ground.mount, place) else { return };
        if opened.location.as_os_str().is_empty() || (part == Part::Config && opened.is_directory()) {
            return;
        }
        let mount = self.ground.mount;
        let (target, seal) = match part {
            Part::Config => {
                let content = read_beginning(&opened.file, LARGEST_CONFIG);
                let target = Target::config(mount, place, &opened, content.as_deref().unwrap_or_default());
                let repository = place.parent().unwrap_or(Path::new(""));
                (target, self.config(repository, &opened.location, content))
            }
            Part::Hooks => (Target::new(mount, place, StrayKind::Hook), Some(Seal::Freeze)),
            Part::CommonDirectory => (Target::new(mount, place, StrayKind::GitPointer), Some(Seal::Freeze)),
        };
        if self.writable {
            self.seen.targets.push(target);
        }
        if let Some(seal) = seal {
            self.seal(opened.location, seal);
        }
    }

    /// Shows a copy of a configuration, and freezes what the original names.
    fn config(&mut self, repository: &Path, place: &Path, content: io::Result<Vec<u8>>) -> Option<Seal> {
        if let Ok(content) = &content
            && self.writable
        {
            if let Some(known) = self.seen.known.get_mut(place) {
                known.refused = Refused::of(content);
            }
            // What one called `.git` names was found with its worktree.
            if !has_name(repository, ".git") {
                self.targets(targets(self.ground.mount, repository, content));
            }
        }
        sanitised(content)
    }

    fn targets(&mut self, targets: Vec<Target>) {
        targets.into_iter().for_each(|target| self.target(target));
    }

    fn target(&mut self, target: Target) {
        if let Some(location) = target.frozen() {
            self.seen.seals.push((location.to_path_buf(), Seal::Freeze));
        }
        self.seen.targets.push(target);
    }
}

/// Whether programs obey a file at this folded place, and a command is kept from changing it.
fn is_frozen_file(folded: &str) -> bool {
    ends_at_obeyed(folded, false) && !is_in_package(folded)
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
        if self.seen.seals.len() > MAX_SEALS {
            return;
        }
        let in_repository = is_repository(folder);
        let around = Around { in_repository, in_hooks: self.writable && has_name(folder.place(), "hooks") };
        if self.writable && folder.place().as_os_str().is_empty() {
            self.targets(targets_from_above(self.ground.mount, &self.ground.personal));
        }
        let is_recent = self.writable && folder.changed() >= self.ground.since;
        if in_repository {
            self.seen.repositories.push(folder.place().to_path_buf());
        }
        for entry in folder.entries() {
            if self.writable && entry.kind == EntryKind::File && self.ground.protects_links() {
                let linked = Linked::look(folder.handle(), entry.name);
                let place = || folder.place().join(OsStr::from_bytes(entry.name.to_bytes()));
                self.seen.linked.extend(linked.map(|linked| (place(), linked)));
            }
            if is_recent && let Some((left, inode)) = leftover(self.ground, folder, entry) {
                self.seen.told.insert((left.path, inode));
            }
            if self.entry(folder, around, entry) {
                enter(entry);
            }
        }
    }

    fn closed(&mut self, place: &Path) {
        if let Some(identity) = identify_place(self.ground.mount, place).filter(|_| self.writable) {
            self.seen.known.insert(place.to_path_buf(), Known::new(identity));
        }
        // The command may own it, and open it.
        self.seal(place.to_path_buf(), Seal::Hide { directory: true });
    }
}
