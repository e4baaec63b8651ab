//! The requests that are not answered yet.

use std::collections::{HashMap, HashSet, VecDeque};

use rmcp::model::RequestId;
use tokio_util::sync::CancellationToken;

use crate::admission::MAX_UNANSWERED;

/// How many ids of cancelled requests are remembered. The call of an older one has ended long ago.
const MAX_CANCELLED_IDS: usize = 1024;

/// The requests of one client.
#[derive(Debug, Default)]
pub(super) struct InFlightRequests {
    unanswered: HashMap<RequestId, CancellationToken>,
    cancelled: HashSet<RequestId>,
    /// The same ids, oldest first.
    order: VecDeque<RequestId>,
}

/// Why a request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RejectReason {
    /// The id is in use by another request.
    DuplicateId,
    /// Too many requests in flight.
    TooMany,
}

impl InFlightRequests {
    /// Registers a request that was checked.
    pub(super) fn open(&mut self, id: RequestId, cancelled: CancellationToken) {
        self.unanswered.insert(id, cancelled);
    }

    /// Whether a request with this id is accepted. That of a cancelled request is not, because its call may still be running.
    pub(super) fn check(&self, id: &RequestId) -> Result<(), RejectReason> {
        if self.unanswered.contains_key(id) || self.cancelled.contains(id) {
            return Err(RejectReason::DuplicateId);
        }
        if self.unanswered.len() >= MAX_UNANSWERED {
            return Err(RejectReason::TooMany);
        }
        Ok(())
    }

    /// Cancels a request: it will get no response.
    pub(super) fn cancel(&mut self, id: &RequestId) {
        let Some(cancelled) = self.unanswered.remove(id) else { return };
        cancelled.cancel();
        if !self.cancelled.insert(id.clone()) {
            return;
        }
        self.order.push_back(id.clone());
        if self.order.len() > MAX_CANCELLED_IDS
            && let Some(oldest) = self.order.pop_front()
        {
            self.cancelled.remove(&oldest);
        }
    }

    /// Removes a request whose response is being sent. Returns whether the client still waits for it.
    pub(super) fn close(&mut self, id: &RequestId) -> bool {
        self.unanswered.remove(id).is_some()
    }

    /// Whether no request is in flight.
    pub(super) fn is_settled(&self) -> bool {
        self.unanswered.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: i64) -> RequestId {
        RequestId::Number(number)
    }

    fn open(account: &mut InFlightRequests, id: &RequestId) -> Option<RejectReason> {
        let refused = account.check(id).err();
        if refused.is_none() {
            account.open(id.clone(), CancellationToken::new());
        }
        refused
    }

    #[test]
    fn an_id_stands_for_one_request_at_a_time() {
        let mut account = InFlightRequests::default();
        assert_eq!(open(&mut account, &id(1)), None);
        assert_eq!(open(&mut account, &id(1)), Some(RejectReason::DuplicateId));
        account.close(&id(1));
        assert_eq!(open(&mut account, &id(1)), None, "it was answered");
        account.cancel(&id(1));
        assert!(account.is_settled());
        assert_eq!(open(&mut account, &id(1)), Some(RejectReason::DuplicateId), "it may still be under way");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut account = InFlightRequests::default();
        for number in 0..10_000 {
            assert_eq!(open(&mut account, &id(number)), None);
            account.cancel(&id(number));
            account.cancel(&id(-number));
        }
        assert_eq!((account.cancelled.len(), account.order.len()), (MAX_CANCELLED_IDS, MAX_CANCELLED_IDS));
        for number in 10_000..10_000 + MAX_UNANSWERED as i64 {
            assert_eq!(open(&mut account, &id(number)), None);
        }
        assert_eq!(open(&mut account, &id(-1)), Some(RejectReason::TooMany));
        account.close(&id(10_000));
        assert_eq!(open(&mut account, &id(-1)), None);
    }
}
