//! The state and the routes of the HTTP server.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::ORIGIN;
use axum::http::{Method, Response, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::routing::{any, get, post};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::api_route::{self, LOGIN_PATH, LOGOUT_PATH, guard_api};
use super::auth::AuthRequirement;
use super::auth_failures::{KnownGoodTokenCache, metadata};
use super::body::BodyReader;
use super::connected_clients::ConnectedClients;
use super::cookie::{BrowserLogins, SessionCookies};
use super::host_check::AllowedHosts;
use super::issued_logins::IssuedLogins;
use super::page_route::page;
use super::request_metrics::RequestMetrics;
use super::responses::{self, error_response, text_response};
use super::sessions::Sessions;
use super::{HttpError, HttpLimits, HttpOptions, ReadyCheck};
use crate::admission::{KeyedSemaphore, RateLimit};
use crate::service::Service;

/// The MCP endpoint.
pub(super) const MCP_PATH: &str = "/mcp";
/// OAuth protected resource metadata (RFC 9728); also served with the resource's path appended.
const METADATA_PATH: &str = "/.well-known/oauth-protected-resource";
/// The same for the MCP endpoint.
pub(super) const MCP_METADATA_PATH: &str = "/.well-known/oauth-protected-resource/mcp";

/// The remote address of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// The state that all requests share.
pub(crate) struct HttpServer {
    pub(super) service: Arc<Service>,
    pub(super) options: HttpOptions,
    hosts: AllowedHosts,
    pub(super) sessions: Sessions,
    pub(super) reader: BodyReader,
    pub(crate) meter: RequestMetrics,
    pub(super) bad_tokens: RateLimit<IpAddr>,
    pub(super) unknown_tokens: RateLimit<IpAddr>,
    pub(super) known_tokens: KnownGoodTokenCache,
    pub(super) requests: Option<RateLimit<[u8; 32]>>,
    pub(super) streams: Arc<Semaphore>,
    pub(super) streams_per_caller: KeyedSemaphore,
    pub(super) api_streams: Arc<Semaphore>,
    pub(super) api_streams_per_caller: Arc<KeyedSemaphore>,
    /// The logins of browsers, where a token is needed.
    pub(super) logins: Option<BrowserLogins>,
    /// Who uses it.
    pub(super) clients: Arc<ConnectedClients>,
    /// Responses that are not sent completely.
    pub(super) answers: TaskTracker,
    pub(crate) connections: TaskTracker,
    /// Cancelled when shutdown starts: no request is accepted any more, and streams end.
    pub(crate) leaving: CancellationToken,
    /// Cancelled at the end of shutdown: cuts all connections.
    pub(crate) cut: CancellationToken,
}

impl HttpServer {
    pub(crate) fn new(
        options: HttpOptions,
        service: Arc<Service>,
        listening: std::net::SocketAddr,
    ) -> Result<Self, HttpError> {
        let names = options.allowed_names(listening)?;
        let limits = &options.limits;
        let sessions =
            Sessions::new(limits.max_sessions, limits.max_sessions_per_caller, limits.session_idle);
        let logins = match &options.auth.requirement {
            AuthRequirement::Token(token) => {
                Some(BrowserLogins::Person(SessionCookies::new(token, listening)))
            }
            AuthRequirement::Issued { .. } => Some(BrowserLogins::Issued(IssuedLogins::new(listening))),
            AuthRequirement::None => None,
        };
        let has_callers = matches!(options.auth.requirement, AuthRequirement::Issued { .. });
        let HttpLimits { max_body_bytes, max_all_bodies_bytes, body_timeout: body_patience, .. } = *limits;
        Ok(Self {
            hosts: names,
            sessions,
            reader: BodyReader::new(max_body_bytes, max_all_bodies_bytes, body_patience),
            meter: RequestMetrics::default(),
            bad_tokens: RateLimit::new(limits.bad_tokens_per_minute, Duration::from_secs(60)),
            unknown_tokens: RateLimit::new(limits.unknown_tokens_per_second, Duration::from_secs(1)),
            known_tokens: KnownGoodTokenCache::default(),
            requests: limits
                .requests_per_second
                .map(|most| RateLimit::new(most.get(), Duration::from_secs(1))),
            streams: Arc::new(Semaphore::new(limits.max_streams)),
            streams_per_caller: KeyedSemaphore::new(limits.max_streams_per_caller),
            api_streams: Arc::new(Semaphore::new(limits.api_streams())),
            api_streams_per_caller: Arc::new(KeyedSemaphore::new(limits.api_streams_per_caller(has_callers))),
            logins,
            clients: Arc::default(),
            answers: TaskTracker::new(),
            connections: TaskTracker::new(),
            leaving: CancellationToken::new(),
            cut: CancellationToken::new(),
            service,
            options,
        })
    }

    pub(crate) fn limits(&self) -> &HttpLimits {
        &self.options.limits
    }

    /// The routes.
    pub(crate) fn router(self: &Arc<Self>) -> Router {
        let routes = self.options.application.routes.clone().unwrap_or_default();
        let routes = routes.layer(from_fn_with_state(Arc::clone(self), guard_api));
        Router::new()
            .route(MCP_PATH, any(mcp))
            .route(LOGIN_PATH, post(api_route::login))
            .route(LOGOUT_PATH, post(api_route::logout))
            .route("/healthz", get(async || text_response(StatusCode::OK, TEXT, "alive\n")))
            .route("/readyz", get(ready))
            .route("/metrics", get(metrics))
            .route(METADATA_PATH, get(metadata))
            .route(MCP_METADATA_PATH, get(metadata))
            .fallback(page)
            .method_not_allowed_fallback(async || {
                error_response(StatusCode::METHOD_NOT_ALLOWED, responses::OTHER_METHOD)
            })
            .with_state(Arc::clone(self))
            .merge(routes)
            .layer(from_fn_with_state(Arc::clone(self), guard))
    }

    /// Waits until every response is sent and no call is in flight.
    pub(crate) async fn wait_until_idle(&self) {
        self.answers.close();
        self.answers.wait().await;
        self.service.wait_until_idle().await;
    }

    /// Cancels calls in flight. They still get a response and a record.
    pub(crate) fn end_calls(&self) {
        self.service.end();
    }

    /// Cuts the remaining connections and ends all sessions.
    pub(crate) fn close(&self) {
        self.cut.cancel();
        self.sessions.end_all();
    }

    /// Why `/readyz` should fail, if it should.
    fn not_ready_reason(&self) -> Option<&'static str> {
        let ReadyCheck(ready) = &self.options.ready;
        if self.leaving.is_cancelled() {
            Some("not ready: it is closing\n")
        } else if !self.service.metrics.can_record() || self.service.front().gate().record_problem().is_some()
        {
            Some(CANNOT_RECORD)
        } else {
            (!ready()).then_some("not ready: servers behind it are still starting\n")
        }
    }

    /// The line about key sets that could not be refreshed. Calls still work, so it is no failure. `/readyz` needs no token, so no
    /// URL is named.
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

    fn render_metrics(&self) -> String {
        let limits = self.limits();
        let streams = limits.max_streams.saturating_sub(self.streams.available_permits());
        let api_streams = limits.api_streams().saturating_sub(self.api_streams.available_permits());
        let gauges = [
            ("toolgate_http_connections", "Connections.", self.connections.len()),
            (
                "toolgate_http_sessions",
                "Open sessions of the session protocol (2025-11-25 and before).",
                self.sessions.count(),
            ),
            ("toolgate_http_streams", "MCP streams that go on.", streams),
            ("toolgate_http_api_streams", "WebSockets and event streams of the API.", api_streams),
            (
                "toolgate_http_answers_waiting",
                "Long answers that wait until others are read.",
                self.service.response_bytes.waiting(),
            ),
        ];
        self.service.metrics.render(self.service.calls.len()) + &self.meter.render(&gauges)
    }
}

