//! `project` and `central`: the second writable zone, mounted as `@central`.

use crate::config::{Access, MountConfig, ProfileName};
use crate::decode::{ConfigField, Section, located_text, path};
use crate::globs::Globs;
use crate::path::DeclaredPath;
use crate::problem::{Located, shown};
use crate::problem_report::ProblemReport;

/// The alias of the second zone.
const CENTRAL: &str = "@central";

/// Where the profile `studio` keeps the directories of its projects.
const PROJECTS: &str = "~/bmad-studio/projects";

/// The mount that the two keys declare; `mounts` are the explicitly declared ones.
pub(crate) fn central(
    section: &Section,
    profile: Option<ProfileName>,
    mounts: &[MountConfig],
    report: &mut ProblemReport<'_>,
) -> Option<MountConfig> {
    let project = section.get("project", report, project);
    let place = match section.get("central", report, path) {
        Some(path) => path,
        None if section.lacks("central") => of_project(&project?, profile, report)?,
        None => return None,
    };
    if mounts.iter().any(|mount| mount.alias.value == CENTRAL) {
        let help = "keep one of them".to_owned();
        report.located(&place, format!("`{CENTRAL}` is declared under `mounts` too"), Some(help));
        return None;
    }
    Some(MountConfig {
        alias: place.with(CENTRAL.to_owned()),
        path: place,
        access: Access::ReadWrite,
        scope: None,
        deny: Globs::default(),
        labels: Default::default(),
    })
}

/// The zone of a project without an explicit directory.
fn of_project(
    project: &Located<String>,
    profile: Option<ProfileName>,
    report: &mut ProblemReport<'_>,
) -> Option<Located<DeclaredPath>> {
    if profile != Some(ProfileName::Studio) {
        let help =
            "write `profile: studio`, or name the directory of the second zone with `central`".to_owned();
        report.located(
            project,
            "`project` has a second zone of its own only in the profile `studio`",
            Some(help),
        );
        return None;
    }
    DeclaredPath::new(&format!("{PROJECTS}/{}", project.value)).ok().map(|path| project.with(path))
}

/// A directory name.
fn project(field: &ConfigField, report: &mut ProblemReport<'_>) -> Option<Located<String>> {
    const MAX_NAME_BYTES: usize = 255;
    let name = located_text(field, report)?;
    let text = name.value.as_str();
    let odd = |character: char| character == '/' || character == '\\' || character.is_control();
    let is_name = !text.is_empty()
        && text.trim() == text
        && !text.starts_with('.')
        && !text.contains(odd)
        && text.len() <= MAX_NAME_BYTES;
    if !is_name {
        let help = "write one name without slashes that does not begin with a dot, such as `shop`".to_owned();
        report.located(&name, format!("`{}` cannot be the name of a project", shown(text)), Some(help));
    }
    is_name.then_some(name)
}
