//! Listing, finding and searching: the walk stays beneath the opened directory, and the rules are applied to every entry.

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use toolgate_search::{
    FindOptions, ListOptions, ListedEntry, MAX_DEPTH, Match, SearchOptions, SearchTarget, Skipped,
    VisibilityFilter, WalkRoot,
};
use toolgate_types::CancellationReason;

use crate::deny_list::{Above, may_be_denied};
use crate::error::WorkspaceError;
use crate::mount::Mount;
use crate::open::{OpenedFile, open_existing, size_by_names};
use crate::rules::{MountRules, PathGrant, PathVerdict};
use crate::view::WorkspaceView;

/// A directory's entries.
#[derive(Debug)]
pub struct ListResult {
    /// The directory as answers show it.
    pub path: String,
    /// The names of the entries as answers show them, each followed by nothing or a NUL. May contain names of other reachable entries.
    pub names: String,
    /// In the order of their names; unreachable entries are left out.
    pub entries: Vec<ListedEntry>,
    /// How many there are.
    pub total: usize,
    /// Whether the limit cut the list.
    pub truncated: bool,
}

impl ListResult {
    /// The name of an entry as answers show it.
    #[must_use]
    pub fn name(&self, entry: &ListedEntry) -> &str {
        self.names.get(entry.name.clone()).unwrap_or_default()
    }
}

/// The names of a listing as answers show them. Almost always all are valid UTF-8 as they are.
fn display_names(names: Vec<u8>, entries: &mut [ListedEntry]) -> String {
    String::from_utf8(names).unwrap_or_else(|error| {
        let names = error.as_bytes();
        let mut shown = String::with_capacity(names.len());
        for entry in entries {
            let name = names.get(entry.name.clone()).unwrap_or_default();
            let start = shown.len();
            shown.push_str(&String::from_utf8_lossy(name));
            entry.name = start..shown.len();
        }
        shown
    })
}

/// Files that match a glob.
#[derive(Debug)]
pub struct FoundFiles {
    /// As answers show them, in order.
    pub paths: Vec<String>,
    /// Whether the limit cut the list, time ran out, or something was not walked.
    pub truncated: bool,
    /// Whether the limit cut the list, or time ran out.
    pub is_cut: bool,
    /// What was not walked.
    pub gaps: WalkGaps,
}

/// What a walk left out: files there are missing from the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkGaps {
    /// Directories that are nested deeper than a walk goes ([`toolgate_search::MAX_DEPTH`]).
    pub too_deep: u64,
    /// Directories and files that could not be opened because too many files are open (`EMFILE`, `ENFILE`).
    pub no_descriptors: u64,
}

impl WalkGaps {
    fn of(skipped: &Skipped) -> Self {
        Self { too_deep: skipped.too_deep, no_descriptors: skipped.no_descriptors }
    }

    /// Whether nothing was left out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Which parts were left out, and how to reach them.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        let deep = format!(
            "directories more than {MAX_DEPTH} levels down are not walked: {} left out; begin at a deeper path",
            self.too_deep
        );
        let open = format!(
            "too many files are open: {} entries left out; try again, or ask the operator to raise `ulimit -n`",
            self.no_descriptors
        );
        let notices = [(self.too_deep, deep), (self.no_descriptors, open)];
        notices.into_iter().filter(|(count, _)| *count > 0).map(|(_, notice)| notice).collect()
    }
}

/// One page of the files beneath a directory.
#[derive(Debug)]
pub struct FilePage {
    /// Path relative to the root of the mount, in order, and size. Files whose names are not UTF-8 are left out: no request could name them.
    pub files: Vec<(String, u64)>,
    /// The path after which the next page begins, relative to the root of the mount; `None` on the last page.
    pub next: Option<String>,
}

/// Lines that match a pattern.
#[derive(Debug)]
pub struct FoundLines {
    /// The path as answers show it, and the match.
    pub matches: Vec<(String, Match)>,
    /// Whether the limit cut the list, time ran out, or something was not walked.
    pub truncated: bool,
    /// Whether the limit cut the list, or time ran out.
    pub is_cut: bool,
    /// Whether time ran out.
    pub timed_out: bool,
    /// How many files were searched.
    pub files_searched: u64,
    /// How many files match.
    pub files_with_matches: u64,
    /// What was not walked.
    pub gaps: WalkGaps,
}

