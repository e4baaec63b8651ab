//! The walk before a command: finds what the command must not reach or change.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use toolgate_search::{EntryKind, ScannedDir, ScannedEntry, TreeVisitor};
use toolgate_workspace::internals::{
    AutorunTarget, FileIdentity, MAX_CONFIG_BYTES, ProtectedArtifactKind, RefusedSettings, RepositoryPart,
    autorun_kind, ends_at_autorun_file, fold, follow, has_name, identify_place, identity, is_in_package,
    is_repository, part, read_prefix, read_small, targets, targets_from_above, worktree_targets,
};
use toolgate_workspace::{DenyingRule, PathGrant, sanitised_git_config};

use crate::MAX_PROTECTIONS;
use crate::codec::Codec;
use crate::hard_links::HardLinkedFile;
use crate::inventory::{Inventory, inventory};
use crate::leftover::{ReportedLeftover, classify_leftover};
use crate::mount_tree::{MountTree, is_autorun_directory};
use crate::rebase_todo::{MAX_SEQUENCER_BYTES, executed_steps, is_sequencer_file};

/// How a place is protected from a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Protection {
    ReadOnly,
    Substitute(Vec<u8>),
    Mask { directory: bool },
}

/// What a walk has seen.
#[derive(Debug, Default)]
pub(super) struct ScanResult {
    pub(super) protections: Vec<(PathBuf, Protection)>,
    /// Files outside of the scope of the mount or the grant of the call.
    pub(super) out_of_scope: Vec<PathBuf>,
    /// Directories that contain a reachable file; recorded only where some files are not reachable.
    pub(super) reachable: Vec<PathBuf>,
    pub(super) repositories: Vec<PathBuf>,
    /// Symlinks with a protected name.
    pub(super) links: Vec<(PathBuf, FileIdentity)>,
    /// The existing files of all that will be judged afterwards.
    pub(super) known: HashMap<PathBuf, BaselineFile>,
    /// What git is configured to execute or read.
    pub(super) targets: Vec<AutorunTarget>,
    /// Regular files with several hard links, where those matter.
    pub(super) linked: HashMap<PathBuf, HardLinkedFile>,
    /// Existing files that would be reported if a command had left them.
    pub(super) reported: HashSet<ReportedLeftover>,
}

/// A file that existed before the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BaselineFile {
    pub(super) identity: FileIdentity,
    /// For a git configuration: the settings that make git execute or include something.
    pub(super) refused: RefusedSettings,
    /// For a rebase in progress: the steps that execute something.
    pub(super) steps: HashSet<Vec<u8>>,
    /// For a writable directory that a program loads as a whole: its content.
    pub(super) below: Option<Inventory>,
}

impl BaselineFile {
    fn new(identity: FileIdentity) -> Self {
        Self { identity, refused: RefusedSettings::default(), steps: HashSet::new(), below: None }
    }
}

impl BaselineFile {
    /// With places relative to another mount.
    pub(super) fn map_places(&self, place: impl Fn(&Path) -> Option<PathBuf>) -> Self {
        let moved = |below: &Inventory| {
            below.iter().filter_map(|(path, identity)| Some((place(path)?, *identity))).collect()
        };
        Self { below: self.below.as_ref().map(moved), ..self.clone() }
    }
}

impl Codec for BaselineFile {
    fn encode(&self, out: &mut Vec<u8>) {
        self.identity.encode(out);
        self.refused.settings().encode(out);
        self.steps.encode(out);
        self.below.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Option<Self> {
        let identity = Codec::decode(input)?;
        let refused = RefusedSettings::from_settings(Codec::decode(input)?);
        Some(Self { identity, refused, steps: Codec::decode(input)?, below: Codec::decode(input)? })
    }
}

impl ScanResult {
    pub(super) fn add(&mut self, other: Self) {
        self.protections.extend(other.protections);
        self.out_of_scope.extend(other.out_of_scope);
        self.reachable.extend(other.reachable);
        self.repositories.extend(other.repositories);
        self.links.extend(other.links);
        self.targets.extend(other.targets);
        self.linked.extend(other.linked);
        self.reported.extend(other.reported);
        for (place, known) in other.known {
            self.known.entry(place).or_insert(known);
        }
    }

