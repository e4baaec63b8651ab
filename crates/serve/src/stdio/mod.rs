//! MCP over two descriptors, one message per line.
//!
//! One loop reads, answers and writes, so that a call needs no hop between threads. Output that the client does not read is buffered up to a limit; above it, no further input is read (backpressure).

mod in_flight;
mod descriptor;
mod lines;
mod output;
mod running_requests;
mod opening;
mod connection;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rmcp::model::ServerJsonRpcMessage;
use tokio_util::sync::CancellationToken;
use toolgate_gate::Credential;

use crate::error::ServeError;
use crate::mcp::client_sink::ClientSink;
use crate::mcp::message::{InvalidMessage, decode, too_long};
use crate::mcp::request::ReceivedMessage;
use crate::mcp::{ClientIdentity, McpConnection, McpHandler};
use crate::service::Service;
use crate::stdio::connection::StdioConnection;
use crate::stdio::lines::{InputLine, InputLines};
pub use crate::stdio::opening::StdioOpening;

/// Maximum line length in `refusals`.
const MAX_TRIED_LINE_BYTES: usize = 4096;

/// Serves the client on two descriptors until it closes its end or `shutdown` is cancelled.
///
/// When the client closes its end, its open requests are still answered. On `shutdown`, calls in flight are cancelled; they still get a response and
/// a record.
///
/// # Errors
/// A descriptor cannot be used.
pub async fn serve_stdio(
    service: Arc<Service>,
    credential: Credential,
    input: OwnedFd,
    output: OwnedFd,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    resume_stdio(service, credential, (input, output), StdioOpening::default(), shutdown).await
}

/// The same for a session that has begun.
///
/// # Errors
/// A descriptor cannot be used.
pub async fn resume_stdio(
    service: Arc<Service>,
    credential: Credential,
    descriptors: (OwnedFd, OwnedFd),
    opening: StdioOpening,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let connection = Arc::new(McpConnection::default());
    let (client, messages) = ClientSink::new(Arc::clone(&connection.requests));
    let handler = McpHandler::new(Arc::clone(&service), connection, client, false);
    let identity = ClientIdentity::of(credential);
    let mut connection = StdioConnection::open(descriptors, handler, identity, messages, shutdown.clone())?;
    connection.resume(opening);
    let serving = connection.run();
    tokio::pin!(serving);
    tokio::select! {
        () = &mut serving => {}
        () = shutdown.cancelled() => {
            service.end();
            serving.await;
        }
    }
    // Calls that were parked must still run to their end.
    service.wait_until_idle().await;
    Ok(())
}

/// The error responses for input in these chunks, as far as the transport gives them by itself. For fuzzing.
#[doc(hidden)]
#[must_use]
pub fn refusals(pieces: &[&[u8]]) -> Vec<String> {
    let mut lines = InputLines::new(MAX_TRIED_LINE_BYTES);
    let mut answers = Vec::new();
    let mut take = |line: InputLine<'_>| {
        let refused = match line {
            InputLine::Whole(line) => match decode(line).map(ReceivedMessage::from) {
                Err(InvalidMessage::Refused(error, id)) => Some((error, id)),
                Err(InvalidMessage::Dropped) | Ok(_) => None,
            },
            InputLine::TooLong => Some((too_long(MAX_TRIED_LINE_BYTES), None)),
        };
        let refused = refused.map(|(error, id)| ServerJsonRpcMessage::error(error, id));
        answers.extend(refused.and_then(|answer| serde_json::to_string(&answer).ok()));
    };
    for piece in pieces {
        lines.buffer().extend_from_slice(piece);
        while let Some(line) = lines.next() {
            take(line);
        }
    }
    if let Some(line) = lines.rest() {
        take(line);
    }
    answers
}
