//! A hundred thousand calls of a compromised model against the release binary.

use crate::Fault;
use crate::command::{Programs, program, succeed};

pub(crate) fn run(options: &[&str]) -> Result<(), Fault> {
    Programs::Built.prepare(&["--release", "--package", "toolgate"])?;
    let mut command = program("target/release/toolgate", &["eval", "hostile", "--out", "target"])?;
    command.args(options);
    succeed(command)
}
