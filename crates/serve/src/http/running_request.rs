//! A request under way, and the form of its response: JSON unless a message stands before it, or a session's request takes long; then a stream of
//! events.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use hyper::body::Frame;
use rmcp::model::{ErrorCode, ServerJsonRpcMessage};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

use super::event_log::{ReplayLog, frame};
use crate::mcp::message::ServerMessage;
use crate::mcp::request::HeldPermits;
use crate::mcp::{AnsweredRequest, RequestResult};
use crate::response_writer::write_response;

/// A stream without events is kept open with a comment this often.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// A request of a session that takes longer is answered with a stream: its headers and keep-alives reach the client and proxies while it runs, and
/// the client can resume it. Nothing of a stateless request could be resumed, so its response stays JSON.
const STREAM_AFTER: Duration = Duration::from_millis(100);

/// Events that the connection has not taken yet.
const BODY_CAPACITY: usize = 16;

type RequestFuture = Pin<Box<dyn Future<Output = AnsweredRequest> + Send>>;

/// What happens when the connection is lost before the response was sent.
pub(super) enum OnDisconnect {
    /// Stateless protocol: the request is cancelled.
    Cancel,
    /// Session protocol: it goes on, and its stream can be resumed.
    Continue(Arc<ReplayLog>),
}

/// A request under way. Dropping it leaves its future to a task, because its call gets a record in any case.
pub(super) struct RunningRequest {
    pub(super) future: Option<RequestFuture>,
    pub(super) messages: mpsc::Receiver<ServerMessage>,
    pub(super) cancelled: CancellationToken,
    pub(super) on_disconnect: OnDisconnect,
}

/// What a request gives next.
enum RequestStep {
    Response(AnsweredRequest),
    Message(ServerMessage),
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        let Some(future) = self.future.take() else { return };
        if let OnDisconnect::Cancel = self.on_disconnect {
            self.cancelled.cancel();
        }
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(future);
        }
    }
}

/// A response without a stream.
pub(super) struct JsonResponse {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

/// The response of a request.
pub(super) enum RequestOutput {
    Json(JsonResponse),
    Stream(SseBody),
}

impl RunningRequest {
    /// Runs the request until its first message or its response; in a session, for a while. `is_malformed` says that `_meta` lacked what it must have.
    pub(super) async fn output(mut self, is_malformed: bool) -> RequestOutput {
        let can_resume = matches!(self.on_disconnect, OnDisconnect::Continue(_));
        let first = tokio::select! {
            biased;
            first = self.next() => Some(first),
            () = tokio::time::sleep(STREAM_AFTER), if can_resume => None,
        };
        match first {
            Some(RequestStep::Response(answered)) if !self.is_withdrawn() => {
                let status = match self.on_disconnect {
                    OnDisconnect::Cancel => status_of(&answered, is_malformed),
                    OnDisconnect::Continue(_) => StatusCode::OK,
                };
                let (body, held) = render(answered);
                RequestOutput::Json(JsonResponse { status, body: owned(body, held) })
            }
            first => RequestOutput::Stream(self.stream(first)),
        }
    }

    /// Session protocol: whether the client sent `notifications/cancelled`, so that it gets no response.
    fn is_withdrawn(&self) -> bool {
        matches!(self.on_disconnect, OnDisconnect::Continue(_)) && self.cancelled.is_cancelled()
    }

    async fn next(&mut self) -> RequestStep {
        let Self { future, messages, .. } = self;
        let Some(running) = future.as_mut() else { return std::future::pending().await };
        let answered = tokio::select! {
            biased;
            Some(message) = messages.recv() => return RequestStep::Message(message),
            answered = running => answered,
        };
        // It may have sent something in the same step.
        match messages.try_recv() {
            Ok(message) => {
                *future = Some(Box::pin(std::future::ready(answered)));
                RequestStep::Message(message)
            }
            Err(_) => {
                *future = None;
                RequestStep::Response(answered)
            }
        }
    }

