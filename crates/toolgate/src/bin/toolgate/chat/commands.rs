//! Commands of the prompt about what a conversation changed, said and cost. The person gives them, so they ask the gate nothing.

use std::io::{self, IsTerminal as _};
use std::path::Path;

use toolgate_assembly::ambient::{CONFIG_NAME, write_new_file};
use toolgate_gate::UndoOptions;
use toolgate_llm::{Message, Usage};
use toolgate_manifest::TokenPrice;
use toolgate_text::is_invisible;
use toolgate_types::{CallId, FlowLabels};

use super::repl::{Repl, current_screen, print_text};
use super::usage::usage_line;
use crate::approval_screen::quoted_diff;
use crate::commands::{changes, grants, sessions};
use crate::conversation::session_failure;
use crate::exit::CliError;
use crate::terminal::{can_erase, confirm, escape_line, osc52};

/// The longest answer that is copied: terminals drop a longer sequence.
const MAX_COPIED_BYTES: usize = 64 * 1024;

/// A configuration to start with: what holds without it, as comments.
const STARTING_CONFIG: &str = "\
# What a model may do in this workspace: see docs/configuration.md.
# `toolgate check` says whether this file is right, and it counts once
# you have agreed to it (`toolgate trust`).

# supervised asks before every call, guided before calls that change
# something, autonomous never.
trust: guided

# The model of `toolgate chat` and `toolgate run`.
# model: anthropic/claude-sonnet-4-5

# What nobody may read, besides keys, .env files and the like.
# deny: [\"**/*.sqlite\"]
";

impl Repl {
    /// The usage of a turn, below it.
    pub(super) fn print_usage(&self, usage: Usage) {
        if usage == Usage::default() {
            return;
        }
        let screen = current_screen();
        let line = usage_line(usage, self.view.context(), self.price(), screen.unicode);
        print_text(&screen.line(&line, "2"));
    }

    pub(super) fn print_cost(&self) {
        let screen = current_screen();
        let usage = self.conversation.session.as_ref().map(|session| session.summary().usage);
        let line = match usage.filter(|usage| *usage != Usage::default()) {
            None => "no tokens were used yet, or the model's server does not report them".to_owned(),
            Some(usage) => {
                let line = usage_line(usage, self.view.context(), self.price(), screen.unicode);
                let hint = if self.price().is_none() { "; for the cost set `models.NAME.price`" } else { "" };
                format!("this conversation: {line}{hint}")
            }
        };
        print_text(&screen.line(&line, ""));
    }

    /// The labels of this conversation, and what follows from them.
    pub(super) fn print_labels(&self) {
        let gate = self.context.gate.gate();
        let seen = self.conversation.session.as_ref().map(|session| gate.flow_labels(session.id()));
        let line = match seen.unwrap_or_else(|| gate.tracks_flow().then_some(FlowLabels::NONE)) {
            None => "information flow is not tracked here (`information_flow: on`)".to_owned(),
            Some(labels) if labels.contains(FlowLabels::ALL) => {
                format!("this conversation has seen: {labels}; you are asked before anything is sent out")
            }
            Some(labels) => format!("this conversation has seen: {labels}"),
        };
        print_text(&current_screen().line(&line, ""));
    }

    /// The configured price of the current model.
    fn price(&self) -> Option<&TokenPrice> {
        let provider = &self.conversation.ready.agent.model().provider;
        let servers = &self.context.settings.loaded.config.models;
        servers.iter().find(|server| server.name.value == *provider)?.price.as_ref()
    }

    /// The changes of this conversation that are in effect, newest first.
    fn changed_calls(&self) -> Result<Vec<CallId>, CliError> {
        let Some(session) = &self.conversation.session else { return Ok(Vec::new()) };
        changes::select_changes(self.context.gate.gate(), &self.context.workspace, Some(session.id()))
    }

    pub(super) fn changes_text(&self) -> Result<String, CliError> {
        let calls = self.changed_calls()?;
        Ok(match calls.is_empty() {
            true => "this conversation changed nothing, or it was put back\n".to_owned(),
            false => calls.into_iter().rev().map(|call| self.change_text(call)).collect(),
        })
    }

    pub(super) fn grants_text(&self) -> Result<String, CliError> {
        let grants = self.context.gate.gate().grants().list().map_err(grants::unusable)?;
        Ok(match grants.is_empty() {
            true => "there are no lasting grants\n".to_owned(),
            false => {
                let rows: String = grants.iter().map(grants::row).collect();
                rows + "/grants revoke ID revokes one\n"
            }
        })
    }

    /// Revokes a lasting grant: the next call that it covered is asked about again.
    pub(super) fn revoke_grant(&self, id: &str) -> Result<(), CliError> {
        let (id, revoked) = grants::revoke_by_prefix(self.context.gate.gate().grants(), id)?;
        let told = match revoked {
            Some(grant) => format!("{id} is revoked: {}", grant.covers),
            None => format!("there is no grant {id}; /grants lists them"),
        };
        print_text(&current_screen().line(&told, ""));
        Ok(())
    }

