use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use toolgate_search::{EntryKind, Error, ScannedDir, ScannedEntry, TreeScan, TreeVisitor, scan_tree};
use toolgate_types::{CancellationReason, Deadline};

/// Records everything, and enters all directories except those called `closed`.
#[derive(Default)]
struct Notes {
    seen: BTreeSet<(PathBuf, EntryKind)>,
    closed: Vec<PathBuf>,
}

impl TreeVisitor for Notes {
    fn visit_dir(&mut self, folder: &ScannedDir<'_>, enter: &mut dyn FnMut(ScannedEntry<'_>)) {
        for entry in folder.entries() {
            let name = entry.name.to_str().unwrap();
            assert!(self.seen.insert((folder.path().join(name), entry.kind)), "{name} was seen twice");
            if entry.kind == EntryKind::Directory && name != "closed" {
                enter(entry);
            }
        }
    }

    fn visit_unreadable(&mut self, place: &Path) {
        self.closed.push(place.to_path_buf());
    }
}

fn surveyed(root: &Path, stop: &Deadline) -> Result<(Notes, TreeScan<()>), Error> {
    let handle = File::open(root).unwrap();
    let TreeScan { visitors: surveyors, changed_during_scan: restless, incomplete: missed, stopped } =
        scan_tree(handle.as_fd(), stop, Notes::default)?;
    let mut all = Notes::default();
    for notes in surveyors {
        for entry in notes.seen {
            assert!(all.seen.insert(entry), "two threads saw the same");
        }
        all.closed.extend(notes.closed);
    }
    Ok((all, TreeScan { visitors: Vec::new(), changed_during_scan: restless, incomplete: missed, stopped }))
}

fn by_path(root: &Path, folder: &Path, all: &mut BTreeSet<(PathBuf, EntryKind)>) {
    for entry in fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let (place, kind) = (folder.join(entry.file_name()), entry.file_type().unwrap());
        let kind = match kind {
            kind if kind.is_dir() => EntryKind::Directory,
            kind if kind.is_symlink() => EntryKind::Symlink,
            _ => EntryKind::File,
        };
        if kind == EntryKind::Directory && entry.file_name() != "closed" {
            by_path(root, &place, all);
        }
        all.insert((place, kind));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_survey_sees_what_a_plain_walk_sees(
        places in prop::collection::btree_set(prop::collection::vec("[ab.]c?|closed|\\.git", 1..6), 0..120),
    ) {
        let scratch = tempfile::tempdir().unwrap();
        for (number, names) in places.iter().enumerate() {
            let path = names.iter().filter(|name| *name != "." ).fold(scratch.path().to_path_buf(), |path, name| path.join(name));
            // Entries that conflict with existing ones are skipped. Later places lead through symlinks, and none may lead out.
            match number % 3 {
                0 => _ = fs::create_dir_all(&path),
                1 => _ = fs::create_dir_all(path.parent().unwrap()).and_then(|()| fs::write(&path, "")),
                _ => _ = fs::create_dir_all(path.parent().unwrap()).and_then(|()| symlink(".", &path)),
            }
        }
        let mut expected = BTreeSet::new();
        by_path(scratch.path(), Path::new(""), &mut expected);
        let (notes, _) = surveyed(scratch.path(), &Deadline::never()).unwrap();
        prop_assert_eq!(notes.seen, expected);
    }
}

#[test]
fn a_large_tree_is_seen_once_by_all_threads_together() {
    let scratch = tempfile::tempdir().unwrap();
    for folder in 0..400 {
        let path = scratch.path().join(format!("{}/{}/{folder}", folder % 7, folder % 3));
        fs::create_dir_all(&path).unwrap();
        (0..5).for_each(|file| fs::write(path.join(file.to_string()), "").unwrap());
    }
    let mut expected = BTreeSet::new();
    by_path(scratch.path(), Path::new(""), &mut expected);
    for _ in 0..20 {
        let (notes, _) = surveyed(scratch.path(), &Deadline::never()).unwrap();
        assert_eq!(notes.seen, expected);
    }
}

#[test]
fn changes_are_noticed_and_rest_is_too() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("a/b");
    fs::create_dir_all(&folder).unwrap();
    let is_restless = || surveyed(scratch.path(), &Deadline::never()).unwrap().1.changed_during_scan;
    for change in ["one", "two"] {
        // A change of a moment ago is detected, and a scan may begin later than that.
        let noticed = (0..1000).any(|number| {
            fs::write(folder.join(format!("{change}{number}")), "").unwrap();
            is_restless()
        });
        assert!(noticed, "{change}");
        // Timestamps are as coarse as a tick: wait until they show no change any more.
        while is_restless() {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_survey_that_must_end_says_so() {
    let scratch = tempfile::tempdir().unwrap();
    (0..300).for_each(|folder| fs::create_dir(scratch.path().join(folder.to_string())).unwrap());
    let begun = AtomicBool::new(false);
    let begun: &'static AtomicBool = Box::leak(Box::new(begun));
    let stop = Deadline::never().with_signal(move || begun.swap(true, Ordering::Relaxed));
    let (_, TreeScan { stopped, .. }) = surveyed(scratch.path(), &stop).unwrap();
    assert_eq!(stopped, Some(CancellationReason::Cancelled));
    let file = scratch.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(surveyed(&file, &Deadline::never()), Err(Error::NotADirectory)));
}

#[test]
fn too_deep_is_told() {
    let scratch = tempfile::tempdir().unwrap();
    let deep: PathBuf = std::iter::repeat_n("d", 140).collect();
    fs::create_dir_all(scratch.path().join(deep)).unwrap();
    let (notes, _) = surveyed(scratch.path(), &Deadline::never()).unwrap();
    assert_eq!(notes.closed, [std::iter::repeat_n("d", 129).collect::<PathBuf>()]);
}
