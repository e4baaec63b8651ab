//! How much one caller may have at a time, so that something is left for others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::ErrorData;
use rmcp::service::{RequestContext, RoleServer};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolgate_types::{ErrorCode, Failure, Stage};

use crate::mcp::call::{Wanted, call_of};
use crate::mcp::{McpHandler, Visitor};

/// Calls of one caller that run at a time.
const RUNNING: usize = 32;

/// Calls of one caller that run or wait for others of its own to end.
const UNDER_WAY: usize = 256;

/// So many callers are remembered before those are forgotten that have nothing.
const REMEMBERED: usize = 256;

/// A share of something for each caller.
#[derive(Debug)]
pub(crate) struct Shares {
    most: usize,
    of: Mutex<HashMap<[u8; 32], Arc<Semaphore>>>,
}

impl Shares {
    /// So much for each.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, of: Mutex::default() }
    }

    /// One more for this caller, if it has not all of its share.
    pub(crate) fn try_take(&self, owner: [u8; 32]) -> Option<OwnedSemaphorePermit> {
        self.share(owner).try_acquire_owned().ok()
    }

    /// One more for this caller, once it has not all of its share.
    async fn take(&self, owner: [u8; 32]) -> Option<OwnedSemaphorePermit> {
        self.take_many(owner, 1).await
    }

    /// So many more for this caller, once its share has them.
    pub(crate) async fn take_many(&self, owner: [u8; 32], count: u32) -> Option<OwnedSemaphorePermit> {
        self.share(owner).acquire_many_owned(count).await.ok()
    }

    fn share(&self, owner: [u8; 32]) -> Arc<Semaphore> {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        if of.len() >= REMEMBERED && !of.contains_key(&owner) {
            // Whoever has something, or waits for it, holds on to its share.
            of.retain(|_, share| Arc::strong_count(share) > 1);
        }
        Arc::clone(of.entry(owner).or_insert_with(|| Arc::new(Semaphore::new(self.most))))
    }
}

/// The places of calls.
#[derive(Debug)]
pub(crate) struct Places {
    running: Shares,
    under_way: Shares,
}

impl Default for Places {
    fn default() -> Self {
        Self { running: Shares::new(RUNNING), under_way: Shares::new(UNDER_WAY) }
    }
}

/// The place of one call. One that was given up needs none to be recorded.
pub(crate) struct Place {
    _under_way: Option<OwnedSemaphorePermit>,
    _running: Option<OwnedSemaphorePermit>,
}

impl McpHandler {
    /// A place among the calls of this caller, once there is one; none where too many wait already.
    pub(crate) async fn place(&self, given_up: impl Future<Output = ()>, visitor: &Visitor) -> Option<Place> {
        if !self.shares_with_others() {
            return Some(Place { _under_way: None, _running: None });
        }
        let Places { running, under_way } = &self.service.places;
        let waiting = under_way.try_take(visitor.owner)?;
        let running = tokio::select! {
            biased;
            running = running.take(visitor.owner) => running,
            () = given_up => None,
            () = visitor.ended.cancelled() => None,
        };
        Some(Place { _under_way: Some(waiting), _running: running })
    }

    /// Refuses a call that there is no place for. It is recorded like every other.
    pub(crate) async fn crowded(
        &self,
        wanted: Wanted,
        context: &RequestContext<RoleServer>,
        visitor: &Visitor,
    ) -> ErrorData {
        let message = format!("{UNDER_WAY} calls of this caller are under way");
        let failure = too_many(message);
        let answer = in_error(&failure);
        let (call, front) = (call_of(wanted, context), self.service.front());
        let class = front.gate().tool(&call.tool).map(|tool| tool.spec().class);
        let refused = front.refuse(&call, visitor.credential.clone(), Stage::Permission, failure).await;
        self.service.metrics.count(class, &refused);
        answer
    }

    /// Refuses a request beyond what may be unanswered on this connection. A call among them is recorded, together with others like it.
    pub(crate) fn unserved(&self, tool: Option<&str>) -> ErrorData {
        let failure = too_many("too many requests are not answered yet".to_owned());
        if let (Some(tool), Some(visitor)) = (tool, self.fixed_visitor()) {
            self.service.front().gate().count_refusal(tool, visitor.credential.unverified_caller(), &failure);
        }
        in_error(&failure)
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
fn in_error(failure: &Failure) -> ErrorData {
    let data = json!({"code": failure.code.as_str(), "retry_after_ms": RETRY_AFTER_MS});
    ErrorData::invalid_request(failure.to_string(), Some(data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_share_and_nobody_is_remembered_for_nothing() {
        let shares = Shares::new(2);
        let held: Vec<_> = (0..3).map(|_| shares.try_take([1; 32])).collect();
        assert_eq!(held.iter().filter(|one| one.is_some()).count(), 2);
        assert!(shares.try_take([2; 32]).is_some(), "others have their own");
        for number in 0..10 * REMEMBERED as u64 {
            let mut owner = [0; 32];
            owner[..8].copy_from_slice(&number.to_be_bytes());
            assert!(shares.try_take(owner).is_some());
        }
        assert!(shares.of.lock().unwrap().len() <= REMEMBERED);
        assert!(shares.try_take([1; 32]).is_none(), "what is held is not forgotten");
        drop(held);
        assert!(shares.try_take([1; 32]).is_some());
    }
}
