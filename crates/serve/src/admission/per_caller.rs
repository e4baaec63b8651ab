//! Concurrency limits per caller, so that one caller cannot starve the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Overload;

/// Maximum running calls of one caller.
const MAX_RUNNING: usize = 32;

/// Maximum calls of one caller, running or queued.
const MAX_IN_FLIGHT: usize = 256;

/// Above this many entries, unused semaphores are removed.
const MAX_CALLERS: usize = 256;

/// A semaphore per caller.
#[derive(Debug)]
pub(crate) struct KeyedSemaphore {
    permits: usize,
    semaphores: Mutex<HashMap<[u8; 32], Arc<Semaphore>>>,
}

impl KeyedSemaphore {
    /// Every caller gets this many permits.
    pub(crate) fn new(permits: usize) -> Self {
        Self { permits, semaphores: Mutex::default() }
    }

    /// Acquires a permit, if one is free.
    pub(crate) fn try_acquire(&self, owner: [u8; 32]) -> Option<OwnedSemaphorePermit> {
        self.semaphore(owner).try_acquire_owned().ok()
    }

    /// Waits for a permit.
    async fn acquire(&self, owner: [u8; 32]) -> Option<OwnedSemaphorePermit> {
        self.acquire_many(owner, 1).await
    }

    /// Waits for `count` permits.
    pub(crate) async fn acquire_many(&self, owner: [u8; 32], count: u32) -> Option<OwnedSemaphorePermit> {
        self.semaphore(owner).acquire_many_owned(count).await.ok()
    }

    fn semaphore(&self, owner: [u8; 32]) -> Arc<Semaphore> {
        let mut of = self.semaphores.lock().unwrap_or_else(PoisonError::into_inner);
        if of.len() >= MAX_CALLERS && !of.contains_key(&owner) {
            // A holder or waiter has another reference to its semaphore.
            of.retain(|_, share| Arc::strong_count(share) > 1);
        }
        Arc::clone(of.entry(owner).or_insert_with(|| Arc::new(Semaphore::new(self.permits))))
    }
}

/// The limits on calls.
#[derive(Debug)]
pub(crate) struct CallerLimit {
    running: KeyedSemaphore,
    in_flight: KeyedSemaphore,
}

impl Default for CallerLimit {
    fn default() -> Self {
        Self { running: KeyedSemaphore::new(MAX_RUNNING), in_flight: KeyedSemaphore::new(MAX_IN_FLIGHT) }
    }
}

/// The permits of one call. A cancelled call needs none to run: it is only recorded.
#[derive(Default)]
pub(crate) struct CallPermit {
    _in_flight: Option<OwnedSemaphorePermit>,
    _running: Option<OwnedSemaphorePermit>,
}

impl CallerLimit {
    /// Waits for a permit to run, or until the call is given up.
    pub(crate) async fn acquire(
        &self,
        owner: [u8; 32],
        given_up: impl Future<Output = ()>,
    ) -> Result<CallPermit, Overload> {
        let waiting = self.in_flight.try_acquire(owner).ok_or(Overload::Caller { max: MAX_IN_FLIGHT })?;
        let running = tokio::select! {
            biased;
            running = self.running.acquire(owner) => running,
            () = given_up => None,
        };
        Ok(CallPermit { _in_flight: Some(waiting), _running: running })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_share_and_nobody_is_remembered_for_nothing() {
        let shares = KeyedSemaphore::new(2);
        let held: Vec<_> = (0..3).map(|_| shares.try_acquire([1; 32])).collect();
        assert_eq!(held.iter().filter(|one| one.is_some()).count(), 2);
        assert!(shares.try_acquire([2; 32]).is_some(), "others have their own");
        for number in 0..10 * MAX_CALLERS as u64 {
            let mut owner = [0; 32];
            owner[..8].copy_from_slice(&number.to_be_bytes());
            assert!(shares.try_acquire(owner).is_some());
        }
        assert!(shares.semaphores.lock().unwrap().len() <= MAX_CALLERS);
        assert!(shares.try_acquire([1; 32]).is_none(), "what is held is not forgotten");
        drop(held);
        assert!(shares.try_acquire([1; 32]).is_some());
    }
}
