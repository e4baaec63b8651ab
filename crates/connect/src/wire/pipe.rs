//! A server on two pipes.
//!
//! All reading and writing happens while the next message is waited for, without a thread and without a copy in between. Nothing is trusted: a line may
//! be endless, may be no message, may come from a server that has stopped reading. Each of these ends the connection after a while, and nothing
//! else.

use std::collections::HashMap;
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
use super::long::{Long, SHORT, look, too_much};
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
    asked: Asked,
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
            asked: Asked::default(),
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
        self.asked.note(message);
        Ok(())
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
            match parse(line, &mut self.asked) {
                Line::Message(message) => {
                    self.garbage = 0;
                    return Some(*message);
                }
                Line::Useless => self.ending.count_useless(line.len()),
                Line::Garbage => self.garbage += 1,
            }
            if self.ending.is_over() {
                return None;
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
            if self.ending.is_over() {
                return Err("it said too much".to_owned());
            }
            if self.garbage > MOST_GARBAGE {
                return Err(format!("more than {MOST_GARBAGE} lines in a row were no messages"));
            }
            if self.lines.is_too_long() {
                return Err(format!("a line was longer than {LONGEST_MESSAGE} bytes"));
            }
            match self.turn().await {
                Ok(true) => {}
                Ok(false) => {
                    self.ending.left();
                    return Err("it closed its output".to_owned());
                }
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    self.ending.left();
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

/// What was asked and not answered, and whether it was a call: what answers one is read as that and nothing else.
#[derive(Default)]
struct Asked(HashMap<i64, bool>);

impl Asked {
    fn note(&mut self, message: &TxJsonRpcMessage<RoleClient>) {
        match message {
            JsonRpcMessage::Request(request) => {
                let is_call = matches!(request.request, ClientRequest::CallToolRequest(_));
                self.0.extend(number(&request.id).map(|id| (id, is_call)));
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = cancelled.params.request_id.as_ref().and_then(number)
                {
                    self.0.remove(&id);
                }
            }
            _ => {}
        }
    }

    fn has(&self, id: &RequestId) -> bool {
        number(id).is_some_and(|id| self.0.contains_key(&id))
    }

    fn is_call(&self, id: i64) -> bool {
        self.0.get(&id).is_some_and(|is_call| *is_call)
    }

    fn is_answered(&mut self, message: &ServerJsonRpcMessage) {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        if let Some(id) = id.and_then(number) {
            self.0.remove(&id);
        }
    }
}

/// What a line is.
enum Line {
    Message(Box<ServerJsonRpcMessage>),
    Useless,
    Garbage,
}

/// As much of an answer as must be known to read the rest of it.
#[derive(Deserialize)]
struct Answer<'l> {
    id: Option<i64>,
    #[serde(borrow)]
    result: Option<&'l RawValue>,
}

fn parse(line: &[u8], asked: &mut Asked) -> Line {
    if line.trim_ascii().is_empty() {
        return Line::Useless;
    }
    let message = match read(line, asked) {
        Ok(message) => message,
        Err(line) => return line,
    };
    asked.is_answered(&message);
    Line::Message(Box::new(message))
}

fn read(line: &[u8], asked: &Asked) -> Result<ServerJsonRpcMessage, Line> {
    if line.len() > SHORT {
        match look(line) {
            Long::Answer(id) if asked.has(&id) => {}
            Long::Heavy(id) if asked.has(&id) => return Ok(too_much(id)),
            Long::Answer(_) | Long::Heavy(_) | Long::Unasked => return Err(Line::Useless),
            Long::Garbage => return Err(Line::Garbage),
        }
    }
    match called(line, asked) {
        Some(message) => Ok(message),
        None => serde_json::from_slice(line).map_err(|_| Line::Garbage),
    }
}

/// The answer to a call, read as what it must be rather than as whatever it could be.
fn called(line: &[u8], asked: &Asked) -> Option<ServerJsonRpcMessage> {
    if asked.0.is_empty() {
        return None;
    }
    let Answer { id: Some(id), result: Some(result) } = serde_json::from_slice(line).ok()? else {
        return None;
    };
    if !asked.is_call(id) {
        return None;
    }
    let result: CallToolResult = serde_json::from_str(result.get()).ok()?;
    Some(ServerJsonRpcMessage::response(ServerResult::CallToolResult(result), RequestId::Number(id)))
}

/// Some servers make texts of the numbers that they are given.
fn number(id: &RequestId) -> Option<i64> {
    match id {
        NumberOrString::Number(number) => Some(*number),
        NumberOrString::String(text) => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parsed(asked: &mut Asked, line: &Value) -> Line {
        parse(line.to_string().as_bytes(), asked)
    }

    #[test]
    fn long_lines_pass_only_where_something_was_asked() {
        let long = "x".repeat(SHORT);
        let answer = |id: Value| json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": long}]}});
        let mut asked = Asked([(1, true), (2, false), (4, true)].into());
        for (line, passes) in [
            (answer(json!(1)), true),
            (answer(json!(1)), false),
            (answer(json!("2")), true),
            (answer(json!(3)), false),
            (
                json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": long}}),
                false,
            ),
            (
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 4, "progress": 1, "x": long}}),
                false,
            ),
            (json!({"jsonrpc": "2.0", "id": 4, "method": "ping", "params": {"x": long}}), false),
            (
                json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "short"}}),
                true,
            ),
        ] {
            match parsed(&mut asked, &line) {
                Line::Message(_) => assert!(passes),
                Line::Useless => assert!(!passes),
                Line::Garbage => panic!("{}", line.to_string().chars().take(80).collect::<String>()),
            }
        }
        assert!(matches!(parse(b"  ", &mut asked), Line::Useless));
    }

    #[test]
    fn a_heavy_answer_is_one_that_says_so() {
        let mut asked = Asked([(1, true)].into());
        let heavy = json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [], "structuredContent": {"a": vec![0; 300_000]}}});
        let Line::Message(message) = parsed(&mut asked, &heavy) else { panic!("no message") };
        assert!(matches!(*message, JsonRpcMessage::Error(error) if error.error.message.contains("values")));
        assert!(asked.0.is_empty());
    }
}
