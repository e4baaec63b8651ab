//! The memory budget for long responses on transports of rmcp.
//!
//! Such a transport accepts every response and buffers it until the client has read it, however long that takes. So a long response acquires memory
//! first, from its caller's budget and from the global one, and holds it until it is written. The stdio transport limits calls instead, see
//! [`ConcurrencyPermit`](super::connection::ConcurrencyPermit).

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

use crate::mcp::concurrency::KeyedSemaphore;
use crate::mcp::{ClientIdentity, McpHandler};

/// Shorter responses need no budget: their number is limited by that of connections.
pub(crate) const MIN_BUDGETED_BYTES: usize = 256 * 1024;

/// One permit stands for this many bytes.
const BUDGET_UNIT_BYTES: usize = 1024;

/// Permits for all responses.
const MAX_UNITS: usize = 64 * 1024;

/// Permits for the responses of one caller.
const MAX_UNITS_PER_CALLER: usize = MAX_UNITS / 2;

/// How long a response waits for budget: longer than the write timeout, after which a stalled client is disconnected.
const BUDGET_TIMEOUT: Duration = Duration::from_secs(45);

/// The budget of all responses that are not written yet.
#[derive(Debug)]
pub(crate) struct ResponseMemoryBudget {
    all: Arc<Semaphore>,
    per_caller: KeyedSemaphore,
    /// Counts the responses that wait for budget.
    waiting: TaskTracker,
}

impl Default for ResponseMemoryBudget {
    fn default() -> Self {
        let all = Arc::new(Semaphore::new(MAX_UNITS));
        Self { all, per_caller: KeyedSemaphore::new(MAX_UNITS_PER_CALLER), waiting: TaskTracker::new() }
    }
}

/// The memory of one response.
#[derive(Debug)]
pub(crate) struct BudgetPermit {
    _per_caller: OwnedSemaphorePermit,
    _global: OwnedSemaphorePermit,
}

impl ResponseMemoryBudget {
    /// Waits for budget for a response of this caller. A response above the caller's whole budget takes all of it.
    async fn acquire(&self, owner: [u8; 32], bytes: usize) -> Option<BudgetPermit> {
        let mut taking = pin!(self.acquire_untimed(owner, bytes));
        tokio::select! {
            biased;
            taken = &mut taking => return taken,
            () = std::future::ready(()) => {}
        }
        let _waits = self.waiting.token();
        taking.await
    }

    async fn acquire_untimed(&self, owner: [u8; 32], bytes: usize) -> Option<BudgetPermit> {
        let pieces = u32::try_from(bytes.div_ceil(BUDGET_UNIT_BYTES).min(MAX_UNITS_PER_CALLER)).ok()?;
        let among_own = self.per_caller.acquire_many(owner, pieces).await?;
        let among_all = Arc::clone(&self.all).acquire_many_owned(pieces).await.ok()?;
        Some(BudgetPermit { _per_caller: among_own, _global: among_all })
    }

    /// How many responses wait for budget.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

/// Part of a request. Holds the permit of its response until the transport takes it while writing; otherwise the permit is dropped with the slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct BudgetSlot(Arc<Mutex<Option<BudgetPermit>>>);

impl BudgetSlot {
    fn put(&self, postage: BudgetPermit) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(postage);
    }

    /// Takes the permit, to attach it to the response's bytes.
    pub(crate) fn take(&self) -> Option<BudgetPermit> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl McpHandler {
    /// Waits for budget for a response of this many bytes. A cancelled call needs none.
    pub(crate) async fn acquire_response_memory(
        &self,
        bytes: usize,
        context: &RequestContext<RoleServer>,
        visitor: &ClientIdentity,
    ) -> Result<(), ErrorData> {
        if bytes < MIN_BUDGETED_BYTES {
            return Ok(());
        }
        let parts = context.extensions.get::<Parts>();
        let Some(envelope) = parts.and_then(|parts| parts.extensions.get::<BudgetSlot>()) else {
            return Ok(());
        };
        let taken = tokio::select! {
            biased;
            taken = tokio::time::timeout(BUDGET_TIMEOUT, self.service.response_memory.acquire(visitor.owner, bytes)) => taken,
            () = self.cancelled(context) => return Ok(()),
        };
        match taken {
            Ok(Some(postage)) => {
                envelope.put(postage);
                Ok(())
            }
            _ => Err(budget_exhausted()),
        }
    }
}

fn budget_exhausted() -> ErrorData {
    let told = "too many long answers have not been read yet, so this one is not sent: read those, or try again later. \
                What was called was done";
    ErrorData::internal_error(told, Some(json!({"code": ErrorCode::RateLimited.as_str()})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn long_answers_wait_for_each_other_and_no_caller_takes_all() {
        let outbox = ResponseMemoryBudget::default();
        let soon = |owner: u8, bytes: usize| {
            let taking = outbox.acquire([owner; 32], bytes);
            async move { tokio::time::timeout(BUDGET_TIMEOUT, taking).await.ok().flatten() }
        };
        let of_one = MAX_UNITS_PER_CALLER * BUDGET_UNIT_BYTES;
        let first = soon(1, of_one).await;
        assert!(first.is_some());
        assert!(soon(1, MIN_BUDGETED_BYTES).await.is_none(), "it has all of its own");
        let second = soon(2, of_one).await;
        assert!(second.is_some(), "others have theirs");
        assert!(soon(3, MIN_BUDGETED_BYTES).await.is_none(), "there is no more");
        assert_eq!(outbox.waiting(), 0, "nobody waits for what has room, or was given up");
        let mut next = pin!(outbox.acquire([3; 32], MIN_BUDGETED_BYTES));
        tokio::select! {
            biased;
            _ = &mut next => panic!("there is no more"),
            () = std::future::ready(()) => assert_eq!(outbox.waiting(), 1),
        }
        drop(first);
        drop(next.await);
        assert_eq!(outbox.waiting(), 0);
        // A response above the limit waits for no more than a caller's whole budget.
        let longest = soon(1, usize::MAX / 2).await;
        assert!(longest.is_some());
        drop((second, longest));
        assert_eq!(outbox.all.available_permits(), MAX_UNITS);
    }

    #[tokio::test]
    async fn what_is_put_into_an_envelope_goes_with_all_who_have_it() {
        let outbox = ResponseMemoryBudget::default();
        for is_taken in [false, true] {
            let of_task = BudgetSlot::default();
            let of_wire = of_task.clone();
            of_task.put(outbox.acquire([1; 32], MIN_BUDGETED_BYTES).await.unwrap());
            drop(of_task);
            let held = Some(&of_wire).filter(|_| is_taken).and_then(BudgetSlot::take);
            assert_eq!(held.is_some(), is_taken);
            assert!(outbox.all.available_permits() < MAX_UNITS, "taken by the wire: {is_taken}");
            drop(of_wire);
            assert_eq!(outbox.all.available_permits() < MAX_UNITS, is_taken, "it goes with the bytes");
            drop(held);
            assert_eq!(outbox.all.available_permits(), MAX_UNITS);
        }
    }
}
