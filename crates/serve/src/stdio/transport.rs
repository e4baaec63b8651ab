//! The transport on two descriptors.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorData, GetExtensions as _, JsonRpcMessage,
    ProtocolVersion, RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::ServeError;
use crate::mcp::{FutureSlot, InlineDispatch, McpHandler, PendingResponse, ToolResponse, explain};
use crate::stdio::descriptor::{Descriptor, IoDirection};
use crate::stdio::fast_parse::{self, SimpleToolCall};
use crate::stdio::in_flight::{InFlightRequests, RejectReason};
use crate::stdio::lines::{InputLine, InputLines};
use crate::stdio::message::{Decoded, decode, duplicate_id, refused, too_long};
use crate::stdio::output::{FlushState, OutputBuffer};
use crate::stdio::response_writer::{self, ChunkedSink as _, ResponseEnvelope};

/// Maximum length of a line.
const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;

/// Size of one read.
const READ_BYTES: usize = 64 * 1024;

/// Backpressure: no input is read while this much output is waiting.
const MAX_UNREAD_BYTES: usize = 8 * 1024 * 1024;

/// On shutdown, a client that reads nothing for this long is abandoned.
const SHUTDOWN_STALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum lines handled before other tasks run and output is flushed.
const MAX_LINES_PER_TURN: usize = 32;

/// A response with a longer text is freed immediately; a batch of them would take much memory.
const MAX_POOLED_TEXT_BYTES: usize = 32 * 1024;

/// The result of handling input.
enum NextInput {
    /// A message for rmcp.
    Message(Box<ClientJsonRpcMessage>),
    /// No further line can be handled now.
    Nothing,
    /// There may be more lines, but other tasks must run first.
    Later,
}

/// One client on two descriptors.
pub(super) struct StdioTransport {
    input: Descriptor,
    lines: InputLines,
    output: OutputBuffer,
    requests: InFlightRequests,
    future_slot: FutureSlot,
    /// Responses in the output buffer. They are freed after the flush, so that the client does not wait for it.
    written: Vec<ToolResponse>,
    /// On shutdown: since when nothing was written, and the bytes written until then.
    stalled: Option<(Instant, u64)>,
    handler: McpHandler,
    shutdown: CancellationToken,
    /// No more input will be read.
    ended: bool,
    /// A request has arrived; messages before the first request are ignored.
    begun: bool,
    /// The session protocol was negotiated, under which a request needs no `_meta`.
    is_session_protocol: bool,
}

impl StdioTransport {
    pub(super) fn open(
        input: OwnedFd,
        output: OwnedFd,
        handler: McpHandler,
        shutdown: CancellationToken,
    ) -> Result<Self, ServeError> {
        let input = Descriptor::new(input, IoDirection::In).map_err(ServeError::io("standard input"))?;
        let output = Descriptor::new(output, IoDirection::Out).map_err(ServeError::io("standard output"))?;
        Ok(Self {
            input,
            lines: InputLines::new(MAX_LINE_BYTES),
            output: OutputBuffer::new(output),
            requests: InFlightRequests::default(),
            future_slot: FutureSlot::default(),
            written: Vec::new(),
            stalled: None,
            handler,
            shutdown,
            ended: false,
            begun: false,
            is_session_protocol: false,
        })
    }

    /// The next complete message that is not answered inline.
    fn next_message(&mut self) -> NextInput {
        for _ in 0..MAX_LINES_PER_TURN {
            if self.output.waiting() >= MAX_UNREAD_BYTES {
                return NextInput::Nothing;
            }
            let line = match self.lines.next() {
                Some(line) => Some(line),
                None if self.ended => self.lines.rest(),
                None => None,
            };
            let Some(line) = line else { return NextInput::Nothing };
            let decoded = match line {
                InputLine::Whole(line) => {
                    match self.is_session_protocol.then(|| fast_parse::read(line)).flatten() {
                        Some(call) => self.call_inline(call),
                        None => decode(line),
                    }
                }
                InputLine::TooLong => Decoded::Refused(Box::new(too_long(MAX_LINE_BYTES))),
            };
            match decoded {
                Decoded::Message(message) => {
                    if let Some(message) = self.admit(*message) {
                        return NextInput::Message(Box::new(message));
                    }
                }
                Decoded::Refused(answer) => self.put(&answer),
                Decoded::Dropped => {}
            }
        }
        NextInput::Later
    }

    /// Runs a call inline if possible. Other requests take the regular path.
    fn call_inline(&mut self, call: SimpleToolCall) -> Decoded {
        if let Err(why) = self.requests.check(&call.id) {
            let error = self.rejection(why, Some(&call.tool));
            return Decoded::Refused(Box::new(refused(error, Some(call.id))));
        }
        // Other requests are buffered or in flight.
        let among_others = !self.lines.is_empty() || !self.requests.is_settled();
        match self.handler.dispatch_inline(call, among_others, &mut self.future_slot) {
            InlineDispatch::Message(message) => Decoded::Message(message),
            InlineDispatch::Answered { id, answer } => {
                self.put_answer(&id, &ResponseEnvelope::default(), &answer);
                if answer.text.len() <= MAX_POOLED_TEXT_BYTES {
                    self.written.push(answer);
                }
                Decoded::Dropped
            }
        }
    }

    /// The error for a request that is rejected.
    fn rejection(&self, why: RejectReason, tool: Option<&str>) -> ErrorData {
        match why {
            RejectReason::DuplicateId => duplicate_id(),
            RejectReason::TooMany => self.handler.reject_request(tool),
        }
    }

