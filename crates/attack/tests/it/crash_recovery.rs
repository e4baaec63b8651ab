//! A recovery that cannot restore everything: the only copy of something must never be deleted.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use rustix::fs::{CWD, FileType, FlockOperation, Mode, flock, mknodat};
use serde_json::json;
use toolgate_attack::{Bench, BenchOptions, Scratch, litter_below, unfinish};
use toolgate_gate::{ChangeSet, UndoOptions};
use toolgate_tools::Profile;
use toolgate_types::{CallId, ChangeFate, Deadline, Limits, StateKey};
use toolgate_workspace::{Mount, MountAccess, MountRules, PathStyle, Workspace, WorkspaceView};

use crate::fixture::write;

const GENTLY: UndoOptions = UndoOptions { force: false };

struct Place {
    scratch: Scratch,
}

impl Place {
    fn new() -> Self {
        let scratch = Scratch::new();
        write(&scratch.folder("w").join("a.txt"), "a\n");
        write(&scratch.folder("w").join("b.txt"), "b\n");
        Self { scratch }
    }

    fn root(&self) -> PathBuf {
        self.scratch.path().join("w")
    }

    fn start(&self) -> Bench {
        BenchOptions::new(Profile::NATIVE, &self.scratch.folder("w"), &self.scratch.folder("s")).open()
    }

    fn journal(&self, folder: &str) -> PathBuf {
        self.scratch.path().join("s/journal.toolgate").join(folder)
    }

    fn count(&self, folder: &str) -> usize {
        std::fs::read_dir(self.journal(folder)).unwrap().count()
    }

    fn text(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.root().join(name)).ok()
    }

    /// Makes a call, and turns its entry into that of a process that died before it was finished.
    fn interrupted(&self, tool: &str, arguments: serde_json::Value) -> ChangeSet {
        let bench = self.start();
        let call = bench.must(tool, arguments).call;
        let set = bench.gate().journal().change_set(call).unwrap();
        unfinish(&self.scratch.path().join("s/journal.toolgate"), call);
        set
    }

    fn temporary(&self, set: &ChangeSet, index: usize) -> PathBuf {
        let change = &set.changes[index];
        self.root().join(&change.path).with_file_name(change.temporary.as_ref().unwrap())
    }
}

fn kept(bench: &Bench) -> Vec<String> {
    bench.gate().journal().recovery().unrestored.iter().map(|(call, _)| call.clone()).collect()
}

fn put_back(bench: &Bench) -> Vec<CallId> {
    bench.gate().journal().recovery().restored.clone()
}

#[test]
fn a_deleted_file_whose_folder_is_locked_is_put_back_by_a_later_start() {
    let place = Place::new();
    let set = place.interrupted("delete_file", json!({"path": "a.txt"}));
    let blob = place.journal("blobs").join(&set.changes[0].before.as_ref().unwrap().blob);
    std::fs::hard_link(&blob, place.temporary(&set, 0)).unwrap();
    let folder = File::open(place.root()).unwrap();
    flock(&folder, FlockOperation::LockExclusive).unwrap();
    for _ in 0..2 {
        assert_eq!(kept(&place.start()), [set.call.to_string()]);
        assert_eq!(place.count("pending"), 1);
        assert_eq!(std::fs::read_to_string(&blob).unwrap(), "a\n");
        assert_eq!(std::fs::read_to_string(place.temporary(&set, 0)).unwrap(), "a\n");
    }
    // Unlocked explicitly: a process that another test is just forking holds a duplicate of every descriptor for a moment.
    flock(&folder, FlockOperation::Unlock).unwrap();
    let bench = place.start();
    assert_eq!((kept(&bench), put_back(&bench)), (vec![], vec![set.call]));
    assert_eq!(place.text("a.txt").as_deref(), Some("a\n"));
    assert_eq!((place.count("pending"), place.count("blobs")), (0, 0));
    assert_eq!(litter_below(&place.root()), Vec::<PathBuf>::new());
}

