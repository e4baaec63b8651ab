//! Concurrency limits per caller, so that one caller cannot starve the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::ErrorData;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolgate_types::{ErrorCode, Failure, Stage};

use crate::mcp::call::{CallRequest, call_of};
use crate::mcp::request::RequestContext;
use crate::mcp::{ClientIdentity, McpHandler};

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
pub(crate) struct PerCallerConcurrency {
    running: KeyedSemaphore,
    in_flight: KeyedSemaphore,
}

impl Default for PerCallerConcurrency {
    fn default() -> Self {
        Self { running: KeyedSemaphore::new(MAX_RUNNING), in_flight: KeyedSemaphore::new(MAX_IN_FLIGHT) }
    }
}

/// The permits of one call. A cancelled call needs none: it is only recorded.
pub(crate) struct CallPermit {
    _in_flight: Option<OwnedSemaphorePermit>,
    _running: Option<OwnedSemaphorePermit>,
}

impl PerCallerConcurrency {
    /// Waits for a permit to run; `None` if too many calls of this caller are queued already.
    pub(crate) async fn acquire(&self, owner: [u8; 32]) -> Option<CallPermit> {
        let waiting = self.in_flight.try_acquire(owner)?;
        let running = self.running.acquire(owner).await?;
        Some(CallPermit { _in_flight: Some(waiting), _running: Some(running) })
    }
}

impl McpHandler {
    /// Waits for a permit to run; `None` if too many calls of this caller are queued already.
    pub(crate) async fn acquire_permit(
        &self,
        given_up: impl Future<Output = ()>,
        visitor: &ClientIdentity,
    ) -> Option<CallPermit> {
        if !self.is_shared() {
            return Some(CallPermit { _in_flight: None, _running: None });
        }
        let PerCallerConcurrency { running, in_flight: under_way } = &self.service.concurrency;
        let waiting = under_way.try_acquire(visitor.owner)?;
        let running = tokio::select! {
            biased;
            running = running.acquire(visitor.owner) => running,
            () = given_up => None,
            () = visitor.ended.cancelled() => None,
        };
        Some(CallPermit { _in_flight: Some(waiting), _running: running })
    }

    /// Refuses a call above the limit. It is recorded like every other.
    pub(crate) async fn overloaded(
        &self,
        wanted: CallRequest,
        context: &RequestContext,
        visitor: &ClientIdentity,
    ) -> ErrorData {
        let message = format!("{MAX_IN_FLIGHT} calls of this caller are under way");
        let failure = too_many(message);
        let answer = to_error_data(&failure);
        let (call, front) = (call_of(wanted, context), self.service.front());
        let refused = front.refuse(&call, visitor.credential.clone(), Stage::Permission, failure).await;
        self.service.metrics.answered(&refused);
        answer
    }

    /// Rejects a request above the limit of unanswered ones on this connection. If it is a call, the audit log aggregates it with
    /// others like it.
    pub(crate) fn reject_request(&self, tool: Option<&str>, visitor: &ClientIdentity) -> ErrorData {
        let failure = too_many("too many requests are not answered yet".to_owned());
        if let Some(tool) = tool {
            self.service.front().gate().count_refusal(tool, visitor.credential.unverified_caller(), &failure);
        }
        to_error_data(&failure)
    }
}

/// A fixed retry hint: when a call will end is not known, and clients must not retry in a busy loop.
const RETRY_AFTER_MS: u64 = 1000;

fn too_many(message: String) -> Failure {
    Failure::new(ErrorCode::RateLimited, message)
        .help("wait until some of them have ended")
        .detail("retry_after_ms", RETRY_AFTER_MS)
}

/// The JSON-RPC error, with the code and the retry hint.
fn to_error_data(failure: &Failure) -> ErrorData {
    let data = json!({"code": failure.code.as_str(), "retry_after_ms": RETRY_AFTER_MS});
    ErrorData::invalid_request(failure.to_string(), Some(data))
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
