//! MCP over two descriptors, one message per line.
//!
//! All reading and writing happens inside the transport's `receive`, so that one thread does everything and a call needs no hop between threads.
//! Output that the client does not read is buffered up to a limit; above it, no further input is read (backpressure).

mod in_flight;
mod descriptor;
mod lines;
mod message;
mod output;
mod fast_parse;
mod response_writer;
mod transport;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use tokio_util::sync::CancellationToken;
use toolgate_gate::Credential;

use crate::error::ServeError;
use crate::mcp::{CallerSource, McpConnection, McpHandler};
use crate::service::Service;
use crate::stdio::lines::{InputLine, InputLines};
use crate::stdio::message::{decode, too_long};
use crate::stdio::transport::StdioTransport;

pub(crate) use crate::stdio::fast_parse::SimpleToolCall;

/// Maximum line length in `refusals`.
const MAX_TRIED_LINE_BYTES: usize = 4096;

/// Serves the client on two descriptors until it closes its end or `shutdown` is cancelled.
///
/// When the client closes its end, its open requests are still answered. On `shutdown`, calls in flight are cancelled; they still get a response and
/// a record.
///
/// # Errors
/// A descriptor cannot be used, or the client did not speak MCP.
pub async fn serve_stdio(
    service: Arc<Service>,
    credential: Credential,
    input: OwnedFd,
    output: OwnedFd,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let connection = Arc::new(McpConnection::default());
    let handler =
        McpHandler::with_connection(Arc::clone(&service), CallerSource::Fixed(credential), connection);
    let wire = StdioTransport::open(input, output, handler.clone(), shutdown.clone())?;
    let serving = async {
        match handler.serve(wire).await {
            // A client that disconnects before its first request is no failure.
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(error.into()),
            Ok(running) => {
                running.waiting().await.map(|_| ()).map_err(|error| ServeError::NoSession(error.to_string()))
            }
        }
    };
    tokio::pin!(serving);
    let ended = tokio::select! {
        ended = &mut serving => ended,
        () = shutdown.cancelled() => {
            service.end();
            serving.await
        }
    };
    // Cancelled calls get no response, but must still run to their end.
    service.wait_until_idle().await;
    ended
}

/// The error responses for input in these chunks, as far as the transport gives them by itself. For fuzzing.
#[doc(hidden)]
#[must_use]
pub fn refusals(pieces: &[&[u8]]) -> Vec<String> {
    let mut lines = InputLines::new(MAX_TRIED_LINE_BYTES);
    let mut answers = Vec::new();
    let mut take = |line: InputLine<'_>| {
        let refused = match line {
            InputLine::Whole(line) => decode(line).refused(),
            InputLine::TooLong => Some(too_long(MAX_TRIED_LINE_BYTES)),
        };
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
