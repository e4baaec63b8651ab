//! The requests of the API: authentication, protection against other sites, limits and body; then the routes of the application.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, HOST, ORIGIN, SET_COOKIE, UPGRADE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use axum::middleware::Next;
use serde::Deserialize;
use serde_json::json;
use toolgate_types::{Sha256, Stage};

use super::application::{ApiClient, ClientKind, ClientOwner, StreamLimits};
use super::auth::{AuthRequirement, AuthenticatedClient, is_equal, is_token};
use super::body::{BodyError, TrackedBody};
use super::connection_slots::ConnectionSlot;
use super::cookie::BrowserLogins;
use super::problem::Problem;
use super::request_metrics::add;
use super::request_span::RequestSpan;
use super::responses::json_response;
use super::server::{HttpServer, Peer};

/// Exchanges a token for a cookie.
pub(super) const LOGIN_PATH: &str = "/api/v1/login";
/// Ends it.
pub(super) const LOGOUT_PATH: &str = "/api/v1/logout";

/// The longest body of a login.
const MAX_LOGIN_BYTES: usize = 16 * 1024;

/// Authenticates a request, limits it and reads its body, then passes it on.
pub(super) async fn guard_api(
    State(door): State<Arc<HttpServer>>,
    request: Request,
    next: Next,
) -> Response<Body> {
    match door.admit_api(request).await {
        Ok((request, under_way)) => {
            let route = request.extensions().get::<MatchedPath>().map_or("(unknown)", MatchedPath::as_str);
            let span = RequestSpan::new(request.method(), route, request.headers());
            let mut response = span.run(next.run(request), Response::status).await;
            // What a caller may see changes, and is not for the cache of a browser or proxy.
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            // A stream has a permit of its own; any other response is awaited by the shutdown.
            match under_way {
                Some(under_way) => {
                    response.map(|inner| Body::new(TrackedBody::answer(inner, &door.meter.sent, under_way)))
                }
                None => response,
            }
        }
        Err(problem) => problem,
    }
}

/// What keeps a response in flight.
type UnderWay = tokio_util::task::task_tracker::TaskTrackerToken;

impl HttpServer {
    async fn admit_api(&self, mut request: Request) -> Result<(Request, Option<UnderWay>), Response<Body>> {
        if self.leaving.is_cancelled() {
            return Err(closing().into_response());
        }
        let (client, kind) = self.authenticate_api(&mut request).await?;
        if let Some(limiter) = &self.requests
            && !limiter.check(client.owner())
        {
            self.count_rate_limited(&client);
            let detail = "too many requests in this second";
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", detail).into_response());
        }
        self.clients.note(client.owner(), &client.caller());
        let is_stream = is_stream(&request);
        let slot = request.extensions().get::<Arc<ConnectionSlot>>().cloned();
        let (mut parts, body) = request.into_parts();
        let body = match parts.method {
            // An upgrade has no body.
            Method::GET | Method::HEAD => Body::empty(),
            _ => {
                let read = self.reader.read(body).await.map_err(|error| unread(error).into_response())?;
                add(&self.meter.received, read.bytes.len() as u64);
                Body::from(read.bytes)
            }
        };
        let under_way = (!is_stream).then(|| self.answers.token());
        if self.leaving.is_cancelled() {
            return Err(closing().into_response());
        }
        parts.extensions.insert(self.api_client(client, kind, slot));
        Ok((Request::from_parts(parts, body), under_way))
    }

    /// The client of a request: by its token, else by its cookie.
    async fn authenticate_api(
        &self,
        request: &mut Request,
    ) -> Result<(AuthenticatedClient, ClientKind), Response<Body>> {
        let headers = request.headers();
        let logins = self.logins.as_ref().filter(|_| !headers.contains_key(AUTHORIZATION));
        if let Some(logins) = logins.filter(|logins| logins.is_present(headers)) {
            let Some(client) = self.logged_in(logins, headers).await else {
                let mut response = unauthenticated().into_response();
                set_cookie(&mut response, &logins.clear(self.is_https()));
                return Err(response);
            };
            if needs_own_origin(request) && !self.is_own_origin(headers) {
                return Err(foreign_page().into_response());
            }
            if let Some(slot) = request.extensions().get::<Arc<ConnectionSlot>>() {
                slot.mark_authenticated();
            }
            return Ok((client, ClientKind::Browser));
        }
        // Without a token at all, a page of another site that is allowed to use MCP may not use the API.
        if matches!(self.options.auth.requirement, AuthRequirement::None)
            && headers.contains_key(ORIGIN)
            && needs_own_origin(request)
            && !self.is_own_origin(headers)
        {
            return Err(foreign_page().into_response());
        }
        match self.admit(request).await {
            Ok(client) => Ok((client, ClientKind::Program)),
            Err(refused) => Err(as_problem(&refused)),
        }
    }

