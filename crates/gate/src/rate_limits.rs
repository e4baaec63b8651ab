//! Rate limits per caller and tool.
//!
//! Every rule keeps one count per caller and tool that it matches, and every matching rule must admit a call. All rules are checked before any is
//! charged, so a call that one rule refuses consumes nothing of the others.

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::StateStore;
use governor::state::keyed::ShrinkableKeyedStateStore;
use governor::{Quota, RateLimiter};
use toolgate_manifest::{NameGlob, Rate, RateLimitConfig};
use toolgate_types::{ErrorCode, Failure};

use crate::gate::Clock;

/// Upper bound of a period; keeps the arithmetic far from overflow.
const MAX_PERIOD: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// At this many counts of one rule, those that are fully replenished are removed.
const SWEEP_THRESHOLD: usize = 4096;
/// Maximum number of counts per rule. Further callers are refused until counts are removed.
const MAX_COUNTS: usize = 1 << 20;

/// One rate limit: how many calls of which tools by which callers.
#[derive(Clone, Debug)]
pub struct RateRule {
    caller: NamePattern,
    tool: NamePattern,
    rate: Rate,
}

/// Which names a rule matches.
#[derive(Clone, Debug)]
enum NamePattern {
    Every,
    One(String),
    Matching(NameGlob),
}

impl NamePattern {
    fn of(glob: Option<&NameGlob>) -> Self {
        glob.cloned().map_or(Self::Every, Self::Matching)
    }

    fn matches(&self, name: &str) -> bool {
        match self {
            Self::Every => true,
            Self::One(only) => only == name,
            Self::Matching(glob) => glob.matches(name),
        }
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Every => "*",
            Self::One(only) => only,
            Self::Matching(glob) => &glob.as_written().value,
        })
    }
}

impl From<&RateLimitConfig> for RateRule {
    fn from(config: &RateLimitConfig) -> Self {
        let RateLimitConfig { caller, tool, rate } = config;
        Self { caller: NamePattern::of(caller.as_ref()), tool: NamePattern::of(tool.as_ref()), rate: *rate }
    }
}

impl RateRule {
    /// The `rate` of a manifest: calls of this tool, counted per caller.
    #[must_use]
    pub fn of_tool(tool: &str, rate: Rate) -> Self {
        Self { caller: NamePattern::Every, tool: NamePattern::One(tool.to_owned()), rate }
    }

    fn matches(&self, caller: &str, tool: &str) -> bool {
        self.tool.matches(tool) && self.caller.matches(caller)
    }

    fn quota(&self) -> Quota {
        let Rate { calls, per, burst } = self.rate;
        let interval = (per.min(MAX_PERIOD) / calls.get()).max(Duration::from_nanos(1));
        let burst = burst.unwrap_or(calls);
        // Caps the burst so that it replenishes within ten of the longest periods.
        let most = MAX_PERIOD.as_nanos().saturating_mul(10) / interval.as_nanos().max(1);
        let most = u32::try_from(most).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX);
        let quota = Quota::with_period(interval).unwrap_or(Quota::per_second(NonZeroU32::MIN));
        quota.allow_burst(burst.min(most))
    }
}

/// For the operator. Also the identity of a rule: rules with the same text share their counts across reloads.
impl fmt::Display for RateRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rate { calls, per, burst } = self.rate;
        write!(formatter, "{calls} calls of `{}` by `{}` in {per:?}", self.tool, self.caller)?;
        match burst {
            Some(burst) => write!(formatter, ", {burst} at once"),
            None => Ok(()),
        }
    }
}

/// Caller and tool.
type RateKey = (String, String);

/// A query to the limiter: check only, or check and charge.
#[derive(Clone, PartialEq, Eq, Hash)]
enum RateQuery {
    Peek(RateKey),
    Charge(RateKey),
}

impl RateQuery {
    fn pair(&self) -> &RateKey {
        match self {
            Self::Peek(pair) | Self::Charge(pair) => pair,
        }
    }
}

/// Consumed quota by caller and tool. `Peek` changes nothing.
#[derive(Clone, Default)]
struct RateCounts(Arc<Mutex<HashMap<RateKey, Nanos>>>);

impl RateCounts {
    fn counts(&self) -> MutexGuard<'_, HashMap<RateKey, Nanos>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StateStore for RateCounts {
    type Key = RateQuery;

