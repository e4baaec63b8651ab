//! `toolgate changes` and `toolgate undo`.

use std::fmt::Write as _;

use serde_json::{Value, json};
use toolgate_assembly::gate_builder::{self, GateBuildOptions};
use toolgate_assembly::load::TokenVerification;
use toolgate_gate::{ChangeSet, DroppedEntries, Gate, JournalListing, UndoError, UndoOptions};
use toolgate_types::{CallId, ErrorCode, SessionId, Trust};
use toolgate_workspace::Workspace;

use super::id_prefix::find_by_prefix;
use super::{no_approver, print, print_json, runtime};
use crate::arguments::GlobalOptions;
use crate::exit::{CliError, DENIED, INTERRUPTED, SUCCESS};
use crate::interrupt::Interrupt;
use crate::startup::resolve_settings;
use crate::terminal::{escape_line, warn};

pub(crate) fn list(common: &GlobalOptions, session: Option<&str>, all: bool) -> Result<u8, CliError> {
    let settings = resolve_settings(common, Trust::Guided)?;
    let built = gate_builder::build_gate(
        &settings,
        GateBuildOptions::without_servers(no_approver(), TokenVerification::Disabled),
    )?;
    let known = journal_changes(built.gate.gate())?;
    let session = session.map(|text| find_session(text, &known)).transpose()?;
    let sets: Vec<ChangeSet> = known
        .iter()
        .filter(|set| all || is_in_workspace(set, &known, &built.workspace))
        .filter(|set| session.as_ref().is_none_or(|session| set.session == *session))
        .cloned()
        .collect();
    if common.json {
        let rows: Vec<Value> = sets.iter().map(set_json).collect();
        print_json(&Value::Array(rows))?;
    } else {
        print(&table(&sets))?;
    }
    Ok(SUCCESS)
}

fn journal_changes(gate: &Gate) -> Result<Vec<ChangeSet>, CliError> {
    let listing = gate.journal().list();
    let JournalListing { change_sets: sets, unsealed: strangers, torn } =
        listing.map_err(|error| CliError::error(format!("the journal cannot be read: {error}")))?;
    gate_builder::report_unsealed_entries(strangers);
    gate_builder::report_torn_entries(torn);
    report_dropped(gate.journal().dropped());
    Ok(sets)
}

/// Warns of changes that are not listed because the journal dropped them by its retention limits.
fn report_dropped(dropped: DroppedEntries) {
    if dropped.entries > 0 {
        let calls = if dropped.entries == 1 { "call are" } else { "calls are" };
        warn(&format!(
            "the changes of {} {calls} no longer kept: see `retention.undo` in the configuration",
            dropped.entries
        ));
    }
}

/// A call by the beginning of its id. A whole id is not looked up: the journal says what became of it.
fn find_call(text: &str, gate: &Gate) -> Result<CallId, CliError> {
    if let Ok(call) = text.parse() {
        return Ok(call);
    }
    let calls = journal_changes(gate)?.into_iter().map(|set| set.call);
    find_by_prefix("call", text, calls)?.ok_or_else(|| {
        CliError::usage(format!("no call with changes begins with `{text}`"))
            .help("`toolgate changes` lists what can be undone")
    })
}

/// A session by the beginning of its id; one without changes may be named in full.
fn find_session(text: &str, known: &[ChangeSet]) -> Result<SessionId, CliError> {
    if let Some(session) = find_by_prefix("session", text, known.iter().map(|set| set.session.clone()))? {
        return Ok(session);
    }
    text.parse().map_err(|error| CliError::usage(format!("{error}")))
}

/// Whether a change was made in the current workspace. An undo without changes of its own belongs to the workspace of the call that it undid.
fn is_in_workspace(set: &ChangeSet, known: &[ChangeSet], workspace: &Workspace) -> bool {
    let undone = |set: &&ChangeSet| known.iter().find(|other| Some(other.call) == set.undoes);
    let mut chain = std::iter::successors(Some(set), undone);
    let subject = chain.find(|set| !set.changes.is_empty());
    subject.is_some_and(|set| set.missing_mount(workspace).is_none())
}

fn set_json(set: &ChangeSet) -> Value {
    let changes: Vec<Value> = set
        .changes
        .iter()
        .map(|change| {
            json!({
                "path": change.display_path(), "kind": change.kind, "to": change.display_destination(),
                "bytesBefore": change.before.as_ref().map(|kept| kept.bytes), "sha256After": change.after,
            })
        })
        .collect();
    json!({
        "call": set.call, "session": set.session, "tool": set.tool, "at": set.at, "changes": changes,
        "undoneBy": set.undone_by, "undoes": set.undoes,
    })
}

