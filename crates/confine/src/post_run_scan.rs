//! The walk after a command: what it put under a name that other programs execute or read as configuration.
//!
//! Only new and changed files are examined. New secrets stay where they are: they are denied from now on, and execute nothing.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use toolgate_search::{EntryKind, ScannedDir, ScannedEntry, TreeScan, TreeVisitor, scan_tree};
use toolgate_types::Deadline;
use toolgate_workspace::WorkspaceError;
use toolgate_workspace::internals::{
    ConfigVerdict, FileIdentity, MAX_CONFIG_BYTES, ProtectedArtifact, ProtectedArtifactKind, RepositoryPart,
    autorun_kind, ends_at_autorun_file, fold, has_name, identify_place, identity, is_head, is_repository,
    judge, new_targets, part, read_small,
};

use crate::ConfinedMount;
use crate::baseline::Baseline;
use crate::inventory::inventory;
use crate::leftover::{Leftover, MAX_LEFTOVERS, ReportedLeftover, classify_leftover};
use crate::mount_tree::{MountTree, is_autorun_directory};
use crate::rebase_todo::{MAX_SEQUENCER_BYTES, executed_steps, is_sequencer_directory, is_sequencer_file};
use crate::scanner::BaselineFile;

/// A file that points to a repository holds one path.
const MAX_GIT_POINTER_BYTES: usize = 64 * 1024;

/// Git knows fewer hooks than this; with more of them the whole directory is quarantined.
const MAX_HOOKS: usize = 64;

/// What a command left in a mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PostRunScan {
    /// What must not stay, in path order.
    pub found: Vec<ProtectedArtifact>,
    /// Whether the scan did not finish before its deadline, so that there may be more.
    pub incomplete: bool,
    /// Whether a directory was moved before it could be read: its content was not scanned, and another walk may find it.
    pub missed: bool,
    /// What stays and is only reported, in path order.
    pub leftovers: Vec<Leftover>,
}

impl ConfinedMount<'_> {
    /// What the command left in this mount that must not stay. To be called when no process of the command is alive any more, and with a deadline of
    /// its own: what is not scanned stays.
    ///
    /// # Errors
    /// A tree that cannot be walked.
    pub fn scan_after_run(&self, stop: &Deadline) -> Result<PostRunScan, WorkspaceError> {
        if !self.writable {
            return Ok(PostRunScan::default());
        }
        let (ground, before, judged) = (&self.tree, &*self.baseline, &ConfigVerdictCache::default());
        let told = &self.reported;
        let search =
            || PostRunScanner { ground, before, judged, reported: told, found: PostRunFindings::default() };
        let TreeScan { visitors: surveyors, stopped, incomplete: missed, .. } =
            scan_tree(ground.mount.as_fd(), stop, search).map_err(WorkspaceError::other)?;
        let mut found = PostRunFindings::default();
        surveyors.into_iter().for_each(|search| found.add(search.found));
        found.artifacts.extend(before.targets.iter().filter_map(|target| target.artifact(ground.mount)));
        let worktrees = found.new_worktrees(before);
        found.artifacts.extend(new_targets(ground.mount, &worktrees, &ground.personal));
        let mut leftovers = std::mem::take(&mut found.leftovers);
        leftovers.sort();
        Ok(PostRunScan {
            found: found.into_artifacts(ground),
            incomplete: stopped.is_some(),
            missed,
            leftovers,
        })
    }
}

/// Cached verdicts on configurations: one file may have thousands of hard links.
#[derive(Default)]
struct ConfigVerdictCache(Mutex<HashMap<FileIdentity, ConfigVerdict>>);

impl ConfigVerdictCache {
    fn judge(&self, identity: FileIdentity, judge: impl FnOnce() -> ConfigVerdict) -> ConfigVerdict {
        if let Some(known) = self.known().get(&identity) {
            return known.clone();
        }
        let judgement = judge();
        self.known().insert(identity, judgement.clone());
        judgement
    }

