//! A fixed-window rate limiter.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of tracked keys. Beyond it, new keys are rejected until windows expire.
const MAX_KEYS: usize = 4096;

/// At most `max` events per period for each key.
#[derive(Debug)]
pub(crate) struct RateLimiter<K> {
    max: u32,
    period: Duration,
    seen: Mutex<HashMap<K, WindowCount>>,
}

#[derive(Clone, Copy, Debug)]
struct WindowCount {
    since: Instant,
    times: u32,
}

impl<K: Eq + Hash> RateLimiter<K> {
    pub(crate) fn new(max: u32, period: Duration) -> Self {
        Self { max, period, seen: Mutex::default() }
    }

    /// Whether the limit is reached, without counting an event.
    pub(crate) fn is_exhausted(&self, key: &K, now: Instant) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |seen: &WindowCount| now.saturating_duration_since(seen.since) >= self.period;
        seen.get(key).is_some_and(|seen| !is_over(seen) && seen.times >= self.max)
    }

    /// Counts an event and returns whether it is within the limit.
    pub(crate) fn check(&self, key: K, now: Instant) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |seen: &WindowCount| now.saturating_duration_since(seen.since) >= self.period;
        if seen.len() >= MAX_KEYS && !seen.contains_key(&key) {
            seen.retain(|_, seen| !is_over(seen));
            if seen.len() >= MAX_KEYS {
                return false;
            }
        }
        let entry = seen.entry(key).or_insert(WindowCount { since: now, times: 0 });
        if is_over(entry) {
            *entry = WindowCount { since: now, times: 0 };
        }
        entry.times = entry.times.saturating_add(1);
        entry.times <= self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_own_count_that_begins_anew() {
        let pace = RateLimiter::new(2, Duration::from_secs(10));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let found: Vec<bool> =
            [0, 1, 2, 9, 10, 11, 12].into_iter().map(|seconds| pace.check("a", at(seconds))).collect();
        assert_eq!(found, [true, true, false, false, true, true, false]);
        assert!(pace.is_exhausted(&"a", at(12)) && !pace.is_exhausted(&"a", at(20)));
        assert!(!pace.is_exhausted(&"b", at(12)));
        assert!(pace.check("b", at(12)));
        assert!(!pace.is_exhausted(&"b", at(12)));
    }

    #[test]
    fn strangers_without_number_are_not_remembered_without_end() {
        let pace = RateLimiter::new(1, Duration::from_secs(10));
        let start = Instant::now();
        for stranger in 0..MAX_KEYS {
            assert!(pace.check(stranger, start));
        }
        assert!(!pace.check(MAX_KEYS, start), "there is no room");
        assert!(pace.check(MAX_KEYS, start + Duration::from_secs(10)), "others are forgotten");
        assert_eq!(pace.seen.lock().unwrap().len(), 1);
    }
}
