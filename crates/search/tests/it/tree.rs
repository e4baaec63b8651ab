//! A scratch tree, and the calls under test with the default options.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use toolgate_search::{FindOptions, FindResults, SearchOptions, SearchResults, SearchTarget, WalkRoot};
use toolgate_types::Deadline;

pub(crate) struct Tree {
    pub(crate) folder: TempDir,
    pub(crate) handle: File,
}

/// Nothing is hidden from the caller.
pub(crate) fn everything(_: &Path, _: bool) -> bool {
    true
}

impl Tree {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let handle = File::open(folder.path()).unwrap();
        Self { folder, handle }
    }

    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let tree = Self::new();
        for (path, text) in files {
            tree.write(path, text);
        }
        tree
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn write(&self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn start(&self) -> WalkRoot<'_> {
        WalkRoot::root(&self.handle)
    }

    pub(crate) fn search(&self, options: &SearchOptions<'_>) -> SearchResults {
        toolgate_search::search(SearchTarget::Tree(self.start()), &everything, options, &Deadline::never())
            .unwrap()
    }

    pub(crate) fn find(&self, options: &FindOptions<'_>) -> FindResults {
        toolgate_search::find(self.start(), &everything, options, &Deadline::never()).unwrap()
    }

    /// The files that a walk with these options meets.
    pub(crate) fn walked(&self, options: &FindOptions<'_>) -> Vec<String> {
        self.find(options).paths.into_iter().map(text).collect()
    }
}

pub(crate) fn text(path: PathBuf) -> String {
    path.into_os_string().into_string().unwrap()
}

/// A name that is not UTF-8.
pub(crate) fn not_utf8(name: &[u8]) -> &OsStr {
    let name = OsStr::from_bytes(name);
    assert!(name.to_str().is_none());
    name
}

/// `path:line` of every match.
pub(crate) fn places(found: &SearchResults) -> Vec<String> {
    found.matches.iter().map(|found| format!("{}:{}", found.path.to_string_lossy(), found.number)).collect()
}
