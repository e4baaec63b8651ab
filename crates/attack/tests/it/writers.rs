//! Concurrent writers that do not know of each other.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use toolgate_attack::{Bench, BenchOptions, Scratch, code_of, litter_below, person};
use toolgate_tools::Profile;
use toolgate_types::{Caller, ErrorCode};

fn bench(scratch: &Scratch, state: &str) -> Bench {
    BenchOptions::new(Profile::NATIVE, &scratch.folder("w"), &scratch.folder(state)).open()
}

/// Increments a number in a file optimistically, as a careful model would: read, then write if unchanged. Returns the number of conflicts.
fn increment(bench: &Bench) -> u32 {
    let mut lost = 0;
    loop {
        let read = bench.must("read_file", json!({"path": "counter.txt"})).structured().unwrap();
        let number: u64 = read["content"].as_str().unwrap().trim().parse().unwrap();
        let arguments = json!({
            "path": "counter.txt", "content": format!("{}\n", number + 1), "if_match_sha256": read["sha256"],
        });
        let written = bench.call("write_file", arguments);
        match code_of(&written) {
            None => return lost,
            Some(ErrorCode::PreconditionFailed) => lost += 1,
            Some(code) => panic!("{code:?}: {}", written.answer.text),
        }
    }
}

fn number_in(path: &Path) -> u64 {
    std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

#[test]
fn guarded_writes_of_several_gates_lose_no_update() {
    const EACH: u64 = 100;
    let scratch = Scratch::new();
    std::fs::write(scratch.folder("w").join("counter.txt"), "0\n").unwrap();
    let count = |bench: &Bench| (0..EACH).map(|_| increment(bench)).sum::<u32>();
    let states = ["s1", "s2", "s3"];
    // Usually they conflict immediately; a machine with one busy core may need a few rounds.
    for round in 1..=10 {
        let lost: u32 = std::thread::scope(|scope| {
            let writers = states.map(|state| scope.spawn(|| count(&bench(&scratch, state))));
            writers.into_iter().map(|writer| writer.join().unwrap()).sum()
        });
        println!("{} increments, {lost} times somebody else was faster", EACH * 3);
        assert_eq!(number_in(&scratch.folder("w").join("counter.txt")), EACH * 3 * round);
        if lost > 0 {
            return;
        }
    }
    panic!("the writers never met");
}

#[test]
fn a_reader_beside_writers_always_finds_the_file_under_its_name() {
    const READS: u32 = 4000;
    let scratch = Scratch::new();
    let workspace = scratch.folder("w");
    std::fs::write(workspace.join("a.txt"), "version 0\n").unwrap();
    // A reader with access to only this file must not see the names of temporary files.
    let grant = "agents: {narrow: {tool_permissions: {read_file: {allowed: true, paths: [a.txt]}}}}";
    let reader =
        BenchOptions::new(Profile::NATIVE, &workspace, &scratch.folder("reader")).config(grant).open();
    let caller = Caller { agent: Some("narrow".parse().unwrap()), ..person("reader") };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let writer = bench(&scratch, "writer");
            for version in 1.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                insist(
                    &writer,
                    "write_file",
                    &json!({"path": "a.txt", "content": format!("version {version}\n")}),
                );
            }
        });
        // Another program that replaces the file in its own way, and keeps a hard link to the old content.
        scope.spawn(|| {
            let (fresh, kept) = (workspace.join("fresh"), workspace.join("kept"));
            while !over.load(Ordering::Relaxed) {
                std::fs::write(&fresh, "version 0\n").unwrap();
                let _ = std::fs::remove_file(&kept);
                let _ = std::fs::hard_link(workspace.join("a.txt"), &kept);
                std::fs::rename(&fresh, workspace.join("a.txt")).unwrap();
            }
        });
        let problem = (0..READS).find_map(|_| {
            let read = reader.call_as(caller.clone(), "read_file", json!({"path": "a.txt"}));
            let structured = read.structured().unwrap_or_default();
            let fine = structured["path"] == "a.txt" && read.answer.text.starts_with("version ");
            (!fine).then(|| format!("{}\n{structured}", read.answer.text))
        });
        over.store(true, Ordering::Relaxed);
        assert_eq!(problem, None);
    });
}

/// Retries a call until it has no conflict.
fn insist(bench: &Bench, tool: &str, arguments: &Value) {
    loop {
        let called = bench.call(tool, arguments.clone());
        match code_of(&called) {
            None => return,
            Some(ErrorCode::PreconditionFailed) => {}
            Some(code) => panic!("{tool} {arguments}: {code:?}: {}", called.answer.text),
        }
    }
}

#[test]
fn eight_threads_that_edit_and_append_lose_nothing() {
    const THREADS: usize = 8;
    const EACH: usize = 25;
    let scratch = Scratch::new();
    let workspace = scratch.folder("w");
    let slots: String = (0..THREADS).map(|thread| format!("slot-{thread}: 0\n")).collect();
    std::fs::write(workspace.join("slots.txt"), slots).unwrap();
    // Half of them share a gate, the others have one each.
    let shared = Arc::new(bench(&scratch, "shared"));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let gate = if thread % 2 == 0 {
                Arc::clone(&shared)
            } else {
                Arc::new(bench(&scratch, &format!("own-{thread}")))
            };
            scope.spawn(move || {
                for round in 0..EACH {
                    insist(
                        &gate,
                        "append_file",
                        &json!({"path": "log.txt", "content": format!("{thread} {round}\n")}),
                    );
                    let edit = json!({
                        "path": "slots.txt", "old_text": format!("slot-{thread}: {round}\n"),
                        "new_text": format!("slot-{thread}: {}\n", round + 1),
                    });
                    insist(&gate, "edit_file", &edit);
                }
            });
        }
    });
    let slots: String = (0..THREADS).map(|thread| format!("slot-{thread}: {EACH}\n")).collect();
    assert_eq!(std::fs::read_to_string(workspace.join("slots.txt")).unwrap(), slots);
    let log = std::fs::read_to_string(workspace.join("log.txt")).unwrap();
    for thread in 0..THREADS {
        let own: Vec<&str> = log.lines().filter(|line| line.starts_with(&format!("{thread} "))).collect();
        let expected: Vec<String> = (0..EACH).map(|round| format!("{thread} {round}")).collect();
        assert_eq!(own, expected, "lines of thread {thread}, in its order");
    }
    assert_eq!(log.lines().count(), THREADS * EACH);
    assert!(litter_below(&workspace).is_empty());
}
