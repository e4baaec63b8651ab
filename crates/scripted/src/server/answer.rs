//! Answers requests on every wire.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};

use super::ScriptServerState;
use super::logged_request::LoggedRequest;
use crate::playback::Tape;
use crate::reply::{ReplyContext, ScriptedReply, StreamFault, reply};
use crate::request_rejection::RequestRejection;
use crate::script::StatusFault;
use crate::step_selection::choose;
use crate::wire::{self, Exchange, ThinkingDisplay, Wire};
use crate::wires::{anthropic, chat, ollama, responses};

/// Longer requests are rejected.
const MAX_BODY_BYTES: usize = 64 << 20;

pub(super) async fn answer(State(stage): State<Arc<ScriptServerState>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let bytes = to_bytes(body, MAX_BODY_BYTES).await;
    let path = head.uri.path();
    let asked = bytes.as_ref().ok().and_then(|bytes| serde_json::from_slice(bytes).ok());
    let route = route(&head.method, path, &head.headers);
    let wire = route.as_ref().and_then(WireRoute::wire);
    let response = match (route, &bytes) {
        (None, _) => reject(None, &RequestRejection::new(404, format!("there is nothing at {path}"))),
        (Some(_), Err(_)) => reject(wire, &RequestRejection::new(413, "Request exceeds the maximum size")),
        (Some(route), Ok(_)) => stage.answer(route, &head.headers, asked.as_ref()),
    };
    let body = asked.unwrap_or(Value::Null);
    stage.log.add(LoggedRequest::new(wire, path, &head.headers, body, response.status().as_u16()));
    response
}

/// The purpose of a path.
enum WireRoute {
    Step(Wire),
    Models(Wire),
    Model(Wire),
    Tags,
    Show,
    Version,
}

impl WireRoute {
    fn wire(&self) -> Option<Wire> {
        match self {
            Self::Step(wire) | Self::Models(wire) | Self::Model(wire) => Some(*wire),
            Self::Tags | Self::Show | Self::Version => Some(Wire::Ollama),
        }
    }
}

fn route(method: &Method, path: &str, headers: &HeaderMap) -> Option<WireRoute> {
    // Two vendors list their models at the same path.
    let lister = if headers.contains_key("anthropic-version") { Wire::Anthropic } else { Wire::OpenaiChat };
    match (method.as_str(), path) {
        ("POST", "/v1/messages") => Some(WireRoute::Step(Wire::Anthropic)),
        ("POST", "/v1/responses") => Some(WireRoute::Step(Wire::Openai)),
        ("POST", "/v1/chat/completions") => Some(WireRoute::Step(Wire::OpenaiChat)),
        ("POST", "/api/chat") => Some(WireRoute::Step(Wire::Ollama)),
        ("POST", "/api/show") => Some(WireRoute::Show),
        ("GET", "/api/tags") => Some(WireRoute::Tags),
        ("GET", "/api/version") => Some(WireRoute::Version),
        ("GET", "/v1/models") => Some(WireRoute::Models(lister)),
        ("GET", path) if path.starts_with("/v1/models/") => Some(WireRoute::Model(lister)),
        _ => None,
    }
}

impl ScriptServerState {
    fn answer(&self, route: WireRoute, headers: &HeaderMap, body: Option<&Value>) -> Response {
        let wire = route.wire();
        let answered = match route {
            WireRoute::Step(wire) => self.step(wire, headers, body),
            WireRoute::Models(wire) => self.authorized(wire, headers).map(|()| match wire {
                Wire::Anthropic => json_response(&anthropic::models(&self.script)),
                _ => json_response(&chat::models(&self.script)),
            }),
            WireRoute::Model(wire) => self.authorized(wire, headers).map(|()| match wire {
                Wire::Anthropic => json_response(&anthropic::model(&self.script)),
                _ => json_response(&chat::model(&self.script)),
            }),
            WireRoute::Tags => Ok(json_response(&ollama::tags(&self.script))),
            WireRoute::Version => Ok(json_response(&json!({"version": "0.14.0"}))),
            WireRoute::Show => {
                let model = ollama::read_model(&self.script, body.unwrap_or(&Value::Null));
                model.map(|_| json_response(&ollama::show(&self.script)))
            }
        };
        answered.unwrap_or_else(|refusal| reject(wire, &refusal))
    }

    fn step(
        &self,
        wire: Wire,
        headers: &HeaderMap,
        body: Option<&Value>,
    ) -> Result<Response, RequestRejection> {
        self.authorized(wire, headers)?;
        let body = body.ok_or_else(|| RequestRejection::bad_request("The request body is not valid JSON"))?;
        let exchange = match wire {
            Wire::Anthropic => anthropic::read(&self.script, headers, body),
            Wire::Openai => responses::read(&self.script, body),
            Wire::OpenaiChat => chat::read(&self.script, body),
            Wire::Ollama => ollama::read(&self.script, body),
        }?;
        let asking = ReplyContext {
            conversation: &exchange.conversation,
            prefix: if wire == Wire::Anthropic { "toolu" } else { "call" },
            thinking: exchange.thinking != ThinkingDisplay::Off,
            input_tokens: exchange.input_tokens,
        };
        let number = choose(&self.script, &exchange.conversation);
        let reply = reply(&self.script, number, &self.counts, &asking).map_err(status_fault)?;
        if exchange.is_streamed {
            Ok(self.stream(wire, &reply, &exchange))
        } else {
            self.full_response(wire, &reply, &exchange)
        }
    }

