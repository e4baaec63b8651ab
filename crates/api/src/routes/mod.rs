//! The routes. [`OPERATIONS`] is the one list of them: the router and the OpenAPI document are made from it.

pub(crate) mod sessions;
pub(crate) mod approvals;
pub(crate) mod calls;
mod changes;
mod audit;
mod catalogue;
mod traffic;

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::Redirect;
use axum::routing::{MethodRouter, any, delete, get, patch, post};
use schemars::{Schema, SchemaGenerator};
use toolgate_serve::Problem;

use crate::dto;
use crate::event_stream;
use crate::idempotency::answer_once;
use crate::openapi;
use crate::state::{ApiParts, ApiState};
use crate::websocket;

/// What every path below begins with.
pub(crate) const BASE: &str = "/api/v1";

/// Where the OpenAPI document is: the base URL leads there.
const OPENAPI: &str = "/api/v1/openapi.json";

/// The schema of a type.
type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The content of a successful answer.
#[derive(Clone, Copy)]
pub(crate) enum AnswerContent {
    /// JSON of a type.
    Json(SchemaOf),
    /// Any JSON object.
    AnyJson,
    /// Text of another kind.
    Text(&'static str),
    /// Nothing.
    Empty,
}

/// One operation.
pub(crate) struct ApiOperation {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    /// Parameters of the query, with their types.
    pub(crate) query: &'static [(&'static str, &'static str)],
    pub(crate) body: Option<SchemaOf>,
    pub(crate) status: u16,
    pub(crate) answer: AnswerContent,
    pub(crate) route: fn() -> MethodRouter<Arc<ApiState>>,
}

impl ApiOperation {
    /// The statuses of its problems.
    pub(crate) fn problems(&self) -> Vec<u16> {
        let is_get = self.method == "get";
        // The credential, the limits, and a journal, record or database that fails.
        let mut statuses = vec![401, 429, 500, 503];
        if !is_get {
            // Another site, the body, and a repeated key.
            statuses.extend([400, 403, 408, 409, 413, 415, 422]);
        }
        if self.path.contains('{') {
            statuses.push(404);
        }
        if !self.query.is_empty() {
            statuses.push(422);
        }
        statuses.extend(self.own_problems());
        statuses.sort_unstable();
        statuses.dedup();
        statuses
    }

    /// Those that follow from what it does.
    fn own_problems(&self) -> &'static [u16] {
        match self.id {
            "listRecords" | "listPins" | "getTraffic" | "streamTraffic" => &[403],
            "listSessions" => &[422],
            // The cursor is an id.
            "listChanges" => &[404],
            "callTool" => &[404],
            "createSession" | "updateSession" | "sendMessage" => &[502],
            _ => &[],
        }
    }
}

fn of<T: schemars::JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

macro_rules! operation {
    ($method:ident $path:literal $id:literal $summary:literal, $query:expr, $body:expr, $status:literal $answer:expr, $handler:expr) => {
        ApiOperation {
            method: stringify!($method),
            path: $path,
            id: $id,
            summary: $summary,
            query: &$query,
            body: $body,
            status: $status,
            answer: $answer,
            route: || $method($handler),
        }
    };
}

/// The parameters of every list.
const NO_QUERY: [(&str, &str); 0] = [];