    /// What an earlier walk has seen and still exists: an overlay needs an existing place.
    pub(super) fn retain_existing(mut self, ground: &MountTree<'_>) -> Self {
        let kind =
            |place: &Path| ground.mount.directory().symlink_metadata(place).ok().map(|found| found.is_dir());
        self.protections.retain(|(place, seal)| match (kind(place), seal) {
            (Some(found), Protection::Mask { directory }) => found == *directory,
            (Some(found), Protection::Substitute(_)) => !found,
            (found, Protection::ReadOnly) => found.is_some(),
            (None, _) => false,
        });
        self.out_of_scope.retain(|place| kind(place) == Some(false));
        self.repositories.retain(|place| kind(place) == Some(true));
        // For symlinks and targets only the latest walk counts.
        self.links.clear();
        self.targets.clear();
        self.linked.clear();
        self
    }
}

/// What is known about the directory of an entry.
#[derive(Clone, Copy)]
struct DirContext {
    in_repository: bool,
    in_hooks: bool,
}

/// One thread of the walk.
pub(super) struct Scanner<'l> {
    ground: &'l MountTree<'l>,
    writable: bool,
    grant: Option<&'l dyn PathGrant>,
    asks_everything: bool,
    is_limited: bool,
    seen: ScanResult,
}

impl<'l> Scanner<'l> {
    pub(super) fn new(ground: &'l MountTree<'l>, writable: bool, grant: Option<&'l dyn PathGrant>) -> Self {
        let is_limited = grant.is_some() || ground.has_scope();
        let asks_everything = is_limited || ground.has_globs();
        Self { ground, writable, grant, asks_everything, is_limited, seen: ScanResult::default() }
    }

    pub(super) fn into_result(self) -> ScanResult {
        self.seen
    }

    fn protect(&mut self, place: PathBuf, seal: Protection) {
        self.seen.protections.push((place, seal));
    }

    /// Whether to descend into the entry.
    fn entry(&mut self, folder: &ScannedDir<'_>, around: DirContext, entry: ScannedEntry<'_>) -> bool {
        let is_directory = entry.kind == EntryKind::Directory;
        let name = entry.name.to_bytes();
        let is_special = around.in_repository || around.in_hooks || self.asks_everything;
        let is_ordinary = !is_special && entry.kind != EntryKind::Other;
        if is_ordinary && !self.ground.may_match(name) {
            return is_directory;
        }
        let name = Path::new(OsStr::from_bytes(name));
        let (place, folded) = (folder.path().join(name), fold(name));
        let part = part(&folded).filter(|_| around.in_repository);
        if self.writable && self.ground.is_judged(&place, part) {
            self.remember(folder.handle(), entry.name, &place);
        }
        if self.writable && folded == ".git" {
            let directory = self.ground.mount.host_root().join(folder.path());
            self.targets(worktree_targets(self.ground.mount, &directory, &self.ground.personal));
        }
        match entry.kind {
            EntryKind::Symlink => self.link(folder, entry, place, &folded, part),
            // The process at the other end of a socket or FIFO might be unconfined.
            EntryKind::Other => self.protect(place, Protection::Mask { directory: false }),
            EntryKind::File => self.file(folder, entry, place, &folded, part),
            EntryKind::Directory => {
                let enters = self.directory(place.clone(), part);
                // The walk does not descend, so the directory is recorded as a whole.
                if self.writable && !enters {
                    self.remember(folder.handle(), entry.name, &place);
                }
                return enters;
            }
        }
        false
    }

    /// The identity is read before the content, so the content is of this version or a newer one.
    fn remember(&mut self, folder: BorrowedFd<'_>, name: &CStr, place: &Path) {
        let Some(identity) = identity(folder, name) else { return };
        let mut known = BaselineFile::new(identity);
        if is_sequencer_file(&fold(place)) {
            let content = read_small(folder, name, MAX_SEQUENCER_BYTES).unwrap_or_default();
            known.steps = executed_steps(&fold(place), &content);
        }
        self.seen.known.insert(place.to_path_buf(), known);
    }

