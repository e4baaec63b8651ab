//! Lists one directory.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use toolgate_types::{CancellationReason, Deadline};

use crate::directory::{DirEntries, DirEntry, DirentBuffer, EntrySpan, kind_by_stat, reopen, stat_child};
use crate::path_buffer::PathBuffer;
use crate::{Error, VisibilityFilter, WalkRoot};

/// The type of an entry. A symlink is never followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symlink.
    Symlink,
    /// A FIFO, socket or device.
    Other,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEntry {
    /// The position of its name among the names of the listing.
    pub name: Range<usize>,
    /// What it is.
    pub kind: EntryKind,
    /// The size of a regular file, when sizes were requested and it still exists.
    pub size: Option<u64>,
}

/// What to list.
#[derive(Clone, Copy, Debug)]
pub struct ListOptions {
    /// How many entries to return at most: the first in the order of their names.
    pub max_entries: usize,
    /// Whether names that begin with a dot are listed.
    pub include_hidden: bool,
    /// Whether symbolic links are listed.
    pub include_symlinks: bool,
    /// Whether sizes are looked up; one more system call for every returned file.
    pub with_size: bool,
}

/// The entries of a directory, sorted by the bytes of their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirListing {
    /// The names of the entries and maybe of other visible ones, in any order; they need not be UTF-8. Each is followed by a NUL, so that the bytes
    /// of two names never form one character.
    pub names: Vec<u8>,
    /// The entries.
    pub entries: Vec<ListedEntry>,
    /// How many visible entries there are in total.
    pub total: usize,
    /// Whether some were left out because of the limit.
    pub truncated: bool,
    /// Why reading stopped early; the entries are then incomplete.
    pub stopped: Option<CancellationReason>,
}

impl DirListing {
    /// The name of an entry, which need not be UTF-8.
    #[must_use]
    pub fn name(&self, entry: &ListedEntry) -> &OsStr {
        OsStr::from_bytes(self.names.get(entry.name.clone()).unwrap_or_default())
    }
}

/// Lists a directory.
///
/// # Errors
/// [`Error::NotADirectory`] or [`Error::Unreadable`].
pub fn list(
    start: WalkRoot<'_>,
    visible: &dyn VisibilityFilter,
    options: &ListOptions,
    stop: &Deadline,
) -> Result<DirListing, Error> {
    let directory = reopen(start.directory)?;
    let mut chosen = EntryFilter {
        directory: directory.as_fd(),
        visible,
        options,
        path: PathBuffer::of(&start.path_prefix()),
    };
    let (mut names, stopped) =
        DirEntries::read(directory.as_fd(), &mut DirentBuffer::new(), stop, |name| chosen.accepts(name))?;
    let total = names.len();
    names.sort_and_truncate(options.max_entries);
    let (names, spans) = names.into_parts();
    let mut entries = Vec::with_capacity(spans.len());
    entries.extend(spans.iter().filter_map(|span| chosen.entry(span, &names)));
    Ok(DirListing { names, entries, total, truncated: total > options.max_entries, stopped })
}

struct EntryFilter<'a> {
    directory: BorrowedFd<'a>,
    visible: &'a dyn VisibilityFilter,
    options: &'a ListOptions,
    path: PathBuffer,
}

impl EntryFilter<'_> {
    fn accepts(&mut self, name: DirEntry<'_>) -> bool {
        if !self.options.include_hidden && name.is_hidden() {
            return false;
        }
        let Some(kind) = self.kind(name) else { return false };
        if !self.options.include_symlinks && kind == EntryKind::Symlink {
            return false;
        }
        self.visible.visible_anywhere(name.bytes())
            || self.visible.visible(self.path.child(name.bytes()), kind == EntryKind::Directory)
    }

    /// `None` when it no longer exists.
    fn kind(&self, name: DirEntry<'_>) -> Option<EntryKind> {
        name.kind.or_else(|| kind_by_stat(self.directory, name.text).ok())
    }

    fn entry(&self, span: &EntrySpan, all: &[u8]) -> Option<ListedEntry> {
        // Most filesystems report `d_type`, and the name is not looked up again.
        let kind = match span.kind() {
            Some(kind) => kind,
            None => self.kind(span.name(all)?)?,
        };
        let is_measured = self.options.with_size && kind == EntryKind::File;
        let size = if is_measured { span.name(all).and_then(|name| self.size(name)) } else { None };
        Some(ListedEntry { name: span.range(), kind, size })
    }

    fn size(&self, name: DirEntry<'_>) -> Option<u64> {
        stat_child(self.directory, name.text).ok().and_then(|stat| u64::try_from(stat.st_size).ok())
    }
}
