//! Kills, power cuts, full disks, held locks, lost permissions, a deleted state directory and clock jumps under load.
//!
//! The program is `toolgate-torture` of the `attack` crate. Power cuts and full disks need loop devices, so it runs as root, in a mount namespace of
//! its own: its mounts vanish with it.

use crate::Fault;
use crate::command::{Programs, program, succeed};

/// Everything, with the release binary.
pub(crate) fn run() -> Result<(), Fault> {
    crate::suite::prepare_torture()?;
    Programs::Built.prepare(&["--release", "--package", "toolgate"])?;
    Programs::Built.prepare(&["--package", "toolgate-attack", "--bin", "toolgate-torture"])?;
    torture("target/release/toolgate", &[])
}

/// A short run that shows that all of it still works, with the programs that the tests built.
pub(crate) fn briefly() -> Result<(), Fault> {
    torture("target/debug/toolgate", &["--kills", "40", "--power-cuts", "4"])
}

fn torture(binary: &str, options: &[&str]) -> Result<(), Fault> {
    let mut command = program("unshare", &["--mount", "--propagation", "private", "--"])?;
    command.args(["target/debug/toolgate-torture", binary]).args(options);
    succeed(command)
}
