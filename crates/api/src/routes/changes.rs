//! What calls changed, and undoing it.

use std::collections::HashSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use toolgate_gate::{ChangeSet, UndoOptions};
use toolgate_types::{CallId, Caller};

use crate::client::Client;
use crate::dto::{ChangeDto, FileDiffDto, Page, UndoBody, UndoOutcomeDto};
use crate::failure::{ApiResult, conflict, internal, not_found, of_conversation, of_undo};
use crate::input::{JsonBody, QueryOf, call_id, page_size};
use crate::routes::calls::own_session;
use crate::state::ApiState;

#[derive(Deserialize)]
pub(crate) struct ChangeQuery {
    session: Option<String>,
    cursor: Option<String>,
    limit: Option<usize>,
}

pub(crate) async fn list(
    State(state): State<Arc<ApiState>>,
    client: Client,
    QueryOf(query): QueryOf<ChangeQuery>,
) -> ApiResult<Json<Page<ChangeDto>>> {
    let mut sets = visible_changes(&state, &client).await?;
    sets.retain(|set| query.session.as_ref().is_none_or(|session| set.session.as_str() == session));
    // Call ids sort by time.
    sets.sort_by_key(|set| std::cmp::Reverse(set.call));
    let after = query.cursor.as_deref().map(call_id).transpose()?;
    let mut rest = sets.iter().filter(|set| after.is_none_or(|after| set.call < after));
    let page: Vec<&ChangeSet> = rest.by_ref().take(page_size(query.limit)).collect();
    let next_cursor = rest.next().and_then(|_| page.last()).map(|set| set.call.to_string());
    Ok(Json(Page { items: page.into_iter().map(ChangeDto::from).collect(), next_cursor }))
}

pub(crate) async fn get(
    State(state): State<Arc<ApiState>>,
    client: Client,
    Path(id): Path<String>,
) -> ApiResult<Json<ChangeDto>> {
    let set = visible_change(&state, &client, call_id(&id)?).await?;
    let diffs = diffs(&state, &set).await?;
    Ok(Json(ChangeDto { diffs: Some(diffs), ..ChangeDto::from(&set) }))
}

pub(crate) async fn undo(
    State(state): State<Arc<ApiState>>,
    client: Client,
    Path(id): Path<String>,
    JsonBody(UndoBody { dry_run, force }): JsonBody<UndoBody>,
) -> ApiResult<Json<UndoOutcomeDto>> {
    let set = visible_change(&state, &client, call_id(&id)?).await?;
    if dry_run {
        let diffs = diffs(&state, &set).await?;
        if let Some(by) = set.undone_by {
            return Err(of_undo(&toolgate_gate::UndoError::AlreadyUndone { call: set.call, by }));
        }
        // A file that the call created and that is gone needs no undo.
        let is_conflict = |diff: &FileDiffDto| match diff.current.as_str() {
            "same" => false,
            "missing" => diff.kind != "create",
            _ => true,
        };
        if !force && diffs.iter().any(is_conflict) {
            return Err(conflict("conflict", "a file was changed since")
                .help("repeat it with `force: true` to restore over what was changed since"));
        }
        return Ok(Json(UndoOutcomeDto {
            call_id: set.call.to_string(),
            dry_run,
            undo_call: None,
            paths: set.changes.iter().map(toolgate_gate::FileChange::display_path).collect(),
            diffs: Some(diffs),
        }));
    }
    let caller = Caller { session: set.session.clone(), ..(*client.http.caller).clone() };
    let undone = state.service.front().gate().undo(set.call, caller, UndoOptions { force }).await;
    let undone = undone.map_err(|error| of_undo(&error))?;
    Ok(Json(UndoOutcomeDto {
        call_id: undone.call.to_string(),
        dry_run,
        undo_call: Some(undone.undo_call.to_string()),
        paths: undone.paths,
        diffs: None,
    }))
}

/// The changes of this caller in the current mounts: the person's are all of them, another caller's those of its own sessions.
async fn visible_changes(state: &ApiState, client: &Client) -> ApiResult<Vec<ChangeSet>> {
    let journal = Arc::clone(state.service.front().gate().journal());
    let listed = tokio::task::spawn_blocking(move || journal.list()).await;
    let listed = listed.ok().and_then(Result::ok).ok_or_else(|| internal("reading the journal"))?;
    let own = own_sessions(state, client).await?;
    let is_visible = |set: &ChangeSet| {
        set.missing_mount(&state.workspace).is_none()
            && own.as_ref().is_none_or(|own| own.contains(set.session.as_str()))
    };
    Ok(listed.change_sets.into_iter().filter(is_visible).collect())
}

async fn visible_change(state: &ApiState, client: &Client, call: CallId) -> ApiResult<ChangeSet> {
    let unknown = || not_found("the journal knows no change made by this call");
    let journal = Arc::clone(state.service.front().gate().journal());
    let found = tokio::task::spawn_blocking(move || journal.change_set(call)).await.ok().flatten();
    let found = found.ok_or_else(unknown)?;
    let own = own_sessions(state, client).await?;
    match own.is_none_or(|own| own.contains(found.session.as_str())) {
        true => Ok(found),
        false => Err(unknown()),
    }
}

/// The sessions of a caller with a token; `None` for the person, who sees every session.
async fn own_sessions(state: &ApiState, client: &Client) -> ApiResult<Option<HashSet<String>>> {
    if client.is_person() {
        return Ok(None);
    }
    let listed = state.conversations.list(&client.principal, "", None, usize::MAX).await;
    let listed = listed.map_err(of_conversation)?.items.into_iter();
    let own = own_session(client).map(|session| session.to_string());
    Ok(Some(listed.map(|session| session.summary.id.to_string()).chain(own).collect()))
}

async fn diffs(state: &ApiState, set: &ChangeSet) -> ApiResult<Vec<FileDiffDto>> {
    let (journal, workspace, set) =
        (Arc::clone(state.service.front().gate().journal()), Arc::clone(&state.workspace), set.clone());
    let read = tokio::task::spawn_blocking(move || {
        let compared = set.changes.iter().map(|change| journal.compare(change, &workspace));
        compared.map(diff_dto).collect()
    });
    read.await.map_err(|_| internal("comparing the files"))
}

fn diff_dto(compared: toolgate_gate::ComparedChange) -> FileDiffDto {
    FileDiffDto {
        path: compared.path,
        kind: compared.kind.to_owned(),
        diff: compared.diff,
        binary: compared.is_binary,
        too_large: compared.is_too_large,
        current: compared.current.as_str().to_owned(),
    }
}
