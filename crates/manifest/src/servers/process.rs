//! A server that is a process: its program and its confinement.

use toolgate_types::ToolClass;

use super::{PackageRegistry, PackageSpec, ServerLimits, ServerProcessConfig, container};
use crate::decode::{
    ConfigField, KeySpec, Section, count, duration, flag, key, list, located_text, named, path, size,
};
use crate::problem::{Located, shown};
use crate::problem_report::ProblemReport;
use crate::tool::{directory, is_reserved, is_variable, mounts, network};
use crate::variables::{VariableText, variable_text};
use crate::yaml_tree::NodeKind;

const LIMITS: &[KeySpec] = &[
    key("memory", "memory: 1GiB"),
    key("processes", "processes: 64"),
    key("file_size", "file_size: 100MiB"),
    key("open_files", "open_files: 256"),
    key("cpu_time", "cpu_time: 1h"),
    key("tmp_size", "tmp_size: 64MiB"),
    key("home_size", "home_size: 512MiB"),
];

pub(super) fn process(section: &Section, report: &mut ProblemReport<'_>) -> Option<ServerProcessConfig> {
    let package = section.get("package", report, package);
    let program = match (section.field("command"), &package) {
        (Some(command), None) => program(command, report),
        (Some(command), Some(_)) => package_program(command, report),
        (None, package) => package.as_ref().map(|package| package.with(package.value.program().to_owned())),
    };
    if package.is_none() && !section.lacks("package") {
        return None;
    }
    let registry = package.as_ref().map_or(PackageRegistry::Npm, |package| package.value.registry());
    let with = section.get("with", report, |field, report| {
        list(field, "package", report, |field, report| beside(registry, field, report))
    });
    let directory = section.get("cwd", report, directory);
    // A mount is read-only unless it is declared writable.
    let mounts = mounts(section, directory.as_ref(), Some(ToolClass::Read), report);
    let arguments =
        section.get("args", report, |field, report| list(field, "argument", report, variable_text));
    let is_image = package.is_some() && registry == PackageRegistry::Image;
    if is_image {
        container::check(section, &mounts, report);
    }
    let read = section.get("read", report, |field, report| list(field, "path", report, path));
    Some(ServerProcessConfig {
        arguments: arguments.unwrap_or_default(),
        environment: section.get("env", report, environment).unwrap_or_default(),
        network: section
            .get("network", report, if is_image { container::network } else { hosts })
            .unwrap_or_default(),
        mount_paths: section.get("mount_paths", report, container::mount_paths).unwrap_or_default(),
        entrypoint: section.get("entrypoint", report, container::entrypoint),
        read: read.unwrap_or_default(),
        limits: section.get("limits", report, limits).unwrap_or_default(),
        directory,
        mounts,
        program: program?,
        package,
        with: with.unwrap_or_default(),
        install_scripts: section.get("install_scripts", report, flag).unwrap_or(false),
        ephemeral: section.get("ephemeral", report, flag).unwrap_or(false),
        host_paths: section.get("host_paths", report, flag).unwrap_or(false),
    })
}

/// A list of hosts, or the word `public` alone.
fn hosts(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Vec<Located<String>>> {
    match &field.node.kind {
        NodeKind::Scalar { text, .. } if text == "public" => Some(vec![field.locate(text.clone())]),
        _ => network(field, report),
    }
}

fn package(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Located<PackageSpec>> {
    let text = located_text(field, report)?;
    match PackageSpec::parse(&text.value) {
        Ok(spec) => Some(text.with(spec)),
        Err(error) => {
            let help = "write `npm:NAME@VERSION`, `pypi:NAME==VERSION` or `image:NAME:TAG`; code from elsewhere is installed by hand, and named by `command`";
            let message = format!("`{}` is not a package: {error}", shown(&text.value));
            report.located(&text, message, Some(help.to_owned()));
            None
        }
    }
}

/// A package beside another one, of the same registry.
fn beside(
    registry: PackageRegistry,
    field: &ConfigField,
    report: &mut ProblemReport<'_>,
) -> Option<Located<PackageSpec>> {
    let text = located_text(field, report)?;
    match PackageSpec::of(registry, &text.value) {
        Ok(spec) => Some(text.with(spec)),
        Err(error) => {
            let help = "write a name of the same registry, with a version where it matters: `mcp<2`";
            let message = format!("`{}` is not a package: {error}", shown(&text.value));
            report.located(&text, message, Some(help.to_owned()));
            None
        }
    }
}

/// The program of a package: a plain file name.
fn package_program(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Located<String>> {
    let name = located_text(field, report)?;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if name.value.is_empty() || name.value.starts_with(['.', '-']) || !name.value.bytes().all(allowed) {
        let help = "name one of the programs that the package installs, or leave `command` out".to_owned();
        let message = format!("`{}` is not a program of a package", shown(&name.value));
        report.located(&name, message, Some(help));
        return None;
    }
    Some(name)
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
        home_size: section.get("home_size", report, size),
    })
}
