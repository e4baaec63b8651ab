//! What the programs of a client's servers need to be shown, and which directory their file calls the open one.

use std::path::{Path, PathBuf};

use toolgate_assembly::ambient::{HostEnvironment, exists, real_path};
use toolgate_assembly::program_files::{find_on_path, is_of_system, needed_paths};
use toolgate_assembly::settings::LoadedConfig;
use toolgate_assembly::toolchains::Toolchains;
use toolgate_clients::{CLIENTS, Imported};
use toolgate_sandbox::refused_place;

use crate::arguments::GlobalOptions;
use crate::terminal::escape_line;

/// The variable of clients for the open directory.
const OPEN_DIRECTORY: &str = "${workspaceFolder}";

/// The toolchains that servers are shown anyway.
pub(super) fn shown_toolchains(surroundings: &HostEnvironment, loaded: Option<&LoadedConfig>) -> Toolchains {
    let selection = loaded.map(|loaded| loaded.config.sandbox.toolchains.clone()).unwrap_or_default();
    Toolchains::detect(&selection, surroundings, &[])
}

/// The workspace that a gate with these options would have.
pub(super) fn workspace(
    common: &GlobalOptions,
    surroundings: &HostEnvironment,
    loaded: Option<&LoadedConfig>,
) -> PathBuf {
    let declared = loaded.and_then(|loaded| loaded.config.workspace.as_ref());
    let declared = declared.map(|path| PathBuf::from(path.value.as_str()));
    let named = common.workspace.clone().or(declared);
    let named = named.and_then(|path| surroundings.absolute(&path).ok());
    real_path(&named.unwrap_or_else(|| surroundings.current_dir.clone()))
}

/// The text of a client's file with the directory of its project in place of `${workspaceFolder}`, if the gate's workspace is another one: there the
/// variable would silently mean something else. With what has to be said about it.
pub(super) fn in_project_of(
    common: &GlobalOptions,
    surroundings: &HostEnvironment,
    file: &Path,
    text: String,
) -> (String, Option<String>) {
    if !text.contains(OPEN_DIRECTORY) {
        return (text, None);
    }
    let workspace = workspace(common, surroundings, None);
    let Some(project) = project_of(surroundings, file) else {
        let note = format!(
            "`{OPEN_DIRECTORY}` is the workspace of the gate, which is `{}` from here",
            workspace.display()
        );
        return (text, Some(note));
    };
    if project == workspace {
        return (text, None);
    }
    // In JSON, TOML and YAML these mean nothing but themselves.
    let shown = project.display().to_string();
    if !shown.chars().all(|one| one.is_alphanumeric() || "/-_.+@ ".contains(one)) {
        let note = format!(
            "`{OPEN_DIRECTORY}` is the workspace of the gate, and not `{}`, where this file is: import it from there",
            escape_line(&shown)
        );
        return (text, Some(note));
    }
    let note = format!("`{OPEN_DIRECTORY}` is `{shown}`, the directory of this file's project");
    (text.replace(OPEN_DIRECTORY, &shown), Some(note))
}

/// The directory whose own file of a client this is.
fn project_of(surroundings: &HostEnvironment, file: &Path) -> Option<PathBuf> {
    let file = real_path(&surroundings.absolute(file).ok()?);
    let home = surroundings.home.as_ref().map(|home| real_path(home));
    let of_client = |below: &str| {
        let levels = Path::new(below).components().count();
        file.ends_with(below).then(|| file.ancestors().nth(levels).map(Path::to_path_buf)).flatten()
    };
    let project = CLIENTS.iter().filter_map(|client| client.project).find_map(of_client)?;
    // There the same name is the file for all sessions.
    (Some(&project) != home.as_ref()).then_some(project)
}

/// Names programs by their path where the sandbox does not look for them: `uv tool`, `pipx` and npm put links into directories of the home directory.
pub(super) fn name_programs(
    imported: &mut Imported,
    surroundings: &HostEnvironment,
    toolchains: &Toolchains,
) -> Vec<String> {
    let mut notes = Vec::new();
    for server in &mut imported.servers {
        let Some(name) = server.own_program().filter(|program| !program.contains('/')).map(str::to_owned)
        else {
            continue;
        };
        let found = find_on_path(&name, surroundings);
        let is_shown =
            |path: &PathBuf| is_of_system(path) || toolchains.shown().any(|shown| path.starts_with(shown));
        let Some(path) =
            found.filter(|path| !is_shown(path)).and_then(|path| path.to_str().map(str::to_owned))
        else {
            continue;
        };
        server.name_program(&path);
        notes.push(format!("{}: `{}` is `{}` here", server.name, escape_line(&name), escape_line(&path)));
    }
    notes
}

/// Shows servers what their programs need.
pub(super) fn propose_reads(
    imported: &mut Imported,
    surroundings: &HostEnvironment,
    loaded: Option<&LoadedConfig>,
    workspace: &Path,
    toolchains: &Toolchains,
) -> Vec<String> {
    let declared = loaded.into_iter().flat_map(|loaded| &loaded.config.mounts);
    let declared =
        declared.map(|mount| (mount.alias.value.clone(), PathBuf::from(mount.path.value.as_str())));
    let proposed = imported.mounts.iter().map(|mount| (mount.alias.clone(), PathBuf::from(&mount.path)));
    let project = ("@project".to_owned(), workspace.to_path_buf());
    let mounts: Vec<(String, PathBuf)> = std::iter::once(project)
        .chain(declared.chain(proposed))
        .filter_map(|(alias, path)| Some((alias, real_path(&surroundings.absolute(&path).ok()?))))
        .collect();
    let mut notes = Vec::new();
    for server in &mut imported.servers {
        let program = server.own_program().map(PathBuf::from).filter(|program| program.is_absolute());
        let Some(program) = program.filter(|program| !is_of_system(program) && exists(program)) else {
            continue;
        };
        let mut shown = Vec::new();
        for path in needed_paths(&program, surroundings) {
            if toolchains.shown().any(|known| path.starts_with(known)) {
                continue;
            }
            let display = escape_line(&path.display().to_string());
            let mount = mounts.iter().find(|(_, root)| path.starts_with(root) || root.starts_with(&path));
            if let Some((alias, _)) = mount {
                notes.push(format!(
                    "{}: `{display}`, which its program needs, has to do with the mount `{alias}`: give the server that mount, or install the program elsewhere",
                    server.name
                ));
            } else if let Some(reason) = refused_place(&path) {
                notes.push(format!("{}: `{display}` is not shown to it: it {reason}", server.name));
            } else if let Some(path) = path.to_str() {
                shown.push(path.to_owned());
            }
        }
        if !shown.is_empty() {
            notes.push(format!(
                "{}: it sees `{}`, which its program needs, read-only",
                server.name,
                escape_line(&shown.join("`, `"))
            ));
        }
        server.show_paths(&shown);
    }
    notes
}
