//! The files that the configuration of a repository makes git run or read.
//!
//! What there is gets frozen. What there is not, and links on the way, cannot be covered: where each of these leads is remembered, and seen again after
//! the command.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use rustix::fs::OFlags;

use super::ground::{Identity, read_beginning};
use super::quarantine::identify_place;
use super::repositories::has_name;
use super::stray::{Stray, StrayKind};
use crate::git_config::{Judgement, LARGEST_CONFIG, Named, Refused, judge, named};
use crate::mount::Mount;
use crate::open::{Opened, identify};

/// How deep configurations include others, as far as they are followed.
const DEEPEST_INCLUDE: usize = 5;

/// How many included configurations of one repository are followed.
const MOST_INCLUDES: usize = 20;

/// How many worktrees of one repository are asked where they are.
const MOST_WORKTREES: usize = 64;

/// Longer content is not where a worktree is.
const LONGEST_POINTER: usize = 4096;

/// The hooks that git knows, for where a whole folder is too much to freeze.
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

/// A place that something outside the sandbox obeys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// As it is named, from the mount.
    place: PathBuf,
    purpose: Purpose,
    /// What something new there is.
    kind: StrayKind,
    /// The links on the way.
    links: HashMap<PathBuf, Identity>,
    /// What it leads to.
    leads_to: Option<(PathBuf, Identity)>,
}

/// What a target is for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Purpose {
    /// Whatever lies there is obeyed.
    Anything,
    /// A file is obeyed.
    File,
    /// A configuration, with what it let git run and obey if it was there.
    Config(Option<Refused>),
}

impl Target {
    /// A place where whatever lies there is obeyed.
    pub(super) fn new(mount: &Mount, place: &Path, kind: StrayKind) -> Self {
        let target = Self::with(mount, place, Purpose::Anything, follow(mount, place).as_ref());
        Self { kind, ..target }
    }

    /// A configuration that git reads through a link.
    pub(super) fn config(mount: &Mount, place: &Path, found: &Opened, content: &[u8]) -> Self {
        Self::with(mount, place, Purpose::Config(Some(Refused::of(content))), Some(found))
    }

    fn with(mount: &Mount, place: &Path, purpose: Purpose, found: Option<&Opened>) -> Self {
        let leads_to = found.map(|opened| (opened.location.clone(), Identity::of(&opened.stat)));
        let kind = StrayKind::GitTarget;
        Self { links: links(mount, place), place: place.to_path_buf(), purpose, kind, leads_to }
    }

    /// What there is to freeze.
    pub(super) fn frozen(&self) -> Option<&Path> {
        let location = self.leads_to.as_ref().map(|(location, _)| location.as_path());
        location.filter(|location| !location.as_os_str().is_empty())
    }

    /// Whether a location is, or lies in, what is obeyed.
    fn holds(&self, location: &Path) -> bool {
        let is_in = |place: &Path| !place.as_os_str().is_empty() && location.starts_with(place);
        is_in(&self.place) || self.frozen().is_some_and(is_in)
    }

    /// What has come to lie there.
    pub(super) fn stray(&self, mount: &Mount) -> Option<Stray> {
        let new_link =
            links(mount, &self.place).into_iter().find(|(place, now)| self.links.get(place) != Some(now));
        if let Some((location, identity)) = new_link {
            return Some(Stray { location, kind: StrayKind::Link, identity });
        }
        let opened = follow(mount, &self.place)?;
        let identity = Identity::of(&opened.stat);
        let is_known = self.leads_to.as_ref().is_some_and(|(location, before)| {
            let is_same =
                if opened.is_directory() { before.is_same_file(&identity) } else { *before == identity };
            is_same && *location == opened.location
        });
        let is_obeyed = match &self.purpose {
            Purpose::Anything => true,
            Purpose::File => !opened.is_directory(),
            Purpose::Config(before) => {
                let content = read_beginning(&opened.file, LARGEST_CONFIG);
                !content.is_ok_and(|content| {
                    matches!(judge(&content, before.as_ref()), Judgement::Harmless { .. })
                })
            }
        };
        let is_stray = !is_known && is_obeyed && !opened.location.as_os_str().is_empty();
        is_stray.then_some(Stray { location: opened.location, kind: self.kind, identity })
    }
}