    /// The client that the cookie of a request stands for, if it counts.
    async fn logged_in(&self, logins: &BrowserLogins, headers: &HeaderMap) -> Option<AuthenticatedClient> {
        match logins {
            BrowserLogins::Person(cookies) => cookies.is_valid(headers).then(|| self.options.auth.person()),
            BrowserLogins::Issued(open) => {
                let token = open.token(headers)?;
                let identified = self.options.auth.identify(&token, self.service.front().gate()).await;
                if identified.is_err() {
                    open.end(headers);
                }
                identified.ok()
            }
        }
    }

    /// The cookie of a new login, and whose it is; `None` if the token does not count.
    async fn begin_login(&self, logins: &BrowserLogins, token: &str) -> Option<NewLogin> {
        let auth = &self.options.auth;
        match (logins, &auth.requirement) {
            (BrowserLogins::Person(cookies), AuthRequirement::Token(digest)) => {
                is_equal(&Sha256::of(token.as_bytes()), digest).then(|| NewLogin {
                    cookie: cookies.issue(self.is_https()),
                    subject: auth.person.subject.clone(),
                    auth: "token",
                })
            }
            (BrowserLogins::Issued(open), _) if is_token(token) => {
                let client = auth.identify(token, self.service.front().gate()).await.ok()?;
                Some(NewLogin {
                    cookie: open.begin(token, client.owner(), self.is_https()),
                    subject: client.caller().subject.clone(),
                    auth: "jwt",
                })
            }
            _ => None,
        }
    }

    fn api_client(
        &self,
        client: AuthenticatedClient,
        kind: ClientKind,
        slot: Option<Arc<ConnectionSlot>>,
    ) -> ApiClient {
        let streams = StreamLimits {
            global: Arc::clone(&self.api_streams),
            per_caller: Arc::clone(&self.api_streams_per_caller),
            key: client.owner(),
            slot,
            open: self.connections.clone(),
            leaving: self.leaving.clone(),
            clients: Arc::clone(&self.clients),
        };
        let owner = match &self.options.auth.requirement {
            AuthRequirement::Issued { .. } => ClientOwner::Caller(Sha256::from(client.owner())),
            AuthRequirement::Token(_) | AuthRequirement::None => ClientOwner::Person,
        };
        let caller = client.caller();
        ApiClient { credential: client.into_credential(), caller, owner, kind, streams }
    }

    /// Whether the page that sent a request is of this server: `Origin` has the host of the request, or is that of the public URL.
    fn is_own_origin(&self, headers: &HeaderMap) -> bool {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let (Some(origin), Some(host)) = (text(ORIGIN), text(HOST)) else { return false };
        let public = self.options.public_url.as_deref();
        let public = public
            .and_then(|url| url.split_once("://"))
            .map(|(scheme, rest)| format!("{scheme}://{}", rest.split('/').next().unwrap_or_default()));
        let is_same = |own: &str| origin.eq_ignore_ascii_case(own);
        match public {
            // `Host` may be the proxy's or the address of this machine; both were checked against the list.
            Some(public) => is_same(&public) || is_same(&format!("http://{host}")),
            None => is_same(&format!("http://{host}")),
        }
    }

    fn is_https(&self) -> bool {
        self.options.public_url.as_deref().is_some_and(|url| url.starts_with("https://"))
    }
}

/// A login that begins.
struct NewLogin {
    /// `None` if the clock or the random numbers of this machine are not usable.
    cookie: Option<String>,
    subject: String,
    auth: &'static str,
}