#[test]
fn the_journal_says_of_every_interrupted_call_whether_its_change_stayed() {
    let place = Place::new();
    // Its process died before it marked the change as complete.
    let torn = place.interrupted("write_file", json!({"path": "a.txt", "content": "by a model\n"})).call;
    let fate = |bench: &Bench, call| {
        let listed = bench.gate().journal().changes().unwrap().iter().any(|set| set.call == call);
        let fate = bench.gate().journal().fate_of(call);
        assert_eq!(listed, fate == ChangeFate::Stayed, "`changes` says something else than {fate:?}");
        fate
    };
    let folder = File::open(place.root()).unwrap();
    flock(&folder, FlockOperation::LockExclusive).unwrap();
    assert_eq!(fate(&place.start(), torn), ChangeFate::Unresolved);
    flock(&folder, FlockOperation::Unlock).unwrap();
    let bench = place.start();
    assert_eq!(fate(&bench, torn), ChangeFate::PutBack);
    assert_eq!(place.text("a.txt").as_deref(), Some("a\n"));
    // This one marked it, and died before it was audited.
    let complete = bench.must("write_file", json!({"path": "b.txt", "content": "by a model\n"})).call;
    drop(bench);
    let bench = place.start();
    assert_eq!(fate(&bench, complete), ChangeFate::Stayed);
    assert_eq!(place.text("b.txt").as_deref(), Some("by a model\n"));
    assert_eq!(fate(&bench, CallId::fresh()), ChangeFate::NoEntry);
    // An earlier start rolled it back; nothing of it remains.
    assert_eq!(fate(&bench, torn), ChangeFate::NoEntry);
}

#[test]
fn a_torn_patch_waits_for_its_workspace() {
    let place = Place::new();
    let patch = "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-a\n+A\n--- b.txt\n+++ b.txt\n@@ -1 +1 @@\n-b\n+B\n";
    let set = place.interrupted("apply_patch", json!({"patch": patch}));
    // Only the first file had been exchanged.
    write(&place.root().join("b.txt"), "b\n");
    let away = place.scratch.path().join("away");
    std::fs::rename(place.root(), &away).unwrap();
    std::fs::create_dir(place.scratch.path().join("other")).unwrap();
    let elsewhere =
        BenchOptions::new(Profile::NATIVE, &place.scratch.folder("other"), &place.scratch.folder("s"));
    assert_eq!(kept(&elsewhere.open()), [set.call.to_string()]);
    assert_eq!((place.count("pending"), place.count("blobs")), (1, 2));
    std::fs::rename(&away, place.root()).unwrap();
    assert_eq!(put_back(&place.start()), [set.call]);
    assert_eq!((place.text("a.txt").as_deref(), place.text("b.txt").as_deref()), (Some("a\n"), Some("b\n")));
    assert_eq!((place.count("pending"), place.count("blobs")), (0, 0));
}

#[test]
fn an_update_that_was_taken_out_by_a_process_that_died_gets_its_name_back() {
    let place = Place::new();
    let set = place.interrupted("write_file", json!({"path": "a.txt", "content": "by a model\n"}));
    // A person had saved the file between the check and the exchange; there was no time to compare.
    std::fs::write(place.temporary(&set, 0), "by a person\n").unwrap();
    assert_eq!(put_back(&place.start()), [set.call]);
    assert_eq!(place.text("a.txt").as_deref(), Some("by a person\n"));
    assert_eq!(litter_below(&place.root()), Vec::<PathBuf>::new());
}

#[test]
fn unknown_content_under_a_temporary_name_is_left_there_and_told() {
    let place = Place::new();
    let set = place.interrupted("write_file", json!({"path": "a.txt", "content": "by a model\n"}));
    std::fs::write(place.temporary(&set, 0), "by a person\n").unwrap();
    std::fs::write(place.root().join("a.txt"), "by a person, later\n").unwrap();
    assert_eq!(kept(&place.start()), [set.call.to_string()]);
    assert_eq!(std::fs::read_to_string(place.temporary(&set, 0)).unwrap(), "by a person\n");
    assert_eq!(place.text("a.txt").as_deref(), Some("by a person, later\n"));
    // Once a person has looked and removed it, recovery succeeds.
    std::fs::remove_file(place.temporary(&set, 0)).unwrap();
    assert_eq!(put_back(&place.start()), [set.call]);
    assert_eq!(place.count("pending"), 0);
}

