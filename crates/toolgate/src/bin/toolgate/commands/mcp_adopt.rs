//! Servers of a client become servers of the gate: their directories as mounts, their packages installed, the configuration written and agreed to, and
//! each started once.

use std::io;
use std::path::{Path, PathBuf};

use toolgate_assembly::ambient::{
    HostEnvironment, exists, is_directory, read_regular_file, real_path, replace_file, write_new_file,
};
use toolgate_assembly::program_files::is_of_system;
use toolgate_assembly::settings::{LoadedConfig, Settings, default_state_dir};
use toolgate_assembly::trust::{AgreementStore, ConfigCandidate, ConfigOrigin, check_usable};
use toolgate_clients::{Imported, ImportedMount, InsertError, insert_servers};
use toolgate_manifest::MountConfig;
use toolgate_sandbox::refused_place;
use toolgate_types::{Sha256, Trust};

use super::{mcp_list, mcp_packages};
use crate::arguments::GlobalOptions;
use crate::exit::{CliError, SUCCESS, TOOL_ERROR};
use crate::startup::resolve_settings;
use crate::terminal::{confirm, escape_line, warn};

/// The configuration that is created if there is none.
const DEFAULT_CONFIG_FILE: &str = "toolgate.yaml";

/// The variable of clients for the open directory.
const PROJECT_VARIABLE: &str = "${workspaceFolder}";

/// Where browsers are installed, the one that servers look for first.
const BROWSERS: [&str; 6] = [
    "/opt/google/chrome/chrome",
    "/usr/bin/google-chrome-stable",
    "/usr/bin/google-chrome",
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/lib/chromium/chromium",
];

/// Gives the servers that drive a browser the one of the system.
pub(super) fn propose_browser(imported: &mut Imported) -> Vec<String> {
    let found = BROWSERS.into_iter().find(|path| exists(Path::new(path)));
    let mut notes = Vec::new();
    for server in &mut imported.servers {
        if server.use_browser(found) && found.is_none() {
            notes.push(format!(
                "{}: no browser is installed in the system: install Chromium or Chrome with the package manager of the system, and import it again",
                server.name
            ));
        }
    }
    notes
}

/// Gives each server the directories that its arguments and variables name.
pub(super) fn propose_mounts(
    imported: &mut Imported,
    surroundings: &HostEnvironment,
    loaded: Option<&LoadedConfig>,
    writable: &[PathBuf],
    workspace: &Path,
) -> Vec<String> {
    let mut notes = Vec::new();
    let writable: Vec<PathBuf> = writable
        .iter()
        .filter_map(|path| surroundings.absolute(path).ok())
        .map(|path| real_path(&path))
        .collect();
    let mut known = declared_mounts(surroundings, loaded);
    for server in &mut imported.servers {
        let mut shown: Vec<(String, bool)> = Vec::new();
        let mut in_container: Vec<(String, String)> = Vec::new();
        let all: Vec<PathBuf> =
            server.paths.iter().filter_map(|text| directory_of(text, surroundings).ok().flatten()).collect();
        for text in &server.paths.clone() {
            let directory = match directory_of(text, surroundings) {
                Ok(Some(directory)) => directory,
                Ok(None) => continue,
                Err(reason) => {
                    notes.push(format!("{}: {reason}", server.name));
                    continue;
                }
            };
            let directory = match server.container_paths.is_some() || writable.contains(&directory) {
                true => directory,
                false => outermost(&all, directory),
            };
            let place = server.container_path(text).map(str::to_owned);
            if place.is_some() && !is_directory(&on_host(text, surroundings)) {
                notes.push(format!(
                    "{}: `{}` is not shown to it: it is not a directory",
                    server.name,
                    escape_line(text)
                ));
                continue;
            }
            let is_agreed = writable.contains(&directory) || server.writes;
            let may_write = is_agreed && server.container_paths.is_none();
            let alias = alias_of(&directory, &mut known, |mount| {
                imported.mounts.push(ImportedMount { writable: may_write, ..mount });
            });
            if server.directory.as_ref() == Some(text)
                && let Some(start) = place_in(&alias, &directory, &on_host(text, surroundings))
            {
                server.work_in(&start);
            }
            if !shown.iter().any(|(other, _)| *other == alias) {
                let access = match (may_write, &server.container_paths) {
                    (true, _) => "may change it",
                    (false, None) => "reads it; `--rw DIR` lets it change files",
                    (false, Some(_)) => "reads it",
                };
                notes.push(format!(
                    "{}: `{}` is the mount `{alias}`: the server {access}",
                    server.name,
                    directory.display()
                ));
                in_container.extend(place.map(|place| (alias.clone(), place)));
                shown.push((alias, may_write));
            }
        }
        if server.container_paths.is_some() {
            if !in_container.is_empty() {
                let project = server.container_path(PROJECT_VARIABLE).map(str::to_owned);
                in_container.extend(project.map(|place| ("@project".to_owned(), place)));
                server.show_in_container(&in_container);
            }
        } else if !shown.is_empty() {
            server.show_mounts(&shown, &workspace.display().to_string());
        }
        notes.extend(server.directory.take().map(|directory| {
            let directory = escape_line(&directory);
            format!("{}: `cwd` is not taken over: mount `{directory}` and name the mount", server.name)
        }));
    }
    notes
}

