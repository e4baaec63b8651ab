//! A file of 2 GiB: hashed, read by window, rejected; and the memory that took.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark arranges files by hand and prints what it measures"
)]

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::time::Instant;

use serde_json::json;
use toolgate_benches::Bench;
use toolgate_tools::Profile;

const SIZE: u64 = 2 << 30;
const LINE: &[u8; 64] = b"sixty-three characters of a line of text that goes on and on...\n";

fn main() {
    let scratch = tempfile::tempdir_in(".").unwrap();
    let workspace = scratch.path().canonicalize().unwrap().join("workspace");
    fs::create_dir(&workspace).unwrap();
    let mut file = BufWriter::with_capacity(1 << 20, File::create(workspace.join("large.txt")).unwrap());
    for _ in 0..SIZE / LINE.len() as u64 {
        file.write_all(LINE).unwrap();
    }
    file.into_inner().unwrap();
    let bench = Bench::with_limits(&workspace, &scratch.path().join("state"), Profile::NATIVE.limits());
    fs::write(workspace.join("small.txt"), "x\n").unwrap();
    bench.call("read_file", json!({"path": "small.txt"}), true);
    let idle = peak_kib();

    let begun = Instant::now();
    let whole = bench.call("read_file", json!({"path": "large.txt"}), true);
    let hashed = begun.elapsed();
    assert!(whole.text.contains("[truncated: "), "the answer is cut");
    let middle = SIZE / LINE.len() as u64 / 2;
    let window = bench.call(
        "read_file",
        json!({"path": "large.txt", "start_line": middle, "end_line": middle + 9}),
        true,
    );
    assert_eq!(window.text.len(), 640);
    bench.call("edit_file", json!({"path": "large.txt", "old_text": "x", "new_text": "y"}), false);
    let extra = peak_kib() - idle;
    println!(
        "2 GiB hashed and cut in {:.2} s, {:.2} GB/s",
        hashed.as_secs_f64(),
        SIZE as f64 / 1e9 / hashed.as_secs_f64()
    );
    let ratio = extra as f64 / (16.0 * 1024.0);
    println!(
        "RATIO memory/2GiB-file ours={extra}KiB peer=16384KiB(allowance_over_idle) ratio={ratio:.3} bound=1"
    );
}

/// The peak resident memory of this process.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