#[test]
fn what_cannot_be_read_is_kept() {
    let place = Place::new();
    let set = place.interrupted("delete_file", json!({"path": "a.txt"}));
    let entry = place.journal("pending").join(format!("{}.json", set.call));
    let good = std::fs::read(&entry).unwrap();
    for (bad, is_torn) in [("", true), ("{", true), ("\0\0\n", true), ("{\"call\": 7}\n", false)] {
        std::fs::write(&entry, bad).unwrap();
        let bench = place.start();
        let recovery = bench.gate().journal().recovery();
        let expected = (usize::from(is_torn), usize::from(!is_torn));
        assert_eq!((kept(&bench), (recovery.torn, recovery.unsealed)), (vec![], expected), "{bad}");
        assert_eq!((place.count("pending"), place.count("blobs")), (1, 1), "{bad}");
    }
    std::fs::write(&entry, good).unwrap();
    let blob = place.journal("blobs").join(&set.changes[0].before.as_ref().unwrap().blob);
    std::fs::rename(&blob, blob.with_extension("away")).unwrap();
    assert_eq!(kept(&place.start()), [set.call.to_string()]);
    std::fs::rename(blob.with_extension("away"), &blob).unwrap();
    assert_eq!(put_back(&place.start()), [set.call]);
    assert_eq!(place.text("a.txt").as_deref(), Some("a\n"));
}

#[test]
fn entries_that_a_power_cut_emptied_are_told() {
    let place = Place::new();
    let bench = place.start();
    let call = bench.must("write_file", json!({"path": "a.txt", "content": "A\n"})).call;
    let lost = bench.must("write_file", json!({"path": "b.txt", "content": "B\n"})).call;
    // As ext4 leaves a file whose name reached the disk and whose content did not.
    std::fs::write(place.journal("done").join(format!("{lost}.json")), "").unwrap();
    let listing = bench.gate().journal().list().unwrap();
    assert_eq!((listing.change_sets.len(), listing.torn, listing.unsealed), (1, 1, 0));
    assert_eq!(listing.change_sets[0].call, call);
    drop(bench);
    // An entry that was about to begin: after a kill it is litter, after a power cut it may be more.
    let unfinished = place.journal("pending").join(format!(".{lost}.json"));
    let blob = place.journal("blobs").join(format!("{lost}.0"));
    std::fs::remove_file(place.journal("done").join(format!("{lost}.json"))).unwrap();
    let file = File::create(&unfinished).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    for _ in 0..2 {
        assert_eq!(place.start().gate().journal().recovery().torn, 1);
        assert!(unfinished.exists() && blob.exists(), "what was kept for it may be the only copy");
    }
    file.set_modified(std::time::SystemTime::now()).unwrap();
    assert_eq!(place.start().gate().journal().recovery().torn, 0);
    assert!(!unfinished.exists() && !blob.exists());
}

#[test]
fn a_journal_of_another_version_is_left_as_it_is() {
    let place = Place::new();
    let set = place.interrupted("write_file", json!({"path": "a.txt", "content": "A\n"}));
    for (format, said) in [
        ("toolgate journal 2\n", "is of version 2, and this toolgate knows version 1"),
        ("", "has a damaged `format` file"),
        ("\u{7f}junk", "has a damaged `format` file"),
    ] {
        std::fs::write(place.journal("format"), format).unwrap();
        let folder = Dir::open_ambient_dir(place.journal(""), ambient_authority()).unwrap();
        let error = toolgate_gate::Journal::open(&folder, &StateKey::new([7; 32])).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
        assert_eq!((place.count("pending"), place.text("a.txt").as_deref()), (1, Some("A\n")));
    }
    std::fs::write(place.journal("format"), "toolgate journal 1\n").unwrap();
    assert_eq!(put_back(&place.start()), [set.call]);
}