/// The mount of a directory: a known one, or a new one, which is added.
fn alias_of(
    directory: &Path,
    known: &mut Vec<(String, PathBuf)>,
    mut add: impl FnMut(ImportedMount),
) -> String {
    if let Some((alias, _)) = known.iter().find(|(_, path)| path == directory) {
        return alias.clone();
    }
    let path = directory.display().to_string();
    let alias = ImportedMount::alias_for(&path, |alias| {
        ["@project", "@pkg", "@state"].contains(&alias) || known.iter().any(|(other, _)| other == alias)
    });
    known.push((alias.clone(), directory.to_path_buf()));
    add(ImportedMount { alias: alias.clone(), path, writable: false });
    alias
}

/// The mounts of the configuration.
fn declared_mounts(surroundings: &HostEnvironment, loaded: Option<&LoadedConfig>) -> Vec<(String, PathBuf)> {
    let declared = loaded.into_iter().flat_map(|loaded| &loaded.config.mounts);
    let mount = |mount: &MountConfig| {
        let path = surroundings.absolute(Path::new(mount.path.value.as_str())).ok()?;
        Some((mount.alias.value.clone(), real_path(&path)))
    };
    declared.filter_map(mount).collect()
}

/// A directory of the host, below the mount of another one.
fn place_in(alias: &str, root: &Path, directory: &Path) -> Option<String> {
    let below = real_path(directory)
        .strip_prefix(root)
        .ok()
        .filter(|_| is_directory(directory))?
        .to_str()?
        .to_owned();
    Some(if below.is_empty() { alias.to_owned() } else { format!("{alias}/{below}") })
}

/// The directory of these that holds another one, so that there is one mount for both.
fn outermost(all: &[PathBuf], directory: PathBuf) -> PathBuf {
    let above = all
        .iter()
        .filter(|other| directory.starts_with(other))
        .min_by_key(|other| other.components().count());
    above.cloned().unwrap_or(directory)
}

/// A path of a client's file on this machine.
fn on_host(text: &str, surroundings: &HostEnvironment) -> PathBuf {
    match (text.strip_prefix("${HOME}/"), &surroundings.home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(text),
    }
}

/// The directory that a path of a client's file needs; `None` if every server sees it anyway.
fn directory_of(text: &str, surroundings: &HostEnvironment) -> Result<Option<PathBuf>, String> {
    let shown = escape_line(text);
    if text.starts_with("${HOME}/") && surroundings.home.is_none() {
        return Err(format!("`{shown}` needs a home directory, and HOME is not set"));
    }
    let path = on_host(text, surroundings);
    if is_of_system(&path) || path.starts_with("/toolgate") {
        return Ok(None);
    }
    let directory = match is_directory(&path) {
        true => path.clone(),
        false => path.parent().map(Path::to_path_buf).unwrap_or_default(),
    };
    if !is_directory(&directory) {
        return Err(format!("`{shown}` does not exist, so the server does not see it"));
    }
    let real = real_path(&directory);
    let state = default_state_dir(surroundings).ok();
    if real.parent().is_none() || state.is_some_and(|state| real.starts_with(real_path(&state))) {
        return Err(format!("`{shown}` is not shown to it: name a directory of your own"));
    }
    if let Some(reason) = refused_place(&real) {
        return Err(format!("`{shown}` is not shown to it: `{}` {reason}", real.display()));
    }
    if real != directory && exists(&path) {
        return Err(format!("`{shown}` leads to `{}` through a symlink: write that path", real.display()));
    }
    Ok(Some(real))
}

