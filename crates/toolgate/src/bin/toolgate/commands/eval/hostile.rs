//! `toolgate eval hostile`: a compromised model against every gate, and a case for what it finds.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

use serde_json::{Value, json};
use toolgate_eval::{EvalError, HostileFailure, HostileOptions, HostileReport, attack, targets};

use super::{own_binary, print, print_json, processors};
use crate::arguments::{GlobalOptions, HostileArguments};
use crate::exit::{CliError, SUCCESS, TOOL_ERROR};

/// More failures than this say nothing new.
const MAX_FAILURES: usize = 5;

/// How often parts of a sequence that fails are played to make it small.
const MAX_PLAYS: usize = 160;

pub(super) fn run(common: &GlobalOptions, arguments: &HostileArguments) -> Result<u8, CliError> {
    if arguments.list {
        return list(common);
    }
    let options = HostileOptions {
        binary: own_binary()?,
        calls: arguments.calls,
        sequences: arguments.sequences,
        seed: arguments.seed.unwrap_or_else(any_seed),
        targets: arguments.target.clone(),
        jobs: arguments.jobs.unwrap_or_else(processors),
        max_failures: MAX_FAILURES,
        max_plays: MAX_PLAYS,
        tap: None,
        config: None,
    };
    let shows_progress = io::stderr().is_terminal() && !common.quiet;
    let progress = |report: &HostileReport| {
        if shows_progress {
            let _ = write!(
                io::stderr(),
                "\r{} of {} calls, {} failures ",
                report.calls,
                options.calls,
                report.failures.len()
            );
        }
    };
    if !common.quiet {
        let _ = writeln!(io::stderr(), "toolgate: seed {}", options.seed);
    }
    let report = attack(&options, &progress).map_err(|error| match error {
        EvalError::UnknownTarget(_) => {
            CliError::usage(error.to_string()).help("`toolgate eval hostile --list` shows the targets")
        }
        EvalError::Subreaper(_) => {
            CliError::error(error.to_string()).help("run it on Linux, where /proc is mounted")
        }
    })?;
    if shows_progress {
        let _ = writeln!(io::stderr());
    }
    let files = write_cases(&arguments.out, &report)?;
    match common.json {
        true => print_json(&as_json(&report, &files))?,
        false => print(&table(&report, &files))?,
    };
    Ok(if report.passed() { SUCCESS } else { TOOL_ERROR })
}

/// Another number each time.
fn any_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() & 0xffff_ffff).try_into().unwrap_or_default()
}

fn list(common: &GlobalOptions) -> Result<u8, CliError> {
    let targets = targets();
    match common.json {
        true => print_json(
            &targets.iter().map(|target| json!({"name": target.name, "about": target.about})).collect(),
        )?,
        false => print(
            &targets
                .iter()
                .map(|target| format!("{:<16} {}\n", target.name, target.about))
                .collect::<String>(),
        )?,
    };
    Ok(SUCCESS)
}

#[expect(clippy::disallowed_methods, reason = "the person named the directory")]
fn write_cases(directory: &Path, report: &HostileReport) -> Result<Vec<String>, CliError> {
    let mut files = Vec::new();
    for failure in &report.failures {
        let (name, text) = failure.to_case(report.seed);
        let file = directory.join(format!("{name}.yaml"));
        std::fs::write(&file, text)
            .map_err(|error| CliError::error(format!("`{}` cannot be written: {error}", file.display())))?;
        files.push(file.display().to_string());
    }
    Ok(files)
}

fn table(report: &HostileReport, files: &[String]) -> String {
    let mut text = String::new();
    for (target, (calls, sequences)) in &report.by_target {
        let _ = writeln!(text, "{target:<16} {calls:>8} calls {sequences:>7} sequences");
    }
    for (failure, file) in report.failures.iter().zip(files) {
        let HostileFailure { escape, sequence, .. } = failure;
        let _ = writeln!(text, "FAILED  {}: {}", escape.check, escape.problem);
        let again = if failure.reproduced { "" } else { ", which did not fail again" };
        let _ = writeln!(
            text,
            "        {} calls on {}{again}: toolgate eval {file}",
            sequence.calls(),
            sequence.target
        );
    }
    for problem in &report.broken {
        let _ = writeln!(text, "BROKEN  {problem}");
    }
    let seconds = report.took.as_secs_f64();
    let _ = writeln!(
        text,
        "seed {}: {} calls in {} sequences in {seconds:.0} s, {} succeeded, {} failures",
        report.seed,
        report.calls,
        report.sequences,
        report.succeeded,
        report.failures.len() + report.broken.len()
    );
    text
}

fn as_json(report: &HostileReport, files: &[String]) -> Value {
    let failures: Vec<Value> = report
        .failures
        .iter()
        .zip(files)
        .map(|(failure, file)| {
            json!({
                "check": failure.escape.check, "problem": failure.escape.problem, "target": failure.sequence.target,
                "calls": failure.sequence.calls(), "reproduced": failure.reproduced, "file": file,
            })
        })
        .collect();
    let targets: Vec<Value> = report
        .by_target
        .iter()
        .map(|(name, (calls, sequences))| json!({"name": name, "calls": calls, "sequences": sequences}))
        .collect();
    json!({
        "seed": report.seed, "passed": report.passed(), "calls": report.calls, "sequences": report.sequences, "succeeded": report.succeeded,
        "durationMs": u64::try_from(report.took.as_millis()).unwrap_or(u64::MAX), "targets": targets, "failures": failures, "broken": report.broken,
    })
}
