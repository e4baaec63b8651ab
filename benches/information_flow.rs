//! What information flow costs a read: a gate that tracks labels beside one that does not, in one run.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark arranges files by hand and prints what it measures"
)]

use std::fs;
use std::hint::black_box;
use std::path::Path;

use serde_json::json;
use toolgate_benches::{Bench, in_turns, report};

/// Each sample is several calls, so that the clock's overhead does not matter, and few enough that it is rarely preempted.
const BATCH: u32 = 20;
/// Calls of one gate alone, for `valgrind --tool=callgrind`.
const COUNTED: u32 = 2000;

fn main() {
    let scratch = tempfile::tempdir_in(".").unwrap();
    let place = scratch.path().canonicalize().unwrap();
    fs::create_dir_all(place.join("workspace")).unwrap();
    fs::write(place.join("workspace/small.txt"), "0123456789abcde\n".repeat(64)).unwrap();
    // `cargo bench --bench information_flow -- count-on` makes calls of one gate alone.
    let wanted = std::env::args().nth(1).filter(|name| !name.starts_with('-'));
    let off = || gate(&place, "off", "information_flow: off");
    let on = || gate(&place, "on", "information_flow: on");
    // The mount has both labels, so paths are resolved before the call, and each record names them.
    let labelled_mount = || {
        let bench = gate(
            &place,
            "labelled",
            "information_flow: {mode: on, workspace: {trust: untrusted, secret: true}}",
        );
        read(&bench, 1);
        bench
    };
    // The session has them from before.
    let labelled_session = || {
        drop(labelled_mount());
        gate(&place, "labelled", "information_flow: on")
    };
    match wanted.as_deref() {
        Some("count-off") => read(&off(), COUNTED),
        Some("count-on") => read(&on(), COUNTED),
        Some("count-labelled-session") => read(&labelled_session(), COUNTED),
        Some("count-labelled-mount") => read(&labelled_mount(), COUNTED),
        _ => {
            let gates: [(&str, &dyn Fn() -> Bench, f64); 3] = [
                ("on", &on, 1.03),
                ("labelled-session", &labelled_session, 1.03),
                ("labelled-mount", &labelled_mount, 1.5),
            ];
            for (name, gate, bound) in gates {
                let (bench, off) = (gate(), off());
                let (ours, peer) = in_turns(2001, || read(&bench, BATCH), || read(&off, BATCH));
                report(
                    &format!("flow/read-{name}"),
                    ours / BATCH,
                    peer / BATCH,
                    "information_flow: off",
                    bound,
                );
            }
        }
    }
}

fn gate(place: &Path, state: &str, config: &str) -> Bench {
    Bench::with_config(&place.join("workspace"), &place.join(state), config)
}

fn read(bench: &Bench, times: u32) {
    for _ in 0..times {
        black_box(bench.call("read_file", json!({"path": "small.txt"}), true));
    }
}
