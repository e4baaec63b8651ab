//! The memory budget for long responses of a server that callers share.
//!
//! A response is buffered until its client has read it, however long that takes. So a long one acquires memory first, from its caller's budget and from
//! the global one, and holds it until it is written. A connection that one client has to itself is bounded by the permits of its calls, see
//! [`ConcurrencyPermit`](super::ConcurrencyPermit).

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;

use super::{KeyedSemaphore, Overload};

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
pub(crate) struct ResponseBytesLimit {
    all: Arc<Semaphore>,
    per_caller: KeyedSemaphore,
    /// Counts the responses that wait for budget.
    waiting: TaskTracker,
}

impl Default for ResponseBytesLimit {
    fn default() -> Self {
        let all = Arc::new(Semaphore::new(MAX_UNITS));
        Self { all, per_caller: KeyedSemaphore::new(MAX_UNITS_PER_CALLER), waiting: TaskTracker::new() }
    }
}

/// The memory of one response.
#[derive(Debug)]
pub(crate) struct ResponseBytesPermit {
    _per_caller: OwnedSemaphorePermit,
    _global: OwnedSemaphorePermit,
}

impl ResponseBytesLimit {
    /// Waits for budget for a response of this caller, but not for ever.
    pub(crate) async fn acquire_in_time(
        &self,
        owner: [u8; 32],
        bytes: usize,
    ) -> Result<ResponseBytesPermit, Overload> {
        let taken = tokio::time::timeout(BUDGET_TIMEOUT, self.acquire(owner, bytes)).await;
        taken.ok().flatten().ok_or(Overload::ResponseBytes)
    }

    /// Waits for budget for a response of this caller. A response above the caller's whole budget takes all of it.
    async fn acquire(&self, owner: [u8; 32], bytes: usize) -> Option<ResponseBytesPermit> {
        let mut taking = pin!(self.acquire_untimed(owner, bytes));
        tokio::select! {
            biased;
            taken = &mut taking => return taken,
            () = std::future::ready(()) => {}
        }
        let _waits = self.waiting.token();
        taking.await
    }

    async fn acquire_untimed(&self, owner: [u8; 32], bytes: usize) -> Option<ResponseBytesPermit> {
        let pieces = u32::try_from(bytes.div_ceil(BUDGET_UNIT_BYTES).min(MAX_UNITS_PER_CALLER)).ok()?;
        let among_own = self.per_caller.acquire_many(owner, pieces).await?;
        let among_all = Arc::clone(&self.all).acquire_many_owned(pieces).await.ok()?;
        Some(ResponseBytesPermit { _per_caller: among_own, _global: among_all })
    }

    /// How many responses wait for budget.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn long_answers_wait_for_each_other_and_no_caller_takes_all() {
        let outbox = ResponseBytesLimit::default();
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
}
