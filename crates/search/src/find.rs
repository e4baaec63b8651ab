//! Finds files by name.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use toolgate_types::{CancellationReason, Deadline};

use crate::glob::FileGlob;
use crate::path_buffer::into_path;
use crate::top_k::{Cutoff, ResultSize, TopK};
use crate::walk::{FileVisitor, WalkOutcome, walk};
use crate::walk_filter::{Hidden, WalkFilter};
use crate::{Error, Skipped, VisibilityFilter, WalkRoot};

/// What to find.
#[derive(Clone, Copy, Debug)]
pub struct FindOptions<'a> {
    /// Without `/`, matches the file's name at any depth; with one, its path relative to the start. `*` and `?` do not cross a `/`, `**` does.
    pub glob: &'a str,
    /// How many paths to return at most: the first in path order.
    pub max_results: usize,
    /// Whether names that begin with a dot are included.
    pub hidden: bool,
    /// Whether ignore files are respected.
    pub respect_gitignore: bool,
    /// Directories of these names are not entered.
    pub skip_directories: &'a [&'a str],
    /// Only what comes after this path, relative to the root of the mount, in path order: to continue where another walk ended.
    pub after: Option<&'a Path>,
    /// Only paths that are UTF-8.
    pub text_only: bool,
}

impl<'a> FindOptions<'a> {
    /// This glob, with the default options.
    #[must_use]
    pub fn new(glob: &'a str) -> Self {
        Self {
            glob,
            max_results: 1000,
            hidden: false,
            respect_gitignore: true,
            skip_directories: &[],
            after: None,
            text_only: false,
        }
    }
}

/// The files that were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindResults {
    /// Paths relative to the root of the mount, in path order: by component, not by byte.
    pub paths: Vec<PathBuf>,
    /// Whether there are more than the limit.
    pub truncated: bool,
    /// How many files matched as far as the walk went; depends on timing when `truncated` or `stopped`.
    pub files_seen: u64,
    /// What was not walked.
    pub skipped: Skipped,
    /// Why the walk stopped early; the paths are then incomplete.
    pub stopped: Option<CancellationReason>,
}

/// Finds regular files whose name or path matches a glob. Symlinks are neither found nor followed.
///
/// # Errors
/// [`Error::InvalidGlob`], [`Error::NotADirectory`] or [`Error::Unreadable`].
pub fn find(
    start: WalkRoot<'_>,
    visible: &dyn VisibilityFilter,
    options: &FindOptions<'_>,
    stop: &Deadline,
) -> Result<FindResults, Error> {
    let scope = WalkFilter {
        hidden: if options.hidden { Hidden::All } else { Hidden::None },
        respect_gitignore: options.respect_gitignore,
        skip_directories: options.skip_directories,
        after: options.after.map(|path| path.as_os_str().as_bytes()),
        ..WalkFilter::new(visible, start, Some(FileGlob::new(options.glob)?))
    };
    let horizon = Cutoff::default();
    let limit = ResultSize { count: options.max_results, bytes: usize::MAX };
    let text_only = options.text_only;
    let finder = || Finder { top: TopK::new(limit, &horizon), files_seen: 0, text_only };
    let WalkOutcome { visitors, skipped, stopped } = walk(start, &scope, stop, finder)?;
    let mut all = finder();
    visitors.into_iter().for_each(|finder| all.merge(finder));
    let mut paths: Vec<PathBuf> = all.top.into_sorted().map(|(path, _)| into_path(path.0)).collect();
    let truncated = paths.len() > options.max_results;
    paths.truncate(options.max_results);
    Ok(FindResults { paths, truncated, files_seen: all.files_seen, skipped, stopped })
}

struct Finder<'a> {
    top: TopK<'a, ()>,
    files_seen: u64,
    text_only: bool,
}

impl Finder<'_> {
    fn merge(&mut self, other: Self) {
        self.top.merge(other.top);
        self.files_seen += other.files_seen;
    }
}

impl FileVisitor for Finder<'_> {
    fn visit_file(&mut self, _: BorrowedFd<'_>, _: &CStr, place: &[u8]) -> Result<u64, CancellationReason> {
        if self.text_only && std::str::from_utf8(place).is_err() {
            return Ok(1);
        }
        self.files_seen += 1;
        self.top.insert(place, (), ResultSize { count: 1, bytes: 0 });
        Ok(1)
    }

    fn is_past_cutoff(&mut self, place: &[u8]) -> bool {
        self.top.is_past_cutoff(place)
    }
}