    /// Goes on in two tasks: a reader that is slow delays the events, and never the request.
    fn stream(mut self, first: Option<RequestStep>) -> SseBody {
        self.future = self.future.take().map(|running| {
            let ended = tokio::spawn(running);
            Box::pin(async move {
                match ended.await {
                    Ok(answered) => answered,
                    // The runtime ends: panics are caught, and nothing aborts the task.
                    Err(_) => std::future::pending().await,
                }
            }) as RequestFuture
        });
        let (body, events): (_, SseSender) = match &self.on_disconnect {
            OnDisconnect::Cancel => {
                let (sender, receiver) = mpsc::channel(BODY_CAPACITY);
                (receiver, SseSender::Body(sender))
            }
            OnDisconnect::Continue(log) => {
                let stream = log.open_stream();
                let reader = log.read(stream, None);
                let receiver = reader.unwrap_or_else(|| mpsc::channel(1).1);
                (receiver, SseSender::Log(Arc::clone(log), stream))
            }
        };
        tokio::spawn(async move {
            let mut first = first;
            loop {
                let output = match first.take() {
                    Some(first) => first,
                    None => tokio::select! {
                        biased;
                        () = events.closed() => break,
                        output = self.next() => output,
                    },
                };
                match output {
                    RequestStep::Message(message) => events.send(&message).await,
                    RequestStep::Response(answered) => {
                        if !self.is_withdrawn() {
                            let (body, held) = render(answered);
                            events.send_response(&body, held).await;
                        }
                        break;
                    }
                }
            }
            events.end();
        });
        SseBody::new(body)
    }
}

/// Where the events of a request go.
enum SseSender {
    /// To one body, which cannot be resumed.
    Body(mpsc::Sender<Bytes>),
    Log(Arc<ReplayLog>, u64),
}

impl SseSender {
    async fn send(&self, message: &ServerMessage) {
        match self {
            Self::Body(sender) => {
                if let Ok(message) = serde_json::to_vec(message) {
                    // A closed body is noticed by the caller.
                    let _ = sender.send(frame(None, &message).into()).await;
                }
            }
            Self::Log(log, stream) => log.send(*stream, message).await,
        }
    }

    async fn send_response(&self, body: &[u8], held: HeldPermits) {
        match self {
            Self::Body(sender) => {
                let _ = sender.send(owned(frame(None, body), held)).await;
            }
            Self::Log(log, stream) => {
                log.send_bytes(*stream, body, |frame| owned(frame, held)).await;
            }
        }
    }

    /// Returns once the client is gone and waits for nothing.
    async fn closed(&self) {
        match self {
            Self::Body(sender) => sender.closed().await,
            Self::Log(..) => std::future::pending().await,
        }
    }

    fn end(&self) {
        if let Self::Log(log, stream) = self {
            log.end_stream(*stream);
        }
    }
}

/// Bytes of a response. Its permits are released when the last reference to the bytes is dropped, hyper's write buffer included.
struct HeldBytes {
    bytes: Vec<u8>,
    _held: HeldPermits,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn owned(bytes: Vec<u8>, held: HeldPermits) -> Bytes {
    match held.memory {
        // The permit of the connection is about calls, and this one has ended.
        None => bytes.into(),
        Some(_) => Bytes::from_owner(HeldBytes { bytes, _held: held }),
    }
}

/// The response as JSON-RPC.
fn render(answered: AnsweredRequest) -> (Vec<u8>, HeldPermits) {
    let AnsweredRequest { id, is_stateless, result, held } = answered;
    let mut body = Vec::new();
    let message = match result {
        Ok(RequestResult::Call(response)) => {
            write_response(&mut body, &id, is_stateless, &response);
            return (body, held);
        }
        Ok(RequestResult::Other(result)) => ServerJsonRpcMessage::response(*result, id),
        Err(error) => ServerJsonRpcMessage::error(error, Some(id)),
    };
    // Cannot fail: the types serialise without error, and a `Vec` grows.
    let _ = serde_json::to_writer(&mut body, &message);
    (body, held)
}

/// The status of a response of the stateless protocol, which middleboxes route by.
fn status_of(answered: &AnsweredRequest, is_malformed: bool) -> StatusCode {
    let Err(error) = &answered.result else { return StatusCode::OK };
    match error.code {
        ErrorCode::UNSUPPORTED_PROTOCOL_VERSION
        | ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
        | ErrorCode::HEADER_MISMATCH => StatusCode::BAD_REQUEST,
        ErrorCode::INVALID_PARAMS if is_malformed => StatusCode::BAD_REQUEST,
        ErrorCode::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        _ => StatusCode::OK,
    }
}

/// A response with a stream of events.
pub(super) fn event_response(body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// The body of a stream of events.
pub(super) struct SseBody {
    events: mpsc::Receiver<Bytes>,
    keep_alive: Pin<Box<Sleep>>,
}

impl SseBody {
    pub(super) fn new(events: mpsc::Receiver<Bytes>) -> Self {
        Self { events, keep_alive: Box::pin(tokio::time::sleep(KEEP_ALIVE_INTERVAL)) }
    }
}

impl HttpBody for SseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let event = match self.events.poll_recv(context) {
            Poll::Ready(event) => event,
            Poll::Pending => match self.keep_alive.as_mut().poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) => Some(Bytes::from_static(b":\n\n")),
            },
        };
        let next = tokio::time::Instant::now() + KEEP_ALIVE_INTERVAL;
        self.keep_alive.as_mut().reset(next);
        Poll::Ready(event.map(|event| Ok(Frame::data(event))))
    }
}
