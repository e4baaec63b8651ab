//! Walks, lists, finds and searches beneath an open directory handle.
//!
//! A walk by path has a TOCTOU race: between reading a directory and opening an entry, another process can swap a directory for a symlink, and the
//! walk leaves the mount. This one opens every child by a single name beneath the handle of its parent and never follows a symlink, so it cannot
//! leave, whatever other processes write in the tree.
//!
//! Results are the same on every run: they come in path order, and a limit keeps the first of them in that order, whatever the number of threads.
//!
//! What this crate does not know: host paths (it is given handles), deny lists and scopes (the caller implements [`VisibilityFilter`] for every
//! entry), how answers are worded, and what they are used for. It never writes, never follows a symlink, and reads only regular files.
//!
//! # Ignore files
//!
//! As in ripgrep, `.ignore`, `.gitignore` and `.git/info/exclude` narrow a walk: those of the directory, of the directories on the path to it, and of
//! its ancestors up to the root of the mount. They apply without a `.git` directory too, since a mount is often a part of a repository. Rules outside
//! the mount, such as the user's global ones, are not read.
//!
//! ```
//! use std::path::Path;
//! use toolgate_search::{SearchOptions, SearchTarget, WalkRoot, search};
//! use toolgate_types::Deadline;
//!
//! let directory = tempfile::tempdir()?;
//! std::fs::write(directory.path().join("notes.txt"), "one\ntwo needles\n")?;
//! let handle = std::fs::File::open(directory.path())?;
//!
//! let everything = |_: &Path, _is_directory: bool| true;
//! let options = SearchOptions::new("needle");
//! let found = search(SearchTarget::Tree(WalkRoot::root(&handle)), &everything, &options, &Deadline::never())?;
//! assert_eq!(found.matches[0].path, Path::new("notes.txt"));
//! assert_eq!(found.matches[0].number, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// The start of a walk, and its errors.
mod error;
mod walk_root;

// One directory.
mod directory;
mod list;
mod path_buffer;

// Which entries are included.
mod glob;
mod ignore_rules;
mod walk_filter;

// Many directories, on several threads, with a deterministic result.
mod top_k;
mod work_queue;
mod walk;

// Everything beneath a directory, for security scans.
mod tree_scan;

// What is done with the files.
mod find;

mod file_reader;
mod match_sink;
mod pattern;
mod search;

pub use error::Error;
pub use find::{FindOptions, FindResults, find};
pub use list::{DirListing, EntryKind, ListOptions, ListedEntry, list};
pub use match_sink::{Match, MatchLine};
pub use search::{MAX_CONTEXT_LINES, SearchOptions, SearchResults, SearchStats, SearchTarget, search};
pub use tree_scan::{ScannedDir, ScannedEntry, TreeScan, TreeVisitor, earliest_timestamp, scan_tree};
pub use walk::{MAX_DEPTH, Skipped};
pub use walk_filter::Hidden;
pub use walk_root::{VisibilityFilter, WalkRoot};
