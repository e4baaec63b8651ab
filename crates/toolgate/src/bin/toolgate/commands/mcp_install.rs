//! `toolgate mcp install`: adds an entry for this gate to the configuration of a client.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolgate_assembly::ambient::{open_directory, this_program};
use toolgate_assembly::settings::Settings;
use toolgate_assembly::trust::ConfigOrigin;
use toolgate_clients::{GateEntry, InstalledEntry, McpClient, ServerEntry, TOKEN_VARIABLE, TokenReference};
use toolgate_types::Trust;

use super::mcp_file::{ClientFile, confirm_change};
use super::mcp_server_entry::{FoundConfig, gate_arguments, portable_arguments};
use super::print;
use super::serve::DEFAULT_ADDRESS;
use crate::arguments::{GlobalOptions, InstallScope, McpInstall, McpInstallGate};
use crate::exit::{CliError, SUCCESS};
use crate::startup::resolve_settings;
use crate::terminal::{escape_line, warn};

pub(crate) fn run(common: &GlobalOptions, wanted: &McpInstallGate) -> Result<u8, CliError> {
    let McpInstallGate { install: wanted, http, roots_below } = wanted;
    let settings = resolve_settings(common, Trust::Guided)?;
    if let Some(address) = http {
        return install_address(common, &settings, wanted, address);
    }
    refuse_missing_directories(common, &settings)?;
    let facts = wanted.client;
    let file = ClientFile::read(&settings, wanted, facts)?;
    let portable = portable_entry(common, &settings, wanted).filter(|_| roots_below.is_none());
    let is_portable = portable.is_some();
    let entry = GateEntry::from(match portable {
        Some(entry) => entry,
        None => entry(common, &settings, roots_below.as_deref())?,
    });
    let shown = facts.file.snippet(&wanted.name, &entry).map_err(CliError::error)?;
    if is_portable {
        warn("the entry is for all who open the project: `toolgate` has to be in their PATH");
    } else if let ConfigOrigin::Found(file) = &settings.loaded.origin {
        let file = file.display();
        warn(&format!(
            "the entry names {file}, which the client's gate then obeys also after it changes; pass --no-config to leave it out"
        ));
    }
    write_entry(common, wanted, &file, &entry, &shown)
}

/// The entry of a gate that runs already.
fn install_address(
    common: &GlobalOptions,
    settings: &Settings,
    wanted: &McpInstall,
    address: &str,
) -> Result<u8, CliError> {
    let facts = wanted.client;
    let Some(format) = facts.remote else {
        return Err(CliError::usage(format!(
            "{} takes no server with an address from its file",
            facts.title
        ))
        .help("install the entry that starts the gate, without --http"));
    };
    if let Some(option) = named_option(common) {
        return Err(CliError::usage(format!("`{option}` is for a gate that the client starts"))
            .help("give it to `toolgate serve`, which answers at the address"));
    }
    let mut listens =
        settings.loaded.config.serve.listen.as_ref().map_or(DEFAULT_ADDRESS, |listen| listen.value);
    if listens.ip().is_unspecified() {
        listens.set_ip(DEFAULT_ADDRESS.ip());
    }
    let address = match address {
        "" => format!("http://{listens}/mcp"),
        address => address.to_owned(),
    };
    let file = ClientFile::read(settings, wanted, facts)?;
    match format.token {
        TokenReference::Unknown => warn(&format!(
            "the token is not written down: add a header `Authorization` to the entry as {} has it, or serve with `--auth none`",
            facts.title
        )),
        TokenReference::Header(_) | TokenReference::Variable(_) => warn(&format!(
            "the token is not written down: the client takes it from {TOKEN_VARIABLE} in its environment"
        )),
    }
    let entry = GateEntry::Address(address, format);
    let shown = facts.file.snippet(&wanted.name, &entry).map_err(CliError::error)?;
    write_entry(common, wanted, &file, &entry, &shown)
}