    fn measure_and_replace<T, F, E>(&self, ask: &RateQuery, decide: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let mut counts = self.counts();
        let (admitted, spent) = decide(counts.get(ask.pair()).copied())?;
        if let RateQuery::Charge(pair) = ask {
            counts.insert(pair.clone(), spent);
        }
        Ok(admitted)
    }
}

impl ShrinkableKeyedStateStore<RateQuery> for RateCounts {
    fn retain_recent(&self, drop_below: Nanos) {
        self.counts().retain(|_, spent| *spent > drop_below);
    }

    fn len(&self) -> usize {
        self.counts().len()
    }

    fn is_empty(&self) -> bool {
        self.counts().is_empty()
    }
}

/// The gate's clock as a `governor` clock.
struct GovernorClock(Clock);

impl governor::clock::Clock for GovernorClock {
    type Instant = Instant;

    fn now(&self) -> Instant {
        (self.0)()
    }
}

/// One rule with its counts.
struct RuleLimiter {
    rule: RateRule,
    limiter: RateLimiter<RateQuery, RateCounts, GovernorClock, NoOpMiddleware<Instant>>,
    spent: RateCounts,
    /// Number of counts at which to sweep next.
    sweep_at: AtomicUsize,
}

impl RuleLimiter {
    fn new(rule: RateRule, clock: &Clock) -> Self {
        let spent = RateCounts::default();
        let limiter = RateLimiter::new(rule.quota(), spent.clone(), GovernorClock(Arc::clone(clock)));
        Self { rule, limiter, spent, sweep_at: AtomicUsize::new(SWEEP_THRESHOLD) }
    }

    /// How long to wait, if a call cannot be admitted now.
    fn peek(&self, pair: &RateKey, now: Instant) -> Option<Duration> {
        if !self.has_room(pair) {
            return Some(self.rule.quota().replenish_interval());
        }
        let refused = self.limiter.check_key(&RateQuery::Peek(pair.clone())).err();
        refused.map(|refused| refused.wait_time_from(now))
    }

    fn charge(&self, pair: &RateKey, now: Instant) -> Option<Duration> {
        let refused = self.limiter.check_key(&RateQuery::Charge(pair.clone())).err();
        refused.map(|refused| refused.wait_time_from(now))
    }

    /// Whether a count for this key exists or can be added; a call that cannot be counted is refused. Replenished counts are removed whenever their
    /// number has doubled since the last sweep.
    fn has_room(&self, pair: &RateKey) -> bool {
        if self.spent.counts().contains_key(pair) {
            return true;
        }
        if self.spent.len() >= self.sweep_at.load(Ordering::Relaxed) {
            self.limiter.retain_recent();
            let next = self.spent.len().saturating_mul(2).clamp(SWEEP_THRESHOLD, MAX_COUNTS);
            self.sweep_at.store(next, Ordering::Relaxed);
        }
        self.spent.len() < MAX_COUNTS
    }
}

/// All rate limits of a gate.
pub(crate) struct RateLimits {
    limiters: Vec<Arc<RuleLimiter>>,
    /// Held across check and charge, so that the two are atomic.
    admit_lock: Mutex<()>,
    clock: Clock,
}

impl RateLimits {
    /// Builds the limiters. A rule that existed before keeps its counts.
    pub(crate) fn new(rules: Vec<RateRule>, before: Option<&Self>, clock: &Clock) -> Self {
        let mut earlier: Vec<&Arc<RuleLimiter>> =
            before.into_iter().flat_map(|rates| &rates.limiters).collect();
        let mut limiter = |rule: RateRule| {
            let shown = rule.to_string();
            match earlier.iter().position(|limiter| limiter.rule.to_string() == shown) {
                Some(place) => Arc::clone(earlier.swap_remove(place)),
                None => Arc::new(RuleLimiter::new(rule, clock)),
            }
        };
        let limiters = rules.into_iter().map(&mut limiter).collect();
        Self { limiters, admit_lock: Mutex::default(), clock: Arc::clone(clock) }
    }

    /// Charges a call to every matching rule, or to none.
    pub(crate) fn admit(&self, caller: &str, tool: &str) -> Result<(), Failure> {
        self.charge(caller, tool, tool)
    }

