//! How much one caller may have at a time, so that something is left for others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::ErrorData;
use rmcp::service::{RequestContext, RoleServer};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolgate_types::{ErrorCode, Failure, Stage};

use crate::mcp::call::{CallRequest, call_of};
use crate::mcp::{ClientIdentity, McpHandler};

/// Calls of one caller that run at a time.
const MAX_RUNNING: usize = 32;

/// Calls of one caller that run or wait for others of its own to end.
const MAX_IN_FLIGHT: usize = 256;

/// So many callers are remembered before those are forgotten that have nothing.
const MAX_CALLERS: usize = 256;

/// A share of something for each caller.
#[derive(Debug)]
pub(crate) struct KeyedSemaphore {
    permits: usize,
    semaphores: Mutex<HashMap<[u8; 32], Arc<Semaphore>>>,
}

impl KeyedSemaphore {
    /// So much for each.
    pub(crate) fn new(permits: usize) -> Self {
        Self { permits, semaphores: Mutex::default() }
    }

    /// One more for this caller, if it has not all of its share.
    pub(crate) fn try_acquire(&self, owner: [u8; 32]) -> Option<OwnedSemaphorePermit> {
        self.semaphore(owner).try_acquire_owned().ok()
    }

    /// One more for this caller, once it has not all of its share.
    async fn acquire(&self, owner: [u8; 32]) -> Option<OwnedSemaphorePermit> {
        self.acquire_many(owner, 1).await
    }

    /// So many more for this caller, once its share has them.
    pub(crate) async fn acquire_many(&self, owner: [u8; 32], count: u32) -> Option<OwnedSemaphorePermit> {
        self.semaphore(owner).acquire_many_owned(count).await.ok()
    }

    fn semaphore(&self, owner: [u8; 32]) -> Arc<Semaphore> {
        let mut of = self.semaphores.lock().unwrap_or_else(PoisonError::into_inner);
        if of.len() >= MAX_CALLERS && !of.contains_key(&owner) {
            // Whoever has something, or waits for it, holds on to its share.
            of.retain(|_, share| Arc::strong_count(share) > 1);
        }
        Arc::clone(of.entry(owner).or_insert_with(|| Arc::new(Semaphore::new(self.permits))))
    }
}

/// The places of calls.
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

/// The place of one call. One that was given up needs none to be recorded.
pub(crate) struct CallPermit {
    _in_flight: Option<OwnedSemaphorePermit>,
    _running: Option<OwnedSemaphorePermit>,
}

impl McpHandler {
    /// A place among the calls of this caller, once there is one; none where too many wait already.
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

    /// Refuses a call that there is no place for. It is recorded like every other.
    pub(crate) async fn overloaded(
        &self,
        wanted: CallRequest,
        context: &RequestContext<RoleServer>,
        visitor: &ClientIdentity,
    ) -> ErrorData {
        let message = format!("{MAX_IN_FLIGHT} calls of this caller are under way");
        let failure = too_many(message);
        let answer = to_error_data(&failure);
        let (call, front) = (call_of(wanted, context), self.service.front());
        let class = front.gate().tool(&call.tool).map(|tool| tool.spec().class);
        let refused = front.refuse(&call, visitor.credential.clone(), Stage::Permission, failure).await;
        self.service.metrics.count(class, &refused);
        answer
    }

    /// Refuses a request beyond what may be unanswered on this connection. A call among them is recorded, together with others like it.
    pub(crate) fn reject_request(&self, tool: Option<&str>) -> ErrorData {
        let failure = too_many("too many requests are not answered yet".to_owned());
        if let (Some(tool), Some(visitor)) = (tool, self.fixed_identity()) {
            self.service.front().gate().count_refusal(tool, visitor.credential.unverified_caller(), &failure);
        }
        to_error_data(&failure)
    }
}

/// When to try again is not known before something has ended; this keeps clients from trying without a pause.
const RETRY_AFTER_MS: u64 = 1000;

fn too_many(message: String) -> Failure {
    Failure::new(ErrorCode::RateLimited, message)
        .help("wait until some of them have ended")
        .detail("retry_after_ms", RETRY_AFTER_MS)
}

/// A refusal for programs: its code, and when to try again.
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
