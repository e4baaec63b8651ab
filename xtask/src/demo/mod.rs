//! A demonstration of what the gate allows, refuses, audits and undoes, with the real binary on real files; afterwards the gate is served.

mod scene;
mod walk;

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Fault;
use crate::command::{as_typed, cargo, succeed};
use crate::metadata::Metadata;
use crate::page;
use walk::{Step, WALK};

pub(crate) fn run() -> Result<(), Fault> {
    page::build()?;
    succeed(cargo(&["build", "--package", "toolgate"])?)?;
    let target = Metadata::ask(cargo(&[])?)?.target_directory;
    let (binary, folder) = (target.join("debug/toolgate"), target.join("demo"));
    scene::set(&folder)?;
    println!("\nThe demonstration works in {}. Every command below can be typed there.", folder.display());

    let mut surprises = Vec::new();
    for (number, step) in (1..).zip(WALK) {
        surprises.extend(take(number, step, &binary, &folder)?);
    }
    println!("\nThat was it. To go on by yourself: cd {} && PATH=\"$PWD/../debug:$PATH\"", folder.display());
    if surprises.is_empty() { serve(&binary, &folder) } else { Err(surprises.join("; ").into()) }
}

/// Serves the demonstration over HTTP until it is interrupted.
fn serve(binary: &Path, folder: &Path) -> Result<(), Fault> {
    const USUAL: &str = "127.0.0.1:8420";
    // Another gate may listen there already.
    let listen = if TcpListener::bind(USUAL).is_ok() { USUAL } else { "127.0.0.1:0" };
    let mut command = Command::new(binary);
    command.args(["serve", "--listen", listen]).current_dir(folder).stdin(Stdio::null());
    command.env_remove("TOOLGATE_TOKEN");
    println!(
        "\nOpen the address below in a browser to talk with a scripted model, approve its calls and read the record; MCP \
         clients reach the gate there too. Ctrl-C ends it."
    );
    println!("\n$ {}", as_typed(&command));
    match command.status()?.code() {
        // A regular end.
        Some(0 | 130) => Ok(()),
        _ => Err("the gate could not be served".into()),
    }
}

/// Runs one step, and returns a message if its exit code is unexpected.
fn take(number: usize, step: &Step, binary: &Path, folder: &Path) -> Result<Option<String>, Fault> {
    let mut command = Command::new(binary);
    command.args(step.arguments).current_dir(folder).stdin(Stdio::null()).env_remove("TOOLGATE_TOKEN");
    println!("\n{number}. {}\n   {}\n\n$ {}", step.title, step.explanation, as_typed(&command));
    let status = command.status()?;
    // Without an exit code a signal ended it, which is never expected.
    let exit = status.code().unwrap_or(-1);
    if exit != 0 {
        println!("(exit code {exit})");
    }
    let surprise = format!("step {number} ended with exit code {exit} instead of {}", step.exit);
    Ok((exit != step.exit).then_some(surprise))
}
