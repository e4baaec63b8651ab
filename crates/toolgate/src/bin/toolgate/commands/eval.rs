//! `toolgate eval`: plays cases against the gate that ships, and judges them from outside.

mod hostile;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use toolgate_eval::{Case, CaseResult, EvalOptions, Player, SuiteError, html, junit, table};

use super::{print, print_json};
use crate::arguments::{EvalArguments, EvalCommand, GlobalOptions};
use crate::exit::{CliError, SUCCESS, TOOL_ERROR};

pub(crate) fn run(common: &GlobalOptions, arguments: &EvalArguments) -> Result<u8, CliError> {
    if let Some(EvalCommand::Hostile(hostile)) = &arguments.command {
        return hostile::run(common, hostile);
    }
    let cases = toolgate_eval::load(&arguments.cases).map_err(unusable)?;
    if arguments.list {
        return list(common, &cases);
    }
    let options = EvalOptions {
        binary: own_binary()?,
        model: arguments.model.clone(),
        tries: arguments.tries,
        jobs: arguments.jobs.unwrap_or_else(processors),
        timeout: arguments.timeout,
        tap: None,
        records: arguments.records.clone(),
    };
    let is_without_model = |case: &&Case| case.player(true) != Player::Model;
    let without_model = cases.iter().filter(is_without_model).count();
    if options.model.is_some() && without_model > 0 && !common.quiet {
        let _ = writeln!(
            io::stderr(),
            "toolgate: {without_model} of {} cases are calls of a program over HTTP, or calls that overlap: no model plays them",
            cases.len()
        );
    }
    let (ended, all) = (AtomicUsize::new(0), cases.len());
    let shows_progress = io::stderr().is_terminal() && !common.quiet;
    let progress = |result: &CaseResult| {
        let ended = ended.fetch_add(1, Ordering::Relaxed) + 1;
        if shows_progress {
            let word = if result.passed() { "passed" } else { "FAILED" };
            let _ = writeln!(io::stderr(), "[{ended}/{all}] {word} {}", result.case.name);
        }
    };
    let results = toolgate_eval::run(&cases, &options, &progress).map_err(|error| {
        CliError::error(error.to_string()).help("run it on Linux, where /proc is mounted")
    })?;
    write_report(arguments.junit.as_deref(), || junit(&results))?;
    write_report(arguments.html.as_deref(), || html(&results))?;
    match common.json {
        true => print_json(&toolgate_eval::json(&results))?,
        false => print(&table(&results))?,
    };
    Ok(if results.iter().all(CaseResult::passed) { SUCCESS } else { TOOL_ERROR })
}

fn own_binary() -> Result<PathBuf, CliError> {
    std::env::current_exe()
        .map_err(|error| CliError::error(format!("the path of this program cannot be found: {error}")))
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn list(common: &GlobalOptions, cases: &[Case]) -> Result<u8, CliError> {
    if common.json {
        let row = |case: &Case| json!({"name": case.name, "kind": case.kind.as_str(), "about": case.about});
        print_json(&Value::Array(cases.iter().map(row).collect()))?;
    } else {
        let row = |case: &Case| format!("{:<26} {:<10} {}\n", case.name, case.kind.as_str(), case.about);
        print(&cases.iter().map(row).collect::<String>())?;
    }
    Ok(SUCCESS)
}

#[expect(clippy::disallowed_methods, reason = "the person named the file")]
fn write_report(file: Option<&Path>, text: impl FnOnce() -> String) -> Result<(), CliError> {
    let Some(file) = file else { return Ok(()) };
    std::fs::write(file, text())
        .map_err(|error| CliError::error(format!("`{}` cannot be written: {error}", file.display())))
}

fn unusable(error: SuiteError) -> CliError {
    let help = match &error {
        SuiteError::Unreadable { .. } | SuiteError::Empty { .. } => "name a file or a directory with cases",
        SuiteError::Malformed { .. } => "docs/eval.md has every key of a case",
        SuiteError::SameName { .. } => "give each case a name of its own",
        SuiteError::Unknown { .. } => "`toolgate eval --list` shows the cases that came along",
    };
    CliError::usage(error.to_string()).help(help)
}