    fn known(&self) -> MutexGuard<'_, HashMap<FileIdentity, ConfigVerdict>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a walk has found.
#[derive(Default)]
struct PostRunFindings {
    artifacts: Vec<ProtectedArtifact>,
    repositories: HashSet<PathBuf>,
    /// Files in a directory called `hooks`, which may be that of a repository.
    hooks: Vec<ProtectedArtifact>,
    /// The `HEAD` files of new repositories that are not called `.git`.
    heads: Vec<ProtectedArtifact>,
    /// Files that point to a repository, with their content.
    pointers: Vec<(ProtectedArtifact, Vec<u8>)>,
    closed: Vec<PathBuf>,
    leftovers: Vec<Leftover>,
}

impl PostRunFindings {
    fn add(&mut self, other: Self) {
        self.artifacts.extend(other.artifacts);
        self.repositories.extend(other.repositories);
        self.hooks.extend(other.hooks);
        self.heads.extend(other.heads);
        self.pointers.extend(other.pointers);
        self.closed.extend(other.closed);
        self.leftovers.extend(other.leftovers);
    }

    /// The directories whose `.git` is new or was replaced.
    fn new_worktrees(&self, before: &Baseline) -> Vec<PathBuf> {
        let repositories = self.repositories.iter().filter(|place| !before.repositories.contains(*place));
        let pointers = self.pointers.iter().map(|(stray, _)| &stray.location);
        let dot_git = repositories.chain(pointers).filter(|place| has_name(place, ".git"));
        dot_git.filter_map(|place| place.parent().map(Path::to_path_buf)).collect()
    }

    /// Resolves findings that depend on the set of all repositories, which is known only now.
    fn into_artifacts(mut self, ground: &MountTree<'_>) -> Vec<ProtectedArtifact> {
        let repositories = self.repositories;
        let is_hook = |stray: &ProtectedArtifact| {
            let repository = stray.location.parent().and_then(Path::parent);
            repository.is_some_and(|repository| repositories.contains(repository))
        };
        self.hooks.retain(is_hook);
        self.artifacts.extend(collapse_hooks(ground, self.hooks));
        let leads_astray = |(stray, content): &(ProtectedArtifact, Vec<u8>)| {
            !points_to_known_gitdir(ground, &repositories, stray, content)
        };
        self.artifacts.extend(self.pointers.into_iter().filter(leads_astray).map(|(stray, _)| stray));
        let closed = self.closed.into_iter().filter_map(|location| {
            let identity = identify_place(ground.mount, &location)?;
            Some(ProtectedArtifact { location, kind: ProtectedArtifactKind::Unreadable, identity })
        });
        self.artifacts.extend(closed);
        let mut strays = collapse_repositories(self.artifacts, self.heads);
        strays.sort_by(|one, other| one.location.cmp(&other.location));
        strays.dedup_by(|one, other| one.location == other.location);
        strays
    }
}

/// Quarantining `HEAD` is enough to undo a new repository; its other content may be the user's work.
fn collapse_repositories(
    strays: Vec<ProtectedArtifact>,
    heads: Vec<ProtectedArtifact>,
) -> Vec<ProtectedArtifact> {
    let new: HashSet<PathBuf> =
        heads.iter().filter_map(ProtectedArtifact::directory).map(Path::to_path_buf).collect();
    let repository = |stray: &ProtectedArtifact| {
        stray.repository().filter(|folder| new.contains(*folder)).map(Path::to_path_buf)
    };
    let doomed: HashSet<PathBuf> = strays.iter().filter_map(repository).collect();
    let elsewhere = strays.into_iter().filter(|stray| repository(stray).is_none());
    let is_doomed = |head: &ProtectedArtifact| head.directory().is_some_and(|folder| doomed.contains(folder));
    elsewhere.chain(heads.into_iter().filter(is_doomed)).collect()
}

/// Many hooks in one directory are quarantined together with the directory.
fn collapse_hooks(ground: &MountTree<'_>, hooks: Vec<ProtectedArtifact>) -> Vec<ProtectedArtifact> {
    let mut by_folder: BTreeMap<PathBuf, Vec<ProtectedArtifact>> = BTreeMap::new();
    for hook in hooks {
        by_folder.entry(hook.directory().unwrap_or(Path::new("")).to_path_buf()).or_default().push(hook);
    }
    let bundle = |(location, hooks): (PathBuf, Vec<ProtectedArtifact>)| match identify_place(
        ground.mount,
        &location,
    ) {
        Some(identity) if hooks.len() > MAX_HOOKS => {
            vec![ProtectedArtifact { location, kind: ProtectedArtifactKind::Hook, identity }]
        }
        _ => hooks,
    };
    by_folder.into_iter().flat_map(bundle).collect()
}

/// One thread of the walk.
struct PostRunScanner<'s> {
    ground: &'s MountTree<'s>,
    before: &'s Baseline,
    judged: &'s ConfigVerdictCache,
    /// Leftovers that existed when the command began: filesystem timestamps are too coarse to exclude them.
    reported: &'s HashSet<ReportedLeftover>,
    found: PostRunFindings,
}