    /// The same for an unknown tool. All unknown tools share one count per caller, because their names are the caller's to invent.
    pub(crate) fn admit_unknown(&self, caller: &str, tool: &str) -> Result<(), Failure> {
        self.charge(caller, tool, "")
    }

    fn charge(&self, caller: &str, tool: &str, counted_as: &str) -> Result<(), Failure> {
        let matching: Vec<&Arc<RuleLimiter>> =
            self.limiters.iter().filter(|limiter| limiter.rule.matches(caller, tool)).collect();
        if matching.is_empty() {
            return Ok(());
        }
        let pair = (caller.to_owned(), counted_as.to_owned());
        let _deciding = self.admit_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (self.clock)();
        let asked = |ask: &dyn Fn(&RuleLimiter) -> Option<Duration>| {
            let refusing = matching.iter().filter_map(|limiter| Some((ask(limiter)?, &limiter.rule)));
            refusing
                .max_by_key(|(wait, _)| *wait)
                .map_or(Ok(()), |(wait, rule)| Err(rate_limited(tool, wait, rule)))
        };
        asked(&|limiter| limiter.peek(&pair, now))?;
        asked(&|limiter| limiter.charge(&pair, now))
    }
}

fn rate_limited(tool: &str, rest: Duration, rule: &RateRule) -> Failure {
    let failure = Failure::new(ErrorCode::RateLimited, format!("`{tool}` was called too often"));
    with_retry_after(failure, rest).operator_note(format!("more than {rule}"))
}