/// An option that says how the gate is to be, if one was given.
fn named_option(common: &GlobalOptions) -> Option<&'static str> {
    let given = [
        ("--workspace", common.workspace.is_some()),
        ("--mount", !common.mounts.is_empty()),
        ("--profile", common.profile.is_some()),
        ("--agent", common.agent.is_some()),
        ("--trust", common.trust.is_some()),
        ("--run", common.run.is_some()),
    ];
    given.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
}

fn write_entry(
    common: &GlobalOptions,
    wanted: &McpInstall,
    file: &ClientFile,
    entry: &GateEntry,
    shown: &str,
) -> Result<u8, CliError> {
    let facts = wanted.client;
    if common.token.is_some() {
        warn("the token is not written down; give it to the client's own environment as TOOLGATE_TOKEN");
    }
    let by_hand = |reason: &str| manual_edit_error(&file.path, reason, shown);
    let text = file.text().map_err(by_hand)?;
    let edited = facts.file.install(text, &wanted.name, entry).map_err(|reason| by_hand(&reason))?;
    InstallPlan { facts, file, snippet: shown, edited }.apply(common, wanted)
}

/// The result for a file.
enum InstallStatus {
    /// Nothing was written.
    DryRun,
    /// The entry is already up to date.
    Unchanged,
    /// It was written; the path is that of the backup.
    Written(Option<PathBuf>),
}

impl InstallStatus {
    fn as_str(&self) -> &'static str {
        match self {
            Self::DryRun => "shown",
            Self::Unchanged => "unchanged",
            Self::Written(_) => "written",
        }
    }
}

/// The planned change of a file.
struct InstallPlan<'c> {
    facts: &'c McpClient,
    file: &'c ClientFile,
    /// The entry on its own.
    snippet: &'c str,
    edited: InstalledEntry,
}

impl InstallPlan<'_> {
    fn apply(&self, common: &GlobalOptions, wanted: &McpInstall) -> Result<u8, CliError> {
        let (place, older) = (self.file.path.display(), self.describe_previous());
        if self.file.read.as_deref() == Some(self.edited.text.as_bytes()) {
            return self.print(
                common,
                &InstallStatus::Unchanged,
                &format!("{place} has this entry already\n"),
            );
        }
        if wanted.dry_run {
            let told = format!("{place} would get this entry:\n{}{older}", self.snippet);
            return self.print(common, &InstallStatus::DryRun, &told);
        }
        let shown = format!("{place} gets this entry:\n{}{older}", self.snippet);
        confirm_change(wanted, shown, &format!("Write it for {}?", self.facts.title))?;
        let backup = self.file.write(&self.edited.text, wanted.scope).map_err(|error| {
            CliError::usage(format!("`{place}` cannot be written: {error}"))
                .help("paste the entry by hand; --dry-run shows it")
        })?;
        let kept = backup.as_ref().map(|backup| format!("; as it was before: {}", backup.display()));
        let told = format!("wrote the entry into {place}{}\n{older}", kept.unwrap_or_default());
        let done = self.print(common, &InstallStatus::Written(backup), &told)?;
        warn(&format!("to use it, {}", self.facts.next));
        Ok(done)
    }

    /// The other keys of an existing entry. Only their names, since a value may be a secret.
    fn describe_previous(&self) -> String {
        let line = |names: &[String], what: &str| match names {
            [] => String::new(),
            names => format!("{what}: {}\n", escape_line(&names.join(", "))),
        };
        let InstalledEntry { kept, left_out, .. } = &self.edited;
        line(kept, "kept of the entry that was there") + &line(left_out, "removed from it")
    }

    fn print(&self, common: &GlobalOptions, state: &InstallStatus, text: &str) -> Result<u8, CliError> {
        let told = match common.json {
            true => {
                let backup = match state {
                    InstallStatus::Written(backup) => backup.as_ref().map(|path| path.display().to_string()),
                    InstallStatus::DryRun | InstallStatus::Unchanged => None,
                };
                let object = json!({
                    "client": self.facts.title, "file": self.file.path.display().to_string(),
                    "entry": self.entry(), "state": state.as_str(),
                    "written": matches!(state, InstallStatus::Written(_)), "backup": backup,
                    "kept": self.edited.kept, "removed": self.edited.left_out,
                });
                format!("{object}\n")
            }
            false => text.to_owned(),
        };
        print(&told).map(|_| SUCCESS)
    }

    /// The entry as in its file: a value for JSON, text otherwise.
    fn entry(&self) -> Value {
        let value = self.facts.file.is_json().then(|| serde_json::from_str(self.snippet).ok()).flatten();
        value.unwrap_or_else(|| Value::String(self.snippet.to_owned()))
    }
}