/// What is known about the directory of an entry.
#[derive(Clone, Copy)]
struct PostRunDirContext {
    in_repository: bool,
    /// Whether the repository is new, and is not called `.git` either.
    is_new: bool,
    in_hooks: bool,
    /// Whether these are files in a directory called `hooks` that was no repository's before: they were harmless then, so the baseline does not
    /// excuse them.
    is_unknown: bool,
    /// Whether an entry in it may have got its name since the command began.
    is_recent: bool,
}

impl PostRunScanner<'_> {
    /// Whether to descend into the entry.
    fn entry(&mut self, folder: &ScannedDir<'_>, around: PostRunDirContext, entry: ScannedEntry<'_>) -> bool {
        let is_directory = entry.kind == EntryKind::Directory;
        let name = entry.name.to_bytes();
        if around.is_recent && self.found.leftovers.len() < MAX_LEFTOVERS {
            let found = classify_leftover(self.ground, folder, entry);
            let is_new =
                |(left, inode): &(Leftover, u64)| !self.reported.contains(&(left.path.clone(), *inode));
            self.found.leftovers.extend(found.filter(is_new).map(|(left, _)| left));
        }
        let is_special = around.in_repository || around.in_hooks || self.ground.has_globs();
        if !is_special && !self.ground.may_match(name) {
            return is_directory;
        }
        let name = Path::new(OsStr::from_bytes(name));
        let (place, folded) = (folder.path().join(name), fold(name));
        let part = part(&folded).filter(|_| around.in_repository);
        let Some(identity) = identity(folder.handle(), entry.name) else { return false };
        if let Some(enters) = self.enters_known(&place, is_directory, identity)
            && !around.is_unknown
        {
            return enters;
        }
        let stray = |kind| ProtectedArtifact { location: place.clone(), kind, identity };
        if self.ground.is_gate_owned(&place) {
            self.found.artifacts.push(stray(ProtectedArtifactKind::OwnFile));
            return false;
        }
        if around.is_new && is_head(entry.name.to_bytes()) {
            self.found.heads.push(stray(ProtectedArtifactKind::Repository));
        }
        if around.in_hooks && !is_directory && !folded.ends_with(".sample") {
            self.found.hooks.push(stray(ProtectedArtifactKind::Hook));
        }
        match entry.kind {
            EntryKind::Symlink if around.in_repository && is_sequencer_directory(&folded) => {
                self.found.artifacts.push(stray(ProtectedArtifactKind::Link));
            }
            EntryKind::Symlink if self.is_protected(&place, &folded, part) => {
                if self.before.links.get(&place) != Some(&identity) {
                    self.found.artifacts.push(stray(ProtectedArtifactKind::Link));
                }
            }
            EntryKind::File => self.file(folder, entry, stray, &folded, part),
            EntryKind::Directory
                if ends_at_autorun_file(&fold(&place), true) || self.ground.is_protected_place(&place) =>
            {
                self.found.artifacts.push(stray(ProtectedArtifactKind::ProgramConfig));
                return false;
            }
            EntryKind::Symlink | EntryKind::Directory | EntryKind::Other => {}
        }
        is_directory
    }

    /// Whether to descend into an unchanged entry; `None` for a changed one. An overlay is no proof: it goes away when an unconfined process moves
    /// the place it is mounted on.
    fn enters_known(&self, place: &Path, is_directory: bool, now: FileIdentity) -> Option<bool> {
        let BaselineFile { identity: known, below, .. } = self.before.known.get(place)?;
        if below.is_some() && inventory(self.ground.mount, place) != *below {
            return None;
        }
        // The gate writes its own files while a command runs, and the content of a directory is compared by itself.
        let may_change = is_directory || self.ground.is_gate_owned(place);
        let is_known = if may_change { known.is_same_file(&now) } else { *known == now };
        is_known.then(|| is_directory && !self.before.hidden.contains(place))
    }

    fn is_protected(&self, place: &Path, folded: &str, part: Option<RepositoryPart>) -> bool {
        part.is_some()
            || is_autorun_directory(folded)
            || is_sequencer_file(&fold(place))
            || self.ground.is_protected_place(place)
            || self.ground.is_above_protected_place(place)
            || ends_at_autorun_file(&fold(place), false)
            || self.ground.denied(place, false).is_some()
    }

    fn file(
        &mut self,
        folder: &ScannedDir<'_>,
        entry: ScannedEntry<'_>,
        stray: impl Fn(ProtectedArtifactKind) -> ProtectedArtifact,
        folded: &str,
        part: Option<RepositoryPart>,
    ) {
        let read = |most| read_small(folder.handle(), entry.name, most);
        match part {
            Some(RepositoryPart::Config) => {
                let stray = stray(ProtectedArtifactKind::GitConfig);
                if !self.is_harmless(folder.path(), &stray, || read(MAX_CONFIG_BYTES)) {
                    self.found.artifacts.push(stray);
                }
            }
            Some(RepositoryPart::CommonDirectory) => {
                self.pointer(stray(ProtectedArtifactKind::GitPointer), read(MAX_GIT_POINTER_BYTES))
            }
            None if folded == ".git" => {
                self.pointer(stray(ProtectedArtifactKind::GitPointer), read(MAX_GIT_POINTER_BYTES))
            }
            // A regular file called `hooks` is not a hooks directory.
            Some(RepositoryPart::Hooks) | None => {
                let named = stray(ProtectedArtifactKind::ProgramConfig);
                if is_sequencer_file(&fold(&named.location))
                    && self.has_new_steps(&named, read(MAX_SEQUENCER_BYTES))
                {
                    // It takes effect only in a repository, like what lies among hooks.
                    self.found
                        .hooks
                        .push(ProtectedArtifact { kind: ProtectedArtifactKind::GitTodo, ..named });
                } else if let Some(kind) = autorun_kind(&fold(&named.location)) {
                    self.found.artifacts.push(ProtectedArtifact { kind, ..named });
                } else if self.ground.is_protected_place(&named.location) {
                    self.found.artifacts.push(named);
                }
            }
        }
    }

    fn is_harmless(
        &self,
        repository: &Path,
        stray: &ProtectedArtifact,
        read: impl FnOnce() -> io::Result<Vec<u8>>,
    ) -> bool {
        let before = self.before.known.get(&stray.location).map(|known| &known.refused);
        let judge = || read().map_or(ConfigVerdict::Harmful, |content| judge(&content, before));
        // The verdict with a baseline holds for this place only, so it is not cached.
        let judgement = if before.is_none() { self.judged.judge(stray.identity, judge) } else { judge() };
        match judgement {
            ConfigVerdict::Harmless { worktree } => {
                worktree.is_none_or(|place| self.is_worktree(repository, &place))
            }
            ConfigVerdict::Harmful => false,
        }
    }

    /// Unreadable content counts as new.
    fn has_new_steps(&self, todo: &ProtectedArtifact, content: io::Result<Vec<u8>>) -> bool {
        let Some(content) = content.ok().filter(|content| content.len() <= MAX_SEQUENCER_BYTES) else {
            return true;
        };
        let before = self.before.known.get(&todo.location).map(|known| &known.steps);
        executed_steps(&fold(&todo.location), &content)
            .iter()
            .any(|step| !before.is_some_and(|before| before.contains(step)))
    }

    /// An unreadable pointer is treated as empty, and so leads to no known repository.
    fn pointer(&mut self, stray: ProtectedArtifact, content: io::Result<Vec<u8>>) {
        self.found.pointers.push((stray, content.unwrap_or_default()));
    }

    /// Git writes `core.worktree` into a submodule's configuration; any other repository lies in its own worktree.
    fn is_worktree(&self, repository: &Path, value: &str) -> bool {
        let is_module = repository.components().any(|name| name.as_os_str() == "modules");
        let place =
            resolve_relative(repository, Path::new(value)).filter(|place| !place.as_os_str().is_empty());
        is_module && place.is_some_and(|place| identify_place(self.ground.mount, &place).is_some())
    }
}

