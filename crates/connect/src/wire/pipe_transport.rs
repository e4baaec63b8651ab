//! A server on two pipes.
//!
//! All reading and writing happens in `receive`, without a thread or a copy in between. Nothing is trusted: a line may be endless or no message, and
//! the server may have stopped reading. Each of these ends only the connection.

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
use toolgate_text::line_buffer::LineBuffer;

use super::large_messages::{LargeMessage, MAX_UNCHECKED_BYTES, classify, too_complex_error};
use super::{CloseReason, MAX_MESSAGE_BYTES};

/// Size of one read.
const READ_BYTES: usize = 64 << 10;

/// Maximum output that is buffered for a server that does not read.
const MAX_QUEUED_BYTES: usize = 16 << 20;

/// Maximum consecutive invalid lines: some servers print a greeting to their standard output.
const MAX_INVALID_LINES: u32 = 100;

/// The two pipes.
pub(crate) struct PipeTransport {
    to: Sender,
    from: Receiver,
    lines: LineBuffer,
    outgoing: Vec<u8>,
    written: usize,
    outstanding: OutstandingRequests,
    invalid_lines: u32,
    close_reason: CloseReason,
}

impl PipeTransport {
    /// A transport on two pipe ends.
    pub(crate) fn new(to: OwnedFd, from: OwnedFd, ending: CloseReason) -> io::Result<Self> {
        for end in [&to, &from] {
            // `F_SETPIPE_SZ`: fewer reads for long responses. Failing is harmless.
            let _ = rustix::pipe::fcntl_setpipe_size(end, 1 << 20);
        }
        Ok(Self {
            to: Sender::from_owned_fd(to)?,
            from: Receiver::from_owned_fd(from)?,
            lines: LineBuffer::default(),
            outgoing: Vec::new(),
            written: 0,
            outstanding: OutstandingRequests::default(),
            invalid_lines: 0,
            close_reason: ending,
        })
    }

    fn enqueue(&mut self, message: &TxJsonRpcMessage<RoleClient>) -> io::Result<()> {
        let before = self.outgoing.len();
        if before - self.written > MAX_QUEUED_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                "the server does not read what it is sent",
            ));
        }
        serde_json::to_writer(&mut self.outgoing, message).inspect_err(|_| self.outgoing.truncate(before))?;
        self.outgoing.push(b'\n');
        self.outstanding.insert(message);
        Ok(())
    }

    /// Writes as much as the pipe takes; returns whether something is left.
    fn flush(&mut self) -> io::Result<bool> {
        while let Some(rest) = self.outgoing.get(self.written..).filter(|rest| !rest.is_empty()) {
            match self.to.try_write(rest) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Without this, the written part of the buffer would grow for a server that is always a little behind.
                    if self.written > MAX_QUEUED_BYTES / 16 {
                        self.outgoing.drain(..self.written);
                        self.written = 0;
                    }
                    return Ok(true);
                }
                Err(error) => return Err(error),
            }
        }
        self.written = 0;
        self.outgoing.clear();
        if self.outgoing.capacity() > 4 * READ_BYTES {
            self.outgoing = Vec::new();
        }
        Ok(false)
    }

    /// The next message in the buffer.
    async fn next_buffered(&mut self) -> Option<ServerJsonRpcMessage> {
        while let Some(line) = self.lines.next_line() {
            match parse(line, &mut self.outstanding) {
                ParsedLine::Message(message) => {
                    self.invalid_lines = 0;
                    return Some(*message);
                }
                ParsedLine::Unsolicited => self.close_reason.count_unsolicited(line.len()),
                ParsedLine::Invalid => self.invalid_lines += 1,
            }
            if self.close_reason.is_closed() {
                return None;
            }
            tokio::task::consume_budget().await;
        }
        None
    }

    /// Waits until a pipe is ready, and reads or writes. `false` at end of file.
    async fn drive_io(&mut self) -> io::Result<bool> {
        if self.flush()? {
            tokio::select! {
                ready = self.to.writable() => return ready.map(|()| true),
                ready = self.from.readable() => ready?,
            }
        } else {
            self.from.readable().await?;
        }
        let buffer = self.lines.buffer();
        buffer.reserve(READ_BYTES);
        match self.from.try_read_buf(buffer) {
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
            if let Some(message) = self.next_buffered().await {
                return Ok(message);
            }
            if self.close_reason.is_closed() {
                return Err("it said too much".to_owned());
            }
            if self.invalid_lines > MAX_INVALID_LINES {
                return Err(format!("more than {MAX_INVALID_LINES} lines in a row were no messages"));
            }
            if self.lines.pending_bytes() > MAX_MESSAGE_BYTES {
                return Err(format!("a line was longer than {MAX_MESSAGE_BYTES} bytes"));
            }
            match self.drive_io().await {
                Ok(true) => {}
                Ok(false) => {
                    self.close_reason.set_closed_by_peer();
                    return Err("it closed its output".to_owned());
                }
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    self.close_reason.set_closed_by_peer();
                    return Err("it closed its input".to_owned());
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

impl Transport<RoleClient> for PipeTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        ready(self.enqueue(&message))
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.next().await.map_err(|reason| self.close_reason.record(reason)).ok()
    }

    async fn close(&mut self) -> io::Result<()> {
        self.flush().map(|_| ())
    }
}

/// Requests without a response, and whether each is a call: the response to a call is parsed as nothing else.
#[derive(Default)]
struct OutstandingRequests(HashMap<i64, bool>);

impl OutstandingRequests {
    fn insert(&mut self, message: &TxJsonRpcMessage<RoleClient>) {
        match message {
            JsonRpcMessage::Request(request) => {
                let is_call = matches!(request.request, ClientRequest::CallToolRequest(_));
                self.0.extend(numeric_id(&request.id).map(|id| (id, is_call)));
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = cancelled.params.request_id.as_ref().and_then(numeric_id)
                {
                    self.0.remove(&id);
                }
            }
            _ => {}
        }
    }

    fn contains(&self, id: &RequestId) -> bool {
        numeric_id(id).is_some_and(|id| self.0.contains_key(&id))
    }

    fn is_call(&self, id: i64) -> bool {
        self.0.get(&id).is_some_and(|is_call| *is_call)
    }

    fn remove_answered(&mut self, message: &ServerJsonRpcMessage) {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        if let Some(id) = id.and_then(numeric_id) {
            self.0.remove(&id);
        }
    }
}

/// The kind of a line.
enum ParsedLine {
    Message(Box<ServerJsonRpcMessage>),
    Unsolicited,
    Invalid,
}

/// The part of a response that is needed to parse the rest.
#[derive(Deserialize)]
struct ResponseHead<'l> {
    id: Option<i64>,
    #[serde(borrow)]
    result: Option<&'l RawValue>,
}

