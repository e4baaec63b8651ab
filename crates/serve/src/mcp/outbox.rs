//! Room for long answers on wires that others write on.
//!
//! Such a wire takes every answer and holds it until its client has read it, however long that takes. So a long answer takes room first, among those of
//! its caller and among all, and has it until it is written. Our own wire counts answers instead, see [`Room`](super::connection::Room).

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::request::Parts;
use rmcp::model::ErrorData;
use rmcp::service::{RequestContext, RoleServer};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;
use toolgate_types::ErrorCode;

use crate::mcp::places::Shares;
use crate::mcp::{McpHandler, Visitor};

/// Shorter answers take no room: there are no more of them than connections.
pub(crate) const LONG: usize = 256 * 1024;

/// Room is counted in pieces of this many bytes.
const PIECE: usize = 1024;

/// Pieces for all answers together.
const ALL: usize = 64 * 1024;

/// Pieces for those of one caller.
const OF_ONE: usize = ALL / 2;

/// How long an answer waits for room: longer than a client may take nothing of what it is sent.
const PATIENCE: Duration = Duration::from_secs(45);

/// All answers that have not left.
#[derive(Debug)]
pub(crate) struct Outbox {
    all: Arc<Semaphore>,
    of_each: Shares,
    /// Those among them that wait for room.
    waiting: TaskTracker,
}

impl Default for Outbox {
    fn default() -> Self {
        let all = Arc::new(Semaphore::new(ALL));
        Self { all, of_each: Shares::new(OF_ONE), waiting: TaskTracker::new() }
    }
}

/// The room of one answer.
#[derive(Debug)]
pub(crate) struct Postage {
    _among_own: OwnedSemaphorePermit,
    _among_all: OwnedSemaphorePermit,
}

impl Outbox {
    /// Room for so many bytes of this caller, once there is some. What is longer than all that one may have takes all of that.
    async fn take(&self, owner: [u8; 32], bytes: usize) -> Option<Postage> {
        let mut taking = pin!(self.taken(owner, bytes));
        tokio::select! {
            biased;
            taken = &mut taking => return taken,
            () = std::future::ready(()) => {}
        }
        let _waits = self.waiting.token();
        taking.await
    }

    async fn taken(&self, owner: [u8; 32], bytes: usize) -> Option<Postage> {
        let pieces = u32::try_from(bytes.div_ceil(PIECE).min(OF_ONE)).ok()?;
        let among_own = self.of_each.take_many(owner, pieces).await?;
        let among_all = Arc::clone(&self.all).acquire_many_owned(pieces).await.ok()?;
        Some(Postage { _among_own: among_own, _among_all: among_all })
    }

    /// How many answers wait for room.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

/// Comes with a request. What its answer took is put there, and the wire takes it out when it writes the answer; whatever is left goes with both.
#[derive(Clone, Debug, Default)]
pub(crate) struct Envelope(Arc<Mutex<Option<Postage>>>);

impl Envelope {
    fn put(&self, postage: Postage) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(postage);
    }

    /// What the answer took, for whoever holds its bytes.
    pub(crate) fn take(&self) -> Option<Postage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl McpHandler {
    /// Waits until there is room for an answer of so many bytes on its way out. Whoever is given up meanwhile needs none.
    pub(crate) async fn room_to_leave(
        &self,
        bytes: usize,
        context: &RequestContext<RoleServer>,
        visitor: &Visitor,
    ) -> Result<(), ErrorData> {
        if bytes < LONG {
            return Ok(());
        }
        let parts = context.extensions.get::<Parts>();
        let Some(envelope) = parts.and_then(|parts| parts.extensions.get::<Envelope>()) else {
            return Ok(());
        };
        let taken = tokio::select! {
            biased;
            taken = tokio::time::timeout(PATIENCE, self.service.outbox.take(visitor.owner, bytes)) => taken,
            () = self.given_up(context) => return Ok(()),
        };
        match taken {
            Ok(Some(postage)) => {
                envelope.put(postage);
                Ok(())
            }
            _ => Err(full()),
        }
    }
}

fn full() -> ErrorData {
    let told = "too many long answers have not been read yet, so this one is not sent: read those, or try again later. \
                What was called was done";
    ErrorData::internal_error(told, Some(json!({"code": ErrorCode::RateLimited.as_str()})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn long_answers_wait_for_each_other_and_no_caller_takes_all() {
        let outbox = Outbox::default();
        let soon = |owner: u8, bytes: usize| {
            let taking = outbox.take([owner; 32], bytes);
            async move { tokio::time::timeout(PATIENCE, taking).await.ok().flatten() }
        };
        let of_one = OF_ONE * PIECE;
        let first = soon(1, of_one).await;
        assert!(first.is_some());
        assert!(soon(1, LONG).await.is_none(), "it has all of its own");
        let second = soon(2, of_one).await;
        assert!(second.is_some(), "others have theirs");
        assert!(soon(3, LONG).await.is_none(), "there is no more");
        assert_eq!(outbox.waiting(), 0, "nobody waits for what has room, or was given up");
        let mut next = pin!(outbox.take([3; 32], LONG));
        tokio::select! {
            biased;
            _ = &mut next => panic!("there is no more"),
            () = std::future::ready(()) => assert_eq!(outbox.waiting(), 1),
        }
        drop(first);
        drop(next.await);
        assert_eq!(outbox.waiting(), 0);
        // What is longer than everything waits for no more than a caller may have.
        let longest = soon(1, usize::MAX / 2).await;
        assert!(longest.is_some());
        drop((second, longest));
        assert_eq!(outbox.all.available_permits(), ALL);
    }

    #[tokio::test]
    async fn what_is_put_into_an_envelope_goes_with_all_who_have_it() {
        let outbox = Outbox::default();
        for is_taken in [false, true] {
            let of_task = Envelope::default();
            let of_wire = of_task.clone();
            of_task.put(outbox.take([1; 32], LONG).await.unwrap());
            drop(of_task);
            let held = Some(&of_wire).filter(|_| is_taken).and_then(Envelope::take);
            assert_eq!(held.is_some(), is_taken);
            assert!(outbox.all.available_permits() < ALL, "taken by the wire: {is_taken}");
            drop(of_wire);
            assert_eq!(outbox.all.available_permits() < ALL, is_taken, "it goes with the bytes");
            drop(held);
            assert_eq!(outbox.all.available_permits(), ALL);
        }
    }
}
