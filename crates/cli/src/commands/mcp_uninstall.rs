//! `toolgate mcp uninstall`: the entry for this gate out of the file of a client again.

use std::path::PathBuf;

use serde_json::json;
use toolgate_types::Trust;

use super::mcp_file::{ClientFile, agree};
use super::print;
use crate::arguments::{Common, McpInstall};
use crate::clients::{Facts, Uninstalled};
use crate::exit::{DONE, Failed};
use crate::settings::settle;
use crate::terminal::{complain, reveal_line};

pub(crate) fn run(common: &Common, wanted: &McpInstall) -> Result<u8, Failed> {
    let settings = settle(common, Trust::Guided)?;
    let facts = wanted.client.facts();
    let file = ClientFile::read(&settings, wanted, &facts)?;
    let place = file.path.display();
    let by_hand = |reason: &str| {
        Failed::usage(format!("`{place}` cannot be edited without touching the rest of it: {reason}"))
            .help(format!("take `{}` out by hand", wanted.name))
    };
    let found = match file.text().map_err(by_hand)? {
        text if text.trim().is_empty() => None,
        text => facts.file.uninstall(text, &wanted.name).map_err(|reason| by_hand(&reason))?,
    };
    let told = |state: &str, found: Option<&Uninstalled>, backup: Option<PathBuf>, text: &str| {
        tell(common, &facts, &file, Told { state, found, backup }, text)
    };
    let Some(found) = found else {
        return told("unchanged", None, None, &format!("{place} has no entry `{}`\n", wanted.name));
    };
    if !found.starts_a_gate() {
        return Err(Failed::usage(format!("`{}` in `{place}` does not start a gate", wanted.name))
            .help("say with --name what the client calls the gate"));
    }
    let entry = described(&wanted.name, &found);
    if wanted.dry_run {
        return told("shown", Some(&found), None, &format!("{place} would lose this entry:\n{entry}"));
    }
    agree(
        wanted,
        format!("{place} loses this entry:\n{entry}"),
        &format!("Take it out for {}?", facts.title),
    )?;
    let backup = file.write(&found.text, wanted.scope).map_err(|error| {
        Failed::usage(format!("`{place}` cannot be written: {error}")).help("take the entry out by hand")
    })?;
    let kept = backup.as_ref().map(|backup| format!("; as it was before: {}", backup.display()));
    let text = format!("took the entry out of {place}{}\n", kept.unwrap_or_default());
    let done = told("written", Some(&found), backup, &text)?;
    complain(&format!("to see it gone, {}", facts.next));
    Ok(done)
}

/// What it starts, and the names of what somebody added, which may be secret.
fn described(name: &str, found: &Uninstalled) -> String {
    let words = reveal_line(&found.words().join(" "));
    match found.other_keys() {
        keys if keys.is_empty() => format!("{name}: {words}\n"),
        keys => format!("{name}: {words}\nwith: {}\n", reveal_line(&keys.join(", "))),
    }
}

/// What became of a file.
struct Told<'t> {
    state: &'t str,
    found: Option<&'t Uninstalled>,
    backup: Option<PathBuf>,
}

fn tell(common: &Common, facts: &Facts, file: &ClientFile, told: Told<'_>, text: &str) -> Result<u8, Failed> {
    let Told { state, found, backup } = told;
    let text = match common.json {
        true => {
            let object = json!({
                "client": facts.title, "file": file.path.display().to_string(), "state": state,
                "written": state == "written", "backup": backup.map(|path| path.display().to_string()),
                "command": found.map(Uninstalled::words), "removed": found.map(Uninstalled::other_keys),
            });
            format!("{object}\n")
        }
        false => text.to_owned(),
    };
    print(&text).map(|_| DONE)
}
