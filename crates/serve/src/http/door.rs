//! Everything that requests pass, and the paths that lead to it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::ORIGIN;
use axum::http::{Method, Response, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::routing::{any, get};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::answers::{self, in_text, refusal};
use super::body::Reader;
use super::meter::Meter;
use super::names::Names;
use super::pace::Pace;
use super::sessions::Sessions;
use super::strangers::{Familiar, metadata};
use super::{HttpError, HttpLimits, HttpOptions, Ready};
use crate::mcp::{McpHandler, Shares, Who};
use crate::service::Service;

/// Where MCP is spoken.
pub(super) const MCP: &str = "/mcp";
/// Where the way to a token is told; with the path of what is protected, and without.
const METADATA: &str = "/.well-known/oauth-protected-resource";
/// The same for MCP.
pub(super) const MCP_METADATA: &str = "/.well-known/oauth-protected-resource/mcp";

/// The address at the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Everything that requests pass.
pub(crate) struct Door {
    pub(super) service: Arc<Service>,
    pub(super) options: HttpOptions,
    names: Names,
    pub(super) sessions: Sessions,
    pub(super) mcp: StreamableHttpService<McpHandler, LocalSessionManager>,
    pub(super) reader: Reader,
    pub(crate) meter: Meter,
    pub(super) bad_tokens: Pace<IpAddr>,
    pub(super) unknown_tokens: Pace<IpAddr>,
    pub(super) familiar: Familiar,
    pub(super) requests: Option<Pace<[u8; 32]>>,
    pub(super) streams: Arc<Semaphore>,
    pub(super) streams_of_each: Shares,
    /// Answers that are not yet at their end.
    pub(super) answers: TaskTracker,
    pub(crate) connections: TaskTracker,
    /// No request is taken any more, and streams without an end come to it.
    pub(crate) leaving: CancellationToken,
    /// Whatever is still there ends now.
    pub(crate) cut: CancellationToken,
}

impl Door {
    pub(crate) fn new(
        options: HttpOptions,
        service: Arc<Service>,
        listening: std::net::SocketAddr,
    ) -> Result<Self, HttpError> {
        let names = options.names(listening)?;
        let limits = &options.limits;
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
            unknown_tokens: Pace::new(limits.unknown_tokens_per_second, Duration::from_secs(1)),
            familiar: Familiar::default(),
            requests: limits.requests_per_second.map(|most| Pace::new(most.get(), Duration::from_secs(1))),
            streams: Arc::new(Semaphore::new(limits.max_streams)),
            streams_of_each: Shares::new(limits.max_streams_of_one_caller),
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
            .method_not_allowed_fallback(async || {
                refusal(StatusCode::METHOD_NOT_ALLOWED, answers::OTHER_METHOD)
            })
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

    /// Why nothing should be sent here, if that is so.
    fn unready(&self) -> Option<&'static str> {
        let Ready(ready) = &self.options.ready;
        if self.leaving.is_cancelled() {
            Some("not ready: it is closing\n")
        } else if !self.service.metrics.can_record() || self.service.front().gate().record_problem().is_some()
        {
            Some(CANNOT_RECORD)
        } else {
            (!ready()).then_some("not ready: servers behind it are still starting\n")
        }
    }

    /// What is said of keys that could not be fetched again. Calls go on, and whoever asks here has no token: no address is named.
    fn stale_keys(&self) -> String {
        let stale = self.service.front().gate().stale_keys();
        let Some(remaining) = stale.iter().map(|keys| keys.remaining).min() else { return String::new() };
        let sets = if stale.len() == 1 { "key set" } else { "key sets" };
        format!(
            "stale: {} {sets} of callers could not be fetched again; the old keys count for {} s more\n",
            stale.len(),
            remaining.as_secs()
        )
    }

    fn measured(&self) -> String {
        let streams = self.options.limits.max_streams.saturating_sub(self.streams.available_permits());
        let gauges = [
            ("toolgate_http_connections", "Connections.", self.connections.len()),
            ("toolgate_http_sessions", "Sessions of the older era.", self.sessions.count()),
            ("toolgate_http_streams", "Streams that go on.", streams),
            (
                "toolgate_http_answers_waiting",
                "Long answers that wait until others are read.",
                self.service.outbox.waiting(),
            ),
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
/// The last call was refused or not answered because of its record.
const CANNOT_RECORD: &str = "not ready: the record cannot be written; its standard error says why. Free space, or let go of the lock; after a disk error \
                             repair the disk and start the gate again\n";

async fn guard(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response<Body> {
    let mut response = match door.names.check(request.uri(), request.headers()) {
        Err(strange) => {
            door.meter.strange(strange);
            if let Ok(Some(host)) = door.names.other_host(request.uri(), request.headers()) {
                door.options.refused_hosts.note(&host, Instant::now());
            }
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
    door.pass(request).await.unwrap_or_else(|refused| refused)
}

async fn ready(State(door): State<Arc<Door>>) -> Response<Body> {
    match door.unready() {
        None => in_text(StatusCode::OK, TEXT, format!("ready\n{}", door.stale_keys())),
        Some(reason) => in_text(StatusCode::SERVICE_UNAVAILABLE, TEXT, reason),
    }
}

async fn metrics(State(door): State<Arc<Door>>, mut request: Request) -> Response<Body> {
    match door.admit(&mut request).await {
        Ok(_) => {
            let text = door.measured() + &door.service.state.render().await;
            in_text(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text)
        }
        Err(refused) => refused,
    }
}