/// Adds the wait time, rounded up: in seconds for the model, in milliseconds (`retry_after_ms`) for programs.
pub(crate) fn with_retry_after(failure: Failure, rest: Duration) -> Failure {
    let milliseconds = u64::try_from(rest.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    let seconds = milliseconds.div_ceil(1000);
    failure
        .help(format!("wait {seconds} s before you try again, or go on without it"))
        .detail("retry_after_ms", milliseconds)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use toolgate_manifest::Config;

    use super::*;

    /// A clock that tests set.
    fn clock() -> (Clock, Arc<Mutex<Instant>>) {
        let now = Arc::new(Mutex::new(Instant::now()));
        let read = Arc::clone(&now);
        (Arc::new(move || *read.lock().unwrap()), now)
    }

    fn advance(now: &Mutex<Instant>, time: Duration) {
        *now.lock().unwrap() += time;
    }

    fn rules(yaml: &str) -> Vec<RateRule> {
        let config = Config::parse("test", &format!("rate_limits: {yaml}")).unwrap();
        config.rate_limits.iter().map(RateRule::from).collect()
    }

    fn retry_after(refused: Result<(), Failure>) -> u64 {
        let failure = refused.expect_err("the call was admitted");
        assert_eq!(failure.code, ErrorCode::RateLimited);
        failure.details["retry_after_ms"].as_u64().unwrap()
    }

    #[test]
    fn every_caller_has_a_count_for_every_tool() {
        let (clock, now) = clock();
        let rates = RateLimits::new(rules("[{calls: 2, per: 10s}]"), None, &clock);
        for (caller, tool) in [("alice", "log"), ("alice", "diff"), ("bob", "log")] {
            assert!(rates.admit(caller, tool).is_ok() && rates.admit(caller, tool).is_ok());
            assert_eq!(retry_after(rates.admit(caller, tool)), 5000, "{caller} {tool}");
        }
        advance(&now, Duration::from_millis(4999));
        assert_eq!(retry_after(rates.admit("alice", "log")), 1);
        advance(&now, Duration::from_millis(1));
        assert!(rates.admit("alice", "log").is_ok());
        assert!(rates.admit("alice", "log").is_err());
    }

    #[test]
    fn only_matching_calls_count() {
        let (clock, _) = clock();
        let yaml = "[{caller: 'ci-*', tool: 'git_*', calls: 1, per: 1h}]";
        let rates = RateLimits::new(rules(yaml), None, &clock);
        for (caller, tool, limited) in [
            ("ci-1", "git_log", true),
            ("ci-1", "read", false),
            ("bob", "git_log", false),
            ("ci-2", "git_x", true),
        ] {
            assert!(rates.admit(caller, tool).is_ok());
            assert_eq!(rates.admit(caller, tool).is_err(), limited, "{caller} {tool}");
        }
        let rate = Rate { calls: NonZeroU32::MIN, per: Duration::from_secs(1), burst: None };
        let rates = RateLimits::new(vec![RateRule::of_tool("git_log", rate)], None, &clock);
        assert!(rates.admit("a", "git_log").is_ok() && rates.admit("a", "git_logs").is_ok());
        assert!(rates.admit("a", "git_log").is_err() && rates.admit("a", "git_logs").is_ok());
    }

    #[test]
    fn a_refused_call_costs_nothing_of_the_other_rules() {
        let (clock, now) = clock();
        let yaml = "[{calls: 3, per: 3h, burst: 3}, {calls: 1, per: 1s}]";
        let rates = RateLimits::new(rules(yaml), None, &clock);
        assert!(rates.admit("alice", "log").is_ok());
        for _ in 0..100 {
            assert_eq!(retry_after(rates.admit("alice", "log")), 1000);
        }
        for _ in 0..2 {
            advance(&now, Duration::from_secs(1));
            assert!(rates.admit("alice", "log").is_ok(), "refused calls were charged");
        }
        advance(&now, Duration::from_secs(1));
        // The failure carries the longest wait of all rules.
        assert!(retry_after(rates.admit("alice", "log")) > 3_000_000);
    }

    #[test]
    fn a_reload_gives_nothing_back() {
        let (clock, _) = clock();
        let first =
            RateLimits::new(rules("[{calls: 1, per: 1h}, {tool: x, calls: 1, per: 1h}]"), None, &clock);
        assert!(first.admit("alice", "log").is_ok());
        let same = RateLimits::new(
            rules("[{tool: y, calls: 9, per: 1h}, {calls: 1, per: 1h}]"),
            Some(&first),
            &clock,
        );
        assert!(same.admit("alice", "log").is_err(), "the reload began anew");
        let other = RateLimits::new(rules("[{calls: 2, per: 1h}]"), Some(&same), &clock);
        assert!(other.admit("alice", "log").is_ok(), "a changed rule begins anew");
    }

    #[test]
    fn counts_that_are_full_again_are_let_go() {
        let (clock, now) = clock();
        let rates = RateLimits::new(rules("[{calls: 1, per: 1s}]"), None, &clock);
        for caller in 0..10 * SWEEP_THRESHOLD {
            advance(&now, Duration::from_millis(1));
            rates.admit(&caller.to_string(), "log").unwrap();
        }
        assert!(rates.limiters[0].spent.len() <= SWEEP_THRESHOLD, "{}", rates.limiters[0].spent.len());
    }

    #[test]
    fn rates_at_the_ends_of_numbers_do_not_break() {
        let (clock, now) = clock();
        let durations = [Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(1), Duration::MAX];
        let numbers = [NonZeroU32::MIN, NonZeroU32::MAX];
        for per in durations {
            for (calls, burst) in numbers.into_iter().flat_map(|calls| numbers.map(|burst| (calls, burst))) {
                let rate = Rate { calls, per, burst: Some(burst) };
                let rates = RateLimits::new(vec![RateRule::of_tool("log", rate)], None, &clock);
                for _ in 0..3 {
                    let _ = rates.admit("alice", "log");
                    advance(&now, Duration::from_secs(1));
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]
        /// The reference model: a bucket that fills continuously, in whole units.
        #[test]
        fn agrees_with_a_bucket(calls in 1u32..5, burst in 1u32..5, waits in prop::collection::vec(0u64..900, 1..60)) {
            let (clock, now) = clock();
            // One call is replenished every 300 ms.
            let (calls, burst) = (NonZeroU32::new(calls).unwrap(), NonZeroU32::new(burst).unwrap());
            let rate = Rate { calls, per: Duration::from_millis(300) * calls.get(), burst: Some(burst) };
            let rates = RateLimits::new(vec![RateRule::of_tool("log", rate)], None, &clock);
            let full = u64::from(burst.get()) * 300;
            let mut bucket = full;
            for wait in waits {
                advance(&now, Duration::from_millis(wait));
                bucket = full.min(bucket + wait);
                let admitted = bucket >= 300;
                prop_assert_eq!(rates.admit("alice", "log").is_ok(), admitted);
                if admitted {
                    bucket -= 300;
                }
            }
        }
    }
}
