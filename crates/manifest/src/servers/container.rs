//! The keys of a server that is a container image: `package: image:NAME:TAG`.

use super::read::reject_keys;
use crate::decode::{ConfigField, Section, located_text, named};
use crate::problem::{Located, shown};
use crate::problem_report::ProblemReport;
use crate::tool::CommandMount;
use crate::yaml_tree::NodeKind;

/// The word for the network of the engine.
const ENGINE: &str = "engine";

/// Keys that mean something for a process of the sandbox alone.
const SANDBOX: &[&str] = &["command", "with", "install_scripts", "ephemeral", "host_paths", "cwd", "read"];

/// Checks what an engine cannot be asked for.
pub(super) fn check(section: &Section, mounts: &[CommandMount], report: &mut ProblemReport<'_>) {
    reject_keys(section, SANDBOX, "`image:`", "a process of the sandbox, with `command`", report);
    for mount in mounts.iter().filter(|mount| mount.writable) {
        let help = format!(
            "write `\"{}\"`: what a container leaves in a mount is not looked through",
            mount.alias.value
        );
        let message = format!("a container cannot be given `{}` to change", mount.alias.value);
        report.located(&mount.alias, message, Some(help));
    }
}

/// The word `engine` alone: an engine cannot limit a container to hosts.
pub(super) fn network(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Vec<Located<String>>> {
    match &field.node.kind {
        NodeKind::Scalar { text, .. } if text == ENGINE => Some(vec![field.locate(text.clone())]),
        _ => {
            let help = "leave it out for no network, or write `network: engine` for the network that the engine gives: every host, private ones too";
            report.node(&field.node, "a container cannot be limited to hosts", Some(help.to_owned()));
            None
        }
    }
}

type MountPaths = Vec<(Located<String>, Located<String>)>;

/// Where the container has its mounts.
pub(super) fn mount_paths(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<MountPaths> {
    let entries = named(field, "mount", report)?;
    let entry = |(alias, value): (Located<String>, ConfigField)| {
        let path = located_text(&value, report)?;
        if !is_container_path(&path.value) {
            let help = "write an absolute path in the container, such as `/projects`".to_owned();
            report.located(&path, format!("`{}` is no place for a mount", shown(&path.value)), Some(help));
        }
        Some((alias, path))
    };
    Some(entries.into_iter().filter_map(entry).collect())
}

/// An absolute path below the root, without `.` and `..`, and without what separates the words of a mount.
fn is_container_path(path: &str) -> bool {
    let word = |word: &str| !matches!(word, "" | "." | "..");
    let system = ["/proc", "/sys", "/dev"];
    path.strip_prefix('/').is_some_and(|rest| rest.trim_end_matches('/').split('/').all(word))
        && !path.contains([',', '"', ':'])
        && !path.contains(char::is_control)
        && !system.iter().any(|place| path == *place || path.starts_with(&format!("{place}/")))
}

/// A program in the container.
pub(super) fn entrypoint(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Located<String>> {
    let name = located_text(field, report)?;
    if name.value.is_empty() || name.value.starts_with('-') || name.value.contains(char::is_whitespace) {
        let help = "name one program; what follows it belongs in `args`".to_owned();
        report.located(&name, format!("`{}` is not a program", shown(&name.value)), Some(help));
        return None;
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_has_a_place_of_its_own() {
        for good in ["/projects", "/a/b/", "/data-1"] {
            assert!(is_container_path(good), "{good}");
        }
        for bad in ["", "/", "a", "/a/../b", "/proc", "/proc/self", "/a,readonly=false", "/a\n", "/a:b", "//"]
        {
            assert!(!is_container_path(bad), "{bad}");
        }
    }
}
