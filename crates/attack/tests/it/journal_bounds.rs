//! The undo journal stays within its limits while a gate runs, and a model cannot evict its earlier changes.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;
use toolgate_attack::{Bench, BenchOptions, Scratch};
use toolgate_gate::{UndoError, UndoOptions};
use toolgate_tools::Profile;
use toolgate_types::{CallId, ChangeFate, ErrorCode};

use crate::fixture::write;

const GENTLY: UndoOptions = UndoOptions { force: false };
const FORCE: UndoOptions = UndoOptions { force: true };

struct Place {
    scratch: Scratch,
}

impl Place {
    fn new() -> Self {
        Self { scratch: Scratch::new() }
    }

    fn root(&self) -> PathBuf {
        self.scratch.folder("w")
    }

    /// A gate that keeps this much for undo.
    fn start(&self, bounds: &str) -> Bench {
        let options = BenchOptions::new(Profile::NATIVE, &self.root(), &self.scratch.folder("s"));
        options.config(&format!("retention: {{undo: {bounds}}}\n")).open()
    }

    fn journal(&self, folder: &str) -> PathBuf {
        self.scratch.path().join("s/journal.toolgate").join(folder)
    }

    /// By the disk, not the gate: how many entries there are, and the disk usage of the blobs. A sweep may be removing some of them.
    fn usage(&self) -> (usize, u64) {
        let entries = std::fs::read_dir(self.journal("done")).unwrap().count();
        let blobs = std::fs::read_dir(self.journal("blobs")).unwrap();
        let sizes = blobs.filter_map(|blob| blob.ok()?.metadata().ok()).map(|blob| blob.blocks() * 512);
        (entries, sizes.sum())
    }
}

fn content(number: usize, bytes: usize) -> String {
    format!("{number:08}").repeat(bytes / 8)
}

