//! The files that a repository's configuration makes git execute or read.
//!
//! Existing ones are made read-only. Missing ones, and symlinks on the path, cannot have an overlay: where each of them leads is recorded, and
//! compared after the command.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::file_identity::{FileIdentity, identify_place, read_prefix};
use crate::git_config::{ConfigReference, ConfigVerdict, MAX_CONFIG_BYTES, RefusedSettings, judge};
use crate::git_discovery::{
    GitConfigFile, GitDirectory, absolute, configurations_of, open_beneath, personal_configurations,
};
use crate::mount::Mount;
use crate::name_fold::fold;
use crate::open::{OpenedFile, identify};
use crate::protected_artifact::{ProtectedArtifact, ProtectedArtifactKind};
use crate::rules::is_at_or_below;

/// The hooks that git knows, for a directory that cannot be read-only as a whole.
const HOOKS: [&str; 28] = [
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "p4-changelist",
    "p4-post-changelist",
    "p4-pre-submit",
    "p4-prepare-changelist",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-receive",
    "post-rewrite",
    "post-update",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "pre-receive",
    "prepare-commit-msg",
    "proc-receive",
    "push-to-checkout",
    "reference-transaction",
    "sendemail-validate",
    "update",
];

/// A place that a program outside the sandbox executes or reads as configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutorunTarget {
    /// The path as configured, relative to the mount.
    pub path: PathBuf,
    /// Which kind of file it is.
    pub purpose: TargetPurpose,
    /// How a new file there is reported.
    pub kind: ProtectedArtifactKind,
    /// The symlinks on the path.
    pub links: HashMap<PathBuf, FileIdentity>,
    /// The file that it leads to.
    pub leads_to: Option<(PathBuf, FileIdentity)>,
}

/// Which kind of file a target is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetPurpose {
    /// A file or directory of any kind.
    Anything,
    /// A file.
    File,
    /// A configuration, with the settings that make git execute or include something; `None` if it did not exist.
    Config(Option<RefusedSettings>),
}

impl AutorunTarget {
    /// A target of any file type.
    #[must_use]
    pub fn new(mount: &Mount, place: &Path, kind: ProtectedArtifactKind) -> Self {
        let target = Self::with(mount, place, TargetPurpose::Anything, follow(mount, place).as_ref());
        Self { kind, ..target }
    }

    /// A configuration that git reads through a symlink.
    #[must_use]
    pub fn config(mount: &Mount, place: &Path, found: &OpenedFile, content: &[u8]) -> Self {
        Self::with(mount, place, TargetPurpose::Config(Some(RefusedSettings::of(content))), Some(found))
    }

    fn with(mount: &Mount, place: &Path, purpose: TargetPurpose, found: Option<&OpenedFile>) -> Self {
        Self { links: links(mount, place), ..Self::without_links(place, purpose, found) }
    }

    fn without_links(place: &Path, purpose: TargetPurpose, found: Option<&OpenedFile>) -> Self {
        let leads_to = found.map(|opened| (opened.location.clone(), FileIdentity::of(&opened.stat)));
        let kind = ProtectedArtifactKind::GitTarget;
        Self { links: HashMap::new(), path: place.to_path_buf(), purpose, kind, leads_to }
    }

    /// The existing file to make read-only.
    #[must_use]
    pub fn read_only_path(&self) -> Option<&Path> {
        let location = self.leads_to.as_ref().map(|(location, _)| location.as_path());
        location.filter(|location| !location.as_os_str().is_empty())
    }

    /// Whether a folded location is, or lies in, this target.
    fn holds(&self, location: &str) -> bool {
        let is_in = |place: &Path| !place.as_os_str().is_empty() && is_at_or_below(location, &fold(place));
        is_in(&self.path) || self.read_only_path().is_some_and(is_in)
    }

    /// The path as configured.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// With places relative to another mount; `None` where it is not in that mount.
    #[must_use]
    pub fn map_places(&self, place: impl Fn(&Path) -> Option<PathBuf>) -> Option<Self> {
        let links = self.links.iter().filter_map(|(link, identity)| Some((place(link)?, *identity)));
        let leads_to =
            self.leads_to.as_ref().and_then(|(location, identity)| Some((place(location)?, *identity)));
        Some(Self { path: place(&self.path)?, links: links.collect(), leads_to, ..self.clone() })
    }

