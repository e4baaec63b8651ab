//! The way of a request: is it for us, who sent it, how much does it bring, and then to MCP.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONNECTION, CONTENT_TYPE, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::routing::{any, get};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_gate::{CallOptions, Credential};
use toolgate_types::ToolCall;

use super::answers::{self, in_json, in_text, later, refusal};
use super::body::{Outgoing, Read, Reader};
use super::meter::{Meter, add};
use super::names::Names;
use super::pace::Pace;
use super::sessions::Sessions;
use super::who::{Demand, Guest, Stranger};
use super::{HttpError, HttpLimits, HttpOptions, Ready};
use crate::mcp::{McpHandler, Who};
use crate::service::Service;

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
/// Where MCP is spoken.
const MCP: &str = "/mcp";
/// Where the way to a token is told; with the path of what is protected, and without.
const METADATA: &str = "/.well-known/oauth-protected-resource";
/// The same for MCP.
const MCP_METADATA: &str = "/.well-known/oauth-protected-resource/mcp";

/// The address at the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Everything that requests pass.
pub(crate) struct Door {
    service: Arc<Service>,
    options: HttpOptions,
    names: Names,
    sessions: Sessions,
    mcp: StreamableHttpService<McpHandler, LocalSessionManager>,
    reader: Reader,
    pub(crate) meter: Meter,
    bad_tokens: Pace<IpAddr>,
    requests: Option<Pace<[u8; 32]>>,
    streams: Arc<Semaphore>,
    /// Answers that are not yet at their end.
    answers: TaskTracker,
    pub(crate) connections: TaskTracker,
    /// No request is taken any more, and streams without an end come to it.
    pub(crate) leaving: CancellationToken,
    /// Whatever is still there ends now.
    pub(crate) cut: CancellationToken,
}

/// As much of a message as the door must know.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    method: Option<String>,
}

impl Door {
    pub(crate) fn new(
        options: HttpOptions,
        service: Arc<Service>,
        listening: std::net::SocketAddr,
    ) -> Result<Self, HttpError> {
        if matches!(options.auth.demand, Demand::Nothing) && !super::names::is_loopback(listening) {
            return Err(HttpError::OpenToOthers(listening));
        }
        let HttpOptions { allowed_hosts, allowed_origins, public_url, limits, .. } = &options;
        let names = Names::new(listening, allowed_hosts, allowed_origins, public_url.as_deref())?;
        let sessions =
            Sessions::new(limits.max_sessions, limits.max_sessions_of_one_caller, limits.session_idle);
        let cut = CancellationToken::new();
        let behind = Arc::clone(&service);
        let mcp = StreamableHttpService::new(
            move || Ok(McpHandler::new(Arc::clone(&behind), Who::Visitor)),
            Arc::clone(sessions.manager()),
            wire(limits, &cut),
        );
        let HttpLimits { max_body_bytes, max_all_bodies_bytes, body_patience, .. } = *limits;
        Ok(Self {
            names,
            sessions,
            mcp,
            reader: Reader::new(max_body_bytes, max_all_bodies_bytes, body_patience),
            meter: Meter::default(),
            bad_tokens: Pace::new(limits.bad_tokens_per_minute, Duration::from_secs(60)),
            requests: limits.requests_per_second.map(|most| Pace::new(most.get(), Duration::from_secs(1))),
            streams: Arc::new(Semaphore::new(limits.max_streams)),
            answers: TaskTracker::new(),
            connections: TaskTracker::new(),
            leaving: CancellationToken::new(),
            cut,
            service,
            options,
        })
    }

    pub(crate) fn limits(&self) -> &HttpLimits {
        &self.options.limits
    }

    /// The paths of this door.
    pub(crate) fn router(self: &Arc<Self>) -> Router {
        Router::new()
            .route(MCP, any(mcp))
            .route("/healthz", get(async || in_text(StatusCode::OK, TEXT, "alive\n")))
            .route("/readyz", get(ready))
            .route("/metrics", get(metrics))
            .route(METADATA, get(metadata))
            .route(MCP_METADATA, get(metadata))
            .fallback(async || refusal(StatusCode::NOT_FOUND, "there is nothing here; MCP is at /mcp"))
            .layer(from_fn_with_state(Arc::clone(self), guard))
            .with_state(Arc::clone(self))
    }

    /// Waits until every answer has left and no call is under way.
    pub(crate) async fn quiet(&self) {
        self.answers.close();
        self.answers.wait().await;
        self.service.settled().await;
    }

    /// Ends calls that are still under way, so that they are answered and recorded as ended.
    pub(crate) fn end_calls(&self) {
        self.service.end();
    }

    /// Ends what is still there.
    pub(crate) async fn close(&self) {
        self.cut.cancel();
        self.sessions.close_all().await;
    }

