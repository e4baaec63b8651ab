//! `toolgate mcp import`: moves the servers of a client behind the gate.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolgate_assembly::ambient::{
    HostEnvironment, read_bounded, read_file, read_regular_file, real_path, replace_file, this_program,
    write_new_file,
};
use toolgate_assembly::settings::LoadedConfig;
use toolgate_assembly::trust::ConfigOrigin;
use toolgate_clients::{
    ImportError, Imported, ImportedServer, InsertError, LeftOut, import_text, insert_servers,
};

use super::print;
use crate::arguments::{GlobalOptions, McpImport};
use crate::exit::{CliError, SUCCESS};
use crate::startup::load_config;
use crate::terminal::{escape_line, warn};

/// The configuration that is created if there is none.
const DEFAULT_CONFIG_FILE: &str = "toolgate.yaml";

pub(crate) fn run(common: &GlobalOptions, wanted: &McpImport) -> Result<u8, CliError> {
    let surroundings = HostEnvironment::detect()?;
    let mut imported = parse_servers(&wanted.file, &read(&wanted.file, &surroundings)?)?;
    imported.leave_out_gate(is_this_program);
    select_servers(&mut imported, &wanted.servers)?;
    let unusable = imported.servers.is_empty();
    let (mut declared, mut file, mut is_found) = (Vec::new(), None, false);
    if wanted.write {
        let loaded = load_config(common, &surroundings)?;
        declared = remove_declared(&mut imported, &loaded);
        if !imported.servers.is_empty() {
            file = Some(surroundings.display_path(&add_to_config(&surroundings, loaded.file(), &imported)?));
            is_found = !matches!(loaded.origin, ConfigOrigin::Named(_));
        }
    }
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
    let names: Vec<&str> = imported.servers.iter().map(|server| server.name.as_str()).collect();
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
        (false, None) if wanted.write => String::new(),
        (false, None) => imported.render(),
    })?;
    if !declared.is_empty() {
        warn(&format!("declared already, and left as they are: {}", declared.join(", ")));
    }
    match file {
        Some(_) => {
            let agree = if is_found { ", agree to it with `toolgate trust`" } else { "" };
            warn(&format!(
                "say what each server may see and reach, run `toolgate check`{agree}, then `toolgate mcp list`"
            ));
        }
        None if wanted.write => warn("nothing was written; there is nothing to add"),
        None => warn("nothing was written; --write adds it to the configuration"),
    }
    Ok(SUCCESS)
}

/// The servers of a JSON file, or of a TOML file as Codex has it.
fn parse_servers(file: &Path, text: &str) -> Result<Imported, CliError> {
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
fn is_this_program(program: &str) -> bool {
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
fn remove_declared(imported: &mut Imported, loaded: &LoadedConfig) -> Vec<String> {
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
fn notes(imported: &Imported) -> Vec<String> {
    let of_servers = imported
        .servers
        .iter()
        .flat_map(|server| server.notes.iter().map(move |note| format!("{}: {note}", server.name)));
    imported.notes.iter().cloned().chain(of_servers).collect()
}

/// Adds the servers to the configuration in use, or to a new one.
fn add_to_config(
    surroundings: &HostEnvironment,
    file: Option<&PathBuf>,
    imported: &Imported,
) -> Result<PathBuf, CliError> {
    let cannot = |file: &Path, error: io::Error| {
        CliError::usage(format!("`{}` cannot be written: {error}", surroundings.display_path(file)))
    };
    let Some(file) = file else {
        let file = surroundings.current_dir.join(DEFAULT_CONFIG_FILE);
        // Not every secret can be recognised, so the imported file is readable by its owner only.
        write_new_file(&file, imported.render().as_bytes(), 0o600).map_err(|error| cannot(&file, error))?;
        return Ok(file);
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
    Ok(file.clone())
}
