//! The MCP endpoint: authentication, rate limit, session and body of a request, then rmcp.

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

use super::auth::AuthenticatedClient;
use super::body::{BufferedBody, StreamPermit, TrackedBody, block_in_place_if_long};
use super::request_metrics::add;
use super::responses::{self, error_response, retry_later};
use super::server::HttpServer;
use super::sessions::NamedSession;
use crate::mcp::BudgetSlot;

/// The header with the session's name (session protocol only).
const SESSION_HEADER: &str = "mcp-session-id";
/// The header with the protocol version.
const PROTOCOL_VERSION_HEADER: &str = "mcp-protocol-version";
/// The first protocol version without sessions.
const STATELESS_VERSION: &str = "2026-07-28";
/// The method of the stateless protocol whose response is an endless stream.
const LISTEN_METHOD: &str = "subscriptions/listen";
/// The method that starts a session of the session protocol.
const INITIALIZE_METHOD: &str = "initialize";

/// The tool name in the record of a request that was not read.
const UNREAD: &str = "";

/// The only part of a message that is parsed here.
#[derive(Deserialize)]
struct MessageHead {
    #[serde(default)]
    method: Option<String>,
}

impl HttpServer {
    /// Handles a request to the MCP endpoint.
    pub(super) async fn handle(&self, mut request: Request) -> Result<Response<Body>, Response<Body>> {
        if self.leaving.is_cancelled() {
            return Err(shutting_down());
        }
        let guest = self.admit(&mut request).await?;
        let owner = guest.owner();
        if let Some(pace) = &self.requests
            && !pace.check(owner, Instant::now())
        {
            return Err(self.too_many_requests(&guest));
        }
        self.clients.note(owner, &guest.caller());
        if ![Method::GET, Method::POST, Method::DELETE].contains(request.method()) {
            return Err(responses::method_not_allowed());
        }
        let named = self.session(request.headers_mut(), owner)?;
        let (mut parts, body) = request.into_parts();
        let body = self.body(&parts, body).await?;
        // The token is taken before `leaving` is checked again: a request is either awaited by the shutdown or rejected, never neither.
        let under_way = self.answers.token();
        if self.leaving.is_cancelled() {
            return Err(shutting_down());
        }
        let method = method_of(&parts, &body.bytes)?;
        if named.is_none()
            && method.as_deref() == Some(INITIALIZE_METHOD)
            && !self.sessions.make_room(owner).await
        {
            return Err(retry_later(StatusCode::SERVICE_UNAVAILABLE, "too many sessions", "60"));
        }
        let place = match parts.method == Method::GET || method.as_deref() == Some(LISTEN_METHOD) {
            true => Some(self.acquire_stream(owner)?),
            false => None,
        };
        let is_end = parts.method == Method::DELETE;
        let ends = named.as_ref().filter(|_| is_end).map(|named| named.name.clone());
        parts.extensions.insert(guest.in_session(named));
        let envelope = BudgetSlot::default();
        parts.extensions.insert(envelope.clone());
        let request = Request::from_parts(parts, Body::from(body.bytes.clone()));
        let response = self.forward(request, body.bytes.len(), place, (under_way, envelope)).await;
        self.note_session(response.headers().get(SESSION_HEADER), ends, owner);
        // Clients expect another status for DELETE than rmcp's 202.
        Ok(if is_end && response.status() == StatusCode::ACCEPTED {
            responses::session_ended()
        } else {
            response
        })
    }

    /// Rejects a request above `requests_per_second` before its body is read, so the tool is unknown. The audit log aggregates such refusals per
    /// caller.
    fn too_many_requests(&self, guest: &AuthenticatedClient) -> Response<Body> {
        self.count_rate_limited(guest);
        retry_later(StatusCode::TOO_MANY_REQUESTS, "too many requests", "1")
    }

    /// Has the record count a request that was not read.
    pub(super) fn count_rate_limited(&self, guest: &AuthenticatedClient) {
        let failure = Failure::new(ErrorCode::RateLimited, "too many requests in this second")
            .operator_note("a request above `requests_per_second`, which was not read");
        self.service.front().gate().count_refusal(UNREAD, guest.caller(), &failure);
    }