impl WorkspaceView<'_> {
    /// Lists a directory.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn list(&self, path: &str, options: &ListOptions) -> Result<ListResult, WorkspaceError> {
        let requested = self.request(path)?;
        let opened = open_existing(self, &requested)?;
        let mount = self.mount(opened.mount(&requested))?;
        let path = self.show(mount, &opened.location);
        if !opened.is_directory() {
            return Err(WorkspaceError::NotADirectory { path });
        }
        // The size of the directory file is a good estimate of the time to list it.
        self.stop.check_size(opened.size())?;
        let start = start(mount, &opened);
        let mut listing = toolgate_search::list(start, &self.visible(mount), options, self.stop)
            .map_err(WorkspaceError::other)?;
        if let Some(reason) = listing.stopped {
            return Err(WorkspaceError::Stopped(reason));
        }
        let names = display_names(listing.names, &mut listing.entries);
        Ok(ListResult {
            path,
            names,
            entries: listing.entries,
            total: listing.total,
            truncated: listing.truncated,
        })
    }

    /// Finds files by glob beneath a directory.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn find(&self, path: &str, options: &FindOptions<'_>) -> Result<FoundFiles, WorkspaceError> {
        let requested = self.request(path)?;
        let opened = open_existing(self, &requested)?;
        let mount = self.mount(opened.mount(&requested))?;
        if !opened.is_directory() {
            return Err(WorkspaceError::NotADirectory { path: requested.shown.into_owned() });
        }
        let found = toolgate_search::find(start(mount, &opened), &self.visible(mount), options, self.stop)
            .map_err(WorkspaceError::other)?;
        let unwalked = WalkGaps::of(&found.skipped);
        let is_cut = found.truncated || partial(found.stopped)?;
        let truncated = is_cut || !unwalked.is_empty();
        let paths = found.paths.iter().map(|path| self.show(mount, path)).collect();
        Ok(FoundFiles { paths, truncated, is_cut, gaps: unwalked })
    }

    /// One page of the files beneath a directory, in path order: those after a path relative to the root of the mount.
    ///
    /// # Errors
    /// See [`WorkspaceError`]; also at the deadline, because a page with gaps would look complete.
    pub fn page(&self, path: &str, after: Option<&str>, most: usize) -> Result<FilePage, WorkspaceError> {
        let requested = self.request(path)?;
        let opened = open_existing(self, &requested)?;
        let mount = self.mount(opened.mount(&requested))?;
        let after = after.map(Path::new);
        let options =
            FindOptions { max_results: most, hidden: true, after, text_only: true, ..FindOptions::new("*") };
        let found = toolgate_search::find(start(mount, &opened), &self.visible(mount), &options, self.stop)
            .map_err(WorkspaceError::other)?;
        if let Some(reason) = found.stopped {
            return Err(WorkspaceError::Stopped(reason));
        }
        let text = |path: &PathBuf| path.to_str().map(str::to_owned);
        let next = found.paths.last().filter(|_| found.truncated).and_then(text);
        let sized = |path: &PathBuf| Some((text(path)?, size_by_names(mount, path)?));
        Ok(FilePage { files: found.paths.iter().filter_map(sized).collect(), next })
    }

    /// Searches a file, or every file beneath a directory.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn search(&self, path: &str, options: &SearchOptions<'_>) -> Result<FoundLines, WorkspaceError> {
        let requested = self.request(path)?;
        let opened = open_existing(self, &requested)?;
        let mount = self.mount(opened.mount(&requested))?;
        let target = match opened.is_directory() {
            true => SearchTarget::Tree(start(mount, &opened)),
            false => SearchTarget::File { file: opened.file.as_fd(), path: &opened.location },
        };
        let found = toolgate_search::search(target, &self.visible(mount), options, self.stop)
            .map_err(WorkspaceError::other)?;
        let timed_out = partial(found.stopped)?;
        let unwalked = WalkGaps::of(&found.skipped);
        let matches = found.matches.into_iter().map(|found| (self.show(mount, &found.path), found)).collect();
        Ok(FoundLines {
            matches,
            truncated: found.truncated || timed_out || !unwalked.is_empty(),
            is_cut: found.truncated || timed_out,
            gaps: unwalked,
            timed_out,
            files_searched: found.stats.files_searched,
            files_with_matches: found.stats.files_with_matches,
        })
    }

    fn visible<'v>(&'v self, mount: &'v Mount) -> ReachableFilter<'v> {
        let inner: Vec<_> = self.workspace.nested_mounts(mount).collect();
        let names_suffice = inner.is_empty() && self.grant.is_none() && mount.rules().depend_on_names_only();
        ReachableFilter { rules: mount.rules(), grant: self.grant, inner, names_suffice }
    }
}

/// Which entries below a directory are visible, by the rules of this mount and of nested ones. The directory itself was judged when it was opened.
struct ReachableFilter<'a> {
    rules: &'a MountRules,
    grant: Option<&'a dyn PathGrant>,
    inner: Vec<(&'a Mount, &'a Path)>,
    /// Whether only the built-in rules apply.
    names_suffice: bool,
}

impl VisibilityFilter for ReachableFilter<'_> {
    fn visible(&self, location: &Path, is_directory: bool) -> bool {
        self.rules.verdict(location, is_directory, self.grant, Above::Judged) == PathVerdict::Reachable
            && self.inner.iter().all(|(inner, place)| {
                let rest = location.strip_prefix(place);
                rest.map_or(true, |rest| {
                    inner.rules().verdict(rest, is_directory, None, Above::Unjudged) == PathVerdict::Reachable
                })
            })
    }

    fn visible_anywhere(&self, name: &[u8]) -> bool {
        self.names_suffice && !may_be_denied(name)
    }
}

fn start<'o>(mount: &'o Mount, opened: &'o OpenedFile) -> WalkRoot<'o> {
    WalkRoot { directory: opened.file.as_fd(), base: &opened.location, mount: Some(mount.as_fd()) }
}

