//! MCP on two descriptors: one line, one message.
//!
//! All reading and writing happens where the service asks for the next message, so that one thread does everything and a call costs no hop between
//! threads. Whatever a client does not read is kept until it does, up to a bound; then nothing more of it is read either.

mod account;
mod descriptor;
mod lines;
mod message;
mod output;
mod plain;
mod spell;
mod transport;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use tokio_util::sync::CancellationToken;
use toolgate_gate::Credential;

use crate::error::ServeError;
use crate::mcp::{Connection, McpHandler, Who};
use crate::service::Service;
use crate::stdio::lines::{Line, Lines};
use crate::stdio::message::{decode, too_long};
use crate::stdio::transport::Wire;

pub(crate) use crate::stdio::plain::PlainCall;

/// More than a few long answers need.
const KEPT: usize = 4 * 1024 * 1024;

/// The longest line where bytes are tried.
const LONGEST_TRIED: usize = 4096;

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
    keep_what_is_freed();
    let connection = Arc::new(Connection::default());
    let handler = McpHandler::over(Arc::clone(&service), Who::Fixed(credential), connection);
    let wire = Wire::open(input, output, handler.clone(), shutdown.clone())?;
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
    service.settled().await;
    ended
}

/// An allocator that gives memory back to the system after every long answer pays for it again with the next. One that has once let go of as much as this
/// keeps it; nothing of it is ever touched.
fn keep_what_is_freed() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(KEPT)));
}

/// What a client is answered whose bytes come in these pieces, as far as no service is needed for it: for whoever tries all of them.
#[doc(hidden)]
#[must_use]
pub fn refusals(pieces: &[&[u8]]) -> Vec<String> {
    let mut lines = Lines::new(LONGEST_TRIED);
    let mut answers = Vec::new();
    let mut take = |line: Line<'_>| {
        let refused = match line {
            Line::Whole(line) => decode(line).refused(),
            Line::TooLong => Some(too_long(LONGEST_TRIED)),
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
