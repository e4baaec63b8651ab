//! A hundred thousand calls of a compromised model against the release binary.

use crate::Fault;
use crate::command::{played_binary, root, succeed};

pub(crate) fn run(options: &[&str]) -> Result<(), Fault> {
    let (binary, options) = played_binary(options)?;
    let mut command = std::process::Command::new(binary);
    command.current_dir(root()?).args(["eval", "hostile", "--out", "target"]);
    let gives = |name: &str| options.iter().any(|option| option.starts_with(name));
    for (name, count) in [("--calls", "100000"), ("--sequences", "10000")] {
        if !gives(name) {
            command.args([name, count]);
        }
    }
    command.args(options);
    succeed(command)
}