impl TreeVisitor for PostRunScanner<'_> {
    fn visit_dir(&mut self, folder: &ScannedDir<'_>, enter: &mut dyn FnMut(ScannedEntry<'_>)) {
        let (place, in_repository) = (folder.path(), is_repository(folder));
        let is_new = in_repository && !has_name(place, ".git") && !self.before.repositories.contains(place);
        let in_hooks = has_name(place, "hooks");
        let repository = place.parent().filter(|_| in_hooks);
        let is_unknown = repository.is_some_and(|place| !self.before.repositories.contains(place));
        let is_recent = folder.ctime() >= self.ground.since;
        let around = PostRunDirContext { in_repository, is_new, in_hooks, is_unknown, is_recent };
        if around.in_repository {
            self.found.repositories.insert(folder.path().to_path_buf());
        }
        for entry in folder.entries() {
            if self.entry(folder, around, entry) {
                enter(entry);
            }
        }
    }

    fn visit_unreadable(&mut self, place: &Path) {
        let known = self.before.known.get(place).filter(|_| self.before.hidden.contains(place));
        let now = identify_place(self.ground.mount, place);
        if !known.zip(now).is_some_and(|(known, now)| known.identity.is_same_file(&now)) {
            self.found.closed.push(place.to_path_buf());
        }
    }
}