    /// Passes a request to rmcp and wraps its response.
    async fn forward(
        &self,
        request: Request,
        length: usize,
        place: Option<StreamPermit>,
        (under_way, envelope): (TaskTrackerToken, BudgetSlot),
    ) -> Response<Body> {
        let brings_json = is_json(request.headers());
        let mut handling = Box::pin(self.mcp.handle(request));
        // rmcp parses the message in the first poll, which blocks for long messages.
        let begun = poll_fn(|context| {
            Poll::Ready(block_in_place_if_long(length, || handling.as_mut().poll(context)))
        })
        .await;
        let response = match begun {
            Poll::Ready(response) => response,
            Poll::Pending => handling.await,
        };
        // rmcp answers 415 for a JSON body of the wrong shape; the content type was right, so this is an invalid request.
        if brings_json && response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            return responses::invalid_request();
        }
        let response = match is_plain_error(&response) {
            true => responses::rewrite_error(response).await,
            false => response.map(Body::new),
        };
        response.map(|inner| {
            let sent = &self.meter.sent;
            match place {
                Some(place) => Body::new(TrackedBody::stream(inner, sent, self.leaving.clone(), place)),
                None => Body::new(TrackedBody::answer(inner, sent, under_way, envelope)),
            }
        })
    }

    /// Acquires the permits for an endless stream.
    fn acquire_stream(&self, owner: [u8; 32]) -> Result<StreamPermit, Response<Body>> {
        let among_own = self.streams_per_caller.try_acquire(owner);
        let among_all = Arc::clone(&self.streams).try_acquire_owned().ok();
        let (Some(_among_own), Some(_among_all)) = (among_own, among_all) else {
            return Err(retry_later(StatusCode::SERVICE_UNAVAILABLE, "too many streams", "10"));
        };
        Ok(StreamPermit { _global: _among_all, _per_caller: _among_own })
    }

    /// The session that a request names, which must belong to its caller. Under the stateless protocol the header is removed, because there are no
    /// sessions.
    fn session(
        &self,
        headers: &mut HeaderMap,
        owner: [u8; 32],
    ) -> Result<Option<NamedSession>, Response<Body>> {
        let revision = headers.get(PROTOCOL_VERSION_HEADER).and_then(|revision| revision.to_str().ok());
        if revision.is_some_and(|revision| revision >= STATELESS_VERSION) {
            headers.remove(SESSION_HEADER);
            return Ok(None);
        }
        let mut names = headers.get_all(SESSION_HEADER).iter();
        let (name, None) = (names.next(), names.next()) else {
            return Err(error_response(StatusCode::BAD_REQUEST, "one session, or none"));
        };
        let Some(name) = name else { return Ok(None) };
        let name = name.to_str().unwrap_or_default();
        let named = self.sessions.named(name, owner);
        named.map(Some).ok_or_else(|| error_response(StatusCode::NOT_FOUND, "there is no such session"))
    }

    async fn body(&self, parts: &Parts, body: Body) -> Result<BufferedBody, Response<Body>> {
        let read = self.reader.read(body).await.map_err(responses::body_rejected)?;
        add(&self.meter.received, read.bytes.len() as u64);
        match parts.method == Method::POST || read.bytes.is_empty() {
            true => Ok(read),
            false => Err(error_response(StatusCode::BAD_REQUEST, "only POST brings a body")),
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

/// Whether this is an error of rmcp with a body other than JSON.
fn is_plain_error<Inner>(response: &Response<Inner>) -> bool {
    let is_refusal = response.status().is_client_error() || response.status().is_server_error();
    is_refusal && !is_json(response.headers())
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/json"))
}

/// The method of the message, for POST requests with JSON.
fn method_of(parts: &Parts, bytes: &Bytes) -> Result<Option<String>, Response<Body>> {
    if parts.method != Method::POST || !is_json(&parts.headers) {
        return Ok(None);
    }
    match block_in_place_if_long(bytes.len(), || serde_json::from_slice::<MessageHead>(bytes)) {
        Ok(head) => Ok(head.method),
        Err(error) if error.is_data() => Err(responses::invalid_request()),
        Err(_) => Err(responses::parse_error()),
    }
}

fn shutting_down() -> Response<Body> {
    let mut response = retry_later(StatusCode::SERVICE_UNAVAILABLE, "this gate is closing", "5");
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