    /// One change: its paths, and its diff if the call was made in this sitting.
    fn change_text(&self, call: CallId) -> String {
        let set = self.context.gate.gate().journal().change_set(call);
        let mut text = String::new();
        for change in set.iter().flat_map(|set| &set.changes) {
            let to = change.display_destination().map(|to| format!(" -> {to}")).unwrap_or_default();
            let path = escape_line(&format!("{}{to}", change.display_path()));
            text += &current_screen().line(&format!("{} {path}", change.kind.as_str()), "1");
        }
        let diff = self.view.calls(|calls, screen| {
            calls.find(call).and_then(|call| call.diff()).map(|diff| quoted_diff(diff, screen))
        });
        text + &diff.unwrap_or_default()
    }

    /// Undoes the newest change of this conversation once it was shown and confirmed, and informs the model with the next prompt.
    pub(super) async fn undo(&mut self) -> Result<(), CliError> {
        let (Some(call), Some(session)) =
            (self.changed_calls()?.into_iter().next(), &self.conversation.session)
        else {
            print_text("nothing to undo\n");
            return Ok(());
        };
        if io::stdin().is_terminal() {
            let change = self.change_text(call);
            if confirm(|_| change, "Put this back?") != Some(true) {
                print_text("nothing was undone\n");
                return Ok(());
            }
        }
        let mut caller = self.context.settings.caller.clone();
        caller.session = session.id().clone();
        let undoing = self.context.gate.gate().undo(call, caller, UndoOptions { force: false });
        let paths = undoing.await.map_err(changes::undo_failure)?.paths.join(", ");
        print_text(&current_screen().line(&format!("undid {call}: {paths}"), ""));
        self.pending_note = Some(format!("I put back your change of {paths}; it is as it was before."));
        Ok(())
    }

    /// Copies the last answer with OSC 52, which only this command of the person writes.
    pub(super) fn copy_answer(&self) -> Result<(), CliError> {
        let messages = self.conversation.session.iter().flat_map(|session| session.messages().iter().rev());
        let answer = messages.filter_map(|message| match message {
            Message::Assistant(said) => Some(said.text()).filter(|text| !text.trim().is_empty()),
            _ => None,
        });
        let Some(answer) = answer.into_iter().next() else {
            print_text("there is no answer yet\n");
            return Ok(());
        };
        if !can_erase(io::stdout().is_terminal()) {
            return Err(CliError::usage("this terminal has no clipboard").help("use /export FILE"));
        }
        // What is invisible here would be invisible where it is pasted.
        let text: String = answer.chars().filter(|character| !is_invisible(*character)).collect();
        if text.len() > MAX_COPIED_BYTES {
            return Err(CliError::usage("the answer is too long for the clipboard of a terminal")
                .help("use /export FILE"));
        }
        print_text(&osc52(&text));
        print_text(&format!("{} characters, if this terminal takes them (OSC 52)\n", text.chars().count()));
        Ok(())
    }

    pub(super) async fn export(&self, file: &str) -> Result<(), CliError> {
        let Some(session) = &self.conversation.session else {
            print_text("nothing was said yet\n");
            return Ok(());
        };
        let transcript = self.context.store.transcript(session.id()).await.map_err(session_failure)?;
        let path = self.context.settings.environment.absolute(Path::new(file))?;
        write_new_file(&path, sessions::markdown_of(&transcript).as_bytes(), 0o600)
            .map_err(|error| unwritten(&path, &error))?;
        print_text(&current_screen().line(&format!("written to {}", path.display()), ""));
        Ok(())
    }

    /// Writes a configuration to start with, if there is none.
    pub(super) fn write_configuration(&self) -> Result<(), CliError> {
        let path = self.context.settings.workspace.join(CONFIG_NAME);
        let question = format!("Write {}?", path.display());
        let show = |screen: crate::approval_screen::Screen| screen.with_gutter(STARTING_CONFIG.trim_end());
        if confirm(show, &question) != Some(true) {
            print_text("nothing was written\n");
            return Ok(());
        }
        write_new_file(&path, STARTING_CONFIG.as_bytes(), 0o644).map_err(|error| unwritten(&path, &error))?;
        print_text(&format!(
            "{CONFIG_NAME} is written; it counts from the next start, once you agree to it\n"
        ));
        Ok(())
    }
}

fn unwritten(path: &Path, error: &io::Error) -> CliError {
    let failed = CliError::usage(format!("`{}` is not written: {error}", path.display()));
    match error.kind() {
        io::ErrorKind::AlreadyExists => failed.help("nothing is overwritten here; name another file"),
        _ => failed,
    }
}
