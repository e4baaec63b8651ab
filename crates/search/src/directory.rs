//! Reads directories and opens their children, one name at a time.
//!
//! This module guarantees that a walk stays inside: a child is a single name beneath an open handle, and a symlink is never followed. Every open in
//! this crate happens here.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat, fstat, openat, statat};
use rustix::io::Errno;
use toolgate_types::{CancellationReason, Deadline};

use crate::EntryKind;

/// `O_NONBLOCK` avoids blocking on a FIFO, `O_NOFOLLOW` following a symlink, `O_NOCTTY` acquiring a terminal, `O_CLOEXEC` inheritance by a child
/// process.
const OPEN_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// How many names are read between two checks for cancellation.
const ENTRIES_PER_CHECK: usize = 1024;

/// Buffer for `getdents64`, reused from one directory to the next.
pub(crate) struct DirentBuffer(Vec<MaybeUninit<u8>>);

impl DirentBuffer {
    pub(crate) fn new() -> Self {
        Self(vec![MaybeUninit::uninit(); 64 * 1024])
    }
}

/// Opens the directory of this name.
pub(crate) fn open_directory(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    debug_assert!(!name.to_bytes().contains(&b'/'), "a child is a single name");
    openat(parent, name, OPEN_FLAGS | OFlags::DIRECTORY, Mode::empty())
}

/// Opens the same directory again, so that the position of a shared handle does not move.
pub(crate) fn reopen(directory: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    open_directory(directory, c".")
}

/// Opens the file of this name; `None` when it is not a regular one, whatever `d_type` said.
pub(crate) fn open_file(parent: BorrowedFd<'_>, name: &CStr) -> Result<Option<(OwnedFd, u64)>, Errno> {
    debug_assert!(!name.to_bytes().contains(&b'/'), "a child is a single name");
    let file = openat(parent, name, OPEN_FLAGS, Mode::empty())?;
    Ok(regular_size(file.as_fd())?.map(|size| (file, size)))
}

/// The size of a regular file; `None` for anything else.
pub(crate) fn regular_size(file: BorrowedFd<'_>) -> Result<Option<u64>, Errno> {
    let stat = fstat(file)?;
    let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    Ok(is_regular.then(|| u64::try_from(stat.st_size).unwrap_or(0)))
}

/// Whether an error only means that another process changed the tree concurrently.
pub(crate) fn is_concurrent_change(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::NXIO | Errno::STALE)
}

/// The kind of a child whose `d_type` is unknown.
pub(crate) fn kind_by_stat(parent: BorrowedFd<'_>, name: &CStr) -> Result<EntryKind, Errno> {
    stat_child(parent, name)
        .map(|stat| kind_of(FileType::from_raw_mode(stat.st_mode)).unwrap_or(EntryKind::Other))
}

/// The metadata of a child; symlinks are not followed.
pub(crate) fn stat_child(parent: BorrowedFd<'_>, name: &CStr) -> Result<Stat, Errno> {
    statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
}

fn kind_of(file_type: FileType) -> Option<EntryKind> {
    match file_type {
        FileType::RegularFile => Some(EntryKind::File),
        FileType::Directory => Some(EntryKind::Directory),
        FileType::Symlink => Some(EntryKind::Symlink),
        FileType::Unknown => None,
        _ => Some(EntryKind::Other),
    }
}

/// A name in a directory, and its `d_type`; some filesystems do not report one.
#[derive(Clone, Copy)]
pub(crate) struct DirEntry<'a> {
    pub(crate) text: &'a CStr,
    pub(crate) kind: Option<EntryKind>,
}

impl<'a> DirEntry<'a> {
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.text.to_bytes()
    }

    pub(crate) fn is_hidden(&self) -> bool {
        self.bytes().starts_with(b".")
    }
}

/// The names in a directory, in one allocation, each with its final NUL.
#[derive(Default)]
pub(crate) struct DirEntries {
    bytes: Vec<u8>,
    spans: Vec<EntrySpan>,
}

/// The position of a name among all of them.
#[derive(Clone, Copy)]
pub(crate) struct EntrySpan {
    start: usize,
    end: usize,
    kind: Option<EntryKind>,
}

impl EntrySpan {
    pub(crate) fn kind(&self) -> Option<EntryKind> {
        self.kind
    }

    /// Without the NUL.
    pub(crate) fn range(&self) -> Range<usize> {
        self.start..self.end.saturating_sub(1)
    }

    pub(crate) fn name<'a>(&self, all: &'a [u8]) -> Option<DirEntry<'a>> {
        CStr::from_bytes_with_nul(self.bytes(all)).ok().map(|text| DirEntry { text, kind: self.kind })
    }

    /// With the NUL.
    fn bytes<'a>(&self, all: &'a [u8]) -> &'a [u8] {
        all.get(self.start..self.end).unwrap_or_default()
    }

    /// The eight bytes after the first `skipped`, as an integer. Bytes beyond the end of the name belong to other names and do not matter: the final
    /// NUL decides before them.
    fn leading_bytes(&self, skipped: usize, all: &[u8]) -> u64 {
        let rest = all.get(self.start + skipped..).unwrap_or_default();
        u64::from_be_bytes(rest.first_chunk().copied().unwrap_or_else(|| {
            let mut padded = [0; size_of::<u64>()];
            padded.iter_mut().zip(rest).for_each(|(place, byte)| *place = *byte);
            padded
        }))
    }
}