/// Writes the servers into the configuration, and returns the file.
pub(super) fn write_config(
    surroundings: &HostEnvironment,
    loaded: &LoadedConfig,
    imported: &Imported,
) -> Result<(PathBuf, Sha256), CliError> {
    let cannot = |file: &Path, error: io::Error| {
        CliError::usage(format!("`{}` cannot be written: {error}", surroundings.display_path(file)))
    };
    let Some(file) = loaded.file() else {
        let file = surroundings.current_dir.join(DEFAULT_CONFIG_FILE);
        let text = imported.render();
        // Not every secret can be recognised, so the imported file is readable by its owner only.
        write_new_file(&file, text.as_bytes(), 0o600).map_err(|error| cannot(&file, error))?;
        return Ok((file, Sha256::of(text.as_bytes())));
    };
    let bytes = read_regular_file(file).map_err(|error| cannot(file, error))?;
    let shown = surroundings.display_path(file);
    let text = String::from_utf8_lossy(&bytes);
    let edited = insert_servers(&shown, &text, imported).map_err(|error| {
        let failed = CliError::usage(format!("nothing was added to `{shown}`: {error}"));
        match error {
            InsertError::Declared(_) => failed.help("rename or remove one of the two"),
            InsertError::Mistakes(_) => {
                failed.help("correct the file; `toolgate check` says when nothing is left")
            }
            InsertError::Unclear => failed.help("leave out --write, and paste what is printed"),
        }
    })?;
    replace_file(file, &bytes, edited.as_bytes()).map_err(|error| cannot(file, error))?;
    Ok((file.clone(), Sha256::of(edited.as_bytes())))
}

/// Whether the person agrees to what was shown; `None` if there is no terminal.
pub(super) fn wants_to_run(yes: bool, shown: String, question: &str) -> Option<bool> {
    if yes { Some(true) } else { confirm(|_| shown, question) }
}

/// Agrees to the configuration that was just written, if it has to be agreed to: the person agreed to what was added, and to the rest before.
pub(super) fn agree(
    surroundings: &HostEnvironment,
    loaded: &LoadedConfig,
    file: &Path,
    written: Sha256,
) -> Result<(), CliError> {
    match loaded.origin {
        ConfigOrigin::Named(_) => Ok(()),
        _ => agree_to(surroundings, file, written),
    }
}

/// Agrees to a file that was just written, as it was written.
pub(super) fn agree_to(surroundings: &HostEnvironment, file: &Path, written: Sha256) -> Result<(), CliError> {
    let directory = file.parent().map(real_path).unwrap_or_default();
    let file = file.file_name().map(|name| directory.join(name)).unwrap_or_default();
    let candidate = ConfigCandidate::read(&file)?;
    // Exactly what was written here: another process may have changed it since.
    if candidate.digest() != written {
        return Err(CliError::error(format!("`{}` was changed while it was being written", file.display()))
            .help("look at it with `toolgate trust`"));
    }
    let covered = candidate.cover(surroundings)?;
    check_usable(&covered, surroundings)?;
    Ok(AgreementStore::of(surroundings)?.store(&covered)?)
}

/// Installs the packages of these servers, and reports those that cannot be installed; returns whether all are.
pub(super) fn install_packages(settings: &Settings, names: &[String]) -> Result<bool, CliError> {
    let failed = mcp_packages::install_missing(settings, names)?;
    for (name, error) in &failed {
        warn(&escape_line(&format!("{name}: {error}")));
    }
    Ok(failed.is_empty())
}

/// Installs the packages of these servers, starts each once, and shows how they are.
pub(super) fn install_and_check(common: &GlobalOptions, names: &[String]) -> Result<u8, CliError> {
    let settings = resolve_settings(common, Trust::Guided)?;
    let is_installed = install_packages(&settings, names)?;
    let ready = mcp_list::ready_servers(common, &settings, names)?;
    match is_installed && ready.len() == names.len() {
        true => Ok(SUCCESS),
        false => {
            warn("not every server runs; `toolgate mcp logs NAME` shows what a server said");
            Ok(TOOL_ERROR)
        }
    }
}