    /// The artifact at this place, if it is new or changed.
    #[must_use]
    pub fn artifact(&self, mount: &Mount) -> Option<ProtectedArtifact> {
        let new_link =
            links(mount, &self.path).into_iter().find(|(place, now)| self.links.get(place) != Some(now));
        if let Some((location, identity)) = new_link {
            return Some(ProtectedArtifact { location, kind: ProtectedArtifactKind::Link, identity });
        }
        let opened = follow(mount, &self.path)?;
        let identity = FileIdentity::of(&opened.stat);
        let is_known = self.leads_to.as_ref().is_some_and(|(location, before)| {
            let is_same =
                if opened.is_directory() { before.is_same_file(&identity) } else { *before == identity };
            is_same && *location == opened.location
        });
        let is_obeyed = match &self.purpose {
            TargetPurpose::Anything => true,
            TargetPurpose::File => !opened.is_directory(),
            TargetPurpose::Config(before) => {
                let content = read_prefix(&opened.file, MAX_CONFIG_BYTES);
                !content.is_ok_and(|content| {
                    matches!(judge(&content, before.as_ref()), ConfigVerdict::Harmless { .. })
                })
            }
        };
        let is_stray = !is_known && is_obeyed && !opened.location.as_os_str().is_empty();
        is_stray.then_some(ProtectedArtifact { location: opened.location, kind: self.kind, identity })
    }
}

/// The targets of a configuration in the mount, for a repository that is not called `.git`: those are found from their worktrees.
#[must_use]
pub fn targets(mount: &Mount, repository: &Path, original: &[u8]) -> Vec<AutorunTarget> {
    let repository = GitDirectory::at(mount, mount.host_root().join(repository));
    let configurations = configurations_of(mount, repository.own.join("config"), original);
    let bases = repository.worktrees(mount);
    TargetFinder::new(mount, bases, &repository, ConfigOwner::Repository).all(&configurations)
}

/// The targets in the mount when git runs in a directory with a `.git` in it, given by its absolute path.
#[must_use]
pub fn worktree_targets(mount: &Mount, directory: &Path, personal: &[GitConfigFile]) -> Vec<AutorunTarget> {
    let Some(repository) = GitDirectory::of_worktree(mount, directory) else { return Vec::new() };
    targets_of_worktree(mount, directory, &repository, personal, TargetLinks::Found)
}

fn targets_of_worktree(
    mount: &Mount,
    directory: &Path,
    repository: &GitDirectory,
    personal: &[GitConfigFile],
    links: TargetLinks,
) -> Vec<AutorunTarget> {
    let mut bases = repository.worktrees(mount);
    bases.push(directory.to_path_buf());
    let configurations = repository.configurations(mount);
    let search = TargetFinder::new(mount, bases, repository, ConfigOwner::Repository);
    let own = TargetFinder { links, ..search }.all(&configurations);
    let personal = personal_targets(mount, directory, repository, personal, links);
    own.into_iter().chain(personal).collect()
}

/// The targets in the mount of repositories that contain it: its files are in their worktrees.
#[must_use]
pub fn targets_from_above(mount: &Mount, personal: &[GitConfigFile]) -> Vec<AutorunTarget> {
    let above = mount.host_root().ancestors().skip(1);
    above.flat_map(|directory| worktree_targets(mount, directory, personal)).collect()
}

/// The targets that exist because a command made repositories or worktrees: none of them was checked before.
#[must_use]
pub fn new_targets(
    mount: &Mount,
    worktrees: &[PathBuf],
    personal: &[GitConfigFile],
) -> Vec<ProtectedArtifact> {
    let directories = worktrees.iter().map(|place| mount.host_root().join(place));
    let targets = directories.flat_map(|directory| worktree_targets(mount, &directory, personal));
    targets
        .filter_map(|target| {
            AutorunTarget { leads_to: None, links: HashMap::new(), ..target }.artifact(mount)
        })
        .collect()
}