    fn directory(&mut self, place: PathBuf, part: Option<RepositoryPart>) -> bool {
        let denied = self.ground.denied(&place, true);
        if denied.is_some_and(is_operators) {
            self.protect(place, Protection::Mask { directory: true });
            return false;
        }
        let is_read_only = self.ground.is_read_only_mount(&place);
        if part == Some(RepositoryPart::Hooks) || is_read_only {
            self.protect(place, Protection::ReadOnly);
        } else if denied.is_some() {
            self.protect(place, Protection::Mask { directory: true });
            return false;
        } else if self.ground.is_protected_place(&place)
            || (ends_at_autorun_file(&fold(&place), true) && !self.is_package_content(&place))
        {
            self.protect(place, Protection::ReadOnly);
        }
        true
    }

    /// Whether a directory lies in a package directory, and its whole content could be recorded.
    fn is_package_content(&mut self, place: &Path) -> bool {
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
        folder: &ScannedDir<'_>,
        entry: ScannedEntry<'_>,
        place: PathBuf,
        folded: &str,
        part: Option<RepositoryPart>,
    ) {
        // Git reads a configuration even if the rules hide it from tools.
        let config = (part == Some(RepositoryPart::Config)).then(|| {
            let content = read_small(folder.handle(), entry.name, MAX_CONFIG_BYTES);
            self.config(folder.path(), &place, content)
        });
        let denied = self.ground.denied(&place, false);
        if denied.is_some_and(is_operators) {
            return self.protect(place, Protection::Mask { directory: false });
        }
        if self.is_limited && !self.ground.is_in_scope(&place, self.grant) {
            return self.seen.out_of_scope.push(place);
        }
        let seal = match part {
            Some(RepositoryPart::Config) => config.flatten(),
            Some(RepositoryPart::Hooks | RepositoryPart::CommonDirectory) => Some(Protection::ReadOnly),
            // It points git to the repository.
            None if folded == ".git" => Some(Protection::ReadOnly),
            None if denied.is_some() => Some(Protection::Mask { directory: false }),
            None if is_read_only_file(&fold(&place)) || !self.ground.may_change(&place) => {
                Some(Protection::ReadOnly)
            }
            None => None,
        };
        match seal {
            Some(seal) => self.protect(place, seal),
            None if self.is_limited => self.note_reachable(folder.path()),
            None => {}
        }
    }

    fn note_reachable(&mut self, folder: &Path) {
        if self.seen.reachable.last().is_none_or(|last| last != folder) {
            self.seen.reachable.push(folder.to_path_buf());
        }
    }

    /// A symlink cannot have an overlay: its target gets one at its own place, and a change of the symlink is detected afterwards.
    fn link(
        &mut self,
        folder: &ScannedDir<'_>,
        entry: ScannedEntry<'_>,
        place: PathBuf,
        folded: &str,
        part: Option<RepositoryPart>,
    ) {
        if let Some(part) = part {
            self.protect_link_target(&place, part);
        }
        let is_denied = self.ground.denied(&place, false).is_some();
        let is_obeyed = autorun_kind(&fold(&place)).is_some() || self.ground.is_protected_place(&place);
        if part.is_none() && is_denied {
            self.mask_link_target(&place);
        }
        if part.is_none() && is_obeyed && self.writable {
            self.target(AutorunTarget::new(self.ground.mount, &place, ProtectedArtifactKind::ProgramConfig));
        }
        let is_above = is_autorun_directory(folded) || self.ground.is_above_protected_place(&place);
        let is_protected = part.is_some() || is_above || is_denied || is_obeyed;
        if self.writable
            && is_protected
            && let Some(identity) = identity(folder.handle(), entry.name)
        {
            self.seen.links.push((place, identity));
        }
    }

    /// A secret is one under every name. But a directory that contains the symlink itself is not masked: it holds more than the secret.
    fn mask_link_target(&mut self, place: &Path) {
        let Some(opened) = follow(self.ground.mount, place) else { return };
        let directory = opened.is_directory();
        let is_denied = self.ground.denied(place, directory).is_some();
        if is_denied && !place.starts_with(&opened.location) {
            self.protect(opened.location, Protection::Mask { directory });
        }
    }

