//! Faults of a running gate's state directory: its lock is held by another process, its permissions are removed, it is deleted.

use std::fs::{File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use serde_json::json;

use crate::gate::{Client, Gate, Program, refusal};
use crate::load::Load;
use crate::place::Place;

/// The uid of `nobody` on every Linux system.
const NOBODY: u32 = 65534;

pub(crate) fn held_lock(program: &Program) -> String {
    let mut told = Vec::new();
    for on_failure in ["deny", "warn"] {
        let mut place = Place::new(&["a"]);
        place.settings.on_failure = on_failure;
        let (gate, mut client) = Gate::open(program, &place.settings);
        must(&mut client, "before");
        let lock = File::open(place.settings.state.join("audit/lock")).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        let read = client.call("held-read", "list_directory", json!({"path": "."})).unwrap();
        let write =
            client.call("held-write", "write_file", json!({"path": "h.txt", "content": "x"})).unwrap();
        let is_refused = (refusal(&read).is_some(), refusal(&write).is_some());
        // Nothing is changed without a record; reads go on if the operator said so.
        assert_eq!(is_refused, (on_failure == "deny", true), "{on_failure}: {read} {write}");
        assert!(!place.settings.workspace.join("h.txt").exists(), "{on_failure}: changed without a record");
        let log = std::fs::read_to_string(&gate.log).unwrap();
        assert!(
            log.contains(&std::process::id().to_string()),
            "{on_failure}: who holds it is not told: {log}"
        );
        drop(lock);
        must(&mut client, "after");
        drop(gate);
        place.settings.verify(program);
        told.push(format!("{on_failure}: answered, naming the holder"));
    }
    told.join("; ")
}

pub(crate) fn lost_permissions(program: &Program) -> String {
    let mut place = Place::new(&["a"]);
    let root = place.settings.workspace.parent().unwrap().to_path_buf();
    place.settings.wrapper =
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"].map(str::to_owned).to_vec();
    place.settings.environment = vec![("HOME".to_owned(), root.to_string_lossy().into_owned())];
    let mut above = Some(root.as_path());
    while let Some(directory) = above.filter(|directory| directory.starts_with(std::env::temp_dir())) {
        let _ = std::fs::set_permissions(directory, Permissions::from_mode(0o755 | sticky(directory)));
        above = directory.parent();
    }
    give(&root);
    let (gate, client) = Gate::open(program, &place.settings);
    let load = Load::begin(client, &place, "a", "l".to_owned());
    std::thread::sleep(Duration::from_millis(150));
    let state = place.settings.state.clone();
    let taken: Vec<PathBuf> =
        ["audit", "journal.toolgate", "journal.toolgate/pending", "journal.toolgate/blobs"]
            .map(|name| state.join(name))
            .to_vec();
    for directory in taken.iter().rev() {
        std::fs::set_permissions(directory, Permissions::from_mode(0o000)).unwrap();
    }
    std::thread::sleep(Duration::from_millis(300));
    for directory in &taken {
        std::fs::set_permissions(directory, Permissions::from_mode(0o700)).unwrap();
    }
    std::thread::sleep(Duration::from_millis(150));
    let diary = load.end();
    drop(gate);
    let refused = diary.answered.values().filter(|answer| answer.is_err()).count();
    let (_gate, mut client) = Gate::open(program, &place.settings);
    must(&mut client, "after");
    let sums = place.judge(&[("a", diary)]);
    assert_eq!(
        place.gaps(program),
        sums.unrecorded,
        "calls that the record says it lacks, and those it lacks"
    );
    format!(
        "{} calls answered, {refused} of them refused while the rights were gone; nothing torn, lost or doubled",
        sums.answered
    )
}

/// The sticky bit of a shared directory, such as `/tmp`.
fn sticky(directory: &Path) -> u32 {
    std::fs::metadata(directory).map_or(0, |found| found.permissions().mode() & 0o1022)
}

fn give(path: &Path) {
    chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path());
        }
    }
}

pub(crate) fn deleted_state(program: &Program) -> String {
    let mut told = Vec::new();
    for on_failure in ["deny", "warn"] {
        let mut place = Place::new(&["a"]);
        place.settings.on_failure = on_failure;
        let (gate, client) = Gate::open(program, &place.settings);
        let load = Load::begin(client, &place, "a", format!("d-{on_failure}"));
        std::thread::sleep(Duration::from_millis(150));
        // The gate goes on creating files while they are removed.
        while place.settings.state.exists() {
            let _ = std::fs::remove_dir_all(&place.settings.state);
        }
        std::thread::sleep(Duration::from_millis(300));
        let diary = load.end();
        drop(gate);
        let refused = diary.answered.values().filter(|answer| answer.is_err()).count();
        let _ = std::fs::remove_dir_all(&place.settings.state);
        let (_gate, mut client) = Gate::open(program, &place.settings);
        must(&mut client, "after");
        // Whole files, whatever was answered.
        let _ = toolgate_attack::CHANGES.map(|change| change.version(&place.settings.workspace, "a"));
        place.verify(program);
        told.push(format!("{on_failure}: {} answered, {refused} of them refused", diary.answered.len()));
    }
    format!("{}; the next start begins anew", told.join("; "))
}

fn must(client: &mut Client, id: &str) {
    let made = client.call(id, "write_file", json!({"path": "must.txt", "content": id})).unwrap();
    assert_eq!(refusal(&made), None, "{id}");
}
