//! How often: at most so many events of one key per period, by `governor` (GCRA).
//!
//! A key may use its whole quota immediately, and gets it back evenly over the period. A fixed window would let twice as many through around its end.

use std::collections::HashMap;
use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use governor::clock::{Clock, MonotonicClock};
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::StateStore;
use governor::state::keyed::ShrinkableKeyedStateStore;
use governor::{Quota, RateLimiter};

/// Maximum number of tracked keys. Beyond it, new keys are rejected until others have their whole quota again.
const MAX_KEYS: usize = 4096;

/// At most so many events per period for each key.
pub(crate) struct RateLimit<K: Clone + Eq + Hash, C: Clock = MonotonicClock> {
    limiter: RateLimiter<QuotaQuery<K>, SpentQuotas<K>, C, NoOpMiddleware<C::Instant>>,
    spent: SpentQuotas<K>,
}

/// Asks whether an event is within the limit, and counts it or not.
#[derive(Clone, PartialEq, Eq, Hash)]
enum QuotaQuery<K> {
    Peek(K),
    Count(K),
}

impl<K> QuotaQuery<K> {
    fn key(&self) -> &K {
        match self {
            Self::Peek(key) | Self::Count(key) => key,
        }
    }
}

/// The consumed quota of each key.
#[derive(Clone)]
struct SpentQuotas<K>(Arc<Mutex<HashMap<K, Nanos>>>);

impl<K> SpentQuotas<K> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, Nanos>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> StateStore for SpentQuotas<K> {
    type Key = QuotaQuery<K>;

    fn measure_and_replace<T, F, E>(&self, query: &QuotaQuery<K>, decide: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let mut quotas = self.lock();
        let (admitted, spent) = decide(quotas.get(query.key()).copied())?;
        if let QuotaQuery::Count(key) = query {
            quotas.insert(key.clone(), spent);
        }
        Ok(admitted)
    }
}

impl<K: Clone + Eq + Hash> ShrinkableKeyedStateStore<QuotaQuery<K>> for SpentQuotas<K> {
    fn retain_recent(&self, drop_below: Nanos) {
        self.lock().retain(|_, spent| *spent > drop_below);
    }

    fn len(&self) -> usize {
        self.lock().len()
    }

    fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }
}

impl<K: Clone + Eq + Hash> RateLimit<K> {
    /// `max` events per period; at least one.
    pub(crate) fn new(max: u32, period: Duration) -> Self {
        Self::with_clock(max, period, MonotonicClock)
    }
}

impl<K: Clone + Eq + Hash, C: Clock> RateLimit<K, C> {
    fn with_clock(max: u32, period: Duration, clock: C) -> Self {
        let max = NonZeroU32::new(max).unwrap_or(NonZeroU32::MIN);
        // More than one event per nanosecond is no limit.
        let quota = Quota::with_period(period / max.get()).unwrap_or(Quota::per_second(NonZeroU32::MAX));
        let spent = SpentQuotas(Arc::default());
        let limiter = RateLimiter::new(quota.allow_burst(max), spent.clone(), clock);
        Self { limiter, spent }
    }

    /// Whether the limit is reached, without counting an event.
    pub(crate) fn is_exhausted(&self, key: &K) -> bool {
        self.limiter.check_key(&QuotaQuery::Peek(key.clone())).is_err()
    }

    /// Counts an event and returns whether it is within the limit.
    pub(crate) fn check(&self, key: K) -> bool {
        self.has_room(&key) && self.limiter.check_key(&QuotaQuery::Count(key)).is_ok()
    }

    /// Whether the key is tracked or can be.
    fn has_room(&self, key: &K) -> bool {
        let is_full = || self.spent.lock().len() >= MAX_KEYS;
        if self.spent.lock().contains_key(key) || !is_full() {
            return true;
        }
        self.limiter.retain_recent();
        !is_full()
    }
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;

    fn limit(max: u32) -> (RateLimit<usize, FakeRelativeClock>, FakeRelativeClock) {
        let clock = FakeRelativeClock::default();
        (RateLimit::with_clock(max, Duration::from_secs(10), clock.clone()), clock)
    }

    #[test]
    fn each_key_has_a_quota_that_comes_back_evenly() {
        let (limit, clock) = limit(2);
        let mut found = Vec::new();
        for seconds in [0, 1, 1, 2, 1, 5, 1, 60, 0, 0] {
            clock.advance(Duration::from_secs(seconds));
            found.push(limit.check(1));
        }
        assert_eq!(found, [true, true, false, false, true, true, false, true, true, false]);
        assert!(limit.is_exhausted(&1) && !limit.is_exhausted(&2));
        assert!(limit.check(2));
        assert!(!limit.is_exhausted(&2), "asking counts nothing");
        clock.advance(Duration::from_secs(5));
        assert!(!limit.is_exhausted(&1));
    }

    /// A fixed window would let the quota through just before its end and again just after it.
    #[test]
    fn no_period_has_twice_the_quota() {
        let (limit, clock) = limit(10);
        let mut admitted = 0;
        for _ in 0..200 {
            clock.advance(Duration::from_millis(50));
            admitted += u32::from(limit.check(1));
        }
        assert_eq!(admitted, 10 + 9, "the quota, and what came back within ten seconds");
    }

    #[test]
    fn keys_without_number_are_not_tracked_without_end() {
        let (limit, clock) = limit(1);
        for key in 0..MAX_KEYS {
            assert!(limit.check(key));
        }
        assert!(!limit.check(MAX_KEYS), "there is no room");
        clock.advance(Duration::from_secs(30));
        assert!(limit.check(MAX_KEYS), "others have their quota again");
        assert_eq!(limit.spent.lock().len(), 1);
    }

    #[test]
    fn extreme_rates_are_limits_too() {
        for max in [0, 1, u32::MAX] {
            let limit: RateLimit<u8> = RateLimit::new(max, Duration::from_secs(1));
            assert!(limit.check(1));
        }
    }
}
