//! `toolgate mcp wrap` and `toolgate mcp unwrap`: the servers of a client run behind the gate, and the client has the gate in their place. What the client's
//! file was before is kept, byte for byte.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toolgate_assembly::ambient::{
    CONFIG_NAME, HostEnvironment, exists, open_private_directory, open_private_directory_to_write, real_path,
    this_program, write_new_file,
};
use toolgate_assembly::atomic_file::AtomicFile;
use toolgate_assembly::gate_builder::WRAPPED;
use toolgate_assembly::settings::{LoadedConfig, Settings};
use toolgate_clients::{GateEntry, Imported, LeftOut, McpClient, ServerEntry};
use toolgate_types::{Sha256, Trust};

use super::mcp_adopt::{agree_to, install_packages, propose_browser, propose_mounts, write_config};
use super::mcp_file::{ClientFile, confirm_change};
use super::mcp_import::{is_this_program, notes, parse_servers, remove_declared};
use super::mcp_list::ready_servers;
use super::mcp_programs::{in_project_of, name_programs, propose_reads, shown_toolchains, workspace};
use super::mcp_server_entry::{FoundConfig, STARTED_IN_PROJECT, gate_arguments, portable_arguments};
use super::print;
use crate::arguments::{GlobalOptions, InstallScope, McpInstall, McpUnwrap, McpWrap};
use crate::exit::{CliError, SUCCESS, TOOL_ERROR};
use crate::startup::{load_config, resolve_settings};
use crate::terminal::{escape_line, warn};

/// What a client's file was before.
#[derive(Debug, Serialize, Deserialize)]
struct WrappedFile {
    path: PathBuf,
    before: String,
    /// The digest of what was written in its place.
    written: String,
    /// What the client calls the gate.
    #[serde(default)]
    entry: String,
}

