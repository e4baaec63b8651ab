//! Listing one directory.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use toolgate_types::{Stop, StopReason};

use crate::folder::{Name, Names, Scratch, kind_by_stat, reopen, stat_child};
use crate::place::Place;
use crate::{Error, Start, Visible};

/// What an entry is. A symbolic link is a link here, whatever it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link; never followed.
    Symlink,
    /// A FIFO, socket or device.
    Other,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name, which need not be UTF-8.
    pub name: OsString,
    /// What it is.
    pub kind: EntryKind,
    /// The size of a regular file, when sizes were asked for and it is still there.
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
    /// Whether sizes are looked up; one more system call for every file that is returned.
    pub with_size: bool,
}

/// The entries of a directory, sorted by the bytes of their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The entries.
    pub entries: Vec<Entry>,
    /// How many there are in all that may be seen.
    pub total: usize,
    /// Whether some were left out because of the limit.
    pub truncated: bool,
    /// Why reading ended before the end of the directory; the entries are then only some of them.
    pub stopped: Option<StopReason>,
}

/// Lists a directory.
///
/// # Errors
/// [`Error::NotADirectory`] or [`Error::Unreadable`].
pub fn list(
    start: Start<'_>,
    visible: &dyn Visible,
    options: &ListOptions,
    stop: &Stop,
) -> Result<Listing, Error> {
    let directory = reopen(start.directory)?;
    let mut chosen =
        Chosen { directory: directory.as_fd(), visible, options, place: Place::of(&start.place()) };
    let (mut names, stopped) =
        Names::read(directory.as_fd(), &mut Scratch::new(), stop, |name| chosen.wants(name))?;
    let total = names.len();
    names.sort_and_keep(options.max_entries);
    let entries = names.iter().filter_map(|name| chosen.entry(name)).collect();
    Ok(Listing { entries, total, truncated: total > options.max_entries, stopped })
}

struct Chosen<'a> {
    directory: BorrowedFd<'a>,
    visible: &'a dyn Visible,
    options: &'a ListOptions,
    place: Place,
}

impl Chosen<'_> {
    fn wants(&mut self, name: Name<'_>) -> bool {
        if !self.options.include_hidden && name.is_hidden() {
            return false;
        }
        let Some(kind) = self.kind(name) else { return false };
        if !self.options.include_symlinks && kind == EntryKind::Symlink {
            return false;
        }
        self.visible.visible(self.place.child(name.bytes()), kind == EntryKind::Directory)
    }

    /// `None` when it is gone again.
    fn kind(&self, name: Name<'_>) -> Option<EntryKind> {
        name.kind.or_else(|| kind_by_stat(self.directory, name.text).ok())
    }

    fn entry(&self, name: Name<'_>) -> Option<Entry> {
        let kind = self.kind(name)?;
        let size = if self.options.with_size && kind == EntryKind::File { self.size(name) } else { None };
        Some(Entry { name: OsStr::from_bytes(name.bytes()).to_owned(), kind, size })
    }

    fn size(&self, name: Name<'_>) -> Option<u64> {
        stat_child(self.directory, name.text).ok().and_then(|stat| u64::try_from(stat.st_size).ok())
    }
}
