//! A separate process that tests race against, kill, or run on a full disk.
//!
//! `swap WORKSPACE OUTSIDE` exchanges files and directories with symlinks as fast as it can until its standard input ends.
//! `write WORKSPACE STATE NAME` makes calls through a gate, one after another, and prints each answer.
//! `gate` runs a command in the sandbox by an order on its standard input, and is itself worth attacking; `escape ATTACK…` attacks it from inside.
//! `endure COUNT` runs that many commands in the sandbox and prints the resources that remain.
//! `full-disk DIRECTORY`, `read-only-disk DIRECTORY`, `switch-off-record DIRECTORY`, `stop-before-full DIRECTORY`, `write-before-full DIRECTORY`,
//! `second-gate-on-full-disk DIRECTORY` and `midnight-on-full-disk DIRECTORY` run in a mount namespace of their own; `die-with-a-full-disk DISK` is
//! started by one of these.
//! `read-with-a-held-lock WORKSPACE STATE` reads once, and again after a line on its standard input; another line ends it.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "this program is only ever run by tests, which arrange files by hand and fail by panicking"
)]

mod disk;
mod record;
mod escape;
mod gate;
mod swap;
mod untraced;
mod write;

use std::path::Path;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["swap", workspace, outside] => swap::run(Path::new(workspace), Path::new(outside)),
        ["write", workspace, state, name] => write::run(Path::new(workspace), Path::new(state), name),
        ["gate"] => gate::run(),
        ["endure", count] => gate::endure(count.parse().unwrap()),
        ["escape", attack @ ..] => escape::run(attack),
        ["full-disk", folder] => disk::full(Path::new(folder)),
        ["switch-off-record", folder] => record::switch_off(Path::new(folder)),
        ["die-with-a-full-disk", disk] => record::die(Path::new(disk)),
        ["second-gate-on-full-disk", folder] => untraced::second_gate(Path::new(folder)),
        ["midnight-on-full-disk", folder] => untraced::midnight(Path::new(folder)),
        ["read-with-a-held-lock", workspace, state] => {
            untraced::held_lock(Path::new(workspace), Path::new(state));
        }
        ["write-before-full", folder] => record::write_before_full(Path::new(folder)),
        ["stop-before-full", folder] => record::stop_before_full(Path::new(folder)),
        ["read-only-disk", folder] => disk::read_only(Path::new(folder)),
        other => panic!("unknown role {other:?}"),
    }
}