    async fn serve(&self, mut request: Request) -> Result<Response<Body>, Response<Body>> {
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
        let method = head(&parts, &body.bytes)?;
        if named.is_none() && method.as_deref() == Some(INITIALIZE) && !self.sessions.make_room(binding).await
        {
            return Err(later(StatusCode::SERVICE_UNAVAILABLE, "too many sessions", "60"));
        }
        parts.extensions.insert(guest.in_session(named.as_deref()));
        let goes_on = parts.method == Method::GET || method.as_deref() == Some(LISTEN);
        let place = match goes_on {
            true => Some(
                Arc::clone(&self.streams)
                    .try_acquire_owned()
                    .map_err(|_| later(StatusCode::SERVICE_UNAVAILABLE, "too many streams", "10"))?,
            ),
            false => None,
        };
        // Counted before it is asked, so that nothing that was taken is lost sight of.
        let under_way = self.answers.token();
        let (is_end, brings_json) = (parts.method == Method::DELETE, is_json(&parts));
        let request = Request::from_parts(parts, Body::from(body.bytes.clone()));
        let response = self.mcp.handle(request).await;
        self.note_session(&response.headers().get(SESSION).cloned(), named.filter(|_| is_end), binding);
        let response = response.map(|inner| {
            let (inner, sent) = (Body::new(inner), &self.meter.sent);
            match place {
                Some(place) => Body::new(Outgoing::stream(inner, sent, self.leaving.clone(), place)),
                None => Body::new(Outgoing::answer(inner, sent, under_way)),
            }
        });
        match response.status() {
            // Clients know this as the answer to an end.
            StatusCode::ACCEPTED if is_end => Ok(answers::ended()),
            // It said that it brings JSON, and it does.
            StatusCode::UNSUPPORTED_MEDIA_TYPE if brings_json => Ok(answers::no_message()),
            _ => Ok(response),
        }
    }

    /// Lets somebody in, or says why not.
    async fn admit(&self, request: &mut Request) -> Result<Guest, Response<Body>> {
        match self.options.auth.admit(request.headers(), self.service.front().gate()).await {
            Ok(guest) => Ok(guest),
            Err(stranger) => {
                let request = std::mem::replace(request, Request::new(Body::empty()));
                Err(self.turn_away(stranger, request).await)
            }
        }
    }

    /// Says how to come in. A call that came with a bad token goes to the gate all the same, which refuses it and records it.
    async fn turn_away(&self, stranger: Stranger, request: Request) -> Response<Body> {
        let challenge = self.challenge(request.headers(), &stranger);
        match stranger {
            Stranger::NoToken => {
                add(&self.meter.without_token, 1);
                answers::unauthorized(&challenge, "a bearer token is needed")
            }
            Stranger::BadToken(credential) => {
                add(&self.meter.bad_token, 1);
                let peer = request.extensions().get::<Peer>().copied();
                if peer.is_some_and(|Peer(peer)| !self.bad_tokens.admits(peer, Instant::now())) {
                    return later(StatusCode::TOO_MANY_REQUESTS, "too many bad tokens", "60");
                }
                self.refuse_call(credential, request).await;
                answers::unauthorized(&challenge, "the token is not good here")
            }
        }
    }

    /// One record for a call that nobody may make.
    async fn refuse_call(&self, credential: Credential, request: Request) {
        let (parts, body) = request.into_parts();
        if parts.uri.path() != MCP || parts.method != Method::POST {
            return;
        }
        let Ok(Read { bytes, .. }) = self.reader.read(body).await else { return };
        let Some(call) = called(&bytes) else { return };
        // Should the token have become good in this moment, it is still not this request that it is good for.
        let cancelled = CancellationToken::new();
        cancelled.cancel();
        let options = CallOptions { cancelled, ..CallOptions::default() };
        let called = self.service.front().call(call, credential, options).await;
        self.service.metrics.count(None, &called);
    }

    /// `WWW-Authenticate`: where to learn how to get a token, and whether one was tried.
    fn challenge(&self, headers: &HeaderMap, stranger: &Stranger) -> String {
        let mut parts = Vec::new();
        if let Demand::Issued { .. } = self.options.auth.demand {
            parts.push(format!("resource_metadata=\"{}{MCP_METADATA}\"", self.base(headers)));
        } else {
            parts.push("realm=\"toolgate\"".to_owned());
        }
        if let Stranger::BadToken(_) = stranger {
            parts.push("error=\"invalid_token\"".to_owned());
        }
        format!("Bearer {}", parts.join(", "))
    }

