//! A server on two pipes.
//!
//! All reading and writing happens while the next message is waited for, without a thread and without a copy in between. Nothing is trusted: a line may
//! be endless, may be no message, may come from a server that has stopped reading. Each of these ends the connection after a while, and nothing
//! else.

use std::collections::HashSet;
use std::future::{Future, ready};
use std::io;
use std::os::fd::OwnedFd;

use rmcp::RoleClient;
use rmcp::model::{
    CallToolResult, ClientNotification, ClientRequest, JsonRpcMessage, NumberOrString, RequestId,
    ServerJsonRpcMessage, ServerResult,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::net::unix::pipe::{Receiver, Sender};

use super::lines::Lines;
use super::{Ending, LONGEST_MESSAGE};

/// How much is read at once.
const PIECE: usize = 64 << 10;

/// How much may wait for a server that does not read.
const MOST_WAITING: usize = 16 << 20;

/// How many lines in a row may be no message: some servers greet on their standard output.
const MOST_GARBAGE: u32 = 100;

/// The two pipes.
pub(crate) struct Pipe {
    to: Sender,
    from: Receiver,
    lines: Lines,
    waiting: Vec<u8>,
    written: usize,
    /// The calls that were not answered: what answers one of these is read as that and nothing else.
    calls: HashSet<i64>,
    garbage: u32,
    ending: Ending,
}

impl Pipe {
    /// Speaks over the ends of two pipes.
    pub(crate) fn new(to: OwnedFd, from: OwnedFd, ending: Ending) -> io::Result<Self> {
        for end in [&to, &from] {
            // Long answers come in fewer pieces; where the system allows no more, they still come.
            let _ = rustix::pipe::fcntl_setpipe_size(end, 1 << 20);
        }
        Ok(Self {
            to: Sender::from_owned_fd(to)?,
            from: Receiver::from_owned_fd(from)?,
            lines: Lines::default(),
            waiting: Vec::new(),
            written: 0,
            calls: HashSet::new(),
            garbage: 0,
            ending,
        })
    }

    fn post(&mut self, message: &TxJsonRpcMessage<RoleClient>) -> io::Result<()> {
        let before = self.waiting.len();
        if before - self.written > MOST_WAITING {
            return Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                "the server does not read what it is sent",
            ));
        }
        serde_json::to_writer(&mut self.waiting, message).inspect_err(|_| self.waiting.truncate(before))?;
        self.waiting.push(b'\n');
        self.note(message);
        Ok(())
    }

    fn note(&mut self, message: &TxJsonRpcMessage<RoleClient>) {
        match message {
            JsonRpcMessage::Request(request)
                if matches!(request.request, ClientRequest::CallToolRequest(_)) =>
            {
                self.calls.extend(number(&request.id));
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = cancelled.params.request_id.as_ref().and_then(number)
                {
                    self.calls.remove(&id);
                }
            }
            _ => {}
        }
    }

    /// Writes what can be written now; whether something is left.
    fn flush(&mut self) -> io::Result<bool> {
        while let Some(rest) = self.waiting.get(self.written..).filter(|rest| !rest.is_empty()) {
            match self.to.try_write(rest) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // A server that is always a little behind would otherwise let what it has read pile up.
                    if self.written > MOST_WAITING / 16 {
                        self.waiting.drain(..self.written);
                        self.written = 0;
                    }
                    return Ok(true);
                }
                Err(error) => return Err(error),
            }
        }
        self.written = 0;
        self.waiting.clear();
        if self.waiting.capacity() > 4 * PIECE {
            self.waiting = Vec::new();
        }
        Ok(false)
    }

    /// The next message among the lines that are there.
    async fn buffered(&mut self) -> Option<ServerJsonRpcMessage> {
        while let Some(line) = self.lines.next() {
            match parse(line, &mut self.calls) {
                Line::Message(message) => {
                    self.garbage = 0;
                    return Some(*message);
                }
                Line::Empty => {}
                Line::Garbage => self.garbage += 1,
            }
            tokio::task::consume_budget().await;
        }
        None
    }

    /// Waits until something can be read or written, and does it. `false` at the end.
    async fn turn(&mut self) -> io::Result<bool> {
        if self.flush()? {
            tokio::select! {
                ready = self.to.writable() => return ready.map(|()| true),
                ready = self.from.readable() => ready?,
            }
        } else {
            self.from.readable().await?;
        }
        match self.from.try_read_buf(self.lines.room(PIECE)) {
            Ok(0) => Ok(false),
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// The next message, or why there is none.
    async fn next(&mut self) -> Result<ServerJsonRpcMessage, String> {
        loop {
            if let Some(message) = self.buffered().await {
                return Ok(message);
            }
            if self.garbage > MOST_GARBAGE {
                return Err(format!("more than {MOST_GARBAGE} lines in a row were no messages"));
            }
            if self.lines.is_too_long() {
                return Err(format!("a line was longer than {LONGEST_MESSAGE} bytes"));
            }
            match self.turn().await {
                Ok(true) => {}
                Ok(false) => return Err("it closed its output".to_owned()),
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    return Err("it closed its input".to_owned());
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

impl Transport<RoleClient> for Pipe {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        ready(self.post(&message))
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.next().await.map_err(|reason| self.ending.because(reason)).ok()
    }

    async fn close(&mut self) -> io::Result<()> {
        self.flush().map(|_| ())
    }
}

/// What a line is.
enum Line {
    Message(Box<ServerJsonRpcMessage>),
    Empty,
    Garbage,
}

/// As much of an answer as must be known to read the rest of it.
#[derive(Deserialize)]
struct Answer<'l> {
    id: Option<i64>,
    #[serde(borrow)]
    result: Option<&'l RawValue>,
}

fn parse(line: &[u8], calls: &mut HashSet<i64>) -> Line {
    if line.trim_ascii().is_empty() {
        return Line::Empty;
    }
    if !calls.is_empty()
        && let Some(message) = called(line, calls)
    {
        return Line::Message(Box::new(message));
    }
    serde_json::from_slice(line).map_or(Line::Garbage, |message| Line::Message(Box::new(message)))
}

/// The answer to a call, read as what it must be rather than as whatever it could be.
fn called(line: &[u8], calls: &mut HashSet<i64>) -> Option<ServerJsonRpcMessage> {
    let Answer { id: Some(id), result: Some(result) } = serde_json::from_slice(line).ok()? else {
        return None;
    };
    if !calls.remove(&id) {
        return None;
    }
    let result: CallToolResult = serde_json::from_str(result.get()).ok()?;
    Some(ServerJsonRpcMessage::response(ServerResult::CallToolResult(result), RequestId::Number(id)))
}

fn number(id: &RequestId) -> Option<i64> {
    match id {
        NumberOrString::Number(number) => Some(*number),
        NumberOrString::String(_) => None,
    }
}