fn personal_targets(
    mount: &Mount,
    directory: &Path,
    repository: &GitDirectory,
    personal: &[GitConfigFile],
    links: TargetLinks,
) -> Vec<AutorunTarget> {
    let search = TargetFinder::new(mount, vec![directory.to_path_buf()], repository, ConfigOwner::User);
    TargetFinder { links, ..search }.all(personal)
}

/// Whether this location is a target of a repository that contains it, of a submodule of one, or of the user's own configuration. The latter applies
/// to every directory above it, since each may become a repository. Everything in a target is one too: if this is false for a location, it is for
/// every directory above it.
pub(crate) fn is_target(mount: &Mount, location: &Path) -> bool {
    let links = TargetLinks::Skipped;
    let personal = personal_configurations(mount);
    let folded = fold(location);
    let holds = |targets: Vec<AutorunTarget>| targets.iter().any(|target| target.holds(&folded));
    let whole = mount.host_root().join(location);
    whole.ancestors().skip(1).any(|directory| {
        let Some(repository) = GitDirectory::of_worktree(mount, directory) else {
            let none = GitDirectory { own: directory.join(".git"), common: directory.join(".git") };
            return !personal.is_empty()
                && holds(personal_targets(mount, directory, &none, &personal, links));
        };
        // With more submodules than can be examined, any file might be a target.
        let Some(modules) = repository.modules(mount) else { return true };
        let is_of_module = |module: PathBuf| {
            let module = GitDirectory::at(mount, module);
            let search = TargetFinder::new(mount, module.worktrees(mount), &module, ConfigOwner::Repository);
            holds(TargetFinder { links, ..search }.all(&module.configurations(mount)))
        };
        holds(targets_of_worktree(mount, directory, &repository, &personal, links))
            || modules.into_iter().any(is_of_module)
    })
}

/// Whose configuration is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConfigOwner {
    Repository,
    /// It applies to all repositories, so a single word in it is not a file of this one.
    User,
}

/// Whether the symlinks on the way to a target are looked for: one `lstat` for each directory above it, which adds up where every directory above a
/// location has targets of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TargetLinks {
    Found,
    Skipped,
}

/// All paths are absolute.
struct TargetFinder<'s> {
    mount: &'s Mount,
    links: TargetLinks,
    /// The directories from which git and its hooks are run.
    bases: Vec<PathBuf>,
    repository: &'s GitDirectory,
    whose: ConfigOwner,
    found: Vec<AutorunTarget>,
}

impl<'s> TargetFinder<'s> {
    fn new(mount: &'s Mount, bases: Vec<PathBuf>, repository: &'s GitDirectory, whose: ConfigOwner) -> Self {
        Self { mount, links: TargetLinks::Found, bases, repository, whose, found: Vec::new() }
    }

    fn all(mut self, configurations: &[GitConfigFile]) -> Vec<AutorunTarget> {
        for configuration in configurations {
            for name in &configuration.names {
                if let ConfigReference::Worktree(value) = name {
                    self.bases.extend(absolute(self.mount, configuration.directory(), value));
                }
            }
        }
        configurations.iter().for_each(|configuration| self.configuration(configuration));
        self.found
    }

    fn configuration(&mut self, configuration: &GitConfigFile) {
        let directory = configuration.directory();
        if let Some(place) = self.mount.strip_root(&configuration.path).filter(|_| configuration.is_included)
        {
            let opened = follow(self.mount, place).filter(|opened| !opened.is_directory());
            let purpose = TargetPurpose::Config(configuration.refused.clone());
            self.found.push(self.target(place, purpose, opened.as_ref()));
        }
        for name in &configuration.names {
            match name {
                ConfigReference::Hooks(value) => self.each_place(directory, value, Self::hooks),
                ConfigReference::Path(value) => {
                    self.each_place(directory, value, |search, place| _ = search.path(place))
                }
                ConfigReference::Word(value) => {
                    self.each_place(directory, value, |search, place| search.word(value, place))
                }
                ConfigReference::Worktree(_) | ConfigReference::Include(_) => {}
            }
        }
    }

