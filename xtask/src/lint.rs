//! Format, clippy, tidy, and the dependency rules if cargo-deny is installed.

use crate::command::{cargo, is_installed, succeed};
use crate::steps::Steps;
use crate::{Fault, tidy};

pub(crate) fn run() -> Result<(), Fault> {
    let mut steps = Steps::default();
    check(&mut steps);
    steps.take("Dependencies (cargo-deny)", dependencies);
    steps.finish()
}

/// The checks that `lint` and `test` share.
pub(crate) fn check(steps: &mut Steps) {
    steps.take("Tidy", tidy::run);
    steps.take("Format", || succeed(cargo(&["fmt", "--all", "--check"])?));
    steps.take("Clippy", || {
        succeed(cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?)
    });
    // Programs that embed the library do without the command line.
    steps.take("Library alone", || {
        succeed(cargo(&["check", "--locked", "--package", "toolgate", "--no-default-features"])?)
    });
    // They are outside the workspace, where no other check covers them.
    steps.take("Fuzz targets", || {
        succeed(cargo(&[
            "check",
            "--locked",
            "--manifest-path",
            "fuzz/Cargo.toml",
            "--target-dir",
            "target",
        ])?)
    });
}

/// Licences, sources and bans need no network; advisories do, and are a separate task.
fn dependencies() -> Result<(), Fault> {
    if !is_installed("cargo-deny", &["--version"]) {
        println!(
            "cargo-deny is not installed, so deny.toml was not checked; `cargo install cargo-deny` adds it"
        );
        return Ok(());
    }
    succeed(cargo(&["deny", "check", "bans", "licenses", "sources"])?)
}
