//! MCP on two descriptors: one line, one message.
//!
//! All reading and writing happens where the service asks for the next message, so that one thread does everything and a call costs no hop between
//! threads. Whatever a client does not read is kept until it does, up to a bound; then nothing more of it is read either.

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

/// More than a few long answers need.
const MMAP_THRESHOLD_BYTES: usize = 4 * 1024 * 1024;

/// The longest line where bytes are tried.
const MAX_TRIED_LINE_BYTES: usize = 4096;

/// Serves whoever holds the other ends of two descriptors, until it closes its end or `shutdown` is cancelled.
///
/// When the client closes its end, what it asked for is still answered. When `shutdown` comes, calls that are under way are ended; they are answered and
/// recorded all the same.
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
    raise_malloc_mmap_threshold();
    let connection = Arc::new(McpConnection::default());
    let handler =
        McpHandler::with_connection(Arc::clone(&service), CallerSource::Fixed(credential), connection);
    let wire = StdioTransport::open(input, output, handler.clone(), shutdown.clone())?;
    let serving = async {
        match handler.serve(wire).await {
            // Who goes away before it asks for anything is no failure.
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
    // Calls that the client gave up are answered to nobody, and still come to their end.
    service.wait_until_idle().await;
    ended
}

/// An allocator that gives memory back to the system after every long answer pays for it again with the next. One that has once let go of as much as this
/// keeps it; nothing of it is ever touched.
fn raise_malloc_mmap_threshold() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(MMAP_THRESHOLD_BYTES)));
}

/// What a client is answered whose bytes come in these pieces, as far as no service is needed for it: for whoever tries all of them.
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