    /// Settings differ in what their paths are relative to; all bases are tried.
    fn each_place(&mut self, directory: &Path, value: &str, mut then: impl FnMut(&mut Self, PathBuf)) {
        let bases = self.bases.iter().map(PathBuf::as_path).chain([directory]);
        let places = bases.filter_map(|base| absolute(self.mount, base, value));
        let places: HashSet<PathBuf> =
            places.filter_map(|path| self.mount.strip_root(&path).map(Path::to_path_buf)).collect();
        places.into_iter().for_each(|place| then(self, place));
    }

    /// A directory that contains the whole worktree or repository cannot be read-only, but its hooks can.
    fn hooks(&mut self, place: PathBuf) {
        if !self.path(place.clone()) {
            let hooks: Vec<AutorunTarget> =
                HOOKS.iter().map(|hook| self.any_target(&place.join(hook))).collect();
            self.found.extend(hooks);
        }
    }

    fn any_target(&self, place: &Path) -> AutorunTarget {
        self.target(place, TargetPurpose::Anything, follow(self.mount, place).as_ref())
    }

    fn target(&self, place: &Path, purpose: TargetPurpose, found: Option<&OpenedFile>) -> AutorunTarget {
        match self.links {
            TargetLinks::Found => AutorunTarget::with(self.mount, place, purpose, found),
            TargetLinks::Skipped => AutorunTarget::without_links(place, purpose, found),
        }
    }

    /// The path as configured.
    fn path(&mut self, place: PathBuf) -> bool {
        let target = self.any_target(&place);
        let location = target.leads_to.as_ref().map_or(place.as_path(), |(location, _)| location);
        let location = self.mount.host_root().join(location);
        let holds_all = self.repository.own.starts_with(&location)
            || self.bases.iter().any(|base| base.starts_with(&location));
        if !holds_all {
            self.found.push(target);
        }
        !holds_all
    }

    /// The form of a word decides only if there is no such file yet: any existing file in a command line may be its program.
    fn word(&mut self, word: &str, place: PathBuf) {
        let path = self.mount.host_root().join(&place);
        let inside = path.strip_prefix(&self.repository.own).or(path.strip_prefix(&self.repository.common));
        let looks_like_path = word.contains(['/', '.']);
        if inside.is_ok_and(is_written_by_git) || (self.whose == ConfigOwner::User && !looks_like_path) {
            return;
        }
        let opened = follow(self.mount, &place);
        let is_file = opened.as_ref().map(|opened| !opened.is_directory());
        if is_file.unwrap_or(looks_like_path) {
            self.found.push(self.target(&place, TargetPurpose::File, opened.as_ref()));
        }
    }
}

/// Whether git itself constantly writes this part of a repository: settings name references too, and references are not executed.
fn is_written_by_git(inside: &Path) -> bool {
    const OWN: [&str; 9] =
        ["refs", "objects", "logs", "index", "packed-refs", "info", "worktrees", "modules", "shallow"];
    let name = inside.components().next().and_then(|first| first.as_os_str().to_str());
    // `HEAD`, `ORIG_HEAD`, `FETCH_HEAD` and the like.
    let is_head = |name: &str| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    name.is_some_and(|name| OWN.contains(&name) || is_head(name))
}

/// The symlinks among the directories of a place and at the place itself.
fn links(mount: &Mount, place: &Path) -> HashMap<PathBuf, FileIdentity> {
    let folders = place.ancestors().filter(|folder| !folder.as_os_str().is_empty());
    let is_link =
        |folder: &&Path| mount.directory().symlink_metadata(folder).is_ok_and(|found| found.is_symlink());
    folders
        .filter(is_link)
        .filter_map(|folder| Some((folder.to_path_buf(), identify_place(mount, folder)?)))
        .collect()
}

/// The file at a place, through symlinks that stay in the mount.
#[must_use]
pub fn follow(mount: &Mount, place: &Path) -> Option<OpenedFile> {
    identify(mount, open_beneath(mount, place).ok()?, "").ok()
}
