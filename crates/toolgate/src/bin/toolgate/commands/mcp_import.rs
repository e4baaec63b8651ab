//! `toolgate mcp import`: moves the servers of a client behind the gate.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolgate_assembly::ambient::{HostEnvironment, read_bounded, read_file, real_path, this_program};
use toolgate_assembly::settings::LoadedConfig;
use toolgate_assembly::trust::ConfigOrigin;
use toolgate_clients::{ImportError, Imported, ImportedServer, LeftOut, import_text};

use super::mcp_adopt::{
    agree, install_and_check, propose_browser, propose_mounts, wants_to_run, write_config,
};
use super::mcp_file::user_file;
use super::mcp_programs::{in_project_of, name_programs, propose_reads, shown_toolchains, workspace};
use super::print;
use crate::arguments::{GlobalOptions, McpImport};
use crate::exit::{CliError, DENIED, SUCCESS};
use crate::startup::load_config;
use crate::terminal::{escape_line, warn};

pub(crate) fn run(common: &GlobalOptions, wanted: &McpImport) -> Result<u8, CliError> {
    let surroundings = HostEnvironment::detect()?;
    let file = match (&wanted.file, wanted.client) {
        (Some(file), _) => file.clone(),
        (None, Some(client)) => user_file(&surroundings, client)?,
        (None, None) => {
            return Err(CliError::usage("it is not said what to import")
                .help("name a FILE, or a client with --client"));
        }
    };
    let (text, about_project) = in_project_of(common, &surroundings, &file, read(&file, &surroundings)?);
    let mut imported = parse_servers(&file, &text)?;
    imported.notes.extend(about_project);
    imported.leave_out_gate(is_this_program);
    // With a client, the first word is a server already.
    select_servers(&mut imported, &wanted.servers)?;
    adopt(common, imported, Adoption { write: wanted.write, yes: wanted.yes, writable: &wanted.rw })
}

/// How servers are added.
pub(super) struct Adoption<'o> {
    /// Whether the configuration is written.
    pub(super) write: bool,
    /// Nothing is asked.
    pub(super) yes: bool,
    /// Directories that the servers may change.
    pub(super) writable: &'o [PathBuf],
}

/// Shows the servers, adds them to the configuration, and makes them run if the person agrees.
pub(super) fn adopt(
    common: &GlobalOptions,
    mut imported: Imported,
    how: Adoption<'_>,
) -> Result<u8, CliError> {
    let surroundings = HostEnvironment::detect()?;
    let unusable = imported.servers.is_empty();
    let loaded = if how.write { Some(load_config(common, &surroundings)?) } else { None };
    let about_browsers = propose_browser(&mut imported);
    imported.notes.extend(about_browsers);
    let toolchains = shown_toolchains(&surroundings, loaded.as_ref());
    let about_programs = name_programs(&mut imported, &surroundings, &toolchains);
    imported.notes.extend(about_programs);
    let declared = loaded.as_ref().map(|loaded| remove_declared(&mut imported, loaded)).unwrap_or_default();
    let workspace = workspace(common, &surroundings, loaded.as_ref());
    let about_mounts =
        propose_mounts(&mut imported, &surroundings, loaded.as_ref(), how.writable, &workspace);
    imported.notes.extend(about_mounts);
    let about_reads = propose_reads(&mut imported, &surroundings, loaded.as_ref(), &workspace, &toolchains);
    imported.notes.extend(about_reads);
    let notes = notes(&imported);
    notes.iter().for_each(|note| warn(&escape_line(note)));
    for LeftOut { name, reason } in &imported.left_out {
        warn(&escape_line(&format!("`{name}` was left out: {reason}")));
    }
    if unusable {
        return Err(
            CliError::usage("no server of it can be used").help("see what was said about each of them")
        );
    }
    let mut file = None;
    let mut runs = None;
    if let Some(loaded) = loaded.as_ref().filter(|_| !imported.servers.is_empty()) {
        let shown = escape_lines(&imported.render());
        runs = wants_to_run(how.yes, shown, "Add this, install its packages, and start each server once?");
        if runs == Some(false) {
            return Err(CliError { code: DENIED, ..CliError::error("nothing was written") });
        }
        let (path, written) = write_config(&surroundings, loaded, &imported)?;
        file = Some(surroundings.display_path(&path));
        if runs == Some(true) {
            agree(&surroundings, loaded, &path, written)?;
        }
    }
    let names: Vec<String> = imported.servers.iter().map(|server| server.name.clone()).collect();
    print(&match (common.json, &file) {
        (true, _) => {
            let left_out = |LeftOut { name, reason }: &LeftOut| json!({"name": name, "reason": reason});
            let left_out: Value = imported.left_out.iter().map(left_out).collect();
            let told = json!({
                "servers": names, "file": file, "yaml": imported.render(),
                "notes": notes, "leftOut": left_out, "declared": declared,
            });
            format!("{told}\n")
        }
        (false, Some(file)) => format!("added {} to {file}\n", names.join(", ")),
        (false, None) if how.write => String::new(),
        (false, None) => imported.render(),
    })?;
    if !declared.is_empty() {
        warn(&format!("declared already, and left as they are: {}", declared.join(", ")));
    }
    match file {
        Some(_) if runs == Some(true) => return install_and_check(common, &names),
        Some(_) => {
            let is_found = loaded.is_some_and(|loaded| !matches!(loaded.origin, ConfigOrigin::Named(_)));
            let agree = if is_found { ", agree to it with `toolgate trust`" } else { "" };
            warn(&format!(
                "say what each server may see and reach, run `toolgate check`{agree}, install packages with `toolgate mcp update`, then `toolgate mcp list`; --yes does all of it"
            ));
        }
        None if how.write && how.yes && !declared.is_empty() => return install_and_check(common, &declared),
        None if how.write => warn("nothing was written; there is nothing to add"),
        None => warn("nothing was written; --write adds it to the configuration"),
    }
    Ok(SUCCESS)
}

