//! The MCP endpoint: authentication, rate limit, session, body and headers of a request, then its answer.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{ACCEPT, ALLOW, CONNECTION, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use rmcp::model::{ErrorCode as RpcCode, RequestId, RequestMetaObject, ServerJsonRpcMessage};
use tokio_util::task::task_tracker::TaskTrackerToken;
use toolgate_types::{ErrorCode, Failure};
use tracing::instrument::Instrument as _;

use super::auth::AuthenticatedClient;
use super::body::{BufferedBody, StreamPermit, TrackedBody, block_in_place_if_long};
use super::event_log::ReplayLog;
use super::protocol_check::{
    HeaderError, Protocol, check_headers, check_request, check_routing, names_stateless,
};
use super::request_metrics::add;
use super::request_span::RequestSpan;
use super::responses::{self, error_response, retry_later, rpc_response};
use super::running_request::{
    JsonResponse, OnDisconnect, RequestOutput, RunningRequest, SseBody, event_response,
};
use super::server::{HttpServer, MCP_PATH};
use super::sessions::{McpSession, NamedSession};
use crate::mcp::client_sink::{ClientSink, ServerRequests};
use crate::mcp::message::{IncomingMessage, InvalidMessage, decode};
use crate::mcp::request::{McpRequest, ReceivedMessage, RequestContext, STATELESS};
use crate::mcp::{McpConnection, McpHandler};

/// The header with the session's name (session protocol only).
const SESSION_HEADER: &str = "mcp-session-id";
/// The header with the last event that a client has read.
const LAST_EVENT_HEADER: &str = "last-event-id";

/// The tool name in the record of a request that was not read.
const UNREAD: &str = "";

/// A refusal by this endpoint.
type Refused = Response<Body>;

/// A request of a client, read and admitted.
struct AdmittedRequest {
    id: RequestId,
    request: McpRequest,
    meta: RequestMetaObject,
    guest: AuthenticatedClient,
    /// The length of its body.
    length: usize,
    under_way: TaskTrackerToken,
}

impl HttpServer {
    /// Handles a request to the MCP endpoint.
    pub(super) async fn handle(&self, mut request: Request) -> Result<Response<Body>, Refused> {
        if self.leaving.is_cancelled() {
            return Err(shutting_down());
        }
        let guest = self.admit(&mut request).await?;
        let owner = guest.owner();
        if let Some(limit) = &self.requests
            && !limit.check(owner)
        {
            return Err(self.too_many_requests(&guest));
        }
        self.clients.note(owner, &guest.caller());
        let span = RequestSpan::new(request.method(), MCP_PATH, request.headers());
        let status = |answer: &Result<Response<Body>, Refused>| match answer {
            Ok(response) | Err(response) => response.status(),
        };
        span.run(self.answer(request, guest, owner), status).await
    }

