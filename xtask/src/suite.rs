//! Everything that continuous integration checks.

use std::os::unix::fs::MetadataExt;

use crate::command::{Programs, is_installed, program, succeed};
use crate::steps::Steps;
use crate::{Fault, cargo_tests, foreign, lint, page, torture};

/// Programs that tests compare with or drive, and their Debian packages.
const NEEDED: &[(&str, &str)] = &[
    ("rg", "ripgrep"),
    ("git", "git"),
    ("patch", "patch"),
    ("bash", "bash"),
    ("curl", "curl"),
    ("openssl", "openssl"),
    ("unshare", "util-linux"),
    ("setsid", "util-linux"),
    ("script", "bsdutils"),
    ("timeout", "coreutils"),
    ("python3", "python3-venv"),
    ("npm", "npm"),
    ("chromium", "chromium"),
];

/// Programs for the torture tests: disks for power cuts, users without permissions, a clock that jumps and system calls that fail.
const TORTURING: &[(&str, &str)] =
    &[("mkfs.ext4", "e2fsprogs"), ("setpriv", "util-linux"), ("cc", "gcc"), ("strace", "strace")];

/// Programs that benchmarks compare with, and the browser in which the page is measured.
const COMPARED: &[(&str, &str)] =
    &[("rg", "ripgrep"), ("bwrap", "bubblewrap"), ("find", "findutils"), ("chromium", "chromium")];

/// What the matrix of servers drives: a browser and a container engine.
const MATRIX: &[(&str, &str)] =
    &[("npm", "npm"), ("git", "git"), ("chromium", "chromium"), ("podman", "podman"), ("runc", "runc")];

/// The variable with proptest's seed.
const SEED: &str = "PROPTEST_RNG_SEED";

/// A fixed seed, so that a change fails only for what it changed. `cargo test` uses random ones.
const SAME_CASES: &str = "8420";

pub(crate) fn run() -> Result<(), Fault> {
    let mut steps = Steps::default();
    steps.take("What tests need", || prepare(NEEDED));
    // Before anything is compiled: the binary embeds it.
    page::check(&mut steps);
    lint::check(&mut steps);
    let mut repeated = Vec::new();
    steps.take("Tests", || {
        let seed = std::env::var_os(SEED).is_none().then_some((SEED, SAME_CASES));
        repeated = cargo_tests::run(seed)?;
        Ok(())
    });
    if !repeated.is_empty() {
        steps.note(format!("failed beside other tests, and succeeded alone: {}", repeated.join(", ")));
    }
    steps.take("Page in a browser", || page::drive(Programs::Tested));
    steps.take("Torture, briefly", || match is_root() {
        true => prepare_torture().and_then(|()| torture::briefly()),
        false => {
            println!("note: only root has loop devices, so `cargo xtask torture` is left out");
            Ok(())
        }
    });
    steps.take("Foreign clients", || foreign::run(Programs::Tested));
    steps.finish()
}

/// Installs the programs that benchmarks compare with, if missing.
pub(crate) fn prepare_benchmarks() -> Result<(), Fault> {
    prepare(COMPARED)
}

/// Installs what the matrix of servers drives, if missing.
pub(crate) fn prepare_matrix() -> Result<(), Fault> {
    prepare(MATRIX)
}

/// Installs what the torture tests need, if missing.
pub(crate) fn prepare_torture() -> Result<(), Fault> {
    prepare(TORTURING)
}

fn prepare(needed: &[(&str, &'static str)]) -> Result<(), Fault> {
    let missing: Vec<&str> = needed
        .iter()
        .filter(|(name, _)| {
            !["--version", "-V", "version"].into_iter().any(|option| is_installed(name, &[option]))
        })
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        println!("all there");
        return Ok(());
    }
    if !(is_root() && is_installed("apt-get", &["--version"])) {
        return Err(format!("these programs are needed, please install them: {}", missing.join(", ")).into());
    }
    install(&missing)
}

fn install(packages: &[&str]) -> Result<(), Fault> {
    let arguments: Vec<&str> =
        ["install", "--yes", "--no-install-recommends"].into_iter().chain(packages.iter().copied()).collect();
    if succeed(program("apt-get", &arguments)?).is_ok() {
        return Ok(());
    }
    // A fresh machine has no package lists yet.
    succeed(program("apt-get", &["update"])?)?;
    succeed(program("apt-get", &arguments)?)
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
