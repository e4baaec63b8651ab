//! A mount with all rules that apply to its content.

use std::path::{Path, PathBuf};
use std::time::Duration;

use toolgate_search::earliest_timestamp;
use toolgate_workspace::internals::{
    GitConfigFile, RepositoryPart, autorun_directories, autorun_kind, fold, has_name, may_be_denied,
    may_trigger_execution, personal_configurations,
};
use toolgate_workspace::{Above, DenyingRule, HardLinks, Mount, MountAccess, PathGrant, Workspace};

use crate::rebase_todo::{SEQUENCER_FILE_NAMES, is_sequencer_file};

/// Directories of version control: one that is a symlink would lead to a directory that was not checked.
const VERSION_CONTROL: [&str; 3] = [".git", ".hg", ".jj"];

/// A mount, and the mounts nested in it.
#[derive(Debug)]
pub(super) struct MountTree<'a> {
    pub(super) mount: &'a Mount,
    inner: Vec<(&'a Mount, &'a Path)>,
    /// Last names of places with a meaning of their own.
    names: Vec<String>,
    /// Whether there are globs, so that every place must be checked.
    has_globs: bool,
    has_scope: bool,
    /// What git reads in every repository.
    pub(super) personal: Vec<GitConfigFile>,
    protects_links: bool,
    /// When it was first scanned.
    pub(super) since: Duration,
}

impl<'a> MountTree<'a> {
    pub(super) fn new(workspace: &'a Workspace, mount: &'a Mount) -> Self {
        let inner: Vec<_> = workspace.nested_mounts(mount).collect();
        let rules = || std::iter::once(mount.rules()).chain(inner.iter().map(|(inner, _)| inner.rules()));
        let last = |folded: &str| folded.rsplit('/').next().unwrap_or(folded).to_owned();
        let own = rules().flat_map(|rules| rules.gate_places()).map(|own| last(own));
        let roots = inner.iter().map(|(_, place)| last(&fold(place)));
        let folders = VERSION_CONTROL
            .into_iter()
            .chain(autorun_directories())
            .chain(SEQUENCER_FILE_NAMES)
            .map(str::to_owned);
        let protected = rules().flat_map(|rules| rules.protected_places());
        let protected = protected.flat_map(|place| place.split('/')).map(str::to_owned);
        let mut names: Vec<String> = own.chain(protected).chain(roots).chain(folders).collect();
        names.sort_unstable();
        names.dedup();
        let (has_globs, has_scope) =
            (rules().any(|rules| rules.has_globs()), rules().any(|rules| rules.has_scope()));
        Self {
            mount,
            inner,
            names,
            has_globs,
            has_scope,
            personal: personal_configurations(mount),
            protects_links: workspace.hard_links() == HardLinks::Protect,
            since: earliest_timestamp(),
        }
    }

    /// Whether every place must be checked.
    pub(super) fn has_globs(&self) -> bool {
        self.has_globs
    }

    /// Whether files with a hard link elsewhere are write-protected.
    pub(super) fn protects_links(&self) -> bool {
        self.protects_links
    }

    /// Whether the mount is limited to some of its files.
    pub(super) fn has_scope(&self) -> bool {
        self.has_scope
    }

    /// Whether any rule other than a glob could match an entry of this name. For most names of a tree this is the only check.
    pub(super) fn may_match(&self, name: &[u8]) -> bool {
        may_be_denied(name)
            || may_trigger_execution(name)
            || self.names.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
    }

    /// This mount, and the nested ones that contain the place, each with the rest of the path.
    fn mounts_at<'p>(&'p self, place: &'p Path) -> impl Iterator<Item = (&'a Mount, &'p Path)> {
        let inner =
            self.inner.iter().filter_map(move |(inner, root)| Some((*inner, place.strip_prefix(root).ok()?)));
        std::iter::once((self.mount, place)).chain(inner)
    }

    /// The rule that denies a place, by the rules of this mount and of nested ones. The directories above it were judged when the walk entered them.
    /// A rule of the operator comes before one of the built-in list.
    pub(super) fn denied(&self, place: &Path, is_directory: bool) -> Option<DenyingRule<'a>> {
        let mounts = self.mounts_at(place);
        let rules =
            mounts.filter_map(|(mount, rest)| mount.rules().denied(rest, is_directory, Above::Judged));
        rules.max_by_key(|rule| !matches!(rule, DenyingRule::BuiltIn(_)))
    }

    /// The gate's own files and directories, as folded places of this mount.
    pub(super) fn gate_owned_places(&self) -> impl Iterator<Item = PathBuf> {
        let inner = self.inner.iter().flat_map(|(inner, root)| {
            let root = PathBuf::from(fold(root).into_owned());
            inner.rules().gate_places().iter().map(move |own| root.join(own))
        });
        self.mount.rules().gate_places().iter().map(PathBuf::from).chain(inner)
    }

    /// Whether it belongs to the gate.
    pub(super) fn is_gate_owned(&self, place: &Path) -> bool {
        self.mounts_at(place).any(|(mount, rest)| mount.rules().is_gate_owned(rest))
    }

    /// Whether it is, or lies in, a place that is protected as a whole.
    pub(super) fn is_protected_place(&self, place: &Path) -> bool {
        self.mounts_at(place).any(|(mount, rest)| mount.rules().is_protected_place(rest))
    }

    /// Whether a symlink here would redirect a protected place.
    pub(super) fn is_above_protected_place(&self, place: &Path) -> bool {
        self.mounts_at(place).any(|(mount, rest)| mount.rules().is_above_protected_place(rest))
    }

    /// Whether anything at this place is judged after a command, whatever it is.
    pub(super) fn is_judged(&self, place: &Path, part: Option<RepositoryPart>) -> bool {
        part.is_some()
            || place.parent().is_some_and(|folder| has_name(folder, "hooks"))
            || has_name(place, ".git")
            || autorun_kind(&fold(place)).is_some()
            || is_sequencer_file(&fold(place))
            || self.is_gate_owned(place)
            || self.is_protected_place(place)
    }

    /// Whether the scope of the mount and the grant of the call include a file.
    pub(super) fn is_in_scope(&self, place: &Path, grant: Option<&dyn PathGrant>) -> bool {
        let inner = self.mounts_at(place).skip(1).all(|(mount, rest)| mount.rules().is_in_scope(rest, None));
        inner && self.mount.rules().is_in_scope(place, grant)
    }

    /// Whether the rules allow a file to be changed.
    pub(super) fn may_change(&self, place: &Path) -> bool {
        self.mounts_at(place).all(|(mount, rest)| mount.rules().may_change(rest))
    }

    /// Whether this is the root of a read-only mount.
    pub(super) fn is_read_only_mount(&self, place: &Path) -> bool {
        self.inner.iter().any(|(inner, root)| inner.access() == MountAccess::ReadOnly && *root == place)
    }
}

/// Whether a symlink of this folded name leads into a repository, or to autorun files.
pub(super) fn is_autorun_directory(folded: &str) -> bool {
    VERSION_CONTROL.contains(&folded) || autorun_directories().any(|name| name == folded)
}