fn manual_edit_error(file: &Path, reason: &str, shown: &str) -> CliError {
    CliError::usage(format!(
        "`{}` cannot be edited without touching the rest of it: {reason}",
        file.display()
    ))
    .help(format!("paste this by hand:\n{shown}"))
}

/// Refuses missing directories: a client starts the gate in the background, where its error is easily overlooked.
fn refuse_missing_directories(common: &GlobalOptions, settings: &Settings) -> Result<(), CliError> {
    let workspace = common.workspace.as_ref().map(|_| ("--workspace", &settings.workspace));
    let mounts = settings.mounts.iter().filter(|mount| mount.read_only).map(|mount| ("--mount", &mount.path));
    for (option, folder) in workspace.into_iter().chain(mounts) {
        if let Err(error) = open_directory(folder) {
            return Err(CliError::usage(format!(
                "the folder `{}` cannot be opened: {error}",
                folder.display()
            ))
            .help(format!("make it, or name another one with {option}")));
        }
    }
    Ok(())
}

/// An entry for a project's own file, which is shared with it.
fn portable_entry(common: &GlobalOptions, settings: &Settings, wanted: &McpInstall) -> Option<ServerEntry> {
    if wanted.scope != InstallScope::Project || wanted.file.is_some() {
        return None;
    }
    let config = match &settings.loaded.origin {
        ConfigOrigin::Found(file) if file.starts_with(&settings.workspace) => {
            Some(FoundConfig { names_workspace: settings.loaded.config.workspace.is_some() })
        }
        _ if settings.loaded.file().is_some() => return None,
        _ => None,
    };
    let arguments = portable_arguments(common, wanted.client.name, config)?;
    Some(ServerEntry { program: "toolgate".to_owned(), arguments })
}

fn entry(
    common: &GlobalOptions,
    settings: &Settings,
    roots_below: Option<&Path>,
) -> Result<ServerEntry, CliError> {
    if roots_below.is_some() && common.workspace.is_some() {
        return Err(CliError::usage("with `--workspace` the client's roots decide nothing")
            .help("give `--workspace` or `--roots-below`"));
    }
    let program = this_program().ok().and_then(|path| path.to_str().map(str::to_owned));
    let program = program.ok_or_else(|| CliError::error("it is not known where this program is"))?;
    let config = &settings.loaded;
    // A `workspace` in the configuration is resolved again at every start.
    let named = common.workspace.is_none() && config.config.workspace.is_some();
    let workspace = (!named && roots_below.is_none()).then_some(settings.workspace.as_path());
    let absolute = |path: &Path| settings.environment.absolute(path).ok();
    let no_text = || CliError::usage("a path of the options is not UTF-8 text");
    let mut arguments = gate_arguments(common, config.file().map(PathBuf::as_path), workspace, absolute)
        .ok_or_else(no_text)?;
    if let Some(below) = roots_below {
        let below = settings.environment.absolute(below)?;
        arguments.extend(["--roots-below".to_owned(), below.to_str().ok_or_else(no_text)?.to_owned()]);
    }
    Ok(ServerEntry { program, arguments })
}
