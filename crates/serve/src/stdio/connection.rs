//! The loop of one client on two descriptors: reads lines, polls the requests that they begin, writes their responses.
//!
//! One thread does everything. A request is polled when it is read, so a response that is ready immediately is written before the next wait. One that
//! waits for the disk, a process or a person stays in the set of running requests.

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use rmcp::model::{ErrorData, RequestId, RequestMetaObject, ServerJsonRpcMessage};
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::ServeError;
use crate::mcp::client_sink::ClientSink;
use crate::mcp::message::{InvalidMessage, ServerMessage, decode, duplicate_id, too_long};
use crate::mcp::request::{McpRequest, ReceivedMessage, RequestContext};
use crate::mcp::{AnsweredRequest, ClientIdentity, McpHandler, RequestResult, ToolResponse};
use crate::response_writer::{self, ChunkedSink as _};
use crate::stdio::descriptor::{Descriptor, IoDirection};
use crate::stdio::in_flight::{InFlightRequests, RejectReason};
use crate::stdio::lines::{InputLine, InputLines};
use crate::stdio::opening::StdioOpening;
use crate::stdio::output::{FlushState, OutputBuffer};
use crate::stdio::running_requests::{RequestFuture, RunningRequests};

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

/// One client on two descriptors.
pub(super) struct StdioConnection {
    input: Descriptor,
    lines: InputLines,
    output: OutputBuffer,
    requests: InFlightRequests,
    /// Responses in the output buffer. They are freed after the flush, so that the client does not wait for it.
    written: Vec<ToolResponse>,
    /// On shutdown: since when nothing was written, and the bytes written until then.
    stalled: Option<(Instant, u64)>,
    handler: McpHandler,
    identity: Arc<ClientIdentity>,
    client: ClientSink,
    /// Notifications and requests of the gate.
    messages: mpsc::Receiver<ServerMessage>,
    shutdown: CancellationToken,
    /// No more input will be read.
    ended: bool,
}

impl StdioConnection {
    pub(super) fn open(
        (input, output): (OwnedFd, OwnedFd),
        handler: McpHandler,
        identity: ClientIdentity,
        messages: mpsc::Receiver<ServerMessage>,
        shutdown: CancellationToken,
    ) -> Result<Self, ServeError> {
        let input = Descriptor::new(input, IoDirection::In).map_err(ServeError::io("standard input"))?;
        let output = Descriptor::new(output, IoDirection::Out).map_err(ServeError::io("standard output"))?;
        Ok(Self {
            input,
            lines: InputLines::new(MAX_LINE_BYTES),
            output: OutputBuffer::new(output),
            requests: InFlightRequests::default(),
            written: Vec::new(),
            stalled: None,
            client: handler.background.clone(),
            handler,
            identity: Arc::new(identity),
            messages,
            shutdown,
            ended: false,
        })
    }

    /// Handles what was read before there was a gate.
    pub(super) fn resume(&mut self, opening: StdioOpening) {
        if let Some(session) = opening.session {
            self.handler.connection.set_session(session);
        }
        self.lines.buffer().extend_from_slice(&opening.bytes);
    }

    /// Serves the client until it closes its end and every request has ended.
    pub(super) async fn run(mut self) {
        let mut running = RunningRequests::default();
        loop {
            let mut has_more = true;
            for _ in 0..MAX_LINES_PER_TURN {
                match self.next_request(&running) {
                    // Before the next line is read: it may follow from this one, as all do from `initialize`.
                    NextLine::Request(request) => {
                        if let Some(answered) = running.begin(request).await {
                            self.respond(answered);
                        }
                    }
                    NextLine::Handled => {}
                    NextLine::None => {
                        has_more = false;
                        break;
                    }
                }
            }
            self.respond_to_ready(&mut running).await;
            self.put_messages();
            let was_full = self.is_full();
            if self.output.flush() == FlushState::Broken {
                self.client_gone();
            }
            self.written.clear();
            if has_more {
                tokio::task::yield_now().await;
                continue;
            }
            if was_full && !self.is_full() {
                // Buffered lines can be handled again.
                continue;
            }
            // Calls of cancelled requests also run to their end.
            if self.ended && running.is_empty() && self.output.is_empty() {
                return;
            }
            self.wait(&mut running).await;
        }
    }

    /// Reads the next line. A request is returned, everything else is handled.
    fn next_request(&mut self, running: &RunningRequests) -> NextLine {
        if self.is_full() {
            return NextLine::None;
        }
        let line = match self.lines.next() {
            Some(line) => line,
            None if self.ended => match self.lines.rest() {
                Some(line) => line,
                None => return NextLine::None,
            },
            None => return NextLine::None,
        };
        let line = match line {
            InputLine::Whole(line) => line,
            InputLine::TooLong => {
                self.put_error(too_long(MAX_LINE_BYTES), None);
                return NextLine::Handled;
            }
        };
        let received = decode(line).map(ReceivedMessage::from);
        match received {
            Ok(ReceivedMessage::Request { id, request, meta }) => {
                return self.begin(id, request, meta, running);
            }
            // A cancelled request gets no response.
            Ok(ReceivedMessage::Cancelled(id)) => self.requests.cancel(&id),
            Ok(ReceivedMessage::Initialized) if self.handler.connection.session().is_some() => {
                tokio::spawn(self.handler.clone().initialized(Arc::clone(&self.identity)));
            }
            Ok(ReceivedMessage::Reply { id, reply }) => self.handler.connection.requests.reply(&id, reply),
            Ok(ReceivedMessage::Initialized | ReceivedMessage::Ignored) => {}
            Err(InvalidMessage::Refused(error, id)) => self.put_error(error, id),
            Err(InvalidMessage::Dropped) => {}
        }
        NextLine::Handled
    }

