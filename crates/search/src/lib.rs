//! Walks, lists, finds and searches beneath an open directory handle.
//!
//! A walk by path can be raced: between reading a directory and opening what it named, somebody swaps a folder for
//! a symbolic link, and the walk leaves the mount. This one opens every child by a single name beneath the handle
//! of its parent and never follows a link, so it cannot leave, whoever else is writing in the tree.
//!
//! Results are the same on every run: they come in path order, and a limit keeps the first of them in that order,
//! however many threads were at work.
//!
//! What this crate refuses to know: host paths (it is given handles), deny lists and scopes (the caller answers
//! [`VisibilityFilter`] for every entry), how answers are worded, and what any of it is for. It never writes, never follows a
//! symbolic link, and reads nothing that is not a regular file.
//!
//! # Ignore files
//!
//! As in ripgrep, `.ignore`, `.gitignore` and `.git/info/exclude` narrow a walk: those of the folder, of the folders
//! on the way to it, and of its ancestors up to the root of the mount. They count without a `.git` folder too, since
//! a mount is often a part of a repository. Rules outside the mount, such as the user's global ones, are not read.
//!
//! ```
//! use std::path::Path;
//! use toolgate_search::{SearchOptions, Start, Target, search};
//! use toolgate_types::Stop;
//!
//! let folder = tempfile::tempdir()?;
//! std::fs::write(folder.path().join("notes.txt"), "one\ntwo needles\n")?;
//! let handle = std::fs::File::open(folder.path())?;
//!
//! let everything = |_: &Path, _is_directory: bool| true;
//! let options = SearchOptions::new("needle");
//! let found = search(Target::Tree(Start::root(&handle)), &everything, &options, &Stop::never())?;
//! assert_eq!(found.matches[0].path, Path::new("notes.txt"));
//! assert_eq!(found.matches[0].number, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// Where a walk begins, and what can be wrong with that.
mod error;
mod walk_root;

// One directory.
mod directory;
mod list;
mod radix_sort;
mod path_buffer;

// Which entries count.
mod glob;
mod ignore_rules;
mod walk_filter;

// Many directories, on several threads, with the same answer every time.
mod top_k;
mod work_queue;
mod walk;

// All that there is, for whoever must know it.
mod tree_scan;

// What is done with the files that are met.
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
