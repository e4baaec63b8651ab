//! Kills, power cuts, full disks, held locks, lost permissions, a deleted state directory and clock jumps under load.
//!
//! The program that does it is `toolgate-torture` of the `attack` crate. Power cuts and full disks need loop devices, so it is run by root, in a mount namespace
//! of its own: what it mounts is gone with it.

use crate::Fault;
use crate::command::{cargo, program, succeed};

/// Everything, with the binary that ships.
pub(crate) fn run() -> Result<(), Fault> {
    crate::suite::prepare_torture()?;
    succeed(cargo(&["build", "--release", "--package", "toolgate"])?)?;
    torture("target/release/toolgate", &[])
}

/// Enough to see that all of it still works, with the binary that tests have built.
pub(crate) fn briefly() -> Result<(), Fault> {
    succeed(cargo(&["build", "--package", "toolgate"])?)?;
    torture("target/debug/toolgate", &["--kills", "40", "--power-cuts", "4"])
}

fn torture(binary: &str, options: &[&str]) -> Result<(), Fault> {
    succeed(cargo(&["build", "--package", "toolgate-attack", "--bin", "toolgate-torture"])?)?;
    let mut command = program("unshare", &["--mount", "--propagation", "private", "--"])?;
    command.args(["target/debug/toolgate-torture", binary]).args(options);
    succeed(command)
}
