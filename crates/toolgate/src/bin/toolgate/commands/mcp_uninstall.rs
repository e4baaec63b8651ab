//! `toolgate mcp uninstall`: removes the entry for this gate from the configuration of a client.

use std::path::PathBuf;

use serde_json::json;
use toolgate_clients::{McpClient, RemovedEntry};
use toolgate_types::Trust;

use super::mcp_file::{ClientFile, confirm_change};
use super::print;
use crate::arguments::{GlobalOptions, McpInstall};
use crate::exit::{CliError, SUCCESS};
use crate::startup::resolve_settings;
use crate::terminal::{escape_line, warn};

pub(crate) fn run(common: &GlobalOptions, wanted: &McpInstall) -> Result<u8, CliError> {
    let settings = resolve_settings(common, Trust::Guided)?;
    let facts = wanted.client;
    let file = ClientFile::read(&settings, wanted, facts)?;
    let place = file.path.display();
    let by_hand = |reason: &str| {
        CliError::usage(format!("`{place}` cannot be edited without touching the rest of it: {reason}"))
            .help(format!("take `{}` out by hand", wanted.name))
    };
    let found = match file.text().map_err(by_hand)? {
        text if text.trim().is_empty() => None,
        text => facts.file.uninstall(text, &wanted.name).map_err(|reason| by_hand(&reason))?,
    };
    let told = |state: &str, found: Option<&RemovedEntry>, backup: Option<PathBuf>, text: &str| {
        print_report(common, facts, &file, UninstallReport { state, found, backup }, text)
    };
    let Some(found) = found else {
        return told("unchanged", None, None, &format!("{place} has no entry `{}`\n", wanted.name));
    };
    if !found.is_gate_entry() {
        return Err(CliError::usage(format!("`{}` in `{place}` does not start a gate", wanted.name))
            .help("say with --name what the client calls the gate"));
    }
    let entry = described(&wanted.name, &found);
    if wanted.dry_run {
        return told("shown", Some(&found), None, &format!("{place} would lose this entry:\n{entry}"));
    }
    confirm_change(
        wanted,
        format!("{place} loses this entry:\n{entry}"),
        &format!("Take it out for {}?", facts.title),
    )?;
    let backup = file.write(&found.text, wanted.scope).map_err(|error| {
        CliError::usage(format!("`{place}` cannot be written: {error}")).help("take the entry out by hand")
    })?;
    let kept = backup.as_ref().map(|backup| format!("; as it was before: {}", backup.display()));
    let text = format!("took the entry out of {place}{}\n", kept.unwrap_or_default());
    let done = told("written", Some(&found), backup, &text)?;
    warn(&format!("to see it gone, {}", facts.next));
    Ok(done)
}

/// The command or the address of the entry, and the names of its other keys, whose values may be secret.
fn described(name: &str, found: &RemovedEntry) -> String {
    let words = match found.address() {
        Some(address) => escape_line(address),
        None => escape_line(&found.command_line().join(" ")),
    };
    match found.other_keys() {
        keys if keys.is_empty() => format!("{name}: {words}\n"),
        keys => format!("{name}: {words}\nwith: {}\n", escape_line(&keys.join(", "))),
    }
}

/// The result for a file.
struct UninstallReport<'t> {
    state: &'t str,
    found: Option<&'t RemovedEntry>,
    backup: Option<PathBuf>,
}

fn print_report(
    common: &GlobalOptions,
    facts: &McpClient,
    file: &ClientFile,
    told: UninstallReport<'_>,
    text: &str,
) -> Result<u8, CliError> {
    let UninstallReport { state, found, backup } = told;
    let text = match common.json {
        true => {
            let object = json!({
                "client": facts.title, "file": file.path.display().to_string(), "state": state,
                "written": state == "written", "backup": backup.map(|path| path.display().to_string()),
                "command": found.map(RemovedEntry::command_line), "removed": found.map(RemovedEntry::other_keys),
            });
            format!("{object}\n")
        }
        false => text.to_owned(),
    };
    print(&text).map(|_| SUCCESS)
}
