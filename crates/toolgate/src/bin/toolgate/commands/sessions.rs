//! `toolgate sessions`: stored conversations.

mod plain_text;
mod markdown;

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};

use serde_json::{Value, json};
use toolgate_assembly::ambient::exists;
use toolgate_assembly::gate_builder::sessions_directory;
use toolgate_assembly::load::TokenVerification;
use toolgate_assembly::settings::Settings;
use toolgate_session::{ListFilter, SessionError, SessionStore, SessionSummary, Transcript};
use toolgate_types::time::rfc3339_millis;
use toolgate_types::{SessionId, Trust};

use super::{print, runtime};
use crate::approval_screen::Screen;
use crate::arguments::{ConversationArguments, ExportFormat, GlobalOptions, SessionsCommand};
use crate::conversation::{DATABASE, session_failure};
use crate::exit::{CliError, DENIED, SUCCESS};
use crate::startup::resolve_settings;
use crate::terminal::{PLAIN_SCREEN, confirm, counted_messages, escape_json, escape_line, screen, warn};
use toolgate_render::truncate_columns;

pub(crate) fn run(common: &GlobalOptions, command: SessionsCommand) -> Result<u8, CliError> {
    let settings = resolve_settings(common, Trust::Guided)?;
    let runtime = runtime(TokenVerification::Disabled)?;
    match command {
        SessionsCommand::List { all } => {
            let sessions = runtime.block_on(listed(&settings, all))?;
            print(&list(common, &sessions, all)?)?;
        }
        SessionsCommand::Show { id, full } => {
            let transcript = runtime.block_on(transcript(&settings, &id))?;
            print(&match common.json {
                true => json_line(&json!({"session": transcript.summary, "entries": transcript.entries})),
                false => plain_text::transcript(&transcript, full, stdout_screen()),
            })?;
        }
        SessionsCommand::Export { id, format } => {
            let transcript = runtime.block_on(transcript(&settings, &id))?;
            print(&match format {
                ExportFormat::Jsonl => escape_json(&transcript.jsonl().map_err(unwritable)?),
                ExportFormat::Markdown => markdown::transcript(&transcript),
            })?;
        }
        SessionsCommand::Delete { ids, yes } => {
            let wanted = runtime.block_on(select_sessions(&settings, &ids))?;
            confirm_delete(&wanted, yes)?;
            runtime.block_on(delete(common, &settings, &wanted))?;
        }
        SessionsCommand::Resume { id } => {
            let SessionSummary { id, workspace, profile, agent, .. } =
                runtime.block_on(summary(&settings, &id))?;
            drop(runtime);
            let mut common = common.clone();
            common.workspace.get_or_insert(workspace);
            common.profile.get_or_insert(profile);
            common.agent = common.agent.or(agent);
            let session = Some(id.to_string());
            return super::chat::run(&common, &ConversationArguments { session, ..Default::default() });
        }
    }
    Ok(SUCCESS)
}

/// The screen of standard output.
fn stdout_screen() -> Screen {
    let stdout = io::stdout();
    if stdout.is_terminal() { screen(&stdout) } else { PLAIN_SCREEN }
}

/// The store, if it exists. Reading creates no files.
async fn store(settings: &Settings) -> Result<Option<SessionStore>, CliError> {
    let file = sessions_directory(settings).join(DATABASE);
    match exists(&file) {
        true => SessionStore::open(&file).await.map(Some).map_err(session_failure),
        false => Ok(None),
    }
}

/// The conversation with this id or prefix, or the last one.
async fn find_session(settings: &Settings, name: &str) -> Result<(SessionStore, SessionId), CliError> {
    let unknown = || SessionError::Unknown { name: name.to_owned() };
    let store = store(settings).await?.ok_or_else(|| session_failure(unknown()))?;
    let id = match name {
        "last" => store.last(&settings.workspace).await.and_then(|last| last.ok_or_else(unknown)),
        name => store.find(name).await,
    };
    Ok((store, id.map_err(session_failure)?))
}

/// A stored conversation as Markdown.
pub(crate) fn markdown_of(transcript: &Transcript) -> String {
    markdown::transcript(transcript)
}