/// Whether a file points to the place where a repository in the mount keeps its worktrees and submodules.
fn points_to_known_gitdir(
    ground: &MountTree<'_>,
    repositories: &HashSet<PathBuf>,
    stray: &ProtectedArtifact,
    content: &[u8],
) -> bool {
    let Some(folder) = stray.location.parent() else { return false };
    let content = content.trim_ascii_end();
    let Some(path) = content.strip_prefix(b"gitdir: ").filter(|_| !has_name(&stray.location, "commondir"))
    else {
        // The repository of a linked worktree is two levels above the worktree's own directory.
        let above = folder.parent().filter(|above| above.ends_with("worktrees")).and_then(Path::parent);
        return content == b"../.." && above.is_some_and(|above| repositories.contains(above));
    };
    let path = Path::new(OsStr::from_bytes(path));
    let target = if path.is_absolute() {
        ground.mount.strip_root(path).map(Path::to_path_buf)
    } else {
        resolve_relative(folder, path)
    };
    let kept_for = |folder: &Path| {
        let is_kept = folder.ends_with("worktrees") || folder.ends_with("modules");
        is_kept && folder.parent().is_some_and(|repository| repositories.contains(repository))
    };
    // The walk follows no symlinks, so a known repository really lies at its path.
    target.is_some_and(|target| repositories.contains(&target) && target.ancestors().skip(1).any(kept_for))
}

/// Resolves a relative path from a directory, if it goes up first and then only down.
fn resolve_relative(folder: &Path, path: &Path) -> Option<PathBuf> {
    let mut place = folder.to_path_buf();
    let mut goes_down = false;
    for component in path.components() {
        match component {
            Component::ParentDir if !goes_down && place.pop() => {}
            Component::Normal(name) => {
                goes_down = true;
                place.push(name);
            }
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(place)
}
