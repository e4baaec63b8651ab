//! Open questions and lasting grants.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use serde::Deserialize;
use toolgate_conversation::GivenAnswer;
use toolgate_gate::LastingGrant;
use toolgate_types::time::rfc3339_millis;

use crate::client::Client;
use crate::dto::{AnswerGiven, ApprovalDto, GrantDto, Page};
use crate::failure::{ApiResult, internal, not_found, of_answer};
use crate::input::{JsonBody, QueryOf, call_id};
use crate::state::ApiState;

/// The name of the WebSocket of a client that answers over HTTP, so that the other clients see which of them it was.
const CLIENT_HEADER: &str = "toolgate-client";

#[derive(Deserialize)]
pub(crate) struct ApprovalQuery {
    session: Option<String>,
}

pub(crate) async fn list(
    State(state): State<Arc<ApiState>>,
    client: Client,
    QueryOf(query): QueryOf<ApprovalQuery>,
) -> Json<Page<ApprovalDto>> {
    state.conversations.note_reader(&client.principal);
    let is_wanted = |approval: &ApprovalDto| query.session.is_none() || approval.session == query.session;
    let open = state.conversations.questions(&client.principal);
    Json(Page::whole(open.iter().map(|question| ApprovalDto::from(&**question)).filter(is_wanted).collect()))
}

pub(crate) async fn get(
    State(state): State<Arc<ApiState>>,
    client: Client,
    Path(id): Path<String>,
) -> ApiResult<Json<ApprovalDto>> {
    let call = call_id(&id)?;
    let open = state.conversations.questions(&client.principal);
    let found = open.iter().find(|question| question.request.call == call);
    let found = found.ok_or_else(|| not_found("no question is open about this call"))?;
    Ok(Json((&**found).into()))
}

pub(crate) async fn answer(
    State(state): State<Arc<ApiState>>,
    mut client: Client,
    headers: HeaderMap,
    Path(id): Path<String>,
    JsonBody(answer): JsonBody<GivenAnswer>,
) -> ApiResult<Json<AnswerGiven>> {
    let name = headers.get(CLIENT_HEADER).and_then(|name| name.to_str().ok());
    let is_own = |name: &&str| state.connections.is_of(name, &client.principal.owner);
    client.principal.participant.client = name.filter(is_own).map(str::to_owned);
    let given = state.conversations.answer(&client.principal, call_id(&id)?, answer);
    Ok(Json((&given.map_err(of_answer)?).into()))
}

pub(crate) async fn grants(
    State(state): State<Arc<ApiState>>,
    client: Client,
) -> ApiResult<Json<Page<GrantDto>>> {
    Ok(Json(Page::whole(visible_grants(&state, &client)?.into_iter().map(grant_dto).collect())))
}

pub(crate) async fn revoke(
    State(state): State<Arc<ApiState>>,
    client: Client,
    Path(id): Path<String>,
) -> ApiResult<StatusCode> {
    if !visible_grants(&state, &client)?.iter().any(|grant| grant.id == id) {
        return Err(not_found("there is no such grant"));
    }
    let revoked = state.service.front().gate().grants().revoke(&id);
    match revoked.map_err(|_| internal("writing the grants"))? {
        Some(_) => Ok(StatusCode::NO_CONTENT),
        None => Err(not_found("there is no such grant")),
    }
}

/// The person sees every grant; another caller its own.
fn visible_grants(state: &ApiState, client: &Client) -> ApiResult<Vec<LastingGrant>> {
    let grants = state.service.front().gate().grants().list().map_err(|_| internal("reading the grants"))?;
    let caller = &client.http.caller;
    let is_own = |grant: &LastingGrant| {
        grant.by_token && grant.subject == caller.subject && grant.agent == caller.agent
    };
    Ok(grants.into_iter().filter(|grant| client.is_person() || is_own(grant)).collect())
}

fn grant_dto(grant: LastingGrant) -> GrantDto {
    let time = |at: i64| Timestamp::from_millisecond(at).map(rfc3339_millis).unwrap_or_default();
    GrantDto {
        id: grant.id,
        tool: grant.tool,
        covers: grant.covers,
        subject: grant.subject,
        agent: grant.agent.map(|agent| agent.to_string()),
        lasts: if grant.expires_at.is_some() { "until" } else { "workspace" }.to_owned(),
        given_at: time(grant.given_at),
        given_by: grant.given_by.to_string(),
        expires_at: grant.expires_at.map(time),
    }
}