    /// Registers a request.
    fn begin(
        &mut self,
        id: RequestId,
        request: McpRequest,
        meta: RequestMetaObject,
        running: &RunningRequests,
    ) -> NextLine {
        if let Err(why) = self.requests.check(&id) {
            let error = match why {
                RejectReason::DuplicateId => duplicate_id(),
                RejectReason::TooMany => self.handler.reject_request(request.tool(), &self.identity),
            };
            self.put_error(error, Some(id));
            return NextLine::Handled;
        }
        // Other requests are buffered or in flight.
        let is_contended = !self.lines.is_empty() || !self.requests.is_settled();
        let (identity, client) = (Arc::clone(&self.identity), self.client.clone());
        let mut context =
            RequestContext::new(id.clone(), meta, identity, client, self.handler.connection.session());
        context.is_contended = is_contended;
        self.requests.open(id, context.cancelled.clone());
        NextLine::Request(running.boxed(self.handler.clone().serve(request, context)))
    }

    /// Polls the requests that can make progress, and buffers the responses of those that have ended.
    async fn respond_to_ready(&mut self, running: &mut RunningRequests) {
        poll_fn(|context| {
            while let Poll::Ready(Some(answered)) = running.poll_next(context) {
                self.respond(answered);
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Buffers the response to a request, unless it was cancelled.
    fn respond(&mut self, answered: AnsweredRequest) {
        let AnsweredRequest { id, is_stateless, result, held } = answered;
        // Its notifications stand before it, also where the buffer is full: there are only as many as the channel holds.
        while let Ok(message) = self.messages.try_recv() {
            self.put(&message);
        }
        if !self.requests.close(&id) {
            return;
        }
        match result {
            Ok(RequestResult::Call(response)) => {
                response_writer::write_response(&mut self.output, &id, is_stateless, &response);
                self.end_line();
                if response.text.len() <= MAX_POOLED_TEXT_BYTES {
                    self.written.push(response);
                }
            }
            Ok(RequestResult::Other(result)) => self.put(&ServerJsonRpcMessage::response(*result, id)),
            Err(error) => self.put_error(error, Some(id)),
        }
        if let Some(permit) = held.connection {
            self.output.hold(permit);
        }
    }

    /// Buffers the notifications and requests of the gate, as far as there is room.
    fn put_messages(&mut self) {
        while !self.is_full()
            && let Ok(message) = self.messages.try_recv()
        {
            self.put(&message);
        }
    }

    fn put_error(&mut self, error: ErrorData, id: Option<RequestId>) {
        self.put(&ServerJsonRpcMessage::error(error, id));
    }

    /// Buffers a message.
    fn put(&mut self, message: &impl Serialize) {
        // Cannot fail: the types serialise without error, and a `Vec` grows.
        if serde_json::to_writer(self.output.bytes(), message).is_ok() {
            self.end_line();
        }
    }

    /// Ends a message and flushes if much is buffered.
    fn end_line(&mut self) {
        self.output.bytes().push(b'\n');
        self.output.maybe_flush();
    }

    fn is_full(&self) -> bool {
        self.output.waiting() >= MAX_UNREAD_BYTES
    }

    /// Ends the input.
    fn end(&mut self) {
        self.ended = true;
        self.handler.connection.closing.cancel();
    }

    /// The client closed its reading end: its calls are cancelled.
    fn client_gone(&mut self) {
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

    /// Waits for input, output, a running request, a message of the gate, or shutdown.
    async fn wait(&mut self, running: &mut RunningRequests) {
        self.watch_for_stall();
        let (reads, writes, is_full) =
            (!self.ended && !self.is_full(), !self.output.is_empty(), self.is_full());
        let given_up = self.stalled.map(|(since, _)| since + SHUTDOWN_STALL_TIMEOUT);
        let Self { input, lines, output, shutdown, messages, .. } = self;
        tokio::select! {
            biased;
            () = shutdown.cancelled(), if !self.ended => self.end(),
            flushed = output.drain(), if writes => if flushed == FlushState::Broken {
                self.client_gone();
            },
            () = tokio::time::sleep_until(given_up.unwrap_or_else(Instant::now)), if given_up.is_some() => {
                self.output.abandon();
            }
            Some(answered) = poll_fn(|context| running.poll_next(context)), if !running.is_empty() => self.respond(answered),
            Some(message) = messages.recv(), if !is_full => self.put(&message),
            count = read_available(input, lines.buffer()), if reads => if !count.is_ok_and(|count| count > 0) {
                self.end();
            },
        }
    }
}

/// What a line was.
enum NextLine {
    Request(RequestFuture),
    /// Anything else.
    Handled,
    /// No line can be handled now.
    None,
}

/// Reads once. Cancel-safe: no input is lost.
pub(super) async fn read_available(input: &Descriptor, buffer: &mut Vec<u8>) -> io::Result<usize> {
    loop {
        buffer.reserve(READ_BYTES);
        let ready = input.readable().await?;
        let room = buffer.capacity() - buffer.len();
        let count = rustix::io::read(input.fd(), spare_capacity(&mut *buffer));
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
