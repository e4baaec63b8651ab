//! The two descriptors as the service sees them.

use std::collections::HashSet;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use memchr::memmem;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ContentBlock, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
    ServerResult,
};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use crate::error::ServeError;
use crate::mcp::Connection;
use crate::stdio::descriptor::{Descriptor, Direction};
use crate::stdio::lines::{Line, Lines};
use crate::stdio::message::{Decoded, decode, taken, too_long};
use crate::stdio::output::{Flushed, Output};

/// A longer line is no message.
const LONGEST_LINE: usize = 64 * 1024 * 1024;

/// From here on it pays to write a text in another way than the rest of its message.
const LONG_TEXT: usize = 16 * 1024;

/// What stands in place of a text that was taken out.
const TAKEN_OUT: &str = "the text of this answer";

/// The same as it is written. Nothing but a member of an object is written so: in a string, such as a client's own id, its quotes would be escaped.
const IN_ITS_PLACE: &str = r#""text":"the text of this answer""#;

/// Read at once.
const READ: usize = 64 * 1024;

/// No more is read while so many requests are not answered yet.
const MOST_UNANSWERED: usize = 1024;

/// A client that takes nothing for so long, after it was told that this is the end, gets no more.
const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// One client on two descriptors.
pub(super) struct Wire {
    input: Descriptor,
    lines: Lines,
    output: Output,
    /// The requests that are not answered yet.
    unanswered: HashSet<RequestId>,
    connection: Arc<Connection>,
    shutdown: CancellationToken,
    /// Nothing more will be read.
    ended: bool,
    /// A request has come; before that, nothing but a request means anything.
    begun: bool,
}

impl Wire {
    pub(super) fn open(
        input: OwnedFd,
        output: OwnedFd,
        connection: Arc<Connection>,
        shutdown: CancellationToken,
    ) -> Result<Self, ServeError> {
        let input = Descriptor::new(input, Direction::In).map_err(ServeError::io("standard input"))?;
        let output = Descriptor::new(output, Direction::Out).map_err(ServeError::io("standard output"))?;
        Ok(Self {
            input,
            lines: Lines::new(LONGEST_LINE),
            output: Output::new(output),
            unanswered: HashSet::new(),
            connection,
            shutdown,
            ended: false,
            begun: false,
        })
    }

    /// The next message that has come whole.
    fn next_message(&mut self) -> Option<ClientJsonRpcMessage> {
        while self.unanswered.len() < MOST_UNANSWERED {
            let line = match self.lines.next() {
                Some(line) => line,
                None if self.ended => self.lines.rest()?,
                None => return None,
            };
            let decoded = match line {
                Line::Whole(line) => decode(line),
                Line::TooLong => Decoded::Refused(Box::new(too_long(LONGEST_LINE))),
            };
            match decoded {
                Decoded::Message(message) => {
                    if let Some(message) = self.admit(*message) {
                        return Some(message);
                    }
                }
                Decoded::Refused(answer) => self.put(&answer),
                Decoded::Dropped => {}
            }
        }
        None
    }

    /// Keeps account of what has to be answered.
    fn admit(&mut self, message: ClientJsonRpcMessage) -> Option<ClientJsonRpcMessage> {
        match &message {
            JsonRpcMessage::Request(request) => {
                self.begun = true;
                if !self.unanswered.insert(request.id.clone()) {
                    self.put(&taken(request.id.clone()));
                    return None;
                }
            }
            _ if !self.begun => return None,
            JsonRpcMessage::Notification(notification) => {
                // Whoever gives up a request gets no answer to it.
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.unanswered.remove(id);
                    drop(self.connection.release(id));
                }
            }
            _ => {}
        }
        Some(message)
    }

    /// Puts a message on its way.
    fn put(&mut self, message: &ServerJsonRpcMessage) {
        // Neither can fail: the message is ours, and the writer only collects.
        if serde_json::to_writer(&mut self.output, message).is_ok() {
            let _ = io::Write::write_all(&mut self.output, b"\n");
        }
    }

    /// Puts an answer on its way whose long text was taken out of it.
    fn put_around(&mut self, message: &ServerJsonRpcMessage, text: &str) {
        let json = serde_json::to_vec(message).unwrap_or_default();
        let place = memmem::find(&json, IN_ITS_PLACE.as_bytes()).unwrap_or(json.len());
        let (before, after) = json.split_at_checked(place).unwrap_or_default();
        let _ = io::Write::write_all(&mut self.output, before);
        let _ = io::Write::write_all(&mut self.output, b"\"text\":\"");
        self.output.put_escaped(text);
        let _ = io::Write::write_all(&mut self.output, b"\"");
        let _ = io::Write::write_all(&mut self.output, after.get(IN_ITS_PLACE.len()..).unwrap_or_default());
        let _ = io::Write::write_all(&mut self.output, b"\n");
    }

    /// Nothing more will come from the client.
    fn end(&mut self) {
        self.ended = true;
        self.connection.closing.cancel();
    }

    /// Waits until something more has come or left, or the end was asked for.
    async fn wait(&mut self) {
        let Self { input, lines, output, shutdown, .. } = self;
        let (reads, writes) = (!self.ended && self.unanswered.len() < MOST_UNANSWERED, !output.is_empty());
        tokio::select! {
            biased;
            () = shutdown.cancelled(), if !self.ended => self.end(),
            flushed = output.drain(), if writes => if flushed == Flushed::Broken {
                self.connection.gone.cancel();
                self.end();
            },
            count = read(input, lines), if reads => if !count.is_ok_and(|count| count > 0) {
                self.end();
            },
            // The service will come again with an answer.
            else => std::future::pending().await,
        }
    }
}

/// Takes the text out of a long answer. It is the first text in it, so that no other can be taken for what stands in its place.
fn long_text(message: &mut ServerJsonRpcMessage) -> Option<String> {
    let JsonRpcMessage::Response(response) = message else { return None };
    let ServerResult::CallToolResult(result) = &mut response.result else { return None };
    let Some(ContentBlock::Text(content)) = result.content.first_mut() else { return None };
    let is_long = content.text.len() >= LONG_TEXT;
    is_long.then(|| std::mem::replace(&mut content.text, TAKEN_OUT.to_owned()))
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
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let mut message = message;
        match long_text(&mut message) {
            Some(text) => self.put_around(&message, &text),
            None => self.put(&message),
        }
        let id = match &message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        if let Some(id) = id {
            self.unanswered.remove(id);
            if let Some(room) = self.connection.release(id) {
                self.output.hold(room);
            }
        }
        std::future::ready(Ok(()))
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if let Some(message) = self.next_message() {
                return Some(message);
            }
            if self.output.flush() == Flushed::Broken {
                self.connection.gone.cancel();
                self.end();
                return None;
            }
            if self.ended && self.unanswered.is_empty() && self.output.is_empty() {
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