/// `POST /api/v1/login`: the token of the person, or of a caller, in exchange for a cookie.
pub(super) async fn login(State(door): State<Arc<HttpServer>>, request: Request) -> Response<Body> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Login {
        token: String,
    }

    let peer = request.extensions().get::<Peer>().map(|Peer(peer)| *peer);
    if !door.is_own_origin(request.headers()) && request.headers().contains_key(ORIGIN) {
        return foreign_page().into_response();
    }
    let Some(logins) = &door.logins else {
        let detail = "this gate takes no login: it needs no token";
        return Problem::new(StatusCode::NOT_FOUND, "not_found", detail).into_response();
    };
    if peer.is_some_and(|peer| door.unknown_tokens.is_exhausted(&peer)) {
        let detail = "too many bad tokens from this address";
        return Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", detail).into_response();
    }
    let slot = request.extensions().get::<Arc<ConnectionSlot>>().cloned();
    let read = door.reader.read_prefix(request.into_body(), MAX_LOGIN_BYTES).await;
    let token = match read {
        Ok(read) if read.is_whole => serde_json::from_slice::<Login>(&read.bytes).ok(),
        Ok(_) => return unread(BodyError::TooLong).into_response(),
        Err(error) => return unread(error).into_response(),
    };
    let Some(Login { token }) = token else {
        let detail = "the body is not {\"token\": \"…\"}";
        return Problem::new(StatusCode::BAD_REQUEST, "invalid_request", detail).into_response();
    };
    let Some(NewLogin { cookie, subject, auth }) = door.begin_login(logins, token.trim()).await else {
        door.count_bad_token(peer);
        return unauthenticated().into_response();
    };
    let Some(cookie) = cookie else {
        let detail = "the clock or the random numbers of this machine are not usable";
        return Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail).into_response();
    };
    if let Some(slot) = slot {
        slot.mark_authenticated();
    }
    let mut response = json_response(StatusCode::OK, &json!({"subject": subject, "auth": auth}));
    set_cookie(&mut response, &cookie);
    response
}

/// `POST /api/v1/logout`: ends the login of a caller, and removes the cookie from the browser.
pub(super) async fn logout(State(door): State<Arc<HttpServer>>, request: Request) -> Response<Body> {
    if !door.is_own_origin(request.headers()) {
        return foreign_page().into_response();
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    if let Some(logins) = &door.logins {
        if let BrowserLogins::Issued(open) = logins {
            open.end(request.headers());
        }
        set_cookie(&mut response, &logins.clear(door.is_https()));
    }
    response
}

impl HttpServer {
    fn count_bad_token(&self, peer: Option<IpAddr>) {
        add(&self.meter.bad_token, 1);
        if let Some(peer) = peer {
            self.unknown_tokens.check(peer);
        }
    }
}

/// Whether a request could change something, or opens a channel through which that is possible.
fn needs_own_origin(request: &Request) -> bool {
    let is_safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    !is_safe || request.headers().contains_key(UPGRADE)
}

/// Whether a response goes on until its client leaves.
fn is_stream(request: &Request) -> bool {
    let path = request.uri().path();
    request.headers().contains_key(UPGRADE) || path == "/ws" || path.ends_with("/events")
}

fn set_cookie(response: &mut Response<Body>, cookie: &str) {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
}

fn closing() -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "this gate is closing")
}

fn unauthenticated() -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", "a token is needed")
        .stage(Stage::Auth.as_str())
        .help("open the address that `toolgate serve` printed, or send `Authorization: Bearer TOKEN`")
}

fn foreign_page() -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "forbidden", "this request does not come from the page of this gate")
}

fn unread(error: BodyError) -> Problem {
    let (status, code, detail) = match error {
        BodyError::TooLong => (StatusCode::PAYLOAD_TOO_LARGE, "too_large", "the body is too long"),
        BodyError::TooMuch => (StatusCode::PAYLOAD_TOO_LARGE, "too_large", "the body holds too many values"),
        BodyError::TooDeep => (StatusCode::BAD_REQUEST, "invalid_request", "the body is nested too deeply"),
        BodyError::TooSlow => (StatusCode::REQUEST_TIMEOUT, "timeout", "the body did not arrive in time"),
        BodyError::Broken => (StatusCode::BAD_REQUEST, "invalid_request", "the body is incomplete"),
        BodyError::NoRoom => (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "too many long requests"),
    };
    Problem::new(status, code, detail)
}

/// A rejection of the server as problem details, with its challenge.
fn as_problem(refused: &Response<Body>) -> Response<Body> {
    let status = refused.status();
    let problem = match status {
        StatusCode::UNAUTHORIZED => unauthenticated(),
        StatusCode::TOO_MANY_REQUESTS => Problem::new(status, "rate_limited", "too many bad tokens"),
        _ => Problem::new(status, "refused", "the request was refused"),
    };
    let mut response = problem.into_response();
    if let Some(challenge) = refused.headers().get(WWW_AUTHENTICATE) {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge.clone());
    }
    response
}