const TEXT: &str = "text/plain; charset=utf-8";
/// The last call was refused or left unanswered because its record could not be written.
const CANNOT_RECORD: &str = "not ready: the record cannot be written; its standard error says why. Free space, or let go of the lock; after a disk error \
                             repair the disk and start the gate again\n";

async fn guard(State(door): State<Arc<HttpServer>>, request: Request, next: Next) -> Response<Body> {
    let mut response = match door.hosts.check(request.uri(), request.headers()) {
        Err(strange) => {
            door.meter.host_rejected(strange);
            if let Ok(Some(host)) = door.hosts.other_host(request.uri(), request.headers()) {
                door.options.rejected_hosts.note(&host, Instant::now());
            }
            responses::host_rejected(strange)
        }
        Ok(()) => {
            let origin = request.headers().get(ORIGIN).cloned();
            let is_question = origin.is_some() && request.method() == Method::OPTIONS;
            let mut response = if is_question { responses::preflight() } else { next.run(request).await };
            if let Some(origin) = origin {
                responses::allow_origin(&mut response, origin);
            }
            response
        }
    };
    responses::set_common_headers(&mut response);
    door.meter.answered(response.status());
    response
}

async fn mcp(State(door): State<Arc<HttpServer>>, request: Request) -> Response<Body> {
    door.handle(request).await.unwrap_or_else(|refused| refused)
}

async fn ready(State(door): State<Arc<HttpServer>>) -> Response<Body> {
    match door.not_ready_reason() {
        None => text_response(StatusCode::OK, TEXT, format!("ready\n{}", door.stale_keys())),
        Some(reason) => text_response(StatusCode::SERVICE_UNAVAILABLE, TEXT, reason),
    }
}

async fn metrics(State(door): State<Arc<HttpServer>>, mut request: Request) -> Response<Body> {
    match door.admit(&mut request).await {
        Ok(_) => {
            let text = door.render_metrics() + &door.service.state.render().await;
            text_response(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text)
        }
        Err(refused) => refused,
    }
}