pub(crate) fn wrap(common: &GlobalOptions, wanted: &McpWrap) -> Result<u8, CliError> {
    let (install, facts) = (&wanted.install, wanted.install.client);
    let surroundings = HostEnvironment::detect()?;
    let plain = resolve_settings(&without_config(common), Trust::Guided)?;
    let file = ClientFile::read(&plain, install, facts)?;
    let text = file.text().map_err(CliError::usage)?.to_owned();
    let (imported_text, about_project) = in_project_of(common, &surroundings, &file.path, text.clone());
    let mut imported = parse_servers(&file.path, &imported_text)?;
    imported.notes.extend(about_project);
    imported.leave_out_gate(is_this_program);
    let portable = portable_config(common, &surroundings, install);
    let config = match &portable {
        Some(config) => config.clone(),
        None => config_file(common, &surroundings, facts, install.scope)?,
    };
    // One of the project counts if this person agreed to it, as for every gate that finds it.
    let behind = match portable.is_some() {
        true => common.clone(),
        false => GlobalOptions { config: Some(config.clone()), no_config: false, ..common.clone() },
    };
    let loaded = if exists(&config) { Some(load_config(&behind, &surroundings)?) } else { None };
    let taken: Vec<(String, String)> =
        imported.servers.iter().map(|server| (server.name.clone(), server.client_name.clone())).collect();
    if taken.is_empty() {
        return Err(CliError::usage(format!(
            "`{}` has no server to put behind the gate",
            file.path.display()
        )));
    }
    let about_browsers = propose_browser(&mut imported);
    imported.notes.extend(about_browsers);
    let toolchains = shown_toolchains(&surroundings, loaded.as_ref());
    let about_programs = name_programs(&mut imported, &surroundings, &toolchains);
    imported.notes.extend(about_programs);
    let declared = loaded.as_ref().map(|loaded| remove_declared(&mut imported, loaded)).unwrap_or_default();
    let workspace = workspace(common, &surroundings, loaded.as_ref());
    let about_mounts = propose_mounts(&mut imported, &surroundings, loaded.as_ref(), &wanted.rw, &workspace);
    imported.notes.extend(about_mounts);
    let about_reads = propose_reads(&mut imported, &surroundings, loaded.as_ref(), &workspace, &toolchains);
    imported.notes.extend(about_reads);
    notes(&imported).iter().for_each(|note| warn(&escape_line(note)));
    for LeftOut { name, reason } in &imported.left_out {
        warn(&escape_line(&format!("`{name}` stays in the client: {reason}")));
    }
    let entry = GateEntry::from(match portable.is_some() {
        true => portable_entry(common, facts, loaded.as_ref())?,
        false => entry(&behind, &plain, facts)?,
    });
    let snippet = facts.file.snippet(&install.name, &entry).map_err(CliError::error)?;
    let shown = plan_text(&file, &config, &imported, &taken, &snippet);
    if install.dry_run {
        return print(&shown).map(|_| SUCCESS);
    }
    confirm_change(install, shown, &format!("Do this for {}?", facts.title))?;
    if !imported.servers.is_empty() {
        let written = add_to_config(common, &surroundings, &config, &imported)?;
        if portable.is_some() {
            agree_to(&surroundings, &config, written)?;
        }
    }
    let names: Vec<String> = taken.iter().map(|(name, _)| name.clone()).collect();
    let settings = resolve_settings(&behind, Trust::Guided)?;
    install_packages(&settings, &names)?;
    let ready = ready_servers(&behind, &settings, &names)?;
    let mut edited = text.clone();
    let mut moved = Vec::new();
    for (name, client_name) in
        taken.iter().filter(|(name, _)| declared.contains(name) || ready.contains(name))
    {
        match facts.file.uninstall(&edited, client_name).map_err(CliError::error)? {
            Some(removed) if ready.contains(name) => {
                edited = removed.text;
                moved.push(client_name.as_str());
            }
            _ => warn(&escape_line(&format!("`{client_name}` stays in the client's file"))),
        }
    }
    for (name, client_name) in taken.iter().filter(|(name, _)| !ready.contains(name)) {
        warn(&escape_line(&format!(
            "`{client_name}` does not run behind the gate, so it stays in the client's file; `toolgate --config {} mcp logs {name}` shows why",
            config.display()
        )));
    }
    if moved.is_empty() {
        return Err(CliError::error("no server runs behind the gate, so the client's file stays as it is"));
    }
    let edited = facts.file.install(&edited, &install.name, &entry).map_err(CliError::error)?.text;
    let entry = install.name.clone();
    keep(&plain, &WrappedFile { path: file.path.clone(), before: text, written: digest(&edited), entry })?;
    file.write(&edited, install.scope)
        .map_err(|error| CliError::usage(format!("`{}` cannot be written: {error}", file.path.display())))?;
    print(&format!(
        "{} of {} are behind the gate now; `toolgate mcp unwrap --client {}` puts the file back\n",
        escape_line(&moved.join(", ")),
        file.path.display(),
        facts.name
    ))?;
    warn(&format!("to use it, {}", facts.next));
    Ok(if moved.len() == taken.len() { SUCCESS } else { TOOL_ERROR })
}