impl DirEntries {
    /// Reads all names except `.` and `..` that `wanted` accepts, in the order of the filesystem.
    pub(crate) fn read(
        directory: BorrowedFd<'_>,
        scratch: &mut DirentBuffer,
        stop: &Deadline,
        mut wanted: impl FnMut(DirEntry<'_>) -> bool,
    ) -> Result<(Self, Option<CancellationReason>), Errno> {
        let mut names = Self { bytes: Vec::with_capacity(1024), spans: Vec::with_capacity(32) };
        let mut raw = RawDir::new(directory, &mut scratch.0);
        let mut until_check = ENTRIES_PER_CHECK;
        while let Some(entry) = raw.next() {
            let entry = entry?;
            let name = DirEntry { text: entry.file_name(), kind: kind_of(entry.file_type()) };
            if !matches!(name.bytes(), b"." | b"..") && wanted(name) {
                names.push(name);
            }
            until_check -= 1;
            if until_check == 0 {
                if let Some(reason) = stop.reason() {
                    return Ok((names, Some(reason)));
                }
                until_check = ENTRIES_PER_CHECK;
            }
        }
        Ok((names, None))
    }

    fn push(&mut self, name: DirEntry<'_>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name.text.to_bytes_with_nul());
        self.spans.push(EntrySpan { start, end: self.bytes.len(), kind: name.kind });
    }

    /// Sorts by the bytes of the names.
    pub(crate) fn sort(&mut self) {
        self.sort_and_truncate(usize::MAX);
    }

    /// Sorts, and keeps the first `limit`.
    pub(crate) fn sort_and_truncate(&mut self, limit: usize) {
        let Self { bytes, spans } = self;
        // Sorting integers is much faster than sorting names. The key of a name is its part after the common prefix, as far as it fits, with the
        // index of the name in the low bits.
        let index_bits = spans.len().next_power_of_two().trailing_zeros();
        let index_mask = (1 << index_bits) - 1;
        let rank = |number: u64| number & !index_mask;
        let span = |number: u64| spans.get((number & index_mask) as usize);
        let name = |number: u64| span(number).map(|span| span.bytes(bytes));
        let same = common_prefix_len(spans, bytes);
        let ranks = spans.iter().map(|span| rank(span.leading_bytes(same, bytes)));
        let mut numbers: Vec<u64> = ranks.zip(0..).map(|(rank, index)| rank | index).collect();
        if limit < numbers.len() {
            let by_name = |one: &u64, other: &u64| {
                rank(*one).cmp(&rank(*other)).then_with(|| name(*one).cmp(&name(*other)))
            };
            numbers.select_nth_unstable_by(limit, by_name);
            numbers.truncate(limit);
        }
        numbers.sort_unstable();
        let are_alike = |one: u64, other: u64| rank(one) == rank(other);
        if numbers.windows(2).any(|pair| matches!(pair, [one, other] if are_alike(*one, *other))) {
            for alike in numbers.chunk_by_mut(|one, other| are_alike(*one, *other)) {
                alike.sort_unstable_by(|one, other| name(*one).cmp(&name(*other)));
            }
        }
        let mut sorted = Vec::with_capacity(numbers.len());
        sorted.extend(numbers.iter().filter_map(|number| span(*number)));
        *spans = sorted;
    }

    /// All bytes, and the positions of the names in sorted order.
    pub(crate) fn into_parts(self) -> (Vec<u8>, Vec<EntrySpan>) {
        (self.bytes, self.spans)
    }

    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    pub(crate) fn get(&self, index: usize) -> Option<DirEntry<'_>> {
        self.spans.get(index)?.name(&self.bytes)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = DirEntry<'_>> {
        self.spans.iter().filter_map(|span| span.name(&self.bytes))
    }

    /// Finds a name; the names must be sorted.
    pub(crate) fn find(&self, name: &CStr) -> Option<DirEntry<'_>> {
        let wanted = name.to_bytes_with_nul();
        let index = self.spans.binary_search_by(|span| span.bytes(&self.bytes).cmp(wanted)).ok()?;
        self.get(index)
    }
}

/// The length of the common prefix of all names.
fn common_prefix_len(spans: &[EntrySpan], all: &[u8]) -> usize {
    let length = spans.first().map_or(0, |first| first.bytes(all).len());
    let mut same = 0;
    while same < length {
        let mut ranks = spans.iter().map(|span| span.leading_bytes(same, all));
        let first = ranks.next().unwrap_or_default();
        let differing = ranks.fold(0, |differing, rank| differing | (rank ^ first));
        same += differing.leading_zeros() as usize / 8;
        if differing != 0 {
            break;
        }
    }
    same.min(length)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ffi::CString;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_are_sorted_by_their_bytes(
            beginning in prop::collection::vec(1..=255u8, 0..12),
            endings in prop::collection::btree_set(
                // Some differ only beyond what fits into a key.
                (prop::sample::select(vec!["", "aaaaaaaaaa", "aaaaaaaaab"]), prop::collection::vec(prop_oneof![Just(1), Just(b'a'), 1..=255u8], 0..12)),
                0..200,
            ),
            limit in prop_oneof![0..50usize, 0..250usize],
        ) {
            let all: BTreeSet<Vec<u8>> = endings.iter().map(|(middle, ending)| [beginning.as_slice(), middle.as_bytes(), ending].concat()).collect();
            let mut names = DirEntries::default();
            // An arbitrary order, as a directory has it.
            let (even, odd): (Vec<_>, Vec<_>) = all.iter().enumerate().partition(|(number, _)| number % 2 == 0);
            for (_, name) in odd.into_iter().rev().chain(even) {
                let text = CString::new(name.clone()).unwrap();
                names.push(DirEntry { text: &text, kind: None });
            }
            names.sort_and_truncate(limit);
            let sorted: Vec<Vec<u8>> = names.iter().map(|name| name.bytes().to_vec()).collect();
            prop_assert_eq!(sorted, all.into_iter().take(limit).collect::<Vec<_>>());
        }
    }
}