    /// Git follows symlinks to its hooks and its configuration, so their targets in the mount are protected like these.
    fn protect_link_target(&mut self, place: &Path, part: RepositoryPart) {
        let Some(opened) = follow(self.ground.mount, place) else { return };
        if opened.location.as_os_str().is_empty() || (part == RepositoryPart::Config && opened.is_directory())
        {
            return;
        }
        let mount = self.ground.mount;
        let (target, seal) = match part {
            RepositoryPart::Config => {
                let content = read_prefix(&opened.file, MAX_CONFIG_BYTES);
                let target =
                    AutorunTarget::config(mount, place, &opened, content.as_deref().unwrap_or_default());
                let repository = place.parent().unwrap_or(Path::new(""));
                (target, self.config(repository, &opened.location, content))
            }
            RepositoryPart::Hooks => {
                (AutorunTarget::new(mount, place, ProtectedArtifactKind::Hook), Some(Protection::ReadOnly))
            }
            RepositoryPart::CommonDirectory => (
                AutorunTarget::new(mount, place, ProtectedArtifactKind::GitPointer),
                Some(Protection::ReadOnly),
            ),
        };
        if self.writable {
            self.seen.targets.push(target);
        }
        if let Some(seal) = seal {
            self.protect(opened.location, seal);
        }
    }

    /// Substitutes a sanitised copy for a configuration, and makes the files read-only that the original names.
    fn config(
        &mut self,
        repository: &Path,
        place: &Path,
        content: io::Result<Vec<u8>>,
    ) -> Option<Protection> {
        if let Ok(content) = &content
            && self.writable
        {
            if let Some(known) = self.seen.known.get_mut(place) {
                known.refused = RefusedSettings::of(content);
            }
            // For a repository called `.git`, the names were resolved with its worktree.
            if !has_name(repository, ".git") {
                self.targets(targets(self.ground.mount, repository, content));
            }
        }
        sanitised(content)
    }

    fn targets(&mut self, targets: Vec<AutorunTarget>) {
        targets.into_iter().for_each(|target| self.target(target));
    }

    fn target(&mut self, target: AutorunTarget) {
        if let Some(location) = target.read_only_path() {
            self.seen.protections.push((location.to_path_buf(), Protection::ReadOnly));
        }
        self.seen.targets.push(target);
    }
}

/// Whether the operator denied a place or it belongs to the gate, so that no purpose of it counts.
fn is_operators(rule: DenyingRule<'_>) -> bool {
    !matches!(rule, DenyingRule::BuiltIn(_))
}

/// Whether a program executes or reads a file at this folded place, and a command must not change it.
fn is_read_only_file(folded: &str) -> bool {
    ends_at_autorun_file(folded, false) && !is_in_package(folded)
}

/// The overlay for a configuration; one that cannot be read is masked.
fn sanitised(content: io::Result<Vec<u8>>) -> Option<Protection> {
    match content {
        Ok(content) => Some(Protection::Substitute(sanitised_git_config(&content))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(_) => Some(Protection::Mask { directory: false }),
    }
}

impl TreeVisitor for Scanner<'_> {
    fn visit_dir(&mut self, folder: &ScannedDir<'_>, enter: &mut dyn FnMut(ScannedEntry<'_>)) {
        // Beyond the limit the result is an error anyway.
        if self.seen.protections.len() > MAX_PROTECTIONS {
            return;
        }
        let in_repository = is_repository(folder);
        let around =
            DirContext { in_repository, in_hooks: self.writable && has_name(folder.path(), "hooks") };
        if self.writable && folder.path().as_os_str().is_empty() {
            self.targets(targets_from_above(self.ground.mount, &self.ground.personal));
        }
        let is_recent = self.writable && folder.ctime() >= self.ground.since;
        if in_repository {
            self.seen.repositories.push(folder.path().to_path_buf());
        }
        for entry in folder.entries() {
            if self.writable && entry.kind == EntryKind::File && self.ground.protects_links() {
                let linked = HardLinkedFile::look(folder.handle(), entry.name);
                let place = || folder.path().join(OsStr::from_bytes(entry.name.to_bytes()));
                self.seen.linked.extend(linked.map(|linked| (place(), linked)));
            }
            if is_recent && let Some((left, inode)) = classify_leftover(self.ground, folder, entry) {
                self.seen.reported.insert((left.path, inode));
            }
            if self.entry(folder, around, entry) {
                enter(entry);
            }
        }
    }

    fn visit_unreadable(&mut self, place: &Path) {
        if let Some(identity) = identify_place(self.ground.mount, place).filter(|_| self.writable) {
            self.seen.known.insert(place.to_path_buf(), BaselineFile::new(identity));
        }
        // The command may own it, and could `chmod` it.
        self.protect(place.to_path_buf(), Protection::Mask { directory: true });
    }
}