/// What was found before the deadline is a partial answer; after a cancellation there is none.
fn partial(stopped: Option<CancellationReason>) -> Result<bool, WorkspaceError> {
    match stopped {
        None => Ok(false),
        Some(CancellationReason::Deadline) => Ok(true),
        Some(CancellationReason::Cancelled) => Err(WorkspaceError::Stopped(CancellationReason::Cancelled)),
    }
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests arrange files by hand and fail by panicking"
)]
mod tests {
    use std::fs::File;

    use proptest::prelude::*;
    use toolgate_search::EntryKind;
    use toolgate_types::Deadline;

    use super::*;
    use crate::testing::{mount, view};
    use crate::{MountAccess, Workspace};

    const EVERYTHING: ListOptions =
        ListOptions { max_entries: 10, include_hidden: true, include_symlinks: true, with_size: false };

    #[derive(Debug)]
    struct AllButNotes;

    impl PathGrant for AllButNotes {
        fn covers(&self, location: &Path) -> bool {
            !location.ends_with("notes.md")
        }
    }

    /// The name alone decides only where no other rule applies.
    #[test]
    fn a_name_is_all_that_matters_only_where_nobody_else_has_a_say() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        std::fs::create_dir_all(root.join("f/inner")).unwrap();
        for file in ["f/notes.md", "f/other.md", "f/.env", "f/inner/notes.md"] {
            std::fs::write(root.join(file), "x").unwrap();
        }
        let with = |rules: MountRules, root: &Path| {
            Mount::new("@w", File::open(root).unwrap(), root, MountAccess::ReadWrite, rules)
                .unwrap()
                .as_default()
        };
        let alone = |mount: Mount| Workspace::new(vec![mount]).unwrap();
        let patterns = |pattern: &str| [pattern.to_owned()];
        let scoped = MountRules::new().scope(&patterns("f/[!n]*")).unwrap();
        let denying = MountRules::new().deny(&patterns("notes.md")).unwrap();
        let own = with(MountRules::new(), root).hide_gate_files(&[root.join("f/notes.md")]);
        let inner = Mount::new(
            "@i",
            File::open(root.join("f")).unwrap(),
            &root.join("f"),
            MountAccess::ReadWrite,
            denying.clone(),
        );
        let nested = Workspace::new(vec![with(MountRules::new(), root), inner.unwrap()]).unwrap();
        let stop = Deadline::never();
        let listed = |workspace: &Workspace, grant: Option<&dyn PathGrant>| {
            let view = WorkspaceView { grant, ..view(workspace, &stop) };
            let listed = view.list("f", &EVERYTHING).unwrap();
            let found = view.find("f", &FindOptions { hidden: true, ..FindOptions::new("*.md") }).unwrap();
            let names: Vec<&str> = listed.entries.iter().map(|entry| listed.name(entry)).collect();
            (names.join(" "), found.paths.join(" "))
        };
        let all = ("inner notes.md other.md", "f/inner/notes.md f/notes.md f/other.md");
        let no_note = ("inner other.md", "f/other.md");
        let only_there = ("inner other.md", "f/inner/notes.md f/other.md");
        for (about, workspace, grant, expected) in [
            ("nobody", alone(mount("@w", root).as_default()), None, all),
            ("scope", alone(with(scoped, root)), None, no_note),
            ("operator", alone(with(denying, root)), None, no_note),
            ("the gate", alone(own), None, only_there),
            ("grant", alone(with(MountRules::new(), root)), Some(&AllButNotes as &dyn PathGrant), no_note),
            ("inner mount", nested, None, no_note),
        ] {
            let (names, paths) = listed(&workspace, grant);
            assert_eq!((names.as_str(), paths.as_str()), expected, "{about}");
        }
    }

    proptest! {
        #[test]
        fn every_name_is_shown_as_it_would_be_by_itself(
            names in prop::collection::vec(
                prop::collection::vec(prop_oneof![Just(b'a'), Just(0xc3), Just(0xa9), 1..=255u8], 1..4),
                0..5,
            ),
            are_text in any::<bool>(),
        ) {
            let lossy = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
            let names: Vec<Vec<u8>> = match are_text {
                true => names.iter().map(|name| lossy(name).into_bytes()).collect(),
                false => names,
            };
            let (mut all, mut entries) = (Vec::new(), Vec::new());
            for name in &names {
                entries.push(ListedEntry { name: all.len()..all.len() + name.len(), kind: EntryKind::File, size: None });
                all.extend_from_slice(name);
                all.push(0);
            }
            // Names are in directory order, entries in their own.
            entries.reverse();
            let names_shown = display_names(all, &mut entries);
            let listed =
                ListResult { path: String::new(), names: names_shown, entries, total: names.len(), truncated: false };
            let seen: Vec<&str> = listed.entries.iter().map(|entry| listed.name(entry)).collect();
            prop_assert_eq!(seen, names.iter().rev().map(|name| lossy(name)).collect::<Vec<_>>());
        }
    }
}
