//! Sessions: created, listed, renamed, deleted; their messages.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderValue, Response, StatusCode};
use serde::Deserialize;
use toolgate_conversation::{ConversationUpdate, NewConversation, OutgoingMessage, TextAttachment};

use crate::client::Client;
use crate::dto::{
    Cancelled, MessageBody, MessageSent, NewSessionBody, Page, SessionDto, SessionMessages, SessionUpdateBody,
};
use crate::failure::{ApiResult, internal, invalid, of_conversation};
use crate::input::{JsonBody, QueryOf, page_size, session_id};
use crate::state::ApiState;

#[derive(Deserialize)]
pub(crate) struct SessionQuery {
    #[serde(default)]
    query: String,
    cursor: Option<String>,
    limit: Option<usize>,
}

pub(crate) async fn create(
    State(state): State<Arc<ApiState>>,
    client: Client,
    JsonBody(body): JsonBody<NewSessionBody>,
) -> ApiResult<(StatusCode, Json<SessionDto>)> {
    let agent = body.agent.map(|agent| agent.parse().map_err(|error| invalid(format!("{error}"))));
    let new = NewConversation {
        agent: agent.transpose()?,
        model: body.model,
        trust: body.trust.map(Into::into),
        title: body.title,
    };
    let created = state.conversations.create(&client.principal, new).await.map_err(of_conversation)?;
    Ok((StatusCode::CREATED, Json(created.into())))
}

pub(crate) async fn list(
    State(state): State<Arc<ApiState>>,
    client: Client,
    QueryOf(query): QueryOf<SessionQuery>,
) -> ApiResult<Json<Page<SessionDto>>> {
    let SessionQuery { query, cursor, limit } = query;
    let page = state.conversations.list(&client.principal, &query, cursor.as_deref(), page_size(limit)).await;
    let page = page.map_err(of_conversation)?;
    Ok(Json(Page { items: page.items.into_iter().map(Into::into).collect(), next_cursor: page.next }))
}

pub(crate) async fn get(
    State(state): State<Arc<ApiState>>,
    client: Client,
    Path(id): Path<String>,
) -> ApiResult<Json<SessionDto>> {
    let found = state.conversations.get(&client.principal, &session_id(&id)?).await;
    Ok(Json(found.map_err(of_conversation)?.into()))
}

pub(crate) async fn update(
    State(state): State<Arc<ApiState>>,
    client: Client,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<SessionUpdateBody>,
) -> ApiResult<Json<SessionDto>> {
    let SessionUpdateBody { title, model, trust } = body;
    let update = ConversationUpdate { title, model, trust: trust.map(Into::into) };
    let updated = state.conversations.update(&client.principal, &session_id(&id)?, update).await;
    Ok(Json(updated.map_err(of_conversation)?.into()))
}

pub(crate) async fn delete(
    State(state): State<Arc<ApiState>>,
    client: Client,
    Path(id): Path<String>,
) -> ApiResult<StatusCode> {
    let deleted = state.conversations.delete(&client.principal, &session_id(&id)?).await;
    deleted.map_err(of_conversation)?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn messages(
    State(state): State<Arc<ApiState>>,
    client: Client,
    Path(id): Path<String>,
) -> ApiResult<Json<SessionMessages>> {
    let snapshot = state.conversations.messages(&client.principal, &session_id(&id)?).await;
    let snapshot = snapshot.map_err(of_conversation)?;
    let messages = snapshot.entries.into_iter().map(Into::into).collect();
    Ok(Json(SessionMessages { messages, seq: snapshot.seq, running: snapshot.running }))
}

pub(crate) async fn send(
    State(state): State<Arc<ApiState>>,
    client: Client,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<MessageBody>,
) -> ApiResult<(StatusCode, Json<MessageSent>)> {
    let sent = state.conversations.send(&client.principal, &session_id(&id)?, outgoing(body)).await;
    let message_id = sent.map_err(of_conversation)?.stored().await;
    Ok((StatusCode::ACCEPTED, Json(MessageSent { message_id })))
}

pub(crate) fn outgoing(body: MessageBody) -> OutgoingMessage {
    let attachment = |file: crate::dto::AttachmentBody| TextAttachment { name: file.name, text: file.text };
    OutgoingMessage { text: body.text, attachments: body.attachments.into_iter().map(attachment).collect() }
}

pub(crate) async fn cancel(
    State(state): State<Arc<ApiState>>,
    client: Client,
    Path(id): Path<String>,
) -> ApiResult<(StatusCode, Json<Cancelled>)> {
    let cancelled = state.conversations.cancel(&client.principal, &session_id(&id)?).await;
    Ok((StatusCode::ACCEPTED, Json(Cancelled { cancelled: cancelled.map_err(of_conversation)? })))
}

pub(crate) async fn export(
    State(state): State<Arc<ApiState>>,
    client: Client,
    Path(id): Path<String>,
) -> ApiResult<Response<Body>> {
    let id = session_id(&id)?;
    let transcript = state.conversations.transcript(&client.principal, &id).await.map_err(of_conversation)?;
    let text = transcript.jsonl().map_err(|_| internal("writing the transcript"))?;
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/jsonl; charset=utf-8"));
    // The id has no character that would have to be quoted.
    if let Ok(name) = HeaderValue::from_str(&format!("attachment; filename=\"session-{id}.jsonl\"")) {
        headers.insert(CONTENT_DISPOSITION, name);
    }
    Ok(response)
}
