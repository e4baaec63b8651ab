//! `toolgate mcp install`: an entry for this gate in the file of a client.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolgate_types::Trust;

use super::mcp_file::{ClientFile, agree};
use super::print;
use crate::ambient::{open_folder, this_program};
use crate::arguments::{Common, McpInstall};
use crate::clients::{Entry, Facts, Installed, arguments};
use crate::exit::{DONE, Failed};
use crate::settings::{Settings, settle};
use crate::terminal::{complain, reveal_line};
use crate::trust::Origin;

pub(crate) fn run(common: &Common, wanted: &McpInstall) -> Result<u8, Failed> {
    let settings = settle(common, Trust::Guided)?;
    refuse_missing_folders(common, &settings)?;
    let facts = wanted.client.facts();
    let file = ClientFile::read(&settings, wanted, &facts)?;
    let entry = entry(common, &settings)?;
    let shown = facts.file.shown(&wanted.name, &entry).map_err(Failed::error)?;
    if let Origin::Found(file) = &settings.loaded.origin {
        let file = file.display();
        complain(&format!(
            "the entry names {file}, which the client's gate then obeys also after it changes; pass --no-config to leave it out"
        ));
    }
    if common.token.is_some() {
        complain("the token is not written down; give it to the client's own environment as TOOLGATE_TOKEN");
    }
    let by_hand = |reason: &str| by_hand(&file.path, reason, &shown);
    let text = file.text().map_err(by_hand)?;
    let edited = facts.file.install(text, &wanted.name, &entry).map_err(|reason| by_hand(&reason))?;
    Change { facts: &facts, file: &file, shown: &shown, edited }.make(common, wanted)
}

/// What became of a file.
enum State {
    /// Somebody only looked.
    Shown,
    /// It says all of it already.
    Unchanged,
    /// It was written, and what it held before is kept there.
    Written(Option<PathBuf>),
}

impl State {
    fn as_str(&self) -> &'static str {
        match self {
            Self::Shown => "shown",
            Self::Unchanged => "unchanged",
            Self::Written(_) => "written",
        }
    }
}

/// What is to become of a file.
struct Change<'c> {
    facts: &'c Facts,
    file: &'c ClientFile,
    /// The entry by itself.
    shown: &'c str,
    edited: Installed,
}

impl Change<'_> {
    fn make(&self, common: &Common, wanted: &McpInstall) -> Result<u8, Failed> {
        let (place, older) = (self.file.path.display(), self.older());
        if self.file.read.as_deref() == Some(self.edited.text.as_bytes()) {
            return self.tell(common, &State::Unchanged, &format!("{place} has this entry already\n"));
        }
        if wanted.dry_run {
            let told = format!("{place} would get this entry:\n{}{older}", self.shown);
            return self.tell(common, &State::Shown, &told);
        }
        let shown = format!("{place} gets this entry:\n{}{older}", self.shown);
        agree(wanted, shown, &format!("Write it for {}?", self.facts.title))?;
        let backup = self.file.write(&self.edited.text, wanted.scope).map_err(|error| {
            Failed::usage(format!("`{place}` cannot be written: {error}"))
                .help("paste the entry by hand; --dry-run shows it")
        })?;
        let kept = backup.as_ref().map(|backup| format!("; as it was before: {}", backup.display()));
        let told = format!("wrote the entry into {place}{}\n{older}", kept.unwrap_or_default());
        let done = self.tell(common, &State::Written(backup), &told)?;
        complain(&format!("to use it, {}", self.facts.next));
        Ok(done)
    }

    /// What becomes of what an older entry says besides. It is named only: it may be a secret.
    fn older(&self) -> String {
        let line = |names: &[String], what: &str| match names {
            [] => String::new(),
            names => format!("{what}: {}\n", reveal_line(&names.join(", "))),
        };
        let Installed { kept, left_out, .. } = &self.edited;
        line(kept, "kept of the entry that was there") + &line(left_out, "removed from it")
    }

    fn tell(&self, common: &Common, state: &State, text: &str) -> Result<u8, Failed> {
        let told = match common.json {
            true => {
                let backup = match state {
                    State::Written(backup) => backup.as_ref().map(|path| path.display().to_string()),
                    State::Shown | State::Unchanged => None,
                };
                let object = json!({
                    "client": self.facts.title, "file": self.file.path.display().to_string(),
                    "entry": self.entry(), "state": state.as_str(),
                    "written": matches!(state, State::Written(_)), "backup": backup,
                    "kept": self.edited.kept, "removed": self.edited.left_out,
                });
                format!("{object}\n")
            }
            false => text.to_owned(),
        };
        print(&told).map(|_| DONE)
    }

    /// The entry as its file has it: a value where that is JSON, and text where it is not.
    fn entry(&self) -> Value {
        let value = self.facts.file.is_json().then(|| serde_json::from_str(self.shown).ok()).flatten();
        value.unwrap_or_else(|| Value::String(self.shown.to_owned()))
    }
}

fn by_hand(file: &Path, reason: &str, shown: &str) -> Failed {
    Failed::usage(format!("`{}` cannot be edited without touching the rest of it: {reason}", file.display()))
        .help(format!("paste this by hand:\n{shown}"))
}

/// A client starts the gate out of sight, and a gate over a folder that is not there has nothing to work on, or does not start.
fn refuse_missing_folders(common: &Common, settings: &Settings) -> Result<(), Failed> {
    let workspace = common.workspace.as_ref().map(|_| ("--workspace", &settings.workspace));
    let mounts = settings.mounts.iter().filter(|mount| mount.read_only).map(|mount| ("--mount", &mount.path));
    for (option, folder) in workspace.into_iter().chain(mounts) {
        if let Err(error) = open_folder(folder) {
            return Err(Failed::usage(format!(
                "the folder `{}` cannot be opened: {error}",
                folder.display()
            ))
            .help(format!("make it, or name another one with {option}")));
        }
    }
    Ok(())
}

fn entry(common: &Common, settings: &Settings) -> Result<Entry, Failed> {
    let program = this_program().ok().and_then(|path| path.to_str().map(str::to_owned));
    let program = program.ok_or_else(|| Failed::error("it is not known where this program is"))?;
    let config = &settings.loaded;
    // A configuration that names the folder is asked again at every start.
    let named = common.workspace.is_none() && config.config.workspace.is_some();
    let workspace = (!named).then_some(settings.workspace.as_path());
    let absolute = |path: &Path| settings.surroundings.absolute(path).ok();
    let arguments = arguments(common, config.file().map(PathBuf::as_path), workspace, absolute)
        .ok_or_else(|| Failed::usage("a path of the options is not UTF-8 text"))?;
    Ok(Entry { program, arguments })
}
