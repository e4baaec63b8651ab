//! Tools and single calls.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolgate_gate::{CallOptions, Credential, ToolAccess, needs_question};
use toolgate_tools::CallResponse;
use toolgate_types::{SessionId, Stage, ToolCall};

use crate::client::Client;
use crate::dto::{CallBody, CallOutcome, Page, ToolDto};
use crate::failure::{ApiResult, of_conversation, of_failure, unavailable};
use crate::input::{JsonBody, session_id};
use crate::state::ApiState;

pub(crate) async fn tools(
    State(state): State<Arc<ApiState>>,
    client: Client,
) -> ApiResult<Json<Page<ToolDto>>> {
    let access = state.service.front().gate().tool_access(client.http.credential.clone()).await;
    let access = access.map_err(|failure| of_failure(&failure))?;
    Ok(Json(Page::whole(access.iter().map(|access| tool_dto(access, &client)).collect())))
}

fn tool_dto(access: &ToolAccess, client: &Client) -> ToolDto {
    let spec = access.tool.spec();
    let name = spec.name.as_str();
    let server = name.split_once("__").map(|(server, _)| server.to_owned());
    let server = server.filter(|_| spec.category == toolgate_types::Category::Mcp);
    let source = match (&server, spec.is_built_in()) {
        (Some(_), _) => "server",
        (None, true) => "built_in",
        (None, false) => "manifest",
    };
    let requirements = spec.requirements.as_ref();
    ToolDto {
        name: name.to_owned(),
        description: spec.description.clone(),
        class: spec.class.as_str().to_owned(),
        source: source.to_owned(),
        server,
        version: access.tool.version().map(str::to_owned),
        input_schema: Value::Object((*spec.input_schema).clone()),
        permissions: requirements.map(|needed| needed.permissions.clone()).unwrap_or_default(),
        available: access.refusal.is_none(),
        asks: needs_question(client.http.caller.trust, spec.class),
        reason: access.refusal.clone(),
    }
}

pub(crate) async fn call(
    State(state): State<Arc<ApiState>>,
    client: Client,
    JsonBody(body): JsonBody<CallBody>,
) -> ApiResult<Json<CallOutcome>> {
    let session = match &body.session {
        Some(session) => {
            let id = session_id(session)?;
            state.conversations.get(&client.principal, &id).await.map_err(of_conversation)?;
            Some(id)
        }
        None => None,
    };
    let call = ToolCall::new(body.tool, Value::Object(body.arguments));
    let options = CallOptions {
        approver: Some(state.conversations.call_approver(&client.principal, session.clone())),
        timeout: body.timeout_ms.map(Duration::from_millis),
        // Dropped with the request: a client that leaves cancels its call.
        cancelled: CancellationToken::new(),
        ..CallOptions::default()
    };
    let credential = in_session(&client, session);
    let called = state.service.call(call, credential, client_key(&client), options).await;
    let called = called.ok_or_else(|| unavailable("too many calls of this caller are under way"))?;
    Ok(Json(outcome(&called)))
}

/// Changes of calls without a session belong to one of their caller.
fn in_session(client: &Client, session: Option<SessionId>) -> Credential {
    let mut credential = client.http.credential.clone();
    let Some(id) = session.or_else(|| own_session(client)) else { return credential };
    match &mut credential {
        Credential::Known(caller) => Arc::make_mut(caller).session = id,
        Credential::Token { session, .. } => *session = id,
    }
    credential
}

/// The session of a caller's single calls.
pub(crate) fn own_session(client: &Client) -> Option<SessionId> {
    let key: String = client_key(client).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("api-{key}").parse().ok()
}

fn client_key(client: &Client) -> [u8; 32] {
    client.http.key()
}

fn outcome(called: &CallResponse) -> CallOutcome {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let (stage, code) = match &called.failed {
        Some((stage, failure)) => {
            (Some(Stage::as_str(*stage).to_owned()), Some(failure.code.as_str().to_owned()))
        }
        None => (None, None),
    };
    CallOutcome {
        call_id: called.call.to_string(),
        decision: called.decision.as_str().to_owned(),
        stage,
        code,
        text: called.answer.text.clone(),
        structured: called.structured(),
        is_error: called.answer.is_error,
        duration_ms: millis(called.duration),
        waited_ms: millis(called.waited),
    }
}
