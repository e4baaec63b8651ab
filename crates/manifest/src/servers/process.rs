//! A server that is a process: its program and its confinement.

use toolgate_types::ToolClass;

use super::{ServerLimits, ServerProcessConfig};
use crate::decode::{
    ConfigField, KeySpec, Section, count, duration, key, list, located_text, named, path, size,
};
use crate::problem::{Located, shown};
use crate::problem_report::ProblemReport;
use crate::tool::{directory, is_reserved, is_variable, mounts, network};
use crate::variables::{VariableText, variable_text};

const LIMITS: &[KeySpec] = &[
    key("memory", "memory: 1GiB"),
    key("processes", "processes: 64"),
    key("file_size", "file_size: 100MiB"),
    key("open_files", "open_files: 256"),
    key("cpu_time", "cpu_time: 1h"),
    key("tmp_size", "tmp_size: 64MiB"),
];

pub(super) fn process(
    command: &ConfigField,
    section: &Section,
    report: &mut ProblemReport<'_>,
) -> Option<ServerProcessConfig> {
    let program = program(command, report);
    let directory = section.get("cwd", report, directory);
    // A mount is read-only unless it is declared writable.
    let mounts = mounts(section, directory.as_ref(), Some(ToolClass::Read), report);
    let arguments =
        section.get("args", report, |field, report| list(field, "argument", report, variable_text));
    let read = section.get("read", report, |field, report| list(field, "path", report, path));
    Some(ServerProcessConfig {
        arguments: arguments.unwrap_or_default(),
        environment: section.get("env", report, environment).unwrap_or_default(),
        network: section.get("network", report, network).unwrap_or_default(),
        read: read.unwrap_or_default(),
        limits: section.get("limits", report, limits).unwrap_or_default(),
        directory,
        mounts,
        program: program?,
    })
}

fn program(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Located<String>> {
    let name = located_text(field, report)?;
    let relative = name.value.contains('/') && !name.value.starts_with('/');
    let odd = |character: char| character.is_whitespace() || character.is_control();
    if name.value.is_empty() || relative || name.value.contains(odd) {
        let help =
            "write a name such as `npx`, or an absolute path; what follows it belongs in `args`".to_owned();
        report.located(&name, format!("`{}` is not a program", shown(&name.value)), Some(help));
        return None;
    }
    Some(name)
}

type Variables = Vec<(Located<String>, Located<VariableText>)>;

fn environment(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Variables> {
    let entries = named(field, "variable", report)?;
    let entry = |(name, value): (Located<String>, ConfigField)| {
        if !is_variable(&name.value) {
            let help = "use letters, digits and `_`, not beginning with a digit".to_owned();
            let message = format!("`{}` is not the name of a variable", shown(&name.value));
            report.located(&name, message, Some(help));
        } else if is_reserved(&name.value) {
            let message = format!("`{}` decides what code runs or where it connects to", name.value);
            let help = "remove it: the sandbox sets what a server needs".to_owned();
            report.located(&name, message, Some(help));
        }
        Some((name, variable_text(&value, report)?))
    };
    Some(entries.into_iter().filter_map(entry).collect())
}

fn limits(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<ServerLimits> {
    let section = Section::read(field, LIMITS, report)?;
    Some(ServerLimits {
        memory: section.get("memory", report, size),
        processes: section.get("processes", report, count),
        file_size: section.get("file_size", report, size),
        open_files: section.get("open_files", report, count),
        cpu_time: section.get("cpu_time", report, duration),
        tmp_size: section.get("tmp_size", report, size),
    })
}
