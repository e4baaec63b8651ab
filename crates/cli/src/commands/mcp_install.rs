//! `toolgate mcp install`: an entry for this gate in the file of a client.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;
use toolgate_types::Trust;

use super::print;
use crate::ambient::{
    Surroundings, leads_nowhere, read_regular_file, replace_file, this_program, variable, write_new_file,
};
use crate::arguments::{Common, McpInstall};
use crate::clients::{Entry, Facts, Folders, Installed, Scope, arguments};
use crate::exit::{DENIED, DONE, Failed};
use crate::settings::{Settings, settle};
use crate::terminal::{complain, confirm, reveal_line};

pub(crate) fn run(common: &Common, wanted: &McpInstall) -> Result<u8, Failed> {
    let settings = settle(common, Trust::Guided)?;
    let facts = wanted.client.facts();
    let file = file(&settings, wanted, &facts)?;
    let entry = entry(common, &settings)?;
    let shown = facts.file.shown(&wanted.name, &entry).map_err(Failed::error)?;
    if common.token.is_some() {
        complain("the token is not written down; give it to the client's own environment as TOOLGATE_TOKEN");
    }
    let read = match read_regular_file(&file) {
        Ok(bytes) => Some(bytes),
        Err(_) if leads_nowhere(&file) => {
            let message = format!("`{}` is a link to a file that is not there", file.display());
            return Err(Failed::usage(message).help("make that file, or remove the link"));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(Failed::usage(format!("`{}` cannot be read: {error}", file.display()))),
    };
    let text = String::from_utf8(read.clone().unwrap_or_default())
        .map_err(|_| by_hand(&file, "it is not UTF-8 text", &shown))?;
    let edited =
        facts.file.install(&text, &wanted.name, &entry).map_err(|reason| by_hand(&file, &reason, &shown))?;
    let change = Change { facts: &facts, file: &file, shown: &shown, read, edited };
    change.make(common, wanted)
}

/// What is to become of a file.
struct Change<'c> {
    facts: &'c Facts,
    file: &'c Path,
    /// The entry by itself.
    shown: &'c str,
    /// What the file holds, if there is one.
    read: Option<Vec<u8>>,
    edited: Installed,
}

impl Change<'_> {
    fn make(&self, common: &Common, wanted: &McpInstall) -> Result<u8, Failed> {
        let (place, older) = (self.file.display(), self.older());
        if self.read.as_deref() == Some(self.edited.text.as_bytes()) {
            return self.tell(common, None, &format!("{place} has this entry already\n"));
        }
        if wanted.dry_run {
            return self.tell(common, None, &format!("{place} would get this entry:\n{}{older}", self.shown));
        }
        if !wanted.yes {
            let show = |_| format!("{place} gets this entry:\n{}{older}", self.shown);
            match confirm(show, &format!("Write it for {}?", self.facts.title)) {
                Some(true) => {}
                Some(false) => return Err(Failed { code: DENIED, ..Failed::error("nothing was written") }),
                None => {
                    let failed = Failed::error("there is no terminal to ask on, so nothing was written");
                    return Err(Failed {
                        code: DENIED,
                        ..failed.help("look at it with --dry-run, then pass --yes")
                    });
                }
            }
        }
        let backup = self.write(wanted.scope).map_err(|error| {
            Failed::usage(format!("`{place}` cannot be written: {error}"))
                .help("paste the entry by hand; --dry-run shows it")
        })?;
        let kept = backup.as_ref().map(|backup| format!("; as it was before: {}", backup.display()));
        let told = format!("wrote the entry into {place}{}\n{older}", kept.unwrap_or_default());
        let done = self.tell(common, Some(backup), &told)?;
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

    /// Writes the file and says where its old content is kept.
    fn write(&self, scope: Scope) -> io::Result<Option<PathBuf>> {
        let mode = if scope == Scope::Project { 0o644 } else { 0o600 };
        let Some(read) = &self.read else {
            write_new_file(self.file, self.edited.text.as_bytes(), mode)?;
            return Ok(None);
        };
        let backup = keep(self.file, read)?;
        replace_file(self.file, read, self.edited.text.as_bytes())?;
        Ok(Some(backup))
    }

    fn tell(&self, common: &Common, written: Option<Option<PathBuf>>, text: &str) -> Result<u8, Failed> {
        let told = match common.json {
            true => {
                let backup = written.as_ref().and_then(Option::as_ref).map(|path| path.display().to_string());
                let object = json!({
                    "client": self.facts.title, "file": self.file.display().to_string(), "entry": self.shown,
                    "written": written.is_some(), "backup": backup,
                    "kept": self.edited.kept, "removed": self.edited.left_out,
                });
                format!("{object}\n")
            }
            false => text.to_owned(),
        };
        print(&told).map(|_| DONE)
    }
}

/// Keeps what a file held beside it, under a name that is free.
fn keep(file: &Path, content: &[u8]) -> io::Result<PathBuf> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let numbered = (2..100).map(|number| format!("{name}.before-toolgate-{number}"));
    for name in std::iter::once(format!("{name}.before-toolgate")).chain(numbered) {
        let backup = file.with_file_name(name);
        match write_new_file(&backup, content, 0o600) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => return other.map(|()| backup),
        }
    }
    Err(io::Error::other("there are too many old copies beside it"))
}

fn by_hand(file: &Path, reason: &str, shown: &str) -> Failed {
    Failed::usage(format!("`{}` cannot be edited without touching the rest of it: {reason}", file.display()))
        .help(format!("paste this by hand:\n{shown}"))
}

fn file(settings: &Settings, wanted: &McpInstall, facts: &Facts) -> Result<PathBuf, Failed> {
    let surroundings = &settings.surroundings;
    if let Some(file) = &wanted.file {
        return surroundings.absolute(file);
    }
    match (wanted.scope, facts.project) {
        (Scope::User, _) => facts.user.resolve(&folders(surroundings), variable).ok_or_else(|| {
            Failed::usage("there is no home folder: HOME is not set")
                .help("name the client's file with --file")
        }),
        (Scope::Project, Some(path)) => Ok(settings.workspace.join(path)),
        (Scope::Project, None) => {
            Err(Failed::usage(format!("{} has no file for single projects", facts.title))
                .help("leave out --scope, or name a file with --file"))
        }
    }
}

/// Where this system keeps files of a person.
fn folders(surroundings: &Surroundings) -> Folders {
    let home = surroundings.home.clone();
    let in_home = |path: &str| home.as_ref().map(|home| home.join(path));
    let config = surroundings.config_home.clone().or_else(|| in_home(".config"));
    let application =
        if cfg!(target_os = "macos") { in_home("Library/Application Support") } else { config.clone() };
    Folders { config, application, home }
}

fn entry(common: &Common, settings: &Settings) -> Result<Entry, Failed> {
    let program = this_program().ok().and_then(|path| path.to_str().map(str::to_owned));
    let program = program.ok_or_else(|| Failed::error("it is not known where this program is"))?;
    let config = &settings.loaded;
    // A configuration that names the folder is asked again at every start.
    let named = common.workspace.is_none() && config.config.workspace.is_some();
    let workspace = (!named).then_some(settings.workspace.as_path());
    let absolute = |path: &Path| settings.surroundings.absolute(path).ok();
    let arguments = arguments(common, config.file.as_deref(), workspace, absolute)
        .ok_or_else(|| Failed::usage("a path of the options is not UTF-8 text"))?;
    Ok(Entry { program, arguments })
}
