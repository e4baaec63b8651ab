//! Answers requests on every wire.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use serde_json::Value;

use super::ScriptServerState;
use super::logged_request::LoggedRequest;
use crate::exchange::{Exchange, GARBAGE, ThinkingDisplay};
use crate::playback::Tape;
use crate::reply::{ReplyContext, ScriptedReply, StreamFault, reply};
use crate::request_rejection::RequestRejection;
use crate::script::StatusFault;
use crate::step_selection::choose;
use crate::wires::{ServedWire, Wire, WireRoute, error_of_no_wire};

/// Longer requests are rejected.
const MAX_BODY_BYTES: usize = 64 << 20;

pub(super) async fn answer(State(stage): State<Arc<ScriptServerState>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let bytes = to_bytes(body, MAX_BODY_BYTES).await;
    let path = head.uri.path();
    let asked = bytes.as_ref().ok().and_then(|bytes| serde_json::from_slice(bytes).ok());
    let route = route(&head.method, path, &head.headers);
    let wire = route.as_ref().map(|(wire, _)| *wire);
    let response = match (route, &bytes) {
        (None, _) => reject(None, &RequestRejection::new(404, format!("there is nothing at {path}"))),
        (Some(_), Err(_)) => reject(wire, &RequestRejection::new(413, "Request exceeds the maximum size")),
        (Some((wire, route)), Ok(_)) => stage.answer(wire, &route, &head.headers, asked.as_ref()),
    };
    let body = asked.unwrap_or(Value::Null);
    stage.log.add(LoggedRequest::new(wire, path, &head.headers, body, response.status().as_u16()));
    response
}

fn route(method: &Method, path: &str, headers: &HeaderMap) -> Option<(Wire, WireRoute)> {
    Wire::ALL.iter().find_map(|wire| Some((*wire, (wire.spec().route)(method, path, headers)?)))
}

impl ScriptServerState {
    fn answer(&self, wire: Wire, route: &WireRoute, headers: &HeaderMap, body: Option<&Value>) -> Response {
        let authorized = (wire.spec().authorize)(headers, self.key.as_deref());
        let answered = authorized.and_then(|()| match route {
            WireRoute::Step => self.step(wire.spec(), headers, body),
            WireRoute::Query(answer) => {
                answer(&self.script, body.unwrap_or(&Value::Null)).map(|value| json_response(&value))
            }
        });
        answered.unwrap_or_else(|refusal| reject(Some(wire), &refusal))
    }

    fn step(
        &self,
        wire: &ServedWire,
        headers: &HeaderMap,
        body: Option<&Value>,
    ) -> Result<Response, RequestRejection> {
        let body = body.ok_or_else(|| RequestRejection::bad_request("The request body is not valid JSON"))?;
        let exchange = (wire.read)(&self.script, headers, body)?;
        let asking = ReplyContext {
            conversation: &exchange.conversation,
            prefix: wire.call_prefix,
            thinking: exchange.thinking != ThinkingDisplay::Off,
            input_tokens: exchange.input_tokens,
        };
        let number = choose(&self.script, &exchange.conversation);
        let reply = reply(&self.script, number, &self.counts, &asking).map_err(status_fault)?;
        if exchange.is_streamed {
            let tape = (wire.stream)(&self.script, &reply, &exchange);
            Ok(stream_response(wire.stream_type, tape.cut(reply.cut)))
        } else {
            self.full_response(wire, &reply, &exchange)
        }
    }

    fn full_response(
        &self,
        wire: &ServedWire,
        reply: &ScriptedReply,
        exchange: &Exchange,
    ) -> Result<Response, RequestRejection> {
        let text = (wire.full_response)(&self.script, reply, exchange)?.to_string();
        let mut tape = Tape::new(None);
        match reply.stream_fault() {
            None => tape.bytes(text),
            Some(StreamFault::Error { message, kind }) => {
                return Err(RequestRejection {
                    kind: kind.clone(),
                    ..RequestRejection::new(wire.error_status, message.clone())
                });
            }
            Some(StreamFault::Break(end)) => {
                let half = text.len() / 2;
                tape.bytes(text);
                tape = tape.cut(Some((half, *end)));
            }
            Some(_) => tape.bytes(GARBAGE),
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
    let body = wire.map_or_else(|| error_of_no_wire(refusal), |wire| (wire.spec().error)(refusal));
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
