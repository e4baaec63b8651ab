//! A hundred thousand calls of a compromised model against the release binary.

use crate::Fault;
use crate::command::{Programs, program, succeed};

pub(crate) fn run(options: &[&str]) -> Result<(), Fault> {
    Programs::Built.prepare(&["--release", "--package", "toolgate"])?;
    let mut command = program("target/release/toolgate", &["eval", "hostile", "--out", "target"])?;
    let gives = |name: &str| options.iter().any(|option| option.starts_with(name));
    for (name, count) in [("--calls", "100000"), ("--sequences", "10000")] {
        if !gives(name) {
            command.args([name, count]);
        }
    }
    command.args(options);
    succeed(command)
}