pub(crate) fn unwrap(common: &GlobalOptions, wanted: &McpUnwrap) -> Result<u8, CliError> {
    let (install, facts) = (&wanted.install, wanted.install.client);
    let plain = resolve_settings(&without_config(common), Trust::Guided)?;
    let file = ClientFile::read(&plain, install, facts)?;
    let place = file.path.display().to_string();
    let directory = open_private_directory_to_write(&plain.state_dir.join(WRAPPED))
        .map_err(|error| CliError::error(format!("the state directory cannot be used: {error}")))?;
    let name = record_name(&file.path);
    let record = AtomicFile::new(&directory, OsStr::new(&name));
    let kept: WrappedFile = match record.read() {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
            CliError::error(format!("what was kept of `{place}` cannot be read: {error}"))
        })?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(CliError::usage(format!("`{place}` was not wrapped")));
        }
        Err(error) => {
            return Err(CliError::error(format!("what was kept of `{place}` cannot be read: {error}")));
        }
    };
    let now = file.text().map_err(CliError::usage)?;
    let name_of_gate = if kept.entry.is_empty() { &install.name } else { &kept.entry };
    let (text, plan) = match digest(now) == kept.written || wanted.force {
        true => (kept.before.clone(), format!("{place} becomes what it was before `mcp wrap`")),
        false => {
            let restored =
                facts.file.restore(now, &kept.before, name_of_gate, is_this_program).map_err(|reason| {
                    CliError::usage(format!(
                        "`{place}` was changed since it was wrapped, and cannot be edited: {reason}"
                    ))
                    .help("--force puts back what it was before; what it is now is kept beside it")
                })?;
            let names = if restored.names.is_empty() { "none".to_owned() } else { restored.names.join(", ") };
            let plan = format!(
                "{place} was changed since it was wrapped: it gets its servers back ({}), and what else was changed stays",
                escape_line(&names)
            );
            (restored.text, plan)
        }
    };
    if install.dry_run {
        return print(&format!("{plan}\n")).map(|_| SUCCESS);
    }
    confirm_change(
        install,
        format!("{plan}; its servers run without the gate again\n"),
        &format!("Put it back for {}?", facts.title),
    )?;
    file.write(&text, install.scope)
        .map_err(|error| CliError::usage(format!("`{place}` cannot be written: {error}")))?;
    let _ = directory.remove_file(&name);
    let done = if text == kept.before { format!("{place} is as it was") } else { plan };
    print(&format!("{done}\n"))?;
    warn(&format!("to use it, {}", facts.next));
    Ok(SUCCESS)
}

/// All that is about to happen.
fn plan_text(
    file: &ClientFile,
    config: &Path,
    imported: &Imported,
    taken: &[(String, String)],
    snippet: &str,
) -> String {
    let names: Vec<&str> = taken.iter().map(|(_, client_name)| client_name.as_str()).collect();
    let added: String = imported.render().lines().map(|line| format!("{}\n", escape_line(line))).collect();
    let added = if imported.servers.is_empty() {
        String::new()
    } else {
        format!("{} gets:\n{added}", config.display())
    };
    format!(
        "{added}{} loses {}, where they run behind the gate, and gets:\n{}",
        file.path.display(),
        escape_line(&names.join(", ")),
        snippet.lines().map(|line| format!("{}\n", escape_line(line))).collect::<String>()
    )
}

fn add_to_config(
    common: &GlobalOptions,
    surroundings: &HostEnvironment,
    config: &Path,
    imported: &Imported,
) -> Result<Sha256, CliError> {
    let cannot =
        |error: io::Error| CliError::usage(format!("`{}` cannot be written: {error}", config.display()));
    if !exists(config) {
        if let Some(directory) = config.parent() {
            open_private_directory(directory).map_err(cannot)?;
        }
        write_new_file(config, b"", 0o600).map_err(cannot)?;
    }
    let named = GlobalOptions { config: Some(config.to_path_buf()), no_config: false, ..common.clone() };
    let loaded = load_config(&named, surroundings)?;
    write_config(surroundings, &loaded, imported).map(|(_, written)| written)
}

/// The configuration of a project, for an entry that is the same for all who open it; `None` where the entry has to name a path.
fn portable_config(
    common: &GlobalOptions,
    surroundings: &HostEnvironment,
    install: &McpInstall,
) -> Option<PathBuf> {
    let is_of_project = install.scope == InstallScope::Project && install.file.is_none() && !common.no_config;
    let is_portable = is_of_project && portable_arguments(common, install.client.name, None).is_some();
    is_portable.then(|| surroundings.current_dir.join(CONFIG_NAME))
}