fn rewrite(bench: &Bench, path: &str, number: usize, bytes: usize) -> CallId {
    bench.must("write_file", json!({"path": path, "content": content(number, bytes)})).call
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn rewriting_one_file_in_a_loop_stays_within_the_bound_and_loses_no_original() {
    for bytes in [8 << 10, 64 << 10] {
        let place = Place::new();
        let file = place.root().join("a.txt");
        let original = "what a person wrote\n".repeat(bytes / 20);
        write(&file, &original);
        let bench = place.start("{max_bytes: 1MiB, max_entries: 64}");
        let mut calls = Vec::new();
        for number in 0..300 {
            calls.push(rewrite(&bench, "a.txt", number, bytes));
            let (entries, held) = place.usage();
            assert!(entries <= 64 && held <= 1 << 20, "call {number}: {entries} entries, {held} bytes");
            if number == 150 {
                // In the middle of it, the newest change is undone.
                bench.undo(calls[number], GENTLY).unwrap();
                assert_eq!(read(&file), content(number - 1, bytes));
            }
        }
        let dropped = bench.gate().journal().dropped();
        assert!(dropped.entries >= 200 && dropped.bytes >= 200 * bytes as u64, "{dropped:?}");
        // The versions in between are gone, and the error says so.
        assert!(matches!(bench.undo(calls[5], GENTLY), Err(UndoError::Dropped(call)) if call == calls[5]));
        assert_eq!(bench.gate().journal().fate_of(calls[5]), ChangeFate::Unknown);
        // A call that never existed gives another error.
        assert!(matches!(bench.undo(CallId::fresh(), GENTLY), Err(UndoError::Unknown(_))));
        bench.undo(calls[299], GENTLY).unwrap();
        assert_eq!(read(&file), content(298, bytes));
        // The content from before the first of them is still there.
        bench.undo(calls[0], FORCE).unwrap();
        assert_eq!(read(&file), original);
    }
}

#[test]
fn a_model_cannot_flush_what_a_person_wrote_out_of_the_journal() {
    let place = Place::new();
    let name = |number: usize| format!("{number}.txt");
    (0..40).for_each(|number| write(&place.root().join(name(number)), &content(number, 64 << 10)));
    let bench = place.start("{max_bytes: 1MiB}");
    let mut deleted = Vec::new();
    let refused = loop {
        let called = bench.call("delete_file", json!({"path": name(deleted.len())}));
        match called.failed {
            None => deleted.push(called.call),
            Some((_, failure)) => break failure,
        }
    };
    assert_eq!(refused.code, ErrorCode::WriteLimit);
    assert!(refused.operator_note.unwrap().contains("`retention.undo`"));
    assert!((8..=16).contains(&deleted.len()), "{}", deleted.len());
    assert!(place.root().join(name(deleted.len())).exists(), "what could not be kept was not deleted");
    // Rewrites of its own files do not make room either: what they replace is evicted first.
    for number in 0..50 {
        let called =
            bench.call("write_file", json!({"path": "own.txt", "content": content(number, 32 << 10)}));
        assert!(called.failed.is_none_or(|(_, failure)| failure.code == ErrorCode::WriteLimit));
        assert!(place.usage().1 <= 1 << 20);
    }
    for (number, call) in deleted.iter().enumerate() {
        bench.undo(*call, GENTLY).unwrap();
        assert_eq!(read(&place.root().join(name(number))), content(number, 64 << 10));
    }
}

#[test]
fn a_bound_smaller_than_one_entry_refuses_the_change() {
    let place = Place::new();
    let file = place.root().join("a.txt");
    write(&file, &content(0, 64 << 10));
    write(&place.root().join("small.txt"), "small\n");
    let bench = place.start("{max_bytes: 10000}");
    for (tool, arguments) in [
        ("write_file", json!({"path": "a.txt", "content": "new"})),
        ("delete_file", json!({"path": "a.txt"})),
    ] {
        // A quarter of the limit.
        let (_, failure) = bench.call(tool, arguments).failed.unwrap();
        assert_eq!((failure.code, failure.details["limit"].as_u64()), (ErrorCode::WriteLimit, Some(2_500)));
    }
    assert_eq!(read(&file), content(0, 64 << 10));
    assert_eq!(place.usage(), (0, 0));
    // What fits is changed and can be undone, even if only one entry is kept.
    let bench = place.start("{max_entries: 1}");
    rewrite(&bench, "small.txt", 1, 8);
    let last = rewrite(&bench, "small.txt", 2, 8);
    bench.undo(last, GENTLY).unwrap();
    assert_eq!(read(&place.root().join("small.txt")), content(1, 8));
}

#[test]
fn two_gates_that_share_a_journal_keep_it_within_its_bounds() {
    const BYTES: usize = 32 << 10;
    let place = Place::new();
    let names = ["a.txt", "b.txt"];
    names.iter().for_each(|name| write(&place.root().join(name), &"original".repeat(BYTES / 8)));
    let gates = names.map(|_| place.start("{max_bytes: 1MiB, max_entries: 40}"));
    let calls = std::thread::scope(|scope| {
        let work = names.iter().zip(gates).map(|(name, gate)| {
            let place = &place;
            scope.spawn(move || {
                let calls: Vec<CallId> = (0..200)
                    .map(|number| {
                        let call = rewrite(&gate, name, number, BYTES);
                        let (entries, held) = place.usage();
                        // The limit is exceeded at most by what both had in flight while one of them swept.
                        assert!(entries <= 48 && held <= (1 << 20) + 8 * BYTES as u64, "{entries} {held}");
                        call
                    })
                    .collect();
                (calls, gate)
            })
        });
        work.collect::<Vec<_>>().into_iter().map(|work| work.join().unwrap()).collect::<Vec<_>>()
    });
    for ((calls, gate), name) in calls.iter().zip(names) {
        let last = rewrite(gate, name, 200, BYTES);
        gate.undo(last, GENTLY).unwrap();
        assert_eq!(read(&place.root().join(name)), content(199, BYTES));
        gate.undo(calls[0], FORCE).unwrap();
        assert_eq!(read(&place.root().join(name)), "original".repeat(BYTES / 8));
    }
}

#[test]
fn an_entry_whose_contents_a_killed_sweep_removed_is_no_longer_kept() {
    let place = Place::new();
    write(&place.root().join("a.txt"), "original\n");
    let bench = place.start("{max_entries: 32}");
    rewrite(&bench, "a.txt", 0, 8);
    let half = rewrite(&bench, "a.txt", 1, 8);
    std::fs::remove_file(place.journal("blobs").join(format!("{half}.0"))).unwrap();
    assert!(matches!(bench.undo(half, GENTLY), Err(UndoError::Dropped(call)) if call == half));
    assert_eq!(read(&place.root().join("a.txt")), content(1, 8));
    // The next sweeps remove the rest of it.
    (2..100).for_each(|number| _ = rewrite(&bench, "a.txt", number, 8));
    assert!(!place.journal("done").join(format!("{half}.json")).exists());
    assert!(place.usage().0 <= 32);
}

#[test]
fn what_cannot_be_removed_neither_ends_a_sweep_nor_is_counted() {
    let place = Place::new();
    write(&place.root().join("a.txt"), "original\n");
    let bench = place.start("{max_entries: 32}");
    let calls: Vec<CallId> = (0..10).map(|number| rewrite(&bench, "a.txt", number, 8)).collect();
    let stuck = place.journal("blobs").join(format!("{}.0", calls[4]));
    std::fs::remove_file(&stuck).unwrap();
    std::fs::create_dir(&stuck).unwrap();
    (10..200).for_each(|number| _ = rewrite(&bench, "a.txt", number, 8));
    let (entries, _) = place.usage();
    assert!(entries <= 32, "{entries}");
    assert_eq!(bench.gate().journal().dropped().entries, 200 - entries as u64);
}

#[test]
fn entries_with_long_names_count_for_what_they_take() {
    let place = Place::new();
    let bench = place.start("{max_bytes: 1MiB}");
    let directory = vec!["d".repeat(200); 12].join("/");
    for number in 0..120 {
        rewrite(&bench, &format!("{number}/{directory}/a.txt"), number, 8);
        let entries = std::fs::read_dir(place.journal("done")).unwrap();
        let held: u64 =
            entries.filter_map(|entry| entry.ok()?.metadata().ok()).map(|entry| entry.blocks() * 512).sum();
        assert!(held <= 1 << 20, "call {number}: {held} bytes");
    }
}

#[test]
fn a_start_sweeps_nothing() {
    let place = Place::new();
    write(&place.root().join("a.txt"), "original\n");
    let bench = place.start("{max_entries: 1000}");
    (0..50).for_each(|number| _ = rewrite(&bench, "a.txt", number, 8));
    drop(bench);
    let before = place.usage();
    assert_eq!(before.0, 50);
    let bench = place.start("{max_entries: 8}");
    assert_eq!(place.usage(), before, "the next change pays for it, and not the start");
    (50..60).for_each(|number| _ = rewrite(&bench, "a.txt", number, 8));
    assert!(place.usage().0 <= 8, "{:?}", place.usage());
}

#[test]
fn a_gate_that_is_started_anew_for_every_change_knows_what_gates_wrote() {
    let place = Place::new();
    write(&place.root().join("a.txt"), "original\n");
    let calls: Vec<CallId> = (0..80)
        .map(|number| {
            let bench = place.start("{max_entries: 16}");
            let call = rewrite(&bench, "a.txt", number, 8);
            assert!(place.usage().0 <= 16, "{number}: {:?}", place.usage());
            call
        })
        .collect();
    let bench = place.start("{max_entries: 16}");
    bench.undo(calls[79], GENTLY).unwrap();
    bench.undo(calls[0], FORCE).unwrap();
    assert_eq!(read(&place.root().join("a.txt")), "original\n");
}

const THESIS: &str = "what a person wrote over years\n";

fn delete(bench: &Bench, path: &str) -> CallId {
    bench.must("delete_file", json!({"path": path})).call
}

fn copy(bench: &Bench, path: &str) {
    bench.must("write_file", json!({"path": path, "content": THESIS}));
}

/// What a model does to a person's `thesis.txt` so that its content looks like its own; the calls that the person then has to undo.
type Laundering = fn(&Place, &Bench, &Bench) -> Vec<CallId>;

const LAUNDERINGS: [(&str, Laundering); 6] = [
    ("a copy that is removed behind the gate's back", |place, gate, _| {
        copy(gate, "copy.txt");
        let call = delete(gate, "thesis.txt");
        std::fs::remove_file(place.root().join("copy.txt")).unwrap();
        vec![call]
    }),
    ("a copy that another gate makes afterwards and deletes", |_, gate, other| {
        let call = delete(gate, "thesis.txt");
        copy(other, "copy.txt");
        delete(other, "copy.txt");
        vec![call]
    }),
    ("a name that held a copy", |_, gate, other| {
        copy(gate, "x.txt");
        delete(gate, "x.txt");
        let moved = gate.must("move_file", json!({"from": "thesis.txt", "to": "x.txt"})).call;
        vec![delete(other, "x.txt"), moved]
    }),
    ("a copy that was there under the same name before", |place, gate, _| {
        std::fs::rename(place.root().join("thesis.txt"), place.root().join("aside.txt")).unwrap();
        copy(gate, "thesis.txt");
        std::fs::rename(place.root().join("aside.txt"), place.root().join("thesis.txt")).unwrap();
        vec![delete(gate, "thesis.txt")]
    }),
    ("what a person had put back once", |_, gate, _| {
        let first = delete(gate, "thesis.txt");
        gate.undo(first, GENTLY).unwrap();
        vec![delete(gate, "thesis.txt")]
    }),
    ("a patch that renames a file and changes another", |_, gate, other| {
        copy(gate, "copy.txt");
        let patch = "--- thesis.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-what a person wrote over years\n\
                     --- copy.txt\n+++ copy.txt\n@@ -1 +1 @@\n-what a person wrote over years\n+nothing\n";
        vec![other.must("apply_patch", json!({"patch": patch})).call]
    }),
];

#[test]
fn a_model_that_writes_copies_does_not_make_the_content_of_others_its_own() {
    for (name, launder) in LAUNDERINGS {
        let place = Place::new();
        let thesis = place.root().join("thesis.txt");
        write(&thesis, THESIS);
        let start = || place.start("{max_entries: 64}");
        let gates = [start(), start()];
        let calls = launder(&place, &gates[0], &gates[1]);
        assert!(!thesis.exists(), "{name}");
        (0..150).for_each(|number| _ = rewrite(&gates[number % 2], "own.txt", number, 8));
        // A gate that has to read the existing journal.
        drop(gates);
        let bench = start();
        (0..150).for_each(|number| _ = rewrite(&bench, "own.txt", number, 8));
        assert!(place.usage().0 <= 64, "{name}: {:?}", place.usage());
        for call in calls {
            bench.undo(call, GENTLY).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        assert_eq!(read(&thesis), THESIS, "{name}");
    }
}

#[test]
fn two_gates_that_delete_what_others_wrote_are_refused_before_any_of_it_is_lost() {
    let place = Place::new();
    let name = |gate: usize, number: usize| format!("{gate}-{number}.txt");
    for (gate, number) in (0..2).flat_map(|gate| (0..60).map(move |number| (gate, number))) {
        write(&place.root().join(name(gate, number)), &format!("{gate} {number}\n"));
    }
    let gates = [0, 1].map(|gate| (gate, place.start("{max_entries: 64}")));
    let deleted = std::thread::scope(|scope| {
        let work = gates.each_ref().map(|(gate, bench)| {
            scope.spawn(move || {
                let mut deleted = Vec::new();
                for number in 0..60 {
                    let called = bench.call("delete_file", json!({"path": name(*gate, number)}));
                    match called.failed {
                        None => deleted.push((number, called.call)),
                        Some((_, failure)) => {
                            assert_eq!(failure.code, ErrorCode::WriteLimit);
                            let note = failure.operator_note.unwrap();
                            assert!(note.contains("64 calls") && note.contains("`max_entries`"), "{note}");
                        }
                    }
                }
                deleted
            })
        });
        work.map(|work| work.join().unwrap())
    });
    let kept = deleted.iter().flatten().count();
    assert!((40..=68).contains(&kept), "{kept}");
    for ((gate, bench), deleted) in gates.iter().zip(&deleted) {
        for (_, call) in deleted {
            bench.undo(*call, GENTLY).unwrap();
        }
        (0..60).for_each(|number| {
            assert_eq!(read(&place.root().join(name(*gate, number))), format!("{gate} {number}\n"));
        });
    }
}
