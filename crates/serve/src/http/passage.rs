//! The way of a request to MCP: who sent it, in which session, how much does it bring.

use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::{CONNECTION, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;

use super::answers::{self, later, refusal};
use super::body::{Outgoing, Read};
use super::door::Door;
use super::meter::add;

/// The header that names a session of the older era.
const SESSION: &str = "mcp-session-id";
/// The header that says which revision of the protocol is spoken.
const REVISION: &str = "mcp-protocol-version";
/// The first revision without sessions.
const NEWER_ERA: &str = "2026-07-28";
/// The method of the newer era whose answer goes on.
const LISTEN: &str = "subscriptions/listen";
/// The method that begins a session of the older era.
const INITIALIZE: &str = "initialize";

/// As much of a message as the door must know.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    method: Option<String>,
}

impl Door {
    /// What becomes of a request to MCP.
    pub(super) async fn pass(&self, mut request: Request) -> Result<Response<Body>, Response<Body>> {
        if self.leaving.is_cancelled() {
            return Err(going());
        }
        let guest = self.admit(&mut request).await?;
        let binding = guest.binding();
        if let Some(pace) = &self.requests
            && !pace.admits(binding, Instant::now())
        {
            return Err(later(StatusCode::TOO_MANY_REQUESTS, "too many requests", "1"));
        }
        let named = self.session(request.headers_mut(), binding)?;
        let (mut parts, body) = request.into_parts();
        let body = self.body(&parts, body).await?;
        let method = wanted(&parts, &body.bytes)?;
        if named.is_none() && method.as_deref() == Some(INITIALIZE) && !self.sessions.make_room(binding).await
        {
            return Err(later(StatusCode::SERVICE_UNAVAILABLE, "too many sessions", "60"));
        }
        parts.extensions.insert(guest.in_session(named.as_deref()));
        let place = match parts.method == Method::GET || method.as_deref() == Some(LISTEN) {
            true => Some(self.place()?),
            false => None,
        };
        let is_end = parts.method == Method::DELETE;
        let response =
            self.hand_over(Request::from_parts(parts, Body::from(body.bytes.clone())), place).await;
        self.note_session(response.headers().get(SESSION), named.filter(|_| is_end), binding);
        // Clients know another answer to an end.
        Ok(if is_end && response.status() == StatusCode::ACCEPTED { answers::ended() } else { response })
    }

    /// To MCP, and back.
    async fn hand_over(&self, request: Request, place: Option<OwnedSemaphorePermit>) -> Response<Body> {
        // Counted before it is asked, so that nothing that was taken is lost sight of.
        let under_way = self.answers.token();
        let brings_json = is_json(request.headers());
        let response = self.mcp.handle(request).await;
        // It said that it brings JSON, and it does.
        if brings_json && response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            return answers::no_message();
        }
        response.map(|inner| {
            let (inner, sent) = (Body::new(inner), &self.meter.sent);
            match place {
                Some(place) => Body::new(Outgoing::stream(inner, sent, self.leaving.clone(), place)),
                None => Body::new(Outgoing::answer(inner, sent, under_way)),
            }
        })
    }

    /// A place for a stream that goes on.
    fn place(&self) -> Result<OwnedSemaphorePermit, Response<Body>> {
        let full = |_| later(StatusCode::SERVICE_UNAVAILABLE, "too many streams", "10");
        Arc::clone(&self.streams).try_acquire_owned().map_err(full)
    }

    /// The session that a request of the older era names, which must be its caller's. The newer era has none, so that none is named.
    fn session(&self, headers: &mut HeaderMap, binding: [u8; 32]) -> Result<Option<String>, Response<Body>> {
        let revision = headers.get(REVISION).and_then(|revision| revision.to_str().ok());
        if revision.is_some_and(|revision| revision >= NEWER_ERA) {
            headers.remove(SESSION);
            return Ok(None);
        }
        let mut names = headers.get_all(SESSION).iter();
        let (name, None) = (names.next(), names.next()) else {
            return Err(refusal(StatusCode::BAD_REQUEST, "one session, or none"));
        };
        let Some(name) = name else { return Ok(None) };
        let name = name.to_str().unwrap_or_default();
        match self.sessions.belongs(name, binding) {
            true => Ok(Some(name.to_owned())),
            false => Err(refusal(StatusCode::NOT_FOUND, "there is no such session")),
        }
    }

    async fn body(&self, parts: &Parts, body: Body) -> Result<Read, Response<Body>> {
        let read = self.reader.read(body).await.map_err(answers::unread)?;
        add(&self.meter.received, read.bytes.len() as u64);
        match parts.method == Method::POST || read.bytes.is_empty() {
            true => Ok(read),
            false => Err(refusal(StatusCode::BAD_REQUEST, "only POST brings a body")),
        }
    }

    fn note_session(&self, begun: Option<&HeaderValue>, ended: Option<String>, binding: [u8; 32]) {
        if let Some(name) = begun.and_then(|name| name.to_str().ok()) {
            self.sessions.begun(name, binding);
        }
        if let Some(name) = ended {
            self.sessions.ended(&name);
        }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/json"))
}

/// What a message wants, of requests that bring one.
fn wanted(parts: &Parts, bytes: &Bytes) -> Result<Option<String>, Response<Body>> {
    if parts.method != Method::POST || !is_json(&parts.headers) {
        return Ok(None);
    }
    match serde_json::from_slice::<Head>(bytes) {
        Ok(head) => Ok(head.method),
        Err(error) if error.is_data() => Err(answers::no_message()),
        Err(_) => Err(answers::no_json()),
    }
}

fn going() -> Response<Body> {
    let mut response = later(StatusCode::SERVICE_UNAVAILABLE, "this gate is closing", "5");
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
