//! `toolgate mcp import`: servers of a client, behind the gate.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;
use toolgate_manifest::{CannotInsert, ImportError, Imported, import_servers, insert_servers};

use super::print;
use crate::ambient::{
    Surroundings, read_bounded, read_file, read_regular_file, replace_file, write_new_file,
};
use crate::arguments::Common;
use crate::exit::{DONE, Failed};
use crate::settings::load;
use crate::terminal::{complain, reveal_line};

/// Where the servers go when there is no configuration yet.
const FILE: &str = "toolgate.yaml";

pub(crate) fn run(common: &Common, file: &Path, write: bool) -> Result<u8, Failed> {
    let surroundings = Surroundings::look()?;
    let text = read(file, &surroundings)?;
    let imported = import_servers(&text).map_err(|error| {
        let failed = Failed::usage(format!("`{}` cannot be imported: {error}", file.display()));
        match error {
            ImportError::NoServers => {
                failed.help("name a file with `mcpServers`, `servers`, `context_servers` or `mcp` in it")
            }
            ImportError::Unreadable(_) => {
                failed.help("name the JSON file in which the client keeps its servers")
            }
        }
    })?;
    tell(&imported);
    if imported.servers.is_empty() {
        return Err(Failed::usage("no server of it can be used").help("see what was said about each of them"));
    }
    let written = if write { Some(add(common, &surroundings, &imported)?) } else { None };
    let shown = written.as_ref().map(|file| surroundings.shown(file));
    let names: Vec<&str> = imported.servers.iter().map(|server| server.name.as_str()).collect();
    let told = match (common.json, &shown) {
        (true, _) => {
            let notes: Vec<&String> = imported
                .notes
                .iter()
                .chain(imported.servers.iter().flat_map(|server| &server.notes))
                .collect();
            format!(
                "{}\n",
                json!({"servers": names, "file": shown, "yaml": imported.render(), "notes": notes})
            )
        }
        (false, Some(file)) => format!("added {} to {file}\n", names.join(", ")),
        (false, None) => imported.render(),
    };
    print(&told)?;
    match shown {
        Some(_) => {
            complain("say what each server may see and reach, run `toolgate check`, then `toolgate mcp list`")
        }
        None => complain("nothing was written; --write adds it to the configuration"),
    }
    Ok(DONE)
}

fn read(file: &Path, surroundings: &Surroundings) -> Result<String, Failed> {
    let bytes = match file.to_str() {
        Some("-") => read_bounded(io::stdin()),
        _ => read_file(&surroundings.absolute(file)?),
    };
    let bytes =
        bytes.map_err(|error| Failed::usage(format!("`{}` cannot be read: {error}", file.display())))?;
    String::from_utf8(bytes).map_err(|_| Failed::usage(format!("`{}` is not UTF-8 text", file.display())))
}

/// Everything that has no counterpart, and every secret that was not copied.
fn tell(imported: &Imported) {
    for note in &imported.notes {
        complain(&reveal_line(note));
    }
    for server in &imported.servers {
        for note in &server.notes {
            complain(&reveal_line(&format!("{}: {note}", server.name)));
        }
    }
}

/// Adds the servers to the configuration in use, or to a new one.
fn add(common: &Common, surroundings: &Surroundings, imported: &Imported) -> Result<PathBuf, Failed> {
    let loaded = load(common, surroundings)?;
    let cannot = |file: &Path, error: io::Error| {
        Failed::usage(format!("`{}` cannot be written: {error}", surroundings.shown(file)))
    };
    let Some(file) = loaded.file else {
        let file = surroundings.current.join(FILE);
        // Nobody can tell every secret, so that others are not let to read what was imported.
        write_new_file(&file, imported.render().as_bytes(), 0o600).map_err(|error| cannot(&file, error))?;
        return Ok(file);
    };
    let bytes = read_regular_file(&file).map_err(|error| cannot(&file, error))?;
    let shown = surroundings.shown(&file);
    let text = String::from_utf8_lossy(&bytes);
    let edited = insert_servers(&shown, &text, imported).map_err(|error| {
        let failed = Failed::usage(format!("nothing was added to `{shown}`: {error}"));
        match error {
            CannotInsert::Declared(_) => failed.help("rename or remove one of the two"),
            CannotInsert::Mistakes(_) => {
                failed.help("correct the file; `toolgate check` says when nothing is left")
            }
            CannotInsert::Unclear => failed.help("leave out --write, and paste what is printed"),
        }
    })?;
    replace_file(&file, &bytes, edited.as_bytes()).map_err(|error| cannot(&file, error))?;
    Ok(file)
}
