//! How many calls each session has made.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use toolgate_types::SessionId;

/// How many sessions are remembered. Beyond that, the half with the oldest latest call is evicted, and would count from zero again.
const MAX_SESSIONS: usize = 65_536;

/// Counts calls per session.
#[derive(Default)]
pub(crate) struct SessionCallCounter(Mutex<SessionCounts>);

#[derive(Default)]
struct SessionCounts {
    sessions: HashMap<SessionId, SessionCount>,
    all: u64,
}

struct SessionCount {
    calls: u64,
    /// Sequence number of its latest call, counted over all sessions.
    last_call: u64,
}

impl SessionCallCounter {
    /// Counts one more call of a session and returns how many it made before.
    pub(crate) fn increment(&self, session: &SessionId) -> u64 {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.all = counts.all.saturating_add(1);
        let latest = counts.all;
        if let Some(count) = counts.sessions.get_mut(session) {
            count.last_call = latest;
            let before = count.calls;
            count.calls = before.saturating_add(1);
            return before;
        }
        if counts.sessions.len() >= MAX_SESSIONS {
            counts.forget_half();
        }
        counts.sessions.insert(session.clone(), SessionCount { calls: 1, last_call: latest });
        0
    }
}

impl SessionCounts {
    fn forget_half(&mut self) {
        let mut latest: Vec<u64> = self.sessions.values().map(|count| count.last_call).collect();
        let middle = latest.len() / 2;
        let (_, middle, _) = latest.select_nth_unstable(middle);
        let middle = *middle;
        self.sessions.retain(|_, count| count.last_call >= middle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(number: usize) -> SessionId {
        format!("s{number}").parse().unwrap()
    }

    #[test]
    fn each_session_counts_its_own_calls() {
        let calls = SessionCallCounter::default();
        let counted: Vec<u64> = [1, 1, 2, 1, 2].map(|number| calls.increment(&session(number))).into();
        assert_eq!(counted, [0, 1, 0, 2, 1]);
    }

    #[test]
    fn the_quietest_sessions_are_forgotten_first() {
        let calls = SessionCallCounter::default();
        for number in 0..MAX_SESSIONS {
            calls.increment(&session(number));
        }
        assert_eq!(calls.increment(&session(0)), 1, "forgotten while there was room");
        calls.increment(&session(MAX_SESSIONS));
        assert!(calls.0.lock().unwrap().sessions.len() <= MAX_SESSIONS / 2 + 1);
        assert_eq!(calls.increment(&session(0)), 2, "one that had just called was forgotten");
        assert_eq!(calls.increment(&session(1)), 0, "the quietest was kept");
    }
}
