//! Builds the fuzz targets with libFuzzer's instrumentation and runs each for a while.
//!
//! cargo-fuzz is not needed: it passes the same flags. `fuzz/` is a workspace of its own, because only nightly compilers can instrument.

use std::path::Path;
use std::process::Command;

use crate::Fault;
use crate::command::{Stream, listen, output, program, root, succeed};
use crate::metadata::Metadata;

/// The flags that cargo-fuzz passes to the compiler, without AddressSanitizer: there is no unsafe code to check, and more executions find more.
const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
    "-Cdebug-assertions",
    "-Ccodegen-units=1",
    "--cfg",
    "fuzzing",
];

pub(crate) fn run(seconds: &str) -> Result<(), Fault> {
    let seconds: u64 = seconds.parse().map_err(|_| format!("`{seconds}` is not a number of seconds"))?;
    if !root()?.join("fuzz/Cargo.toml").exists() {
        println!("there is no fuzz/ folder, so there is nothing to fuzz");
        return Ok(());
    }
    let triple = host_triple()?;
    let mut build =
        nightly(&["build", "--manifest-path", "fuzz/Cargo.toml", "--release", "--target", &triple])?;
    build.env("RUSTFLAGS", FLAGS.join(" "));
    succeed(build)?;
    let runs: Vec<Run> =
        targets()?.iter().map(|name| fuzz(name, &triple, seconds)).collect::<Result<_, _>>()?;
    println!("\n{:<24} {:>12}  finding", "target", "executions");
    for Run { name, executions, clean } in &runs {
        let finding = if *clean { "none".to_owned() } else { format!("see fuzz/artifacts/{name}") };
        println!("{name:<24} {executions:>12}  {finding}");
    }
    if runs.iter().all(|run| run.clean) { Ok(()) } else { Err("fuzzing found something".into()) }
}

/// The result of fuzzing one target.
struct Run {
    name: String,
    executions: u64,
    clean: bool,
}

fn fuzz(name: &str, triple: &str, seconds: u64) -> Result<Run, Fault> {
    println!("\n=== {name}, {seconds} s");
    let (corpus, artifacts) = (format!("fuzz/corpus/{name}"), format!("fuzz/artifacts/{name}/"));
    let seeds = format!("fuzz/seeds/{name}");
    let root = root()?;
    std::fs::create_dir_all(root.join(&corpus))?;
    std::fs::create_dir_all(root.join(&artifacts))?;
    let mut command = program(&binary(&root, name, triple), &[])?;
    command.arg(format!("-max_total_time={seconds}")).arg(format!("-artifact_prefix={artifacts}"));
    command.arg("-print_final_stats=1").arg(corpus);
    if root.join(&seeds).is_dir() {
        command.arg(seeds);
    }
    let mut executions = 0;
    let clean = listen(command, Stream::Error, |line| executions = executed(line).unwrap_or(executions))?;
    Ok(Run { name: name.to_owned(), executions, clean })
}

fn binary(root: &Path, name: &str, triple: &str) -> String {
    root.join("fuzz/target").join(triple).join("release").join(name).to_string_lossy().into_owned()
}

/// The count in libFuzzer's final statistics.
fn executed(line: &str) -> Option<u64> {
    line.strip_prefix("stat::number_of_executed_units:")?.trim().parse().ok()
}

/// The names of the fuzz targets: every binary of the fuzz package.
fn targets() -> Result<Vec<String>, Fault> {
    let mut cargo = nightly(&[])?;
    cargo.current_dir(root()?.join("fuzz"));
    let targets = Metadata::ask(cargo)?.packages.into_iter().flat_map(|package| package.targets);
    let binaries = targets.filter(|target| target.kind.iter().any(|kind| kind == "bin"));
    Ok(binaries.map(|target| target.name).collect())
}

/// The cargo of the nightly toolchain, without the variables of the toolchain that runs this task.
fn nightly(arguments: &[&str]) -> Result<Command, Fault> {
    let mut command = program("rustup", &["run", "nightly", "cargo"])?;
    command.args(arguments).env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC");
    Ok(command)
}

fn host_triple() -> Result<String, Fault> {
    let version = output(program("rustc", &["-vV"])?)?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "`rustc -vV` does not name the host".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_final_statistics() {
        assert_eq!(executed("stat::number_of_executed_units: 123456"), Some(123_456));
        assert_eq!(executed("#2\tINITED cov: 5"), None);
    }
}
