//! Which requests are not answered yet.

use std::collections::{HashMap, HashSet, VecDeque};

use rmcp::model::RequestId;

use crate::mcp::ResponseSlot;

/// So many requests may be under way; more are refused until some are answered.
const MAX_UNANSWERED: usize = 1024;

/// So many ids are remembered whose requests were given up. What an older one stood for has ended long ago.
const MAX_CANCELLED_IDS: usize = 1024;

/// The requests of one client.
#[derive(Debug, Default)]
pub(super) struct InFlightRequests {
    unanswered: HashMap<RequestId, ResponseSlot>,
    cancelled: HashSet<RequestId>,
    /// The same, oldest first.
    order: VecDeque<RequestId>,
}

/// Why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RejectReason {
    /// Its id stands for another request.
    DuplicateId,
    /// Too many others are not answered yet.
    TooMany,
}

impl InFlightRequests {
    /// A request has come. An id that was given up is not good again: its call may still be coming to its end.
    pub(super) fn open(&mut self, id: &RequestId) -> Result<ResponseSlot, RejectReason> {
        self.check(id)?;
        let tray = ResponseSlot::default();
        self.unanswered.insert(id.clone(), tray.clone());
        Ok(tray)
    }

    /// Whether a request with this id may come.
    pub(super) fn check(&self, id: &RequestId) -> Result<(), RejectReason> {
        if self.unanswered.contains_key(id) || self.cancelled.contains(id) {
            return Err(RejectReason::DuplicateId);
        }
        if self.unanswered.len() >= MAX_UNANSWERED {
            return Err(RejectReason::TooMany);
        }
        Ok(())
    }

    /// The client does not want the answer any more, and will get none.
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

    /// The answer is on its way; with what goes with it.
    pub(super) fn close(&mut self, id: &RequestId) -> Option<ResponseSlot> {
        self.unanswered.remove(id)
    }

    /// Whether everything is answered.
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