/// Every operation.
pub(crate) const OPERATIONS: &[ApiOperation] = &[
    operation!(get "/me" "getMe" "The caller of this request", NO_QUERY, None, 200 AnswerContent::Json(of::<dto::MeDto>), catalogue::me),
    operation!(post "/sessions" "createSession" "Creates a session", NO_QUERY, Some(of::<dto::NewSessionBody>), 201 AnswerContent::Json(of::<dto::SessionDto>), sessions::create),
    operation!(get "/sessions" "listSessions" "Sessions, the most recently used first", [("query", "string"), ("cursor", "string"), ("limit", "integer")], None, 200 AnswerContent::Json(of::<dto::Page<dto::SessionDto>>), sessions::list),
    operation!(get "/sessions/{id}" "getSession" "One session", NO_QUERY, None, 200 AnswerContent::Json(of::<dto::SessionDto>), sessions::get),
    operation!(patch "/sessions/{id}" "updateSession" "Changes the title, the model or the trust level", NO_QUERY, Some(of::<dto::SessionUpdateBody>), 200 AnswerContent::Json(of::<dto::SessionDto>), sessions::update),
    operation!(delete "/sessions/{id}" "deleteSession" "Deletes a session", NO_QUERY, None, 204 AnswerContent::Empty, sessions::delete),
    operation!(get "/sessions/{id}/messages" "listMessages" "What was said before the running turn", NO_QUERY, None, 200 AnswerContent::Json(of::<dto::SessionMessages>), sessions::messages),
    operation!(post "/sessions/{id}/messages" "sendMessage" "Sends a message; what follows comes as events", NO_QUERY, Some(of::<dto::MessageBody>), 202 AnswerContent::Json(of::<dto::MessageSent>), sessions::send),
    operation!(post "/sessions/{id}/cancel" "cancelTurn" "Cancels the running turn", NO_QUERY, None, 202 AnswerContent::Json(of::<dto::Cancelled>), sessions::cancel),
    operation!(get "/sessions/{id}/events" "streamEvents" "The events of a session as server-sent events", [("after", "integer")], None, 200 AnswerContent::Text("text/event-stream"), event_stream::session_events),
    operation!(get "/sessions/{id}/export" "exportSession" "The whole session as JSON Lines", NO_QUERY, None, 200 AnswerContent::Text("application/jsonl"), sessions::export),
    operation!(get "/events" "streamActivity" "What happens in all sessions, as server-sent events", NO_QUERY, None, 200 AnswerContent::Text("text/event-stream"), event_stream::activity),
    operation!(get "/tools" "listTools" "Tools, also those that this caller may not use", NO_QUERY, None, 200 AnswerContent::Json(of::<dto::Page<dto::ToolDto>>), calls::tools),
    operation!(post "/calls" "callTool" "Calls a tool through the gate", NO_QUERY, Some(of::<dto::CallBody>), 200 AnswerContent::Json(of::<dto::CallOutcome>), calls::call),
    operation!(get "/approvals" "listApprovals" "Open questions, oldest first", [("session", "string")], None, 200 AnswerContent::Json(of::<dto::Page<dto::ApprovalDto>>), approvals::list),
    operation!(get "/approvals/{id}" "getApproval" "One open question", NO_QUERY, None, 200 AnswerContent::Json(of::<dto::ApprovalDto>), approvals::get),
    operation!(post "/approvals/{id}" "answerApproval" "Answers a question; the first answer counts", NO_QUERY, Some(of::<dto::AnswerBody>), 200 AnswerContent::Json(of::<dto::AnswerGiven>), approvals::answer),
    operation!(get "/grants" "listGrants" "Lasting grants", NO_QUERY, None, 200 AnswerContent::Json(of::<dto::Page<dto::GrantDto>>), approvals::grants),
    operation!(delete "/grants/{id}" "revokeGrant" "Revokes a lasting grant", NO_QUERY, None, 204 AnswerContent::Empty, approvals::revoke),
    operation!(get "/changes" "listChanges" "What calls changed, newest first", [("session", "string"), ("cursor", "string"), ("limit", "integer")], None, 200 AnswerContent::Json(of::<dto::Page<dto::ChangeDto>>), changes::list),
    operation!(get "/changes/{callId}" "getChange" "What one call changed, with differences", NO_QUERY, None, 200 AnswerContent::Json(of::<dto::ChangeDto>), changes::get),
    operation!(post "/changes/{callId}/undo" "undoChange" "Undoes what a call changed", NO_QUERY, Some(of::<dto::UndoBody>), 200 AnswerContent::Json(of::<dto::UndoOutcomeDto>), changes::undo),
    operation!(get "/audit" "listRecords" "Records, newest first", [("tool", "string"), ("decision", "string"), ("caller", "string"), ("session", "string"), ("since", "string"), ("until", "string"), ("cursor", "integer"), ("limit", "integer")], None, 200 AnswerContent::Json(of::<dto::Page<dto::audited::RecordDto>>), audit::list),
    operation!(post "/audit/verify" "verifyRecord" "Verifies the chain of the record", NO_QUERY, None, 200 AnswerContent::Json(of::<dto::audited::VerifyDto>), audit::verify),
    operation!(get "/audit/{callId}" "getRecord" "One call in full", NO_QUERY, None, 200 AnswerContent::Json(of::<dto::AuditedCall>), audit::get),
    operation!(get "/models" "listModels" "Models that can be used", NO_QUERY, None, 200 AnswerContent::Json(of::<dto::ModelList>), catalogue::models),
    operation!(get "/agents" "listAgents" "Declared agents", NO_QUERY, None, 200 AnswerContent::Json(of::<dto::Page<dto::AgentDto>>), catalogue::agents),
    operation!(get "/servers" "listServers" "MCP servers behind the gate", NO_QUERY, None, 200 AnswerContent::Json(of::<dto::Page<dto::ServerDto>>), catalogue::servers),
    operation!(get "/pins" "listPins" "Pinned definitions of servers' tools", NO_QUERY, None, 200 AnswerContent::Json(of::<dto::Page<dto::PinDto>>), catalogue::pins),
    operation!(post "/pins/{server}/{tool}" "agreeToPin" "Agrees to a definition by its digest", NO_QUERY, Some(of::<dto::PinBody>), 204 AnswerContent::Empty, catalogue::agree),
    operation!(get "/health" "getHealth" "How the gate is", NO_QUERY, None, 200 AnswerContent::Json(of::<dto::Health>), catalogue::health),
    operation!(get "/traffic" "getTraffic" "The calls of all callers, for operators", NO_QUERY, None, 200 AnswerContent::Json(of::<dto::traffic::TrafficDto>), traffic::get),
    operation!(get "/traffic/events" "streamTraffic" "The same once a second, as server-sent events", NO_QUERY, None, 200 AnswerContent::Text("text/event-stream"), traffic::stream),
    operation!(get "/openapi.json" "getOpenApi" "This document", NO_QUERY, None, 200 AnswerContent::AnyJson, openapi::serve),
];

/// The routes of the API and the WebSocket, for the HTTP server.
pub fn router(parts: ApiParts) -> Router {
    let state = ApiState::new(parts);
    let api = OPERATIONS.iter().fold(Router::new(), |router, operation| {
        router.route(&format!("{BASE}{}", operation.path), (operation.route)())
    });
    api.route(BASE, get(async || Redirect::temporary(OPENAPI)))
        .route("/ws", get(websocket::open))
        .route("/api", any(nothing))
        .route("/api/{*path}", any(nothing))
        .method_not_allowed_fallback(async || {
            Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "this method is not served here",
            )
        })
        .layer(from_fn_with_state(Arc::clone(&state), answer_once))
        .with_state(state)
}

async fn nothing() -> Problem {
    crate::failure::not_found("there is nothing here; `GET /api/v1/openapi.json` lists what there is")
}
