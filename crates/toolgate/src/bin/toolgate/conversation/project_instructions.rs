//! The project's instructions, `AGENTS.md` and `CLAUDE.md`: followed once the user agreed to them.

use std::io::{self, IsTerminal as _};

use toolgate_assembly::settings::Settings;
use toolgate_assembly::trust::{
    Agreement, AgreementStore, InstructionStatus, ProjectInstructions, find_instructions,
};
use toolgate_workspace::Workspace;

use crate::exit::CliError;
use crate::terminal::{confirm, warn};
use crate::trust_screen::instructions_overview;

/// The question about project instructions.
pub(crate) const INSTRUCTIONS_QUESTION: &str = "Follow these instructions?";

/// Whether the user is asked about instructions that are new or have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstructionPrompt {
    /// At a terminal.
    Ask,
    /// They are left out, with a note.
    Never,
}

/// The instructions that the user agreed to.
pub(crate) fn agreed_instructions(
    settings: &Settings,
    workspace: &Workspace,
    prompt: InstructionPrompt,
) -> Result<Vec<ProjectInstructions>, CliError> {
    let (found, left_out) = find_instructions(workspace, &settings.limits);
    left_out.iter().for_each(|reason| warn(reason));
    let mut agreed = Vec::new();
    for instructions in found {
        let agreements = AgreementStore::of(&settings.environment)?;
        let before = match instructions.status(&agreements)? {
            InstructionStatus::Agreed => {
                agreed.push(instructions);
                continue;
            }
            InstructionStatus::New => None,
            InstructionStatus::Changed(before) => Some(before),
        };
        let is_asked =
            prompt == InstructionPrompt::Ask && io::stdin().is_terminal() && io::stderr().is_terminal();
        if is_asked && ask(&instructions, before.as_deref()) {
            agreements.store_instructions(&instructions)?;
            agreed.push(instructions);
        } else {
            let changed = if before.is_some() { " in this version" } else { "" };
            warn(&format!(
                "{} is not followed: you have not agreed to it{changed}; `toolgate trust {0}` shows it and asks",
                instructions.name
            ));
        }
    }
    Ok(agreed)
}

fn ask(instructions: &ProjectInstructions, before: Option<&Agreement>) -> bool {
    confirm(|screen| instructions_overview(instructions, before, screen), INSTRUCTIONS_QUESTION) == Some(true)
}