    /// Registers a request, or cancels one.
    fn admit(&mut self, mut message: ClientJsonRpcMessage) -> Option<ClientJsonRpcMessage> {
        match &mut message {
            JsonRpcMessage::Request(request) => {
                self.begun = true;
                // The negotiated version applies from the response on.
                self.is_session_protocol &= !matches!(request.request, ClientRequest::InitializeRequest(_));
                match self.requests.open(&request.id) {
                    Ok(tray) => drop(request.request.extensions_mut().insert(tray)),
                    Err(why) => {
                        let tool = match &request.request {
                            ClientRequest::CallToolRequest(call) => Some(&*call.params.name),
                            _ => None,
                        };
                        let answer = refused(self.rejection(why, tool), Some(request.id.clone()));
                        self.put(&answer);
                        return None;
                    }
                }
            }
            _ if !self.begun => return None,
            JsonRpcMessage::Notification(notification) => {
                // A cancelled request gets no response.
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.requests.cancel(id);
                }
            }
            _ => {}
        }
        Some(message)
    }

    /// Buffers a message.
    fn put(&mut self, message: &ServerJsonRpcMessage) {
        // Cannot fail: the types serialise without error, and a `Vec` grows.
        if serde_json::to_writer(self.output.bytes(), message).is_ok() {
            self.end_line();
        }
    }

    /// Buffers the response to a call.
    fn put_answer(&mut self, id: &RequestId, frame: &ResponseEnvelope<'_>, answer: &ToolResponse) {
        response_writer::write_response(&mut self.output, id, frame, answer);
        self.end_line();
    }

    /// Ends a message and flushes if much is buffered.
    fn end_line(&mut self) {
        self.output.bytes().push(b'\n');
        self.output.maybe_flush();
    }

    /// Ends the input.
    fn end(&mut self) {
        self.ended = true;
        self.handler.connection.closing.cancel();
    }

    /// The client closed its reading end: its calls are cancelled.
    fn is_gone(&mut self) {
        self.handler.connection.gone.cancel();
        self.end();
    }

    /// Watches for a client that does not read during shutdown. Without a shutdown, a client may take any time to read.
    fn watch_for_stall(&mut self) {
        let left = self.output.bytes_written();
        let stalls = self.shutdown.is_cancelled() && !self.output.is_empty();
        let since = self.stalled.filter(|(_, then)| *then == left);
        self.stalled = stalls.then(|| since.unwrap_or_else(|| (Instant::now(), left)));
    }

    /// Waits for input, output or shutdown.
    async fn wait(&mut self) {
        self.watch_for_stall();
        let Self { input, lines, output, shutdown, .. } = self;
        let (reads, writes) = (!self.ended && output.waiting() < MAX_UNREAD_BYTES, !output.is_empty());
        let given_up = self.stalled.map(|(since, _)| since + SHUTDOWN_STALL_TIMEOUT);
        tokio::select! {
            biased;
            () = shutdown.cancelled(), if !self.ended => self.end(),
            flushed = output.drain(), if writes => if flushed == FlushState::Broken {
                self.is_gone();
            },
            () = tokio::time::sleep_until(given_up.unwrap_or_else(Instant::now)), if given_up.is_some() => {
                self.output.abandon();
            }
            count = read(input, lines), if reads => if !count.is_ok_and(|count| count > 0) {
                self.end();
            },
            // rmcp will drop this future to send a response.
            else => std::future::pending().await,
        }
    }
}

/// Reads once. Cancel-safe: no input is lost.
async fn read(input: &Descriptor, lines: &mut InputLines) -> io::Result<usize> {
    loop {
        let buffer = lines.buffer();
        buffer.reserve(READ_BYTES);
        let ready = input.readable().await?;
        let room = buffer.capacity() - buffer.len();
        let count = rustix::io::read(input.fd(), spare_capacity(buffer));
        // A short read means the descriptor is drained.
        if count.map_or_else(|error| error == Errno::AGAIN, |count| count < room) {
            ready.end();
        }
        match count {
            Ok(count) => return Ok(count),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl Transport<RoleServer> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        mut message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Error(refused) = &mut message {
            explain(&mut refused.error);
        }
        let (id, result) = match &message {
            JsonRpcMessage::Response(response) => (Some(&response.id), Some(&response.result)),
            JsonRpcMessage::Error(error) => (error.id.as_ref(), None),
            _ => (None, None),
        };
        let tray = id.and_then(|id| self.requests.close(id));
        let PendingResponse { permit: room, response: answer } =
            tray.map(|tray| tray.take()).unwrap_or_default();
        if let Some(ServerResult::InitializeResult(agreed)) = result {
            self.is_session_protocol =
                agreed.protocol_version.as_str() < ProtocolVersion::V_2026_07_28.as_str();
        }
        match (id, result, answer) {
            (Some(id), Some(ServerResult::CallToolResult(result)), Some(answer)) => {
                self.put_answer(id, &ResponseEnvelope::of(result), &answer);
            }
            _ => self.put(&message),
        }
        if let Some(room) = room {
            self.output.hold(room);
        }
        std::future::ready(Ok(()))
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let next = self.next_message();
            if let NextInput::Message(message) = next {
                return Some(*message);
            }
            let was_full = self.output.waiting() >= MAX_UNREAD_BYTES;
            if self.output.flush() == FlushState::Broken {
                self.is_gone();
                return None;
            }
            self.written.clear();
            if let NextInput::Later = next {
                tokio::task::yield_now().await;
                continue;
            }
            if was_full && self.output.waiting() < MAX_UNREAD_BYTES {
                // Buffered lines can be handled again.
                continue;
            }
            if self.ended && self.requests.is_settled() && self.output.is_empty() {
                return None;
            }
            self.wait().await;
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.end();
        while self.output.flush() == FlushState::Waiting {
            let taken = tokio::time::timeout(SHUTDOWN_STALL_TIMEOUT, self.output.drain()).await;
            if taken.is_err() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }
}