    /// Checks the key. Ollama has none.
    fn authorized(&self, wire: Wire, headers: &HeaderMap) -> Result<(), RequestRejection> {
        let bearer = wire::header(headers, "authorization").and_then(|value| value.strip_prefix("Bearer "));
        let given = match wire {
            Wire::Ollama => return Ok(()),
            Wire::Anthropic => wire::header(headers, "x-api-key").or(bearer),
            Wire::Openai | Wire::OpenaiChat => bearer,
        };
        let good = match (&self.key, given) {
            (Some(key), given) => given == Some(key),
            // Compatible servers often need no key.
            (None, given) => given.is_some() || wire == Wire::OpenaiChat,
        };
        match (good, wire) {
            (true, _) => Ok(()),
            (false, Wire::Anthropic) => Err(RequestRejection::new(401, "invalid x-api-key")),
            (false, _) => {
                Err(RequestRejection::new(401, "Incorrect API key provided.").code("invalid_api_key"))
            }
        }
    }

    fn stream(&self, wire: Wire, reply: &ScriptedReply, exchange: &Exchange) -> Response {
        let tape = match wire {
            Wire::Anthropic => anthropic::stream(reply, exchange),
            Wire::Openai => responses::stream(reply, exchange),
            Wire::OpenaiChat => chat::stream(&self.script, reply, exchange),
            Wire::Ollama => ollama::stream(reply, exchange),
        };
        let kind =
            if wire == Wire::Ollama { "application/x-ndjson" } else { "text/event-stream; charset=utf-8" };
        stream_response(kind, tape.cut(reply.cut))
    }

    fn full_response(
        &self,
        wire: Wire,
        reply: &ScriptedReply,
        exchange: &Exchange,
    ) -> Result<Response, RequestRejection> {
        let value = match wire {
            Wire::Anthropic => anthropic::full_response(reply, exchange),
            Wire::Openai => responses::full_response(reply, exchange),
            Wire::OpenaiChat => chat::full_response(&self.script, reply, exchange),
            Wire::Ollama => ollama::full_response(reply, exchange)?,
        };
        let text = value.to_string();
        let mut tape = Tape::new(None);
        match reply.stream_fault() {
            None => tape.bytes(text),
            Some(StreamFault::Error { message, kind }) => {
                let status = if wire == Wire::Anthropic { 529 } else { 500 };
                return Err(RequestRejection {
                    kind: kind.clone(),
                    ..RequestRejection::new(status, message.clone())
                });
            }
            Some(StreamFault::Break(end)) => {
                let half = text.len() / 2;
                tape.bytes(text);
                tape = tape.cut(Some((half, *end)));
            }
            Some(_) => tape.bytes(wire::GARBAGE),
        }
        Ok(stream_response("application/json", tape.cut(reply.cut)))
    }
}

fn status_fault(fault: StatusFault) -> RequestRejection {
    let reason = StatusCode::from_u16(fault.status).ok().and_then(|status| status.canonical_reason());
    // A status without a registered reason phrase is a vendor's own, such as 529.
    let usual = || reason.unwrap_or("Overloaded").to_owned();
    let mut refusal = RequestRejection::new(fault.status, fault.message.clone().unwrap_or_else(usual));
    refusal.kind = fault.kind;
    refusal.code = fault.code;
    let seconds = fault.retry_after.map(|time| ("retry-after", time.as_secs_f64().to_string()));
    let millis = fault.retry_after_ms.map(|time| ("retry-after-ms", time.as_millis().to_string()));
    let should = fault.should_retry.map(|should| ("x-should-retry", should.to_string()));
    refusal.headers = [seconds, millis, should].into_iter().flatten().collect();
    refusal
}

fn json_response(value: &Value) -> Response {
    respond(200, "application/json", Body::from(value.to_string()))
}

fn stream_response(kind: &'static str, tape: Tape) -> Response {
    respond(200, kind, Body::from_stream(tape.play()))
}

fn reject(wire: Option<Wire>, refusal: &RequestRejection) -> Response {
    let body = match wire {
        Some(Wire::Anthropic) => anthropic::error(refusal),
        Some(Wire::Ollama) => ollama::error(refusal),
        Some(Wire::Openai | Wire::OpenaiChat) | None => chat::error(refusal),
    };
    let mut response = respond(refusal.status, "application/json", Body::from(body.to_string()));
    for (name, value) in &refusal.headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(*name, value);
        }
    }
    response
}

fn respond(status: u16, kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    // Both names of the request id header that clients quote in errors.
    for name in ["request-id", "x-request-id"] {
        response.headers_mut().insert(name, HeaderValue::from_static("req_scripted"));
    }
    response
}