fn parse(line: &[u8], asked: &mut OutstandingRequests) -> ParsedLine {
    if line.trim_ascii().is_empty() {
        return ParsedLine::Unsolicited;
    }
    let message = match parse_message(line, asked) {
        Ok(message) => message,
        Err(line) => return line,
    };
    asked.remove_answered(&message);
    ParsedLine::Message(Box::new(message))
}

fn parse_message(line: &[u8], asked: &OutstandingRequests) -> Result<ServerJsonRpcMessage, ParsedLine> {
    if line.len() > MAX_UNCHECKED_BYTES {
        match classify(line) {
            LargeMessage::Response(id) if asked.contains(&id) => {}
            LargeMessage::TooComplex(id) if asked.contains(&id) => return Ok(too_complex_error(id)),
            LargeMessage::Response(_) | LargeMessage::TooComplex(_) | LargeMessage::Unsolicited => {
                return Err(ParsedLine::Unsolicited);
            }
            LargeMessage::Invalid => return Err(ParsedLine::Invalid),
        }
    }
    match parse_call_response(line, asked) {
        Some(message) => Ok(message),
        None => serde_json::from_slice(line).map_err(|_| ParsedLine::Invalid),
    }
}

/// Parses the response to a call directly as its type, instead of trying all result types.
fn parse_call_response(line: &[u8], asked: &OutstandingRequests) -> Option<ServerJsonRpcMessage> {
    if asked.0.is_empty() {
        return None;
    }
    let ResponseHead { id: Some(id), result: Some(result) } = serde_json::from_slice(line).ok()? else {
        return None;
    };
    if !asked.is_call(id) {
        return None;
    }
    let result: CallToolResult = serde_json::from_str(result.get()).ok()?;
    Some(ServerJsonRpcMessage::response(ServerResult::CallToolResult(result), RequestId::Number(id)))
}

/// Some servers return numeric ids as strings.
fn numeric_id(id: &RequestId) -> Option<i64> {
    match id {
        NumberOrString::Number(number) => Some(*number),
        NumberOrString::String(text) => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parsed(asked: &mut OutstandingRequests, line: &Value) -> ParsedLine {
        parse(line.to_string().as_bytes(), asked)
    }

    #[test]
    fn long_lines_pass_only_where_something_was_asked() {
        let long = "x".repeat(MAX_UNCHECKED_BYTES);
        let answer = |id: Value| json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": long}]}});
        let mut asked = OutstandingRequests([(1, true), (2, false), (4, true)].into());
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
                ParsedLine::Message(_) => assert!(passes),
                ParsedLine::Unsolicited => assert!(!passes),
                ParsedLine::Invalid => panic!("{}", line.to_string().chars().take(80).collect::<String>()),
            }
        }
        assert!(matches!(parse(b"  ", &mut asked), ParsedLine::Unsolicited));
    }

    #[test]
    fn a_heavy_answer_is_one_that_says_so() {
        let mut asked = OutstandingRequests([(1, true)].into());
        let heavy = json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [], "structuredContent": {"a": vec![0; 300_000]}}});
        let ParsedLine::Message(message) = parsed(&mut asked, &heavy) else { panic!("no message") };
        assert!(matches!(*message, JsonRpcMessage::Error(error) if error.error.message.contains("values")));
        assert!(asked.0.is_empty());
    }
}