fn table(sets: &[ChangeSet]) -> String {
    let mut text = String::new();
    for set in sets {
        let state = match (set.undone_by, set.undoes) {
            (Some(_), _) => "  (undone)".to_owned(),
            (None, Some(call)) => format!("  (put back {call})"),
            (None, None) => String::new(),
        };
        let (at, tool) = (escape_line(&set.at), escape_line(&set.tool));
        let _ = writeln!(text, "{}  {at}  {tool}  session {}{state}", set.call, set.session);
        for change in &set.changes {
            let to = change.display_destination().map(|to| format!(" -> {to}")).unwrap_or_default();
            let paths = escape_line(&format!("{}{to}", change.display_path()));
            let _ = writeln!(text, "    {:<7} {paths}", change.kind.as_str());
        }
    }
    if sets.is_empty() {
        text.push_str("no changes\n");
    }
    text
}

pub(crate) fn undo(
    common: &GlobalOptions,
    call: Option<&str>,
    session: Option<&str>,
    force: bool,
) -> Result<u8, CliError> {
    let settings = resolve_settings(common, Trust::Guided)?;
    let interrupt = Interrupt::install();
    let built = gate_builder::build_gate(
        &settings,
        GateBuildOptions::without_servers(no_approver(), TokenVerification::Disabled),
    )?;
    let calls = match (call, session) {
        (Some(call), _) => vec![find_call(call, built.gate.gate())?],
        (None, None) => select_changes(built.gate.gate(), &built.workspace, None)?,
        (None, Some(session)) => {
            let session = find_session(session, &journal_changes(built.gate.gate())?)?;
            select_changes(built.gate.gate(), &built.workspace, Some(&session))?
        }
    };
    let runtime = runtime(TokenVerification::Disabled)?;
    let mut rows = Vec::new();
    for call in calls {
        // Each undo is atomic, so an interrupt is honoured between two of them.
        if interrupt.is_requested() {
            return Err(CliError {
                code: INTERRUPTED,
                ..CliError::error("interrupted; the rest was not undone")
            });
        }
        let undoing = built.gate.gate().undo(call, settings.caller.clone(), UndoOptions { force });
        match runtime.block_on(undoing) {
            Ok(undone) => {
                if !common.json {
                    print(&format!("undid {call}: {}\n", escape_line(&undone.paths.join(", "))))?;
                }
                rows.push(json!({"call": undone.call, "by": undone.undo_call, "paths": undone.paths}));
            }
            Err(error) => {
                let code = error.code().as_str();
                let failed = undo_failure(error);
                if common.json {
                    print_json(
                        &json!({"undone": rows, "error": {"call": call, "code": code, "message": failed.message, "help": failed.help}}),
                    )?;
                }
                return Err(failed);
            }
        }
    }
    if common.json {
        print_json(&json!({"undone": rows}))?;
    } else if rows.is_empty() {
        print("nothing to undo\n")?;
    }
    Ok(SUCCESS)
}

/// The newest change here that is still in effect, or all of a session, newest first.
pub(crate) fn select_changes(
    gate: &Gate,
    workspace: &Workspace,
    session: Option<&SessionId>,
) -> Result<Vec<CallId>, CliError> {
    let mut sets = journal_changes(gate)?;
    sets.reverse();
    let in_force = sets.iter().filter(|set| set.undone_by.is_none() && set.undoes.is_none());
    let here = in_force.filter(|set| is_in_workspace(set, &sets, workspace));
    Ok(match session {
        Some(session) => here.filter(|set| set.session == *session).map(|set| set.call).collect(),
        None => here.take(1).map(|set| set.call).collect(),
    })
}

/// The error of a failed undo.
pub(crate) fn undo_failure(error: UndoError) -> CliError {
    let failed = CliError::error(error.to_string());
    match error {
        _ if error.code() == ErrorCode::DiskFull => {
            failed.help("nothing was touched; free some space first: what an undo replaces is kept as well")
        }
        UndoError::Conflict { .. } => {
            CliError { code: DENIED, ..failed }.help("nothing was touched; look at the file, then use --force to put the old content back all the same")
        }
        UndoError::Refused { .. } => CliError { code: DENIED, ..failed }
            .help("nothing was touched; the rules of the present configuration hold for undo as well, also with --force"),
        UndoError::OtherMount { .. } => CliError { code: DENIED, ..failed }
            .help("nothing was touched; undo it with the configuration and the workspace that the change was made in"),
        UndoError::Dropped(_) => {
            failed.help("`toolgate changes` lists what is kept; `retention.undo` in the configuration bounds it")
        }
        UndoError::Unknown(_) => failed.help("`toolgate changes` lists what can be undone"),
        _ => failed,
    }
}
