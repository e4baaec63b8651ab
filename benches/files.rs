//! File calls through the whole gate, compared with the same work done directly.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark arranges files by hand and prints what it measures"
)]

use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use toolgate_benches::{Bench, in_turns, report, report_extra};
use toolgate_tools::Profile;
use toolgate_types::{Limits, Sha256};

fn main() {
    let scratch = tempfile::tempdir_in(".").unwrap();
    let workspace = scratch.path().canonicalize().unwrap().join("workspace");
    fs::create_dir_all(&workspace).unwrap();
    let limits = Limits { max_read_bytes: 2 << 20, ..Profile::NATIVE.limits() };
    let bench = Bench::with_limits(&workspace, &scratch.path().join("state"), limits);
    // `cargo bench --bench files -- edit` runs only that one.
    let wanted = std::env::args().nth(1).filter(|name| !name.starts_with('-'));
    for (name, measure) in [
        ("read", read as fn(&Bench, &Path)),
        ("large", large),
        ("edit", edit),
        ("write", write),
        ("list", list),
    ] {
        if wanted.as_ref().is_none_or(|wanted| wanted == name) {
            measure(&bench, &workspace);
        }
    }
}

/// Each sample is several calls, so that the clock's overhead does not matter, and few enough that it is rarely preempted.
const BATCH: u32 = 20;

fn read(bench: &Bench, workspace: &Path) {
    let path = workspace.join("small.txt");
    fs::write(&path, "0123456789abcde\n".repeat(64)).unwrap();
    let ours = || {
        for _ in 0..BATCH {
            black_box(bench.call("read_file", json!({"path": "small.txt"}), true));
        }
    };
    let plain = || {
        for _ in 0..BATCH {
            black_box(fs::read(&path).unwrap());
        }
    };
    let (ours, plain) = in_turns(1001, ours, plain);
    report_extra("read/1KiB-gated", ours / BATCH, plain / BATCH, "fs::read", Duration::from_micros(25));
}

/// A read of 1 MiB, compared with reading and hashing it.
fn large(bench: &Bench, workspace: &Path) {
    fs::write(workspace.join("one.txt"), "0123456789abcde\n".repeat(1 << 16)).unwrap();
    let plain = || {
        black_box(Sha256::of(&fs::read(workspace.join("one.txt")).unwrap()));
    };
    let gated = || {
        black_box(bench.call("read_file", json!({"path": "one.txt"}), true));
    };
    let (ours, peer) = in_turns(301, gated, plain);
    report("read/1MiB-gated", ours, peer, "fs::read+sha256", 2.0);
}

fn edit(bench: &Bench, workspace: &Path) {
    let body = "a line of some text, and then another one\n".repeat(4800);
    let content = format!("MARKER_A\n{body}");
    fs::write(workspace.join("edited.txt"), &content).unwrap();
    let by_hand = workspace.join("by_hand.txt");
    fs::write(&by_hand, &content).unwrap();
    let mut flip = false;
    let mut ours = || {
        let (old, new) = if flip { ("MARKER_B\n", "MARKER_A\n") } else { ("MARKER_A\n", "MARKER_B\n") };
        let arguments = json!({"path": "edited.txt", "old_text": old, "new_text": new});
        black_box(bench.call("edit_file", arguments, true));
        flip = !flip;
    };
    let mut flop = false;
    let mut hand = || {
        let (old, new) = if flop { ("MARKER_B\na", "MARKER_A\na") } else { ("MARKER_A\na", "MARKER_B\na") };
        let text = fs::read_to_string(&by_hand).unwrap().replacen(old, new, 1);
        let temporary = workspace.join("by_hand.tmp");
        let mut file = File::create(&temporary).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.sync_all().unwrap();
        fs::rename(&temporary, &by_hand).unwrap();
        flop = !flop;
    };
    ours();
    hand();
    let (ours, hand) = in_turns(101, &mut ours, &mut hand);
    report("edit/200KiB", ours, hand, "read+write+fsync+rename", 3.0);
}

fn write(bench: &Bench, workspace: &Path) {
    let content = "0123456789abcde\n".repeat(64);
    let by_hand = workspace.join("written_by_hand.txt");
    let ours = || {
        black_box(bench.call("write_file", json!({"path": "written.txt", "content": content}), true));
    };
    let hand = || {
        let temporary = workspace.join("written_by_hand.tmp");
        let mut file = File::create(&temporary).unwrap();
        file.write_all(content.as_bytes()).unwrap();
        file.sync_all().unwrap();
        fs::rename(&temporary, &by_hand).unwrap();
    };
    let (ours, hand) = in_turns(101, ours, hand);
    report("write/1KiB", ours, hand, "write+fsync+rename", 4.0);
}

fn list(bench: &Bench, workspace: &Path) {
    let folder = workspace.join("many");
    fs::create_dir(&folder).unwrap();
    for number in 0..1000 {
        fs::write(folder.join(format!("entry_{number:04}.txt")), "x").unwrap();
    }
    let ours = || {
        black_box(bench.call("list_directory", json!({"path": "many"}), true));
    };
    let bare = || {
        let mut names: Vec<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                (entry.file_name(), entry.file_type().unwrap())
            })
            .collect();
        names.sort_by(|one, other| one.0.cmp(&other.0));
        black_box(names);
    };
    let (ours, bare) = in_turns(301, ours, bare);
    report("list/1000-gated", ours, bare, "sorted_readdir", 3.0);
}
