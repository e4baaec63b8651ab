//! Which requests are not answered yet.

use std::collections::{HashMap, HashSet, VecDeque};

use rmcp::model::RequestId;

use crate::mcp::Tray;

/// So many requests may be under way; more are refused until some are answered.
const MOST_UNANSWERED: usize = 1024;

/// So many ids are remembered whose requests were given up. What an older one stood for has ended long ago.
const MOST_GIVEN_UP: usize = 1024;

/// The requests of one client.
#[derive(Debug, Default)]
pub(super) struct Account {
    unanswered: HashMap<RequestId, Tray>,
    given_up: HashSet<RequestId>,
    /// The same, oldest first.
    order: VecDeque<RequestId>,
}

/// Why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unserved {
    /// Its id stands for another request.
    Taken,
    /// Too many others are not answered yet.
    TooMany,
}

impl Account {
    /// A request has come. An id that was given up is not good again: its call may still be coming to its end.
    pub(super) fn open(&mut self, id: &RequestId) -> Result<Tray, Unserved> {
        self.admits(id)?;
        let tray = Tray::default();
        self.unanswered.insert(id.clone(), tray.clone());
        Ok(tray)
    }

    /// Whether a request with this id may come.
    pub(super) fn admits(&self, id: &RequestId) -> Result<(), Unserved> {
        if self.unanswered.contains_key(id) || self.given_up.contains(id) {
            return Err(Unserved::Taken);
        }
        if self.unanswered.len() >= MOST_UNANSWERED {
            return Err(Unserved::TooMany);
        }
        Ok(())
    }

    /// The client does not want the answer any more, and will get none.
    pub(super) fn give_up(&mut self, id: &RequestId) {
        if self.unanswered.remove(id).is_none() || !self.given_up.insert(id.clone()) {
            return;
        }
        self.order.push_back(id.clone());
        if self.order.len() > MOST_GIVEN_UP
            && let Some(oldest) = self.order.pop_front()
        {
            self.given_up.remove(&oldest);
        }
    }

    /// The answer is on its way; with what goes with it.
    pub(super) fn close(&mut self, id: &RequestId) -> Option<Tray> {
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
        let mut account = Account::default();
        assert_eq!(account.open(&id(1)).err(), None);
        assert_eq!(account.open(&id(1)).err(), Some(Unserved::Taken));
        account.close(&id(1));
        assert_eq!(account.open(&id(1)).err(), None, "it was answered");
        account.give_up(&id(1));
        assert!(account.is_settled());
        assert_eq!(account.open(&id(1)).err(), Some(Unserved::Taken), "it may still be under way");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut account = Account::default();
        for number in 0..10_000 {
            assert_eq!(account.open(&id(number)).err(), None);
            account.give_up(&id(number));
            account.give_up(&id(-number));
        }
        assert_eq!((account.given_up.len(), account.order.len()), (MOST_GIVEN_UP, MOST_GIVEN_UP));
        for number in 10_000..10_000 + MOST_UNANSWERED as i64 {
            assert_eq!(account.open(&id(number)).err(), None);
        }
        assert_eq!(account.open(&id(-1)).err(), Some(Unserved::TooMany));
        account.close(&id(10_000));
        assert_eq!(account.open(&id(-1)).err(), None);
    }
}
