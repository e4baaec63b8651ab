//! The way of a request to MCP: who sent it, in which session, how much does it bring.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::{CONNECTION, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use serde::Deserialize;
use tokio_util::task::task_tracker::TaskTrackerToken;
use toolgate_types::{ErrorCode, Failure};

use super::answers::{self, later, refusal};
use super::body::{Outgoing, Read, StreamPlace, aside};
use super::door::Door;
use super::meter::add;
use super::sessions::Named;
use super::who::Guest;
use crate::mcp::Envelope;

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

/// The tool in the record of a request that was not read.
const UNREAD: &str = "";

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
        let owner = guest.owner();
        if let Some(pace) = &self.requests
            && !pace.admits(owner, Instant::now())
        {
            return Err(self.too_many_requests(&guest));
        }
        if ![Method::GET, Method::POST, Method::DELETE].contains(request.method()) {
            return Err(answers::other_method());
        }
        let named = self.session(request.headers_mut(), owner)?;
        let (mut parts, body) = request.into_parts();
        let body = self.body(&parts, body).await?;
        // Counted before it is asked, so that nothing that was taken is lost sight of; and whatever came while the door closed is not taken.
        let under_way = self.answers.token();
        if self.leaving.is_cancelled() {
            return Err(going());
        }
        let method = wanted(&parts, &body.bytes)?;
        if named.is_none() && method.as_deref() == Some(INITIALIZE) && !self.sessions.make_room(owner).await {
            return Err(later(StatusCode::SERVICE_UNAVAILABLE, "too many sessions", "60"));
        }
        let place = match parts.method == Method::GET || method.as_deref() == Some(LISTEN) {
            true => Some(self.place(owner)?),
            false => None,
        };
        let is_end = parts.method == Method::DELETE;
        let ends = named.as_ref().filter(|_| is_end).map(|named| named.name.clone());
        parts.extensions.insert(guest.in_session(named));
        let envelope = Envelope::default();
        parts.extensions.insert(envelope.clone());
        let request = Request::from_parts(parts, Body::from(body.bytes.clone()));
        let response = self.hand_over(request, body.bytes.len(), place, (under_way, envelope)).await;
        self.note_session(response.headers().get(SESSION), ends, owner);
        // Clients know another answer to an end.
        Ok(if is_end && response.status() == StatusCode::ACCEPTED { answers::ended() } else { response })
    }

    /// Refuses a request above `requests_per_second`, before it is read: what it wants is not known. The record counts it together with others of the caller.
    fn too_many_requests(&self, guest: &Guest) -> Response<Body> {
        let failure = Failure::new(ErrorCode::RateLimited, "too many requests in this second")
            .operator_note("a request above `requests_per_second`, which was not read");
        self.service.front().gate().count_refusal(UNREAD, guest.caller(), &failure);
        later(StatusCode::TOO_MANY_REQUESTS, "too many requests", "1")
    }

    /// To MCP, and back.
    async fn hand_over(
        &self,
        request: Request,
        length: usize,
        place: Option<StreamPlace>,
        (under_way, envelope): (TaskTrackerToken, Envelope),
    ) -> Response<Body> {
        let brings_json = is_json(request.headers());
        let mut handling = Box::pin(self.mcp.handle(request));
        // The message is read as soon as it is handed over.
        let begun = poll_fn(|context| Poll::Ready(aside(length, || handling.as_mut().poll(context)))).await;
        let response = match begun {
            Poll::Ready(response) => response,
            Poll::Pending => handling.await,
        };
        // It said that it brings JSON, and it does.
        if brings_json && response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            return answers::no_message();
        }
        let response = match is_plain_refusal(&response) {
            true => answers::in_our_words(response).await,
            false => response.map(Body::new),
        };
        response.map(|inner| {
            let sent = &self.meter.sent;
            match place {
                Some(place) => Body::new(Outgoing::stream(inner, sent, self.leaving.clone(), place)),
                None => Body::new(Outgoing::answer(inner, sent, under_way, envelope)),
            }
        })
    }

    /// A place for a stream that goes on.
    fn place(&self, owner: [u8; 32]) -> Result<StreamPlace, Response<Body>> {
        let among_own = self.streams_of_each.try_take(owner);
        let among_all = Arc::clone(&self.streams).try_acquire_owned().ok();
        let (Some(_among_own), Some(_among_all)) = (among_own, among_all) else {
            return Err(later(StatusCode::SERVICE_UNAVAILABLE, "too many streams", "10"));
        };
        Ok(StreamPlace { _among_all, _among_own })
    }

    /// The session that a request of the older era names, which must be its caller's. The newer era has none, so that none is named.
    fn session(&self, headers: &mut HeaderMap, owner: [u8; 32]) -> Result<Option<Named>, Response<Body>> {
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
        let named = self.sessions.named(name, owner);
        named.map(Some).ok_or_else(|| refusal(StatusCode::NOT_FOUND, "there is no such session"))
    }

    async fn body(&self, parts: &Parts, body: Body) -> Result<Read, Response<Body>> {
        let read = self.reader.read(body).await.map_err(answers::unread)?;
        add(&self.meter.received, read.bytes.len() as u64);
        match parts.method == Method::POST || read.bytes.is_empty() {
            true => Ok(read),
            false => Err(refusal(StatusCode::BAD_REQUEST, "only POST brings a body")),
        }
    }

    fn note_session(&self, begun: Option<&HeaderValue>, ended: Option<String>, owner: [u8; 32]) {
        if let Some(name) = begun.and_then(|name| name.to_str().ok()) {
            self.sessions.begun(name, owner);
        }
        if let Some(name) = ended {
            self.sessions.ended(&name);
        }
    }
}

/// Whether the library refused something, and not in JSON.
fn is_plain_refusal<Inner>(response: &Response<Inner>) -> bool {
    let is_refusal = response.status().is_client_error() || response.status().is_server_error();
    is_refusal && !is_json(response.headers())
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
    match aside(bytes.len(), || serde_json::from_slice::<Head>(bytes)) {
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
