//! `toolgate trust`: shows a found configuration and asks the user to agree to it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolgate_assembly::ambient::{CONFIG_NAME, HostEnvironment, is_directory, real_path};
use toolgate_assembly::trust::{
    Agreement, AgreementStore, ConfigOrigin, CoveredConfig, EffectGroup, TrustStatus, check_usable,
    is_instruction_file,
};

use super::{print, trust_instructions};
use crate::arguments::{GlobalOptions, TrustArguments};
use crate::exit::{CliError, DENIED, SUCCESS};
use crate::startup::TRUST_QUESTION;
use crate::terminal::{PLAIN_SCREEN, confirm, escape_json, escape_line};
use crate::trust_screen::{FileDiff, differences, overview};

pub(crate) fn run(common: &GlobalOptions, arguments: &TrustArguments) -> Result<u8, CliError> {
    let surroundings = HostEnvironment::detect()?;
    let agreements = AgreementStore::of(&surroundings)?;
    if arguments.list {
        return list(common, &agreements, &surroundings);
    }
    if let Some(file) = instruction_file(arguments.file.as_deref(), &surroundings)? {
        return match arguments.revoke {
            true => revoke(common, &agreements, &file),
            false => trust_instructions::run(common, &agreements, &file, arguments.yes),
        };
    }
    let file = target_file(common, arguments.file.as_deref(), &surroundings)?;
    if arguments.revoke {
        return revoke(common, &agreements, &file);
    }
    let path = escape_line(&file.display().to_string());
    let (candidate, before) = match TrustStatus::of(&file, &agreements, &surroundings)? {
        TrustStatus::New(candidate) => (candidate, None),
        TrustStatus::Changed(candidate, before) => (candidate, Some(before)),
        TrustStatus::Agreed(covered) => {
            let shown = TrustReport { covered: &covered, state: "agreed", effects: &[], differences: &[] };
            return shown.print(common, true, &format!("{path} is agreed to already\n"));
        }
    };
    let covered = candidate.cover(&surroundings)?;
    let effects = check_usable(&covered, &surroundings)?;
    let changed = before.as_deref().map(|before| differences(&covered, before)).unwrap_or_default();
    let state = if before.is_some() { "changed" } else { "new" };
    let shown = TrustReport { covered: &covered, state, effects: &effects, differences: &changed };
    let text = |screen| overview(&covered, &effects, before.as_deref(), screen);
    let answer = match arguments.yes {
        true => {
            if !common.json {
                print(&text(PLAIN_SCREEN))?;
            }
            Some(true)
        }
        false => confirm(text, TRUST_QUESTION),
    };
    match answer {
        Some(true) => {
            agreements.store(&covered)?;
            shown.print(
                common,
                true,
                &format!("agreed to {}\n", escape_line(&surroundings.display_path(&file))),
            )
        }
        Some(false) => Err(CliError {
            code: DENIED,
            ..CliError::error("nothing was agreed to; the file stays without effect")
        }),
        None => {
            shown.print(common, false, &overview(&covered, &effects, before.as_deref(), PLAIN_SCREEN))?;
            Err(CliError {
                code: DENIED,
                ..CliError::error("there is no terminal to ask on, so nothing was agreed to")
                    .help("read what is shown, then pass --yes")
            })
        }
    }
}

/// A named file, if it is one of project instructions.
fn instruction_file(
    file: Option<&Path>,
    surroundings: &HostEnvironment,
) -> Result<Option<PathBuf>, CliError> {
    let Some(file) = file.filter(|file| is_instruction_file(file)) else { return Ok(None) };
    let file = surroundings.absolute(file)?;
    let directory = file.parent().map(real_path).unwrap_or_default();
    Ok(file.file_name().map(|name| directory.join(name)))
}

