//! The two descriptors as the service sees them.

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
use crate::mcp::{Answered, AtOnce, Leaving, McpHandler, Workbench, in_words};
use crate::stdio::account::{Account, Unserved};
use crate::stdio::descriptor::{Descriptor, Direction};
use crate::stdio::lines::{Line, Lines};
use crate::stdio::message::{Decoded, decode, refused, taken, too_long};
use crate::stdio::output::{Flushed, Output};
use crate::stdio::plain::{self, PlainCall};
use crate::stdio::spell::{self, Frame, Paper as _};

/// A longer line is no message.
const LONGEST_LINE: usize = 64 * 1024 * 1024;

/// Read at once.
const READ: usize = 64 * 1024;

/// No more is read while the client has so much to read itself.
const MOST_UNREAD: usize = 8 * 1024 * 1024;

/// A client that takes nothing for so long, once the end was asked for, gets no more.
const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// So many lines are taken up before others have their turn, and the client its first answers.
const AT_ONCE: usize = 32;

/// The memory of a longer text is given back at once: many of them would take much together.
const SMALL: usize = 32 * 1024;

/// What came next.
enum Next {
    /// A message for the service.
    Message(Box<ClientJsonRpcMessage>),
    /// Nothing that can be taken up now.
    Nothing,
    /// There may be more, and others had no turn for a while.
    Later,
}

/// One client on two descriptors.
pub(super) struct Wire {
    input: Descriptor,
    lines: Lines,
    output: Output,
    requests: Account,
    workbench: Workbench,
    /// Answers that are on their way: whoever waits for one need not wait until its memory is given back.
    spelt: Vec<Answered>,
    /// Since when nothing has left, once the end was asked for, and how much had left by then.
    stalled: Option<(Instant, u64)>,
    handler: McpHandler,
    shutdown: CancellationToken,
    /// Nothing more will be read.
    ended: bool,
    /// A request has come; before that, nothing but a request means anything.
    begun: bool,
    /// The client and we agreed on the older era, in which a request need not say how it is meant.
    is_older: bool,
}

impl Wire {
    pub(super) fn open(
        input: OwnedFd,
        output: OwnedFd,
        handler: McpHandler,
        shutdown: CancellationToken,
    ) -> Result<Self, ServeError> {
        let input = Descriptor::new(input, Direction::In).map_err(ServeError::io("standard input"))?;
        let output = Descriptor::new(output, Direction::Out).map_err(ServeError::io("standard output"))?;
        Ok(Self {
            input,
            lines: Lines::new(LONGEST_LINE),
            output: Output::new(output),
            requests: Account::default(),
            workbench: Workbench::default(),
            spelt: Vec::new(),
            stalled: None,
            handler,
            shutdown,
            ended: false,
            begun: false,
            is_older: false,
        })
    }

    /// The next message that has come whole and is not answered at once.
    fn next_message(&mut self) -> Next {
        for _ in 0..AT_ONCE {
            if self.output.waiting() >= MOST_UNREAD {
                return Next::Nothing;
            }
            let line = match self.lines.next() {
                Some(line) => Some(line),
                None if self.ended => self.lines.rest(),
                None => None,
            };
            let Some(line) = line else { return Next::Nothing };
            let decoded = match line {
                Line::Whole(line) => match self.is_older.then(|| plain::read(line)).flatten() {
                    Some(call) => self.call_at_once(call),
                    None => decode(line),
                },
                Line::TooLong => Decoded::Refused(Box::new(too_long(LONGEST_LINE))),
            };
            match decoded {
                Decoded::Message(message) => {
                    if let Some(message) = self.admit(*message) {
                        return Next::Message(Box::new(message));
                    }
                }
                Decoded::Refused(answer) => self.put(&answer),
                Decoded::Dropped => {}
            }
        }
        Next::Later
    }

    /// Answers a call where it came in, if it can be. A request that is not good is left to the usual way.
    fn call_at_once(&mut self, call: PlainCall) -> Decoded {
        if let Err(why) = self.requests.admits(&call.id) {
            let error = self.unserved(why, Some(&call.tool));
            return Decoded::Refused(Box::new(refused(error, Some(call.id))));
        }
        // Other requests have come, or are under way.
        let among_others = !self.lines.is_empty() || !self.requests.is_settled();
        match self.handler.at_once(call, among_others, &mut self.workbench) {
            AtOnce::Message(message) => Decoded::Message(message),
            AtOnce::Answered { id, answer } => {
                self.put_answer(&id, &Frame::default(), &answer);
                if answer.text.len() <= SMALL {
                    self.spelt.push(answer);
                }
                Decoded::Dropped
            }
        }
    }

    /// The answer to a request that is not served.
    fn unserved(&self, why: Unserved, tool: Option<&str>) -> ErrorData {
        match why {
            Unserved::Taken => taken(),
            Unserved::TooMany => self.handler.unserved(tool),
        }
    }