    /// The address that clients know this door by. `Host` was checked before.
    fn base(&self, headers: &HeaderMap) -> String {
        let host = || headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let public = self.options.public_url.as_deref().map(|url| url.trim_end_matches('/').to_owned());
        public.unwrap_or_else(|| format!("http://{}", host()))
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

    fn note_session(&self, begun: &Option<HeaderValue>, ended: Option<String>, binding: [u8; 32]) {
        if let Some(name) = begun.as_ref().and_then(|name| name.to_str().ok()) {
            self.sessions.begun(name, binding);
        }
        if let Some(name) = ended {
            self.sessions.ended(&name);
        }
    }

    fn is_ready(&self) -> bool {
        let Ready(ready) = &self.options.ready;
        !self.leaving.is_cancelled() && self.service.metrics.can_record() && ready()
    }

    fn measured(&self) -> String {
        let streams = self.options.limits.max_streams.saturating_sub(self.streams.available_permits());
        let gauges = [
            ("toolgate_http_connections", "Connections.", self.connections.len()),
            ("toolgate_http_sessions", "Sessions of the older era.", self.sessions.count()),
            ("toolgate_http_streams", "Streams that go on.", streams),
        ];
        self.service.metrics.render(self.service.calls.len()) + &self.meter.render(&gauges)
    }
}

/// How the wire is spoken. Names, tokens and lengths were looked at before.
fn wire(limits: &HttpLimits, cut: &CancellationToken) -> StreamableHttpServerConfig {
    StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_json_response(true)
        .with_max_request_body_bytes(limits.max_body_bytes)
        .with_cancellation_token(cut.clone())
}

const TEXT: &str = "text/plain; charset=utf-8";

async fn guard(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response<Body> {
    let mut response = match door.names.check(request.uri(), request.headers()) {
        Err(strange) => {
            door.meter.strange(strange);
            answers::strange(strange)
        }
        Ok(()) => {
            let origin = request.headers().get(ORIGIN).cloned();
            let is_question = origin.is_some() && request.method() == Method::OPTIONS;
            let mut response = if is_question { answers::preflight() } else { next.run(request).await };
            if let Some(origin) = origin {
                answers::show_to(&mut response, origin);
            }
            response
        }
    };
    answers::finish(&mut response);
    door.meter.answered(response.status());
    response
}

async fn mcp(State(door): State<Arc<Door>>, request: Request) -> Response<Body> {
    door.serve(request).await.unwrap_or_else(|refused| refused)
}

async fn ready(State(door): State<Arc<Door>>) -> Response<Body> {
    match door.is_ready() {
        true => in_text(StatusCode::OK, TEXT, "ready\n"),
        false => in_text(StatusCode::SERVICE_UNAVAILABLE, TEXT, "not ready\n"),
    }
}

async fn metrics(State(door): State<Arc<Door>>, mut request: Request) -> Response<Body> {
    match door.admit(&mut request).await {
        Ok(_) => in_text(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", door.measured()),
        Err(refused) => refused,
    }
}

/// RFC 9728: what is protected here, and by whom.
async fn metadata(State(door): State<Arc<Door>>, request: Request) -> Response<Body> {
    let Demand::Issued { issuer } = &door.options.auth.demand else {
        return refusal(StatusCode::NOT_FOUND, "this gate takes no tokens of an issuer");
    };
    let resource = format!("{}{MCP}", door.base(request.headers()));
    let mut told = json!({
        "resource": resource, "resource_name": "Toolgate", "bearer_methods_supported": ["header"],
    });
    if let (Some(issuer), Value::Object(told)) = (issuer, &mut told) {
        told.insert("authorization_servers".to_owned(), json!([issuer]));
    }
    in_json(StatusCode::OK, &told)
}

fn is_json(parts: &Parts) -> bool {
    let kind = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/json"))
}

/// What a message wants, of requests that bring one.
fn head(parts: &Parts, bytes: &Bytes) -> Result<Option<String>, Response<Body>> {
    if parts.method != Method::POST || !is_json(parts) {
        return Ok(None);
    }
    match serde_json::from_slice::<Head>(bytes) {
        Ok(head) => Ok(head.method),
        Err(error) if error.is_data() => Err(answers::no_message()),
        Err(_) => Err(answers::no_json()),
    }
}

/// The call that a message makes, if it makes one.
fn called(bytes: &[u8]) -> Option<ToolCall> {
    #[derive(Deserialize)]
    struct Message {
        method: String,
        params: Params,
    }
    #[derive(Deserialize)]
    struct Params {
        name: String,
        #[serde(default)]
        arguments: Option<Value>,
    }
    let Message { method, params } = serde_json::from_slice(bytes).ok()?;
    let arguments = params.arguments.unwrap_or_else(|| json!({}));
    (method == "tools/call").then(|| ToolCall::new(params.name, arguments))
}

fn going() -> Response<Body> {
    let mut response = later(StatusCode::SERVICE_UNAVAILABLE, "this gate is closing", "5");
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