/// What a repository's configuration makes git obey in the mount.
pub(super) fn targets(mount: &Mount, repository: &Path, original: &[u8]) -> Vec<Target> {
    let mut search = Search {
        mount,
        repository,
        bases: bases(mount, repository),
        found: Vec::new(),
        read: HashSet::new(),
    };
    search.config(repository, original, 0);
    search.found
}

/// Whether the configuration of a repository around this location makes git obey what lies there. Only repositories whose inside lies in a folder
/// called `.git` are asked.
pub(crate) fn is_target(mount: &Mount, location: &Path) -> bool {
    location.ancestors().skip(1).any(|folder| {
        let repository = folder.join(".git");
        let config = open(mount, &repository.join("config"));
        let content = config.and_then(|file| read_beginning(&file, LARGEST_CONFIG));
        content.is_ok_and(|content| {
            targets(mount, &repository, &content).iter().any(|target| target.holds(location))
        })
    })
}

struct Search<'s> {
    mount: &'s Mount,
    repository: &'s Path,
    /// From where git and its hooks are run.
    bases: Vec<PathBuf>,
    found: Vec<Target>,
    read: HashSet<PathBuf>,
}

impl Search<'_> {
    fn config(&mut self, folder: &Path, original: &[u8], depth: usize) {
        let names = named(original);
        for name in &names {
            if let Named::Worktree(value) = name {
                self.bases.extend(place(self.mount, folder, value));
            }
        }
        for name in names {
            match name {
                Named::Include(value) => self.include(folder, &value, depth),
                Named::Hooks(value) => self.each_place(folder, &value, Self::hooks),
                Named::Path(value) => self.each_place(folder, &value, |search, place| _ = search.path(place)),
                Named::Word(value) => {
                    self.each_place(folder, &value, |search, place| search.word(&value, place))
                }
                Named::Worktree(_) => {}
            }
        }
    }

    /// Settings differ in where their paths begin; all beginnings are tried.
    fn each_place(&mut self, folder: &Path, value: &str, mut then: impl FnMut(&mut Self, PathBuf)) {
        let bases = self.bases.iter().map(PathBuf::as_path).chain([folder]);
        let places: HashSet<PathBuf> = bases.filter_map(|base| place(self.mount, base, value)).collect();
        places.into_iter().for_each(|place| then(self, place));
    }

    fn include(&mut self, folder: &Path, value: &str, depth: usize) {
        let Some(place) = place(self.mount, folder, value) else { return };
        if depth >= DEEPEST_INCLUDE || self.read.len() >= MOST_INCLUDES || !self.read.insert(place.clone()) {
            return;
        }
        let opened = follow(self.mount, &place).filter(|opened| !opened.is_directory());
        let content = opened.as_ref().and_then(|opened| read_beginning(&opened.file, LARGEST_CONFIG).ok());
        let purpose = Purpose::Config(content.as_deref().map(Refused::of));
        self.found.push(Target::with(self.mount, &place, purpose, opened.as_ref()));
        let content = content.unwrap_or_default();
        let folder = place.parent().unwrap_or(Path::new(""));
        self.config(folder, &content, depth + 1);
    }

    /// A folder with the whole worktree or repository in it cannot be frozen, but its hooks can.
    fn hooks(&mut self, place: PathBuf) {
        if !self.path(place.clone()) {
            let hooks =
                HOOKS.iter().map(|hook| Target::new(self.mount, &place.join(hook), StrayKind::GitTarget));
            self.found.extend(hooks);
        }
    }

    /// Whether the place can be kept as a whole.
    fn path(&mut self, place: PathBuf) -> bool {
        let target = Target::new(self.mount, &place, StrayKind::GitTarget);
        let location = target.leads_to.as_ref().map_or(place.as_path(), |(location, _)| location);
        let holds_all =
            self.repository.starts_with(location) || self.bases.iter().any(|base| base.starts_with(location));
        if !holds_all {
            self.found.push(target);
        }
        !holds_all
    }

    /// What a word looks like decides only where there is nothing yet: any file that a command names may be its program.
    fn word(&mut self, word: &str, place: PathBuf) {
        if place.strip_prefix(self.repository).is_ok_and(is_written_by_git) {
            return;
        }
        let opened = follow(self.mount, &place);
        let is_file = opened.as_ref().map(|opened| !opened.is_directory());
        if is_file.unwrap_or_else(|| word.contains(['/', '.'])) {
            self.found.push(Target::with(self.mount, &place, Purpose::File, opened.as_ref()));
        }
    }
}