    /// Answers an authenticated request.
    async fn answer(
        &self,
        request: Request,
        guest: AuthenticatedClient,
        owner: [u8; 32],
    ) -> Result<Response<Body>, Refused> {
        if ![Method::GET, Method::POST, Method::DELETE].contains(request.method()) {
            return Err(responses::method_not_allowed());
        }
        let session = self.session(request.headers(), owner)?;
        let (parts, body) = request.into_parts();
        let body = self.body(&parts, body).await?;
        // The token is taken before `leaving` is checked again: a request is either awaited by the shutdown or rejected, never neither.
        let under_way = self.answers.token();
        if self.leaving.is_cancelled() {
            return Err(shutting_down());
        }
        match parts.method {
            Method::GET => self.open_standalone(&parts.headers, session, owner),
            Method::DELETE => self.end_session(&parts.headers, session),
            _ => self.post(&parts.headers, body, guest, session, under_way).await,
        }
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

    /// Handles a message.
    async fn post(
        &self,
        headers: &HeaderMap,
        body: BufferedBody,
        guest: AuthenticatedClient,
        session: Option<Arc<McpSession>>,
        under_way: TaskTrackerToken,
    ) -> Result<Response<Body>, Refused> {
        if !accepts(headers, "application/json") || !accepts(headers, "text/event-stream") {
            return Err(responses::not_acceptable("accept both application/json and text/event-stream"));
        }
        if !is_json(headers) {
            return Err(responses::unsupported_media_type());
        }
        let length = body.bytes.len();
        // Parsing a long message delays other tasks of this thread.
        let (received, routed) = block_in_place_if_long(length, || {
            let message = decode(&body.bytes).map_err(refused_message)?;
            let routed = RoutingHeaders::check(headers, &message);
            Ok::<_, Refused>((ReceivedMessage::from(message), routed))
        })?;
        match received {
            ReceivedMessage::Request { id, request, meta } => {
                let refused = |error| refused_headers(error, Some(id.clone()));
                let protocol = check_request(headers, &request, &meta).map_err(refused)?;
                routed.map_err(refused)?;
                let admitted = AdmittedRequest { id, request, meta, guest, length, under_way };
                match (protocol, session, &admitted.request) {
                    (Protocol::Session, Some(session), _) => self.answer_in_session(admitted, session).await,
                    (Protocol::Session, None, McpRequest::Initialize(_)) => {
                        self.begin_session(admitted).await
                    }
                    (Protocol::Session, None, _) => Err(session_required()),
                    (Protocol::Stateless, ..) => self.answer_stateless(admitted).await,
                }
            }
            other => {
                let refused = |error| refused_headers(error, None);
                let protocol = check_headers(headers).map_err(refused)?;
                routed.map_err(refused)?;
                match (protocol, session) {
                    (Protocol::Session, Some(session)) => Ok(note(other, &session, guest)),
                    (Protocol::Session, None) => Err(session_required()),
                    (Protocol::Stateless, _) if matches!(other, ReceivedMessage::Reply { .. }) => {
                        Err(responses::invalid_request())
                    }
                    // A lost connection cancels a stateless request; there is nothing else to notify of.
                    (Protocol::Stateless, _) => Ok(responses::accepted()),
                }
            }
        }
    }

    /// Stateless protocol: answers a request on a connection of its own.
    async fn answer_stateless(&self, admitted: AdmittedRequest) -> Result<Response<Body>, Refused> {
        let AdmittedRequest { id, request, meta, guest, length, under_way } = admitted;
        let stream = match request {
            McpRequest::Listen(_) => Some(self.acquire_stream(guest.owner())?),
            _ => None,
        };
        let requests: Arc<ServerRequests> = Arc::default();
        let (client, messages) = ClientSink::new(requests);
        let connection = Arc::new(McpConnection::default());
        let handler = McpHandler::new(Arc::clone(&self.service), connection, client.clone(), true);
        let is_malformed = !meta.missing_required_keys(STATELESS).is_empty();
        let context = RequestContext::new(id, meta, Arc::new(guest.in_session(None)), client, None);
        let running = RunningRequest {
            cancelled: context.cancelled.clone(),
            future: Some(Box::pin(handler.serve(request, context).in_current_span())),
            messages,
            on_disconnect: OnDisconnect::Cancel,
        };
        Ok(self.respond(running, is_malformed, length, stream, under_way).await)
    }

    /// Session protocol: answers a request.
    async fn answer_in_session(
        &self,
        admitted: AdmittedRequest,
        session: Arc<McpSession>,
    ) -> Result<Response<Body>, Refused> {
        let AdmittedRequest { id, request, meta, guest, length, under_way } = admitted;
        let (client, messages) = ClientSink::new(Arc::clone(&session.handler.connection.requests));
        let identity = Arc::new(guest.in_session(Some(NamedSession::from(&*session))));
        let negotiated = session.handler.connection.session();
        let context = RequestContext::new(id, meta, identity, client, negotiated);
        let registered = session.begin(&context.id, &context.cancelled);
        let cancelled = context.cancelled.clone();
        let serving = session.handler.clone().serve(request, context).in_current_span();
        let running = RunningRequest {
            cancelled,
            future: Some(Box::pin(async move {
                let answered = serving.await;
                drop(registered);
                answered
            })),
            messages,
            on_disconnect: OnDisconnect::Continue(Arc::clone(&session.events)),
        };
        Ok(self.respond(running, false, length, None, under_way).await)
    }

    /// Session protocol: begins a session.
    async fn begin_session(&self, admitted: AdmittedRequest) -> Result<Response<Body>, Refused> {
        let Some(session) = self.sessions.begin(&self.service, admitted.guest.owner()) else {
            return Err(retry_later(StatusCode::SERVICE_UNAVAILABLE, "too many sessions", "60"));
        };
        let name = Arc::clone(&session.name);
        let mut response = self.answer_in_session(admitted, session).await?;
        if let Ok(name) = HeaderValue::from_str(&name) {
            response.headers_mut().insert(SESSION_HEADER, name);
        }
        Ok(response)
    }

    /// Runs a request and gives its response the form that it needs.
    async fn respond(
        &self,
        running: RunningRequest,
        is_malformed: bool,
        length: usize,
        stream: Option<StreamPermit>,
        under_way: TaskTrackerToken,
    ) -> Response<Body> {
        let mut running = Box::pin(running.output(is_malformed));
        // What a long message asks for begins with its arguments, which are read whole in the first poll.
        let begun =
            poll_fn(|context| Poll::Ready(block_in_place_if_long(length, || running.as_mut().poll(context))))
                .await;
        let output = match begun {
            Poll::Ready(output) => output,
            Poll::Pending => running.await,
        };
        let sent = &self.meter.sent;
        match (output, stream) {
            (RequestOutput::Json(JsonResponse { status, body }), _) => {
                let body = TrackedBody::answer(body.into(), sent, under_way);
                let mut response = Response::new(Body::new(body));
                *response.status_mut() = status;
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                response
            }
            (RequestOutput::Stream(events), Some(stream)) => {
                let inner = Body::new(events);
                event_response(Body::new(TrackedBody::stream(inner, sent, self.leaving.clone(), stream)))
            }
            (RequestOutput::Stream(events), None) => {
                event_response(Body::new(TrackedBody::answer(Body::new(events), sent, under_way)))
            }
        }
    }

    /// Session protocol: the stream for what concerns no single request, or one that is resumed.
    fn open_standalone(
        &self,
        headers: &HeaderMap,
        session: Option<Arc<McpSession>>,
        owner: [u8; 32],
    ) -> Result<Response<Body>, Refused> {
        if !accepts(headers, "text/event-stream") {
            return Err(responses::not_acceptable("accept text/event-stream"));
        }
        let session = in_session(headers, session)?;
        let permit = self.acquire_stream(owner)?;
        let resumed = headers.get(LAST_EVENT_HEADER).map(|id| {
            let id = id.to_str().ok()?;
            let (stream, event) = id.split_once('/')?;
            Some((stream.parse().ok()?, event.parse().ok()?))
        });
        let reader = match resumed {
            None => session.events.read(ReplayLog::STANDALONE, None),
            Some(Some((stream, event))) => session.events.read(stream, Some(event)),
            Some(None) => None,
        };
        // What cannot be resumed is an empty stream: after an error the client would try the same again, for ever.
        let Some(reader) = reader else { return Ok(event_response(Body::empty())) };
        let inner = Body::new(SseBody::new(reader));
        let body = TrackedBody::stream(inner, &self.meter.sent, self.leaving.clone(), permit);
        Ok(event_response(Body::new(body)))
    }

    /// Session protocol: ends the session.
    fn end_session(
        &self,
        headers: &HeaderMap,
        session: Option<Arc<McpSession>>,
    ) -> Result<Response<Body>, Refused> {
        let session = in_session(headers, session)?;
        self.sessions.end(&session.name);
        Ok(responses::session_ended())
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

    /// The session that a request names, which must belong to its caller. The stateless protocol has none, whatever the header says.
    fn session(&self, headers: &HeaderMap, owner: [u8; 32]) -> Result<Option<Arc<McpSession>>, Refused> {
        if names_stateless(headers) {
            return Ok(None);
        }
        let mut names = headers.get_all(SESSION_HEADER).iter();
        let (name, None) = (names.next(), names.next()) else {
            return Err(error_response(StatusCode::BAD_REQUEST, "one session, or none"));
        };
        let Some(name) = name else { return Ok(None) };
        let named = self.sessions.named(name.to_str().unwrap_or_default(), owner);
        named.map(Some).ok_or_else(|| error_response(StatusCode::NOT_FOUND, "there is no such session"))
    }

    async fn body(&self, parts: &Parts, body: Body) -> Result<BufferedBody, Refused> {
        let read = self.reader.read(body).await.map_err(responses::body_rejected)?;
        add(&self.meter.received, read.bytes.len() as u64);
        match parts.method == Method::POST || read.bytes.is_empty() {
            true => Ok(read),
            false => Err(error_response(StatusCode::BAD_REQUEST, "only POST brings a body")),
        }
    }
}

/// The check of the headers that repeat parts of a message.
struct RoutingHeaders;

impl RoutingHeaders {
    fn check(headers: &HeaderMap, message: &IncomingMessage<'_>) -> Result<(), HeaderError> {
        let (method, params) = match message {
            IncomingMessage::Request { method, params, .. }
            | IncomingMessage::Notification { method, params } => (method, params),
            IncomingMessage::Reply { .. } => return Ok(()),
        };
        if !names_stateless(headers) {
            return Ok(());
        }
        let name = params.and_then(|params| McpRequest::subject(method, params));
        check_routing(headers, method, name.as_deref(), method == crate::mcp::request::method::INITIALIZE)
    }
}

/// A notification or response in a session.
fn note(message: ReceivedMessage, session: &Arc<McpSession>, guest: AuthenticatedClient) -> Response<Body> {
    match message {
        ReceivedMessage::Cancelled(id) => session.cancel(&id),
        ReceivedMessage::Initialized => {
            let identity = Arc::new(guest.in_session(Some(NamedSession::from(&**session))));
            tokio::spawn(session.handler.clone().initialized(identity));
        }
        ReceivedMessage::Reply { id, reply } => session.handler.connection.requests.reply(&id, reply),
        ReceivedMessage::Ignored | ReceivedMessage::Request { .. } => {}
    }
    responses::accepted()
}

/// The session of a request without a body.
fn in_session(headers: &HeaderMap, session: Option<Arc<McpSession>>) -> Result<Arc<McpSession>, Refused> {
    match check_headers(headers).map_err(|error| refused_headers(error, None))? {
        Protocol::Session => session.ok_or_else(session_required),
        Protocol::Stateless => {
            let mut response = responses::method_not_allowed();
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
            Err(response)
        }
    }
}

fn session_required() -> Response<Body> {
    error_response(StatusCode::BAD_REQUEST, "name a session in Mcp-Session-Id; `initialize` begins one")
}

fn refused_message(invalid: InvalidMessage) -> Response<Body> {
    match invalid {
        InvalidMessage::Refused(error, _) if error.code == RpcCode::PARSE_ERROR => responses::parse_error(),
        InvalidMessage::Refused(..) | InvalidMessage::Dropped => responses::invalid_request(),
    }
}

fn refused_headers(error: HeaderError, id: Option<RequestId>) -> Response<Body> {
    let error = match error {
        HeaderError::Response(error) => error,
        HeaderError::UnknownVersion(version) => {
            let message = format!("Unsupported MCP-Protocol-Version: {version}");
            return error_response(StatusCode::BAD_REQUEST, &message);
        }
    };
    rpc_response(StatusCode::BAD_REQUEST, &ServerJsonRpcMessage::error(error, id))
}

fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).is_some_and(|accept| accept.contains(kind))
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/json"))
}

fn shutting_down() -> Response<Body> {
    let mut response = retry_later(StatusCode::SERVICE_UNAVAILABLE, "this gate is closing", "5");
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
