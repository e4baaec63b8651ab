use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use toolgate_search::{DirListing, EntryKind, Error, ListOptions, WalkRoot, list};
use toolgate_types::Deadline;

use crate::tree::{Tree, everything, not_utf8};

const ALL: ListOptions =
    ListOptions { max_entries: 1000, include_hidden: true, include_symlinks: true, with_size: true };

fn listed(tree: &Tree, options: &ListOptions) -> DirListing {
    list(tree.start(), &everything, options, &Deadline::never()).unwrap()
}

fn names(listing: &DirListing) -> Vec<&OsStr> {
    listing.entries.iter().map(|entry| listing.name(entry)).collect()
}

#[test]
fn every_kind_is_named_sorted_by_bytes_and_measured() {
    let tree = Tree::with(&[("b.txt", "four"), ("B.txt", ""), ("folder/inside", "x"), (".hidden", "1")]);
    tree.write(not_utf8(b"\xFFname"), "xy");
    symlink("/etc/passwd", tree.path().join("link")).unwrap();
    let _socket = UnixListener::bind(tree.path().join("socket")).unwrap();
    let listing = listed(&tree, &ALL);
    let seen: Vec<(&OsStr, EntryKind, Option<u64>)> =
        listing.entries.iter().map(|entry| (listing.name(entry), entry.kind, entry.size)).collect();
    let expected = [
        (OsStr::new(".hidden"), EntryKind::File, Some(1)),
        (OsStr::new("B.txt"), EntryKind::File, Some(0)),
        (OsStr::new("b.txt"), EntryKind::File, Some(4)),
        (OsStr::new("folder"), EntryKind::Directory, None),
        (OsStr::new("link"), EntryKind::Symlink, None),
        (OsStr::new("socket"), EntryKind::Other, None),
        (not_utf8(b"\xFFname"), EntryKind::File, Some(2)),
    ];
    assert_eq!(seen, expected);
    assert_eq!((listing.total, listing.truncated, listing.stopped), (7, false, None));
}

#[test]
fn choices_leave_entries_out() {
    let tree = Tree::with(&[("a", "text"), (".b", ""), ("c", "")]);
    symlink("a", tree.path().join("d")).unwrap();
    let cases = [
        (ListOptions { include_hidden: false, ..ALL }, vec!["a", "c", "d"]),
        (ListOptions { include_symlinks: false, ..ALL }, vec![".b", "a", "c"]),
        (ListOptions { max_entries: 2, ..ALL }, vec![".b", "a"]),
        (ListOptions { max_entries: 0, ..ALL }, vec![]),
    ];
    for (options, expected) in cases {
        assert_eq!(names(&listed(&tree, &options)), expected, "{options:?}");
    }
    let without_size = listed(&tree, &ListOptions { with_size: false, ..ALL });
    assert!(without_size.entries.iter().all(|entry| entry.size.is_none()));
}

#[test]
fn a_limit_keeps_the_first_names_and_the_whole_count() {
    let tree = Tree::new();
    for number in 0..300 {
        tree.write(format!("{:03}", number * 7 % 300), "");
    }
    for limit in [1, 150, 299, 300, 301] {
        let listing = listed(&tree, &ListOptions { max_entries: limit, ..ALL });
        let expected: Vec<OsString> =
            (0..limit.min(300)).map(|number| format!("{number:03}").into()).collect();
        assert_eq!(names(&listing), expected);
        assert_eq!((listing.total, listing.truncated), (300, limit < 300));
    }
}

#[test]
fn the_caller_decides_what_is_seen_by_its_place_in_the_mount() {
    let tree = Tree::with(&[("sub/secret", ""), ("sub/open", ""), ("secret", "")]);
    let rules = |path: &Path, is_directory: bool| is_directory || path != Path::new("sub/secret");
    let sub = File::open(tree.path().join("sub")).unwrap();
    let start = WalkRoot::beneath(&tree.handle, &sub, Path::new("sub"));
    let listing = list(start, &rules, &ALL, &Deadline::never()).unwrap();
    assert_eq!((names(&listing), listing.total), (vec![OsStr::new("open")], 1));
    assert_eq!(names(&list(tree.start(), &rules, &ALL, &Deadline::never()).unwrap()), ["secret", "sub"]);
}

#[test]
fn a_shared_handle_can_be_listed_again_and_again() {
    let tree = Tree::with(&[("a", ""), ("b", "")]);
    assert_eq!(names(&listed(&tree, &ALL)), ["a", "b"]);
    assert_eq!(names(&listed(&tree, &ALL)), ["a", "b"]);
}

#[test]
fn a_file_is_not_a_directory() {
    let tree = Tree::with(&[("a", "")]);
    let file = File::open(tree.path().join("a")).unwrap();
    let outcome = list(WalkRoot::root(&file), &everything, &ALL, &Deadline::never());
    assert!(matches!(outcome, Err(Error::NotADirectory)), "{outcome:?}");
}

#[test]
fn a_handle_that_only_names_a_place_is_enough() {
    use rustix::fs::{Mode, OFlags};
    let tree = Tree::with(&[("a", "")]);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let place = rustix::fs::open(tree.path(), flags, Mode::empty()).unwrap();
    assert_eq!(names(&list(WalkRoot::root(&place), &everything, &ALL, &Deadline::never()).unwrap()), ["a"]);
}
