//! Kills gates, disks and clocks under load, with the shipped binary, and checks the result from outside.
//!
//! `toolgate-torture PROGRAM [--kills N] [--power-cuts N] [--only PHASE]`; run as root in a mount namespace of its own (`cargo xtask torture` does
//! that), because power cuts, full disks and other users' permissions need a filesystem and users to apply them to.
//!
//! The load consists of changes whose every state is known ([`Change::version`]): a file is at one version or torn. The oracle reads the files and
//! the audit log itself; the gate is only used as a person would, by `audit verify`.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "this program is run by developers, arranges files by hand and fails by panicking"
)]

mod clock;
mod disk;
mod faults;
mod gate;
mod kills;
mod load;
mod place;

use std::path::PathBuf;
use std::time::Instant;

use gate::Program;

type Phase = (&'static str, fn(&Program, &Counts) -> String);

/// How many kills and power cuts.
struct Counts {
    kills: u64,
    power_cuts: u64,
}

const PHASES: &[Phase] = &[
    ("kills", |program, counts| kills::run(program, counts.kills)),
    ("power-cuts", |program, counts| disk::power_cuts(program, counts.power_cuts)),
    ("full-disk", |program, _| disk::full(program)),
    ("failed-sync", |program, _| disk::failed_sync(program)),
    ("held-lock", |program, _| faults::held_lock(program)),
    ("lost-permissions", |program, _| faults::lost_permissions(program)),
    ("deleted-state", |program, _| faults::deleted_state(program)),
    ("clock-jumps", |program, _| clock::run(program)),
];

fn main() {
    let mut words = std::env::args().skip(1);
    let program = words.next().expect("the path of the `toolgate` to torture");
    let program = Program(std::fs::canonicalize(PathBuf::from(program)).unwrap());
    let (mut counts, mut only) = (Counts { kills: 2000, power_cuts: 100 }, None);
    while let (Some(option), Some(value)) = (words.next(), words.next()) {
        match &*option {
            "--kills" => counts.kills = value.parse().unwrap(),
            "--power-cuts" => counts.power_cuts = value.parse().unwrap(),
            "--only" => only = Some(value),
            other => panic!("unknown option {other}"),
        }
    }
    let is_wanted = |(name, _): &&Phase| only.as_ref().is_none_or(|only| only == name);
    for (name, phase) in PHASES.iter().filter(is_wanted) {
        let begun = Instant::now();
        let told = phase(&program, &counts);
        println!("{name:<18} {:>7.1} s  {told}", begun.elapsed().as_secs_f64());
    }
}