#[test]
fn a_pipe_in_place_of_a_folder_is_not_waited_for() {
    let place = Place::new();
    mknodat(CWD, place.root().join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    let root = place.root();
    let mount =
        Mount::new("@w", File::open(&root).unwrap(), &root, MountAccess::ReadWrite, MountRules::new())
            .unwrap();
    let workspace = Workspace::new(vec![mount]).unwrap();
    let limits: Limits = Profile::NATIVE.limits();
    let stop = Deadline::never();
    let view = WorkspaceView {
        workspace: &workspace,
        style: PathStyle::Free,
        limits: &limits,
        grant: None,
        stop: &stop,
        unlocked: None,
    };
    view.remove_empty_directories("@w", &["pipe/inner".into()]);
    let beside = Path::new("pipe/a.txt");
    view.remove_stale_temporary("@w", beside, "x".as_ref(), &|_| true).unwrap();
    assert!(view.open_stale_temporary("@w", beside, "x".as_ref()).unwrap().is_none());
    view.remove_stale_temporary("@w", Path::new("a.txt"), "pipe".as_ref(), &|_| true).unwrap_err();
}

/// The id of a call that was made this many days ago; the first 48 bits are the time in milliseconds (UUIDv7).
fn call_made(days_ago: u64, number: u64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
    let then = format!("{:012x}", now - days_ago * 24 * 60 * 60 * 1000 + number);
    format!("{}-{}-7000-8000-{number:012x}", &then[..8], &then[8..])
}

/// Copies an entry and its blobs, as if its call was made this many days ago.
fn copy_aged(place: &Place, of: CallId, days_ago: u64, number: u64) -> String {
    let call = call_made(days_ago, number);
    let entry = std::fs::read_to_string(place.journal("done").join(format!("{of}.json"))).unwrap();
    let entry = entry.lines().next().unwrap().replace(&of.to_string(), &call);
    let journal = std::fs::metadata(place.journal("")).unwrap().ino().to_le_bytes();
    let parts: [&[u8]; 3] = [b"done", &journal, entry.as_bytes()];
    let seal = StateKey::new([7; 32]).seal("toolgate journal entry 1", &parts);
    std::fs::write(place.journal("done").join(format!("{call}.json")), format!("{entry}\n{seal}\n")).unwrap();
    std::fs::write(place.journal("blobs").join(format!("{call}.0")), "a\n").unwrap();
    call
}

#[test]
fn the_journal_lets_go_of_the_oldest_and_of_nothing_younger_than_a_day() {
    let place = Place::new();
    let bench = place.start();
    let first = bench.must("delete_file", json!({"path": "a.txt"})).call;
    // Deletions of what a person wrote: today, two days ago, and long ago. And blobs whose entry was lost in a power cut.
    let mut number = 0..;
    let mut made = |days_ago, count: usize| -> Vec<String> {
        number.by_ref().take(count).map(|number| copy_aged(&place, first, days_ago, number)).collect()
    };
    let (young, old, ancient) = (made(0, 60), made(2, 50), made(31, 3));
    let orphans = [29, 31].map(|days| place.journal("blobs").join(format!("{}.0", call_made(days, 900))));
    orphans.iter().for_each(|orphan| std::fs::write(orphan, "orphan").unwrap());
    drop(bench);
    let exists = |call: &String| place.journal("done").join(format!("{call}.json")).exists();
    let kept = |calls: &[String]| calls.iter().filter(|call| exists(call)).count();
    let sweep = |bounds: &str| {
        let options = BenchOptions::new(Profile::NATIVE, &place.root(), &place.scratch.path().join("s"));
        let bench = options.config(&format!("retention: {{undo: {bounds}}}\n")).open();
        // Two steps' worth was added since the last sweep: the next change waits for one.
        std::fs::write(place.journal("added"), [0; 2 * 4096]).unwrap();
        bench.call("write_file", json!({"path": "new.txt", "content": "new\n"})).failed
    };
    // Expired entries are removed, even if there is room.
    assert!(sweep("{max_entries: 1000}").is_none());
    assert_eq!((kept(&ancient), kept(&old), kept(&young)), (0, 50, 60));
    assert_eq!(orphans.each_ref().map(|orphan| orphan.exists()), [true, false]);
    // Without room, the oldest are removed.
    assert!(sweep("{max_entries: 100}").is_none());
    assert!((1..50).contains(&kept(&old)) && !exists(&old[0]) && exists(&old[49]));
    assert_eq!(kept(&young), 60);
    // And what a person wrote is never removed on the same day: instead, changes are refused.
    let (_, failure) = sweep("{max_entries: 40}").unwrap();
    assert_eq!(failure.message, "the undo journal is full, so nothing was changed");
    assert_eq!((kept(&old), kept(&young)), (0, 60));
    // With more room, changes go on.
    assert!(sweep("{max_entries: 200}").is_none());
    assert_eq!(kept(&young), 60);
}

#[test]
fn what_somebody_has_already_put_back_is_no_conflict() {
    let place = Place::new();
    let bench = place.start();
    bench.must("write_file", json!({"path": "b.txt", "content": "B\n"}));
    let created = bench.must("write_file", json!({"path": "new.txt", "content": "n\n"})).call;
    std::fs::remove_file(place.root().join("new.txt")).unwrap();
    bench.undo(created, GENTLY).unwrap();
    assert!(bench.gate().journal().change_set(created).unwrap().undone_by.is_some());
    assert_eq!(place.text("new.txt"), None);
}