/// The file: the named one, the one in a named directory, or the one that would be found.
fn target_file(
    common: &GlobalOptions,
    file: Option<&Path>,
    surroundings: &HostEnvironment,
) -> Result<PathBuf, CliError> {
    let named = match file.or(common.config.as_deref()) {
        Some(file) => surroundings.absolute(file)?,
        None => match ConfigOrigin::choose(&common.overrides(), surroundings)? {
            ConfigOrigin::Named(file) | ConfigOrigin::Found(file) => file,
            ConfigOrigin::Defaults | ConfigOrigin::Supplied(_) => {
                return Err(CliError::usage("there is no toolgate.yaml here or in a directory above")
                    .help("name the file, or its directory"));
            }
        },
    };
    let file = if is_directory(&named) { named.join(CONFIG_NAME) } else { named };
    if file.file_name().is_none_or(|name| name != CONFIG_NAME) {
        return Err(CliError::usage(format!("`{}` is not called {CONFIG_NAME}", file.display()))
            .help("a file of another name is never found: name it with --config where it is to be used"));
    }
    // The canonical directory, as when the file is found.
    let directory = file.parent().map(real_path).unwrap_or_default();
    Ok(directory.join(CONFIG_NAME))
}

/// A configuration as it is shown to a user or a program.
struct TrustReport<'s> {
    covered: &'s CoveredConfig,
    state: &'static str,
    effects: &'s [EffectGroup],
    differences: &'s [FileDiff],
}

impl TrustReport<'_> {
    fn print(&self, common: &GlobalOptions, is_agreed: bool, text: &str) -> Result<u8, CliError> {
        let told = match common.json {
            true => escape_json(&format!("{}\n", self.json(is_agreed))),
            false => text.to_owned(),
        };
        print(&told).map(|_| SUCCESS)
    }

    fn json(&self, is_agreed: bool) -> Value {
        let files = self.covered.files().iter().map(|(path, _)| path.to_string_lossy());
        let effects: serde_json::Map<String, Value> =
            self.effects.iter().map(|group| (group.key.to_owned(), json!(group.items))).collect();
        let change =
            |change: &FileDiff| json!({"file": change.path, "state": change.state, "diff": change.diff});
        json!({
            "file": self.covered.file().to_string_lossy(),
            "state": self.state,
            "digest": self.covered.digest().to_string(),
            "files": files.collect::<Vec<_>>(),
            "effects": effects,
            "changes": self.differences.iter().map(change).collect::<Vec<_>>(),
            "agreed": is_agreed,
        })
    }
}

fn list(
    common: &GlobalOptions,
    agreements: &AgreementStore,
    surroundings: &HostEnvironment,
) -> Result<u8, CliError> {
    let row = |agreement: Agreement| {
        if is_instruction_file(&agreement.file) {
            let state = trust_instructions::state(&agreement.file, agreements);
            return (agreement, state);
        }
        let state = match TrustStatus::of(&agreement.file, agreements, surroundings) {
            Ok(TrustStatus::Agreed(_)) => "agreed",
            Ok(_) => "changed",
            Err(_) => "unreadable",
        };
        (agreement, state)
    };
    let rows: Vec<(Agreement, &str)> = agreements.all()?.into_iter().map(row).collect();
    let text = match common.json {
        true => {
            let row = |(agreement, state): &(Agreement, &str)| {
                json!({
                    "file": agreement.file.to_string_lossy(), "state": state,
                    "agreedAt": agreement.agreed_at, "digest": agreement.digest.to_string(),
                })
            };
            escape_json(&format!("{}\n", rows.iter().map(row).collect::<Value>()))
        }
        false if rows.is_empty() => "nothing was agreed to\n".to_owned(),
        false => {
            let row = |(agreement, state): &(Agreement, &str)| {
                let day: String = escape_line(&agreement.agreed_at).chars().take(10).collect();
                let path = escape_line(&agreement.file.display().to_string());
                format!("{state:<10} {day}  {path}\n")
            };
            rows.iter().map(row).collect()
        }
    };
    print(&text).map(|_| SUCCESS)
}

fn revoke(common: &GlobalOptions, agreements: &AgreementStore, file: &Path) -> Result<u8, CliError> {
    let is_revoked = agreements.revoke(file)?;
    let path = file.display().to_string();
    let text = match (common.json, is_revoked) {
        (true, _) => escape_json(&format!("{}\n", json!({"file": path, "revoked": is_revoked}))),
        (false, true) => format!("{} is not agreed to any more\n", escape_line(&path)),
        (false, false) => format!("{} was not agreed to\n", escape_line(&path)),
    };
    print(&text).map(|_| SUCCESS)
}