/// The entry for all who open the project: each gate finds the configuration in it.
fn portable_entry(
    common: &GlobalOptions,
    facts: &McpClient,
    loaded: Option<&LoadedConfig>,
) -> Result<ServerEntry, CliError> {
    let names_workspace = loaded.is_some_and(|loaded| loaded.config.workspace.is_some());
    let arguments = portable_arguments(common, facts.name, Some(FoundConfig { names_workspace }));
    warn(&format!(
        "the entry is for all who open the project: `toolgate` has to be in their PATH, and each agrees to `{CONFIG_NAME}` with `toolgate trust`"
    ));
    let arguments = arguments.ok_or_else(|| CliError::error("the entry would name a path of yours"))?;
    Ok(ServerEntry { program: "toolgate".to_owned(), arguments })
}

/// The configuration with the servers of a client: the named one, or one for this client. The entry names it, so it is obeyed without a search.
fn config_file(
    common: &GlobalOptions,
    surroundings: &HostEnvironment,
    facts: &McpClient,
    scope: InstallScope,
) -> Result<PathBuf, CliError> {
    if let Some(config) = &common.config {
        return Ok(surroundings.absolute(config)?);
    }
    let in_home = || surroundings.home.as_ref().map(|home| home.join(".config"));
    let home = surroundings.config_home.clone().or_else(in_home);
    let home = home.ok_or_else(|| {
        CliError::usage("there is no home folder: HOME is not set").help("name a configuration with --config")
    })?;
    let name = match scope {
        InstallScope::User => format!("{}.yaml", facts.name),
        InstallScope::Project => {
            let digest = digest(&surroundings.current_dir.display().to_string());
            format!("{}-{}.yaml", facts.name, digest.chars().take(12).collect::<String>())
        }
    };
    Ok(home.join("toolgate").join(name))
}

/// The entry for the gate. Where a client starts its servers in the directory of the session, that is the workspace.
fn entry(behind: &GlobalOptions, settings: &Settings, facts: &McpClient) -> Result<ServerEntry, CliError> {
    let program = this_program().ok().and_then(|path| path.to_str().map(str::to_owned));
    let program = program.ok_or_else(|| CliError::error("it is not known where this program is"))?;
    let follows = behind.workspace.is_none() && STARTED_IN_PROJECT.contains(&facts.name);
    let workspace = (!follows).then_some(settings.workspace.as_path());
    let absolute = |path: &Path| settings.environment.absolute(path).ok();
    let arguments = gate_arguments(behind, behind.config.as_deref(), workspace, absolute)
        .ok_or_else(|| CliError::usage("a path of the options is not UTF-8 text"))?;
    Ok(ServerEntry { program, arguments })
}

fn without_config(common: &GlobalOptions) -> GlobalOptions {
    GlobalOptions { config: None, no_config: true, ..common.clone() }
}

fn keep(settings: &Settings, wrapped: &WrappedFile) -> Result<(), CliError> {
    let cannot = |error: io::Error| CliError::error(format!("the client's file cannot be kept: {error}"));
    let directory = open_private_directory_to_write(&settings.state_dir.join(WRAPPED)).map_err(cannot)?;
    let name = record_name(&wrapped.path);
    let record = AtomicFile::new(&directory, OsStr::new(&name));
    let mut wrapped = WrappedFile {
        path: wrapped.path.clone(),
        before: wrapped.before.clone(),
        written: wrapped.written.clone(),
        entry: wrapped.entry.clone(),
    };
    // Wrapped once more: the file before the first time is the one to put back, if nothing but the gate changed it since.
    if let Some(first) =
        record.read().ok().and_then(|bytes| serde_json::from_slice::<WrappedFile>(&bytes).ok())
        && first.written == digest(&wrapped.before)
    {
        wrapped.before = first.before;
    }
    let text = serde_json::to_vec(&wrapped).map_err(|error| CliError::error(error.to_string()))?;
    match record.write_new(&text, 0o600) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            record.replace_private(&text).map_err(cannot)
        }
        other => other.map_err(cannot),
    }
}

fn record_name(path: &Path) -> String {
    let real = real_path(path);
    format!("{}.json", digest(&real.display().to_string()).chars().take(24).collect::<String>())
}

fn digest(text: &str) -> String {
    Sha256::of(text.as_bytes()).to_string()
}
