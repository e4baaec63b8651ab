//! `toolgate trust AGENTS.md`: shows project instructions and asks the user to agree to them.

use std::path::Path;

use serde_json::json;
use toolgate_assembly::ambient::{read_regular_file, real_path};
use toolgate_assembly::trust::{
    AgreementStore, INSTRUCTION_FILES, InstructionStatus, MAX_INSTRUCTION_BYTES, ProjectInstructions,
};

use super::{print, print_json};
use crate::arguments::GlobalOptions;
use crate::conversation::INSTRUCTIONS_QUESTION;
use crate::exit::{CliError, DENIED, SUCCESS};
use crate::terminal::{PLAIN_SCREEN, confirm, escape_line};
use crate::trust_screen::instructions_overview;

pub(super) fn run(
    common: &GlobalOptions,
    agreements: &AgreementStore,
    file: &Path,
    is_agreed_unasked: bool,
) -> Result<u8, CliError> {
    let instructions = read(file)?;
    let path = escape_line(&instructions.file.display().to_string());
    let (state, before) = match instructions.status(agreements)? {
        InstructionStatus::Agreed => ("agreed", None),
        InstructionStatus::New => ("new", None),
        InstructionStatus::Changed(before) => ("changed", Some(before)),
    };
    let report = |is_agreed: bool, text: String| match common.json {
        true => print_json(&json!({
            "file": instructions.file.to_string_lossy(), "state": state, "digest": instructions.digest().to_string(),
            "agreed": is_agreed,
        })),
        false => print(&text),
    };
    if state == "agreed" {
        return report(true, format!("{path} is agreed to already\n")).map(|_| SUCCESS);
    }
    let answer = match is_agreed_unasked {
        true => {
            if !common.json {
                print(&instructions_overview(&instructions, before.as_deref(), PLAIN_SCREEN))?;
            }
            Some(true)
        }
        false => confirm(
            |screen| instructions_overview(&instructions, before.as_deref(), screen),
            INSTRUCTIONS_QUESTION,
        ),
    };
    let denied = |message: &str| CliError { code: DENIED, ..CliError::error(message) };
    match answer {
        Some(true) => {
            agreements.store_instructions(&instructions)?;
            report(true, format!("agreed to {path}\n")).map(|_| SUCCESS)
        }
        Some(false) => Err(denied("nothing was agreed to; the file stays without effect")),
        None => {
            report(false, instructions_overview(&instructions, before.as_deref(), PLAIN_SCREEN))?;
            Err(denied("there is no terminal to ask on, so nothing was agreed to")
                .help("read what is shown, then pass --yes"))
        }
    }
}

/// The file as a conversation would find it.
pub(super) fn read(file: &Path) -> Result<ProjectInstructions, CliError> {
    let unusable = |reason: String| {
        CliError::usage(format!("`{}` cannot be agreed to: {reason}", file.display()))
            .help("name a file of text of at most 32 KiB")
    };
    let name =
        INSTRUCTION_FILES.into_iter().find(|name| file.file_name().is_some_and(|known| known == *name));
    let name = name.ok_or_else(|| unusable("it is no file of instructions".to_owned()))?;
    let bytes = read_regular_file(file).map_err(|error| unusable(error.to_string()))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_INSTRUCTION_BYTES) {
        return Err(unusable("it is too long".to_owned()));
    }
    let text = String::from_utf8(bytes).map_err(|_| unusable("it is not UTF-8 text".to_owned()))?;
    // The canonical directory, as when the file is found.
    let directory = file.parent().map(real_path).unwrap_or_default();
    Ok(ProjectInstructions { name, file: directory.join(name), text })
}

/// The state of an agreement that is listed.
pub(super) fn state(file: &Path, agreements: &AgreementStore) -> &'static str {
    match read(file).map(|instructions| instructions.status(agreements)) {
        Ok(Ok(InstructionStatus::Agreed)) => "agreed",
        Ok(Ok(_)) => "changed",
        _ => "unreadable",
    }
}