    /// Keeps account of what has to be answered.
    fn admit(&mut self, mut message: ClientJsonRpcMessage) -> Option<ClientJsonRpcMessage> {
        match &mut message {
            JsonRpcMessage::Request(request) => {
                self.begun = true;
                // What is agreed upon begins with the answer.
                self.is_older &= !matches!(request.request, ClientRequest::InitializeRequest(_));
                match self.requests.open(&request.id) {
                    Ok(tray) => drop(request.request.extensions_mut().insert(tray)),
                    Err(why) => {
                        let tool = match &request.request {
                            ClientRequest::CallToolRequest(call) => Some(&*call.params.name),
                            _ => None,
                        };
                        let answer = refused(self.unserved(why, tool), Some(request.id.clone()));
                        self.put(&answer);
                        return None;
                    }
                }
            }
            _ if !self.begun => return None,
            JsonRpcMessage::Notification(notification) => {
                // Whoever gives up a request gets no answer to it.
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.requests.give_up(id);
                }
            }
            _ => {}
        }
        Some(message)
    }

    /// Puts a message on its way.
    fn put(&mut self, message: &ServerJsonRpcMessage) {
        // It cannot fail: the message is ours, and there is always more paper.
        if serde_json::to_writer(self.output.bytes(), message).is_ok() {
            self.end_line();
        }
    }

    /// Puts the answer to a call on its way.
    fn put_answer(&mut self, id: &RequestId, frame: &Frame<'_>, answer: &Answered) {
        spell::answer(&mut self.output, id, frame, answer);
        self.end_line();
    }

    /// Ends a message, and lets the client have what there is of many.
    fn end_line(&mut self) {
        self.output.bytes().push(b'\n');
        self.output.turn();
    }

    /// Nothing more will come from the client.
    fn end(&mut self) {
        self.ended = true;
        self.handler.connection.closing.cancel();
    }

    /// The client reads nothing more: what it asked for is of no use to anybody.
    fn is_gone(&mut self) {
        self.handler.connection.gone.cancel();
        self.end();
    }

    /// Once the end was asked for, a client that does not read is not waited for. One that merely closed its own end may take its time.
    fn watch_for_stall(&mut self) {
        let left = self.output.left();
        let stalls = self.shutdown.is_cancelled() && !self.output.is_empty();
        let since = self.stalled.filter(|(_, then)| *then == left);
        self.stalled = stalls.then(|| since.unwrap_or_else(|| (Instant::now(), left)));
    }

    /// Waits until something more has come or left, or the end was asked for.
    async fn wait(&mut self) {
        self.watch_for_stall();
        let Self { input, lines, output, shutdown, .. } = self;
        let (reads, writes) = (!self.ended && output.waiting() < MOST_UNREAD, !output.is_empty());
        let given_up = self.stalled.map(|(since, _)| since + LAST_PATIENCE);
        tokio::select! {
            biased;
            () = shutdown.cancelled(), if !self.ended => self.end(),
            flushed = output.drain(), if writes => if flushed == Flushed::Broken {
                self.is_gone();
            },
            () = tokio::time::sleep_until(given_up.unwrap_or_else(Instant::now)), if given_up.is_some() => {
                self.output.give_up();
            }
            count = read(input, lines), if reads => if !count.is_ok_and(|count| count > 0) {
                self.end();
            },
            // The service will come again with an answer.
            else => std::future::pending().await,
        }
    }
}

/// Reads what has come. Nothing is lost when it is given up.
async fn read(input: &Descriptor, lines: &mut Lines) -> io::Result<usize> {
    loop {
        let buffer = lines.buffer();
        buffer.reserve(READ);
        let ready = input.readable().await?;
        let room = buffer.capacity() - buffer.len();
        let count = rustix::io::read(input.fd(), spare_capacity(buffer));
        // Less than there was room for is all that there was.
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

impl Transport<RoleServer> for Wire {
    type Error = io::Error;

    fn send(
        &mut self,
        mut message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Error(refused) = &mut message {
            in_words(&mut refused.error);
        }
        let (id, result) = match &message {
            JsonRpcMessage::Response(response) => (Some(&response.id), Some(&response.result)),
            JsonRpcMessage::Error(error) => (error.id.as_ref(), None),
            _ => (None, None),
        };
        let tray = id.and_then(|id| self.requests.close(id));
        let Leaving { room, answer } = tray.map(|tray| tray.take()).unwrap_or_default();
        if let Some(ServerResult::InitializeResult(agreed)) = result {
            self.is_older = agreed.protocol_version.as_str() < ProtocolVersion::V_2026_07_28.as_str();
        }
        match (id, result, answer) {
            (Some(id), Some(ServerResult::CallToolResult(result)), Some(answer)) => {
                self.put_answer(id, &Frame::of(result), &answer);
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
            if let Next::Message(message) = next {
                return Some(*message);
            }
            let was_full = self.output.waiting() >= MOST_UNREAD;
            if self.output.flush() == Flushed::Broken {
                self.is_gone();
                return None;
            }
            self.spelt.clear();
            if let Next::Later = next {
                tokio::task::yield_now().await;
                continue;
            }
            if was_full && self.output.waiting() < MOST_UNREAD {
                // Lines that have come may be taken up again.
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
        while self.output.flush() == Flushed::Waiting {
            let taken = tokio::time::timeout(LAST_PATIENCE, self.output.drain()).await;
            if taken.is_err() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }
}