fn escape_lines(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", escape_line(line))).collect()
}

/// The servers of a JSON file, or of a TOML file as Codex has it.
pub(super) fn parse_servers(file: &Path, text: &str) -> Result<Imported, CliError> {
    let cannot = |error: &dyn std::fmt::Display, help: &str| {
        CliError::usage(format!("`{}` cannot be imported: {error}", file.display())).help(help)
    };
    import_text(text).map_err(|error| match error {
        ImportError::Neither { in_json, in_toml } => {
            let is_toml = file.extension().is_some_and(|extension| extension == "toml");
            let error = if is_toml { in_toml } else { in_json.to_string() };
            cannot(&error, "name the JSON or TOML file in which the client keeps its servers")
        }
        error => cannot(
            &error,
            "name a file with `mcpServers`, `servers`, `context_servers`, `mcp` or `mcp_servers` in it",
        ),
    })
}

/// Whether a program is this executable, under whatever name.
pub(super) fn is_this_program(program: &str) -> bool {
    let path = Path::new(program);
    path.is_absolute() && this_program().is_ok_and(|own| real_path(&own) == real_path(path))
}

/// Keeps only the selected servers, by their name here or in the client.
fn select_servers(imported: &mut Imported, wanted: &[String]) -> Result<(), CliError> {
    if wanted.is_empty() {
        return Ok(());
    }
    let is_named =
        |server: &ImportedServer, name: &String| server.name == *name || server.client_name == *name;
    for name in wanted {
        let is_left_out = imported.left_out.iter().any(|left| left.name == *name);
        if !is_left_out && !imported.servers.iter().any(|server| is_named(server, name)) {
            let known: Vec<&str> = imported.servers.iter().map(|server| server.name.as_str()).collect();
            return Err(CliError::usage(format!("there is no server `{name}` in the file"))
                .help(format!("there are {}", known.join(", "))));
        }
    }
    imported.servers.retain(|server| wanted.iter().any(|name| is_named(server, name)));
    imported.left_out.retain(|left| wanted.contains(&left.name));
    Ok(())
}

/// Removes servers that the configuration already has, and returns the names of those that are identical.
pub(super) fn remove_declared(imported: &mut Imported, loaded: &LoadedConfig) -> Vec<String> {
    let (mut same, mut other) = (Vec::new(), Vec::new());
    imported.servers.retain(|server| {
        let declared = loaded.config.mcp_servers.iter().find(|known| known.name.value == server.name);
        match declared {
            None => return true,
            Some(declared) if server.matches(declared) => same.push(server.name.clone()),
            Some(_) => other.push(LeftOut {
                name: server.client_name.clone(),
                reason: format!(
                    "`{}` is declared already, and is another command or address there; rename or remove one of the two",
                    server.name
                ),
            }),
        }
        false
    });
    imported.left_out.extend(other);
    same
}

fn read(file: &Path, surroundings: &HostEnvironment) -> Result<String, CliError> {
    let bytes = match file.to_str() {
        Some("-") => read_bounded(io::stdin()),
        _ => read_file(&surroundings.absolute(file)?),
    };
    let bytes =
        bytes.map_err(|error| CliError::usage(format!("`{}` cannot be read: {error}", file.display())))?;
    String::from_utf8(bytes).map_err(|_| CliError::usage(format!("`{}` is not UTF-8 text", file.display())))
}

/// Everything without an equivalent, and every secret that was not copied.
pub(super) fn notes(imported: &Imported) -> Vec<String> {
    let of_servers = imported
        .servers
        .iter()
        .flat_map(|server| server.notes.iter().map(move |note| format!("{}: {note}", server.name)));
    imported.notes.iter().cloned().chain(of_servers).collect()
}