async fn transcript(settings: &Settings, name: &str) -> Result<Transcript, CliError> {
    let (store, id) = find_session(settings, name).await?;
    store.transcript(&id).await.map_err(session_failure)
}

async fn summary(settings: &Settings, name: &str) -> Result<SessionSummary, CliError> {
    let (store, id) = find_session(settings, name).await?;
    store.summary(&id).await.map_err(session_failure)
}

pub(super) async fn listed(settings: &Settings, all: bool) -> Result<Vec<SessionSummary>, CliError> {
    let Some(store) = store(settings).await? else { return Ok(Vec::new()) };
    let workspace = (!all).then(|| settings.workspace.clone());
    store.list(&ListFilter { workspace, ..ListFilter::default() }).await.map_err(session_failure)
}

fn list(common: &GlobalOptions, sessions: &[SessionSummary], all: bool) -> Result<String, CliError> {
    if common.json {
        let rows: Result<Vec<Value>, _> = sessions.iter().map(serde_json::to_value).collect();
        return Ok(json_line(&Value::Array(rows.map_err(unwritable)?)));
    }
    let mut text = String::new();
    for session in sessions {
        text.push_str(&row(session, stdout_screen()));
        if all {
            let place = escape_line(&session.workspace.display().to_string());
            let _ = writeln!(text, "    in {place}");
        }
    }
    if sessions.is_empty() {
        text.push_str(match all {
            true => "no conversations\n",
            false => "no conversations in this workspace\n",
        });
    }
    Ok(text)
}

/// A conversation on one row.
fn row(session: &SessionSummary, screen: Screen) -> String {
    let SessionSummary { id, title, model, changed_at, messages, .. } = session;
    let changed = rfc3339_millis(*changed_at);
    let row = format!("{id}  {changed}  {:>13}  {model}  {title}", counted_messages(*messages));
    format!("{}\n", truncate_columns(&escape_line(&row), screen.columns.saturating_sub(1)))
}

async fn select_sessions(settings: &Settings, names: &[String]) -> Result<Vec<SessionSummary>, CliError> {
    let mut wanted: Vec<SessionSummary> = Vec::new();
    for name in names {
        let found = summary(settings, name).await?;
        if wanted.iter().all(|other| other.id != found.id) {
            wanted.push(found);
        }
    }
    Ok(wanted)
}

/// Asks before anything is deleted.
fn confirm_delete(wanted: &[SessionSummary], yes: bool) -> Result<(), CliError> {
    if yes {
        return Ok(());
    }
    let show = |screen: Screen| wanted.iter().map(|session| row(session, screen)).collect();
    let question = match wanted.len() {
        1 => "Delete this conversation?".to_owned(),
        count => format!("Delete these {count} conversations?"),
    };
    let refused = |message: &str| CliError { code: DENIED, ..CliError::error(message) };
    match confirm(show, &question) {
        Some(true) => Ok(()),
        Some(false) => Err(refused("nothing was deleted")),
        None => Err(refused("there is no terminal to ask on, so nothing was deleted").help("pass --yes")),
    }
}

async fn delete(
    common: &GlobalOptions,
    settings: &Settings,
    wanted: &[SessionSummary],
) -> Result<(), CliError> {
    let Some(store) = store(settings).await? else { return Ok(()) };
    let mut deleted = Vec::new();
    for SessionSummary { id, .. } in wanted {
        if let Err(error) = store.delete(id).await {
            warn(&format!("{} of {} were deleted before this", deleted.len(), wanted.len()));
            return Err(session_failure(error));
        }
        deleted.push(id);
    }
    let told = |id: &&SessionId| format!("deleted {id}\n");
    print(&match common.json {
        true => json_line(&json!({"deleted": deleted})),
        false => deleted.iter().map(told).collect(),
    })?;
    Ok(())
}

fn json_line(value: &Value) -> String {
    escape_json(&format!("{value}\n"))
}

fn unwritable(error: serde_json::Error) -> CliError {
    CliError::error(format!("the conversation cannot be written as JSON: {error}"))
}
