//! The requests that are not answered yet.

use std::collections::{HashMap, HashSet, VecDeque};

use rmcp::model::RequestId;

use crate::mcp::ResponseSlot;

/// Maximum requests in flight; more are rejected.
const MAX_UNANSWERED: usize = 1024;

/// How many ids of cancelled requests are remembered. The call of an older one has ended long ago.
const MAX_CANCELLED_IDS: usize = 1024;

/// The requests of one client.
#[derive(Debug, Default)]
pub(super) struct InFlightRequests {
    unanswered: HashMap<RequestId, ResponseSlot>,
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
    /// Registers a request. The id of a cancelled request is not accepted again, because its call may still be
    /// running.
    pub(super) fn open(&mut self, id: &RequestId) -> Result<ResponseSlot, RejectReason> {
        self.check(id)?;
        let tray = ResponseSlot::default();
        self.unanswered.insert(id.clone(), tray.clone());
        Ok(tray)
    }

    /// Whether a request with this id would be accepted.
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
        if self.unanswered.remove(id).is_none() || !self.cancelled.insert(id.clone()) {
            return;
        }
        self.order.push_back(id.clone());
        if self.order.len() > MAX_CANCELLED_IDS
            && let Some(oldest) = self.order.pop_front()
        {
            self.cancelled.remove(&oldest);
        }
    }

    /// Removes a request whose response is being sent, and returns its slot.
    pub(super) fn close(&mut self, id: &RequestId) -> Option<ResponseSlot> {
        self.unanswered.remove(id)
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

    #[test]
    fn an_id_stands_for_one_request_at_a_time() {
        let mut account = InFlightRequests::default();
        assert_eq!(account.open(&id(1)).err(), None);
        assert_eq!(account.open(&id(1)).err(), Some(RejectReason::DuplicateId));
        account.close(&id(1));
        assert_eq!(account.open(&id(1)).err(), None, "it was answered");
        account.cancel(&id(1));
        assert!(account.is_settled());
        assert_eq!(account.open(&id(1)).err(), Some(RejectReason::DuplicateId), "it may still be under way");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut account = InFlightRequests::default();
        for number in 0..10_000 {
            assert_eq!(account.open(&id(number)).err(), None);
            account.cancel(&id(number));
            account.cancel(&id(-number));
        }
        assert_eq!((account.cancelled.len(), account.order.len()), (MAX_CANCELLED_IDS, MAX_CANCELLED_IDS));
        for number in 10_000..10_000 + MAX_UNANSWERED as i64 {
            assert_eq!(account.open(&id(number)).err(), None);
        }
        assert_eq!(account.open(&id(-1)).err(), Some(RejectReason::TooMany));
        account.close(&id(10_000));
        assert_eq!(account.open(&id(-1)).err(), None);
    }
}
