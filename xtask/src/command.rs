//! Runs other programs in the repository.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Fault;
use crate::metadata::Metadata;

/// The root of the repository, from the variable that cargo sets for tasks.
pub(crate) fn root() -> Result<PathBuf, Fault> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").ok_or("run this as `cargo xtask`")?;
    let root = Path::new(&package).parent().ok_or("the package has no folder above it")?;
    Ok(root.to_owned())
}

/// A program with the repository's root as its working directory.
pub(crate) fn program(name: &str, arguments: &[&str]) -> Result<Command, Fault> {
    let mut command = Command::new(name);
    command.args(arguments).current_dir(root()?);
    Ok(command)
}

/// The cargo that runs this task.
pub(crate) fn cargo(arguments: &[&str]) -> Result<Command, Fault> {
    program(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()), arguments)
}

/// Where the programs that a task drives come from.
#[derive(Clone, Copy)]
pub(crate) enum Programs {
    /// They are built first.
    Built,
    /// `cargo test --workspace` has just built them, with the features of all crates together. `cargo build --package` would compile a third of the
    /// dependencies again, with fewer.
    Tested,
}

impl Programs {
    /// Builds them, unless the tests did.
    pub(crate) fn prepare(self, arguments: &[&str]) -> Result<(), Fault> {
        match self {
            Self::Built => succeed(cargo(&[&["build"], arguments].concat())?),
            Self::Tested => Ok(()),
        }
    }
}

/// The binary that a task plays, and what is left of its options: that of `--toolgate FILE`, or the release build.
pub(crate) fn played_binary<'o>(options: &[&'o str]) -> Result<(PathBuf, Vec<&'o str>), Fault> {
    let Some(at) = options.iter().position(|option| *option == "--toolgate") else {
        Programs::Built.prepare(&["--release", "--package", "toolgate"])?;
        let target = Metadata::ask(cargo(&[])?)?.target_directory;
        return Ok((target.join("release/toolgate"), options.to_vec()));
    };
    let file = options.get(at + 1).ok_or("`--toolgate` needs the file of a binary")?;
    // The tasks run programs in the repository's root.
    let file = std::path::absolute(file)?;
    let left = options.iter().enumerate().filter(|(index, _)| *index != at && *index != at + 1);
    Ok((file, left.map(|(_, option)| *option).collect()))
}

/// Runs a command with its output passed through.
pub(crate) fn succeed(mut command: Command) -> Result<(), Fault> {
    println!("$ {}", as_typed(&command));
    let status = command.status().map_err(|error| cannot_start(&command, &error))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` failed: {status}", as_typed(&command)).into()) }
}

/// Runs a command and returns its output.
pub(crate) fn output(mut command: Command) -> Result<String, Fault> {
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| cannot_start(&command, &error))?;
    if !output.status.success() {
        return Err(format!("`{}` failed: {}", as_typed(&command), output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Which of a program's two streams to read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Output,
    Error,
}

/// Runs a command with its output passed through, and calls `listen` with each line of one stream. Returns whether it succeeded.
pub(crate) fn listen(
    mut command: Command,
    stream: Stream,
    mut listen: impl FnMut(&str),
) -> Result<bool, Fault> {
    println!("$ {}", as_typed(&command));
    match stream {
        Stream::Output => command.stdout(Stdio::piped()),
        Stream::Error => command.stderr(Stdio::piped()),
    };
    let mut child = command.spawn().map_err(|error| cannot_start(&command, &error))?;
    let piped: Box<dyn std::io::Read> = match (child.stdout.take(), child.stderr.take()) {
        (Some(output), _) => Box::new(output),
        (None, Some(error)) => Box::new(error),
        (None, None) => return Err("the program's output was not connected".into()),
    };
    for line in BufReader::new(piped).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        listen(&line);
    }
    Ok(child.wait()?.success())
}

/// Whether a program is installed.
pub(crate) fn is_installed(name: &str, arguments: &[&str]) -> bool {
    let status = Command::new(name).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn cannot_start(command: &Command, error: &std::io::Error) -> Fault {
    format!("cannot start `{}`: {error}", as_typed(command)).into()
}

/// The command line as a person would type it.
pub(crate) fn as_typed(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| quote(&word.to_string_lossy())).collect::<Vec<_>>().join(" ")
}

fn quote(word: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_./=:@,+".contains(character);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_read_as_they_would_be_typed() {
        let mut command = Command::new("/usr/bin/toolgate");
        command.args(["call", "read_file", "{\"path\": \"it's\"}", ""]);
        assert_eq!(as_typed(&command), "toolgate call read_file '{\"path\": \"it'\\''s\"}' ''");
    }
}
