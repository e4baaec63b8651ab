//! Developer tasks. `cargo xtask --help` lists them.
//!
//! These run on a developer's machine and start compilers, so they hold the ambient authority that the product's crates do not have. They depend on
//! none of those crates.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a developer tool reads the repository, starts processes and talks to a terminal"
)]

mod agentdojo;
mod bench;
mod cargo_tests;
mod command;
mod demo;
mod foreign;
mod fuzz;
mod hostile;
mod lint;
mod metadata;
mod page;
mod pictures;
mod report_picture;
mod steps;
mod suite;
mod tidy;
mod torture;

use std::process::ExitCode;

use command::Programs;

/// Why a task failed, for a developer.
type Fault = Box<dyn std::error::Error>;

const HELP: &str = "\
Developer tasks of Toolgate.

Usage: cargo xtask TASK

  run             build the page and the binary, walk through a demonstration in target/demo, and serve it
  page            build the page into web/dist, if a source of it changed
  browser         the page of the real binary in Chromium, which `test` installs
  test            everything that continuous integration checks: the page, tidy, format, clippy, tests, foreign clients
  foreign         other people's MCP clients, servers and conformance suite against the gate
  matrix          well-known servers as people have them, a real client put in front of the gate, containers (some minutes)
  lint            format, clippy and tidy; cargo-deny where it is installed
  tidy            rules that compilers do not know: arrows between crates, reasons, file sizes
  bench           all benchmarks, with a table of their ratios to other programs
  pictures        draw the pictures of the README and of the report of `eval` from real runs, in docs/pictures
  torture         kills, power cuts, full disks, clock jumps and more under load, with the figures (as root)
  agentdojo [OPTIONS] AgentDojo (PyPI) through the gate: no policy, an allowlist, the policies that came along
  hostile [OPTIONS] 100,000 calls of a compromised model, in 10,000 sequences, against the release binary
                  both build the release binary, unless `--toolgate FILE` names one
  fuzz [SECONDS]  every fuzz target for a while (60 seconds each unless told)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["run"] => demo::run(),
        ["page"] => page::build(),
        ["browser"] => page::drive(Programs::Built),
        ["test"] => suite::run(),
        ["foreign"] => foreign::run(Programs::Built),
        ["matrix"] => foreign::matrix(),
        ["lint"] => lint::run(),
        ["tidy"] => tidy::run(),
        ["bench"] => bench::run(),
        ["pictures"] => pictures::run(),
        ["torture"] => torture::run(),
        ["agentdojo", ref options @ ..] => agentdojo::run(options),
        ["hostile", ref options @ ..] => hostile::run(options),
        ["fuzz"] => fuzz::run("60"),
        ["fuzz", seconds] => fuzz::run(seconds),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        _ => {
            eprint!("there is no task `{}`\n\n{HELP}", arguments.join(" "));
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("\nxtask: {fault}");
            ExitCode::FAILURE
        }
    }
}