/// Whether git itself writes such a place of a repository all the time: references are named in settings too, and nobody runs them.
fn is_written_by_git(inside: &Path) -> bool {
    const OWN: [&str; 9] =
        ["refs", "objects", "logs", "index", "packed-refs", "info", "worktrees", "modules", "shallow"];
    let name = inside.components().next().and_then(|first| first.as_os_str().to_str());
    // `HEAD`, `ORIG_HEAD`, `FETCH_HEAD` and their like.
    let is_head = |name: &str| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    name.is_some_and(|name| OWN.contains(&name) || is_head(name))
}

/// The folders that hold the files of a repository: the one around it, or itself, and its worktrees.
fn bases(mount: &Mount, repository: &Path) -> Vec<PathBuf> {
    let around = repository.parent().filter(|_| has_name(repository, ".git")).unwrap_or(repository);
    let trees = mount.directory().read_dir(beneath(&repository.join("worktrees")));
    let trees = trees.into_iter().flatten().flatten().take(MOST_WORKTREES).filter_map(|tree| {
        let pointer = repository.join("worktrees").join(tree.file_name()).join("gitdir");
        worktree(mount, &pointer)
    });
    // The configuration of one worktree lies beside the file that says where it is.
    std::iter::once(around.to_path_buf())
        .chain(trees)
        .chain(worktree(mount, &repository.join("gitdir")))
        .collect()
}

/// Where a worktree is, by the file that says where its `.git` is.
fn worktree(mount: &Mount, pointer: &Path) -> Option<PathBuf> {
    let content = read_beginning(&open(mount, pointer).ok()?, LONGEST_POINTER).ok()?;
    let path = String::from_utf8(content).ok()?;
    let git = place(mount, pointer.parent()?, path.trim_end())?;
    git.parent().map(Path::to_path_buf)
}

/// Which place of the mount a path means from a folder; `None` outside, and at the mount itself.
fn place(mount: &Mount, base: &Path, path: &str) -> Option<PathBuf> {
    if path.starts_with('~') || path.contains('\0') {
        return None;
    }
    let path = Path::new(path);
    let (mut place, rest) = match path.is_absolute() {
        true => (PathBuf::new(), mount.strip_root(path)?),
        false => (base.to_path_buf(), path),
    };
    for component in rest.components() {
        match component {
            Component::Normal(name) => place.push(name),
            Component::ParentDir if place.pop() => {}
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(place)
}

/// The links among the folders of a place and at the place itself.
fn links(mount: &Mount, place: &Path) -> HashMap<PathBuf, Identity> {
    let folders = place.ancestors().filter(|folder| !folder.as_os_str().is_empty());
    let is_link =
        |folder: &&Path| mount.directory().symlink_metadata(folder).is_ok_and(|found| found.is_symlink());
    folders
        .filter(is_link)
        .filter_map(|folder| Some((folder.to_path_buf(), identify_place(mount, folder)?)))
        .collect()
}

/// What lies at a place, through links, as far as that is in the mount.
pub(super) fn follow(mount: &Mount, place: &Path) -> Option<Opened> {
    identify(mount, open(mount, place).ok()?, "").ok()
}

fn open(mount: &Mount, place: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or(0));
    let directory: &Dir = mount.directory();
    Ok(directory.open_with(beneath(place), &options)?.into_std())
}

/// The mount itself has a name too.
fn beneath(place: &Path) -> &Path {
    if place.as_os_str().is_empty() { Path::new(".") } else { place }
}
