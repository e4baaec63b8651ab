//! A key set that an issuer publishes, cached.
//!
//! Tokens can trigger a fetch but not force one: only one fetch runs at a time, concurrent callers wait for it (single flight), and there is a
//! minimum interval between fetches. A fetch runs to its end even if the caller that triggered it is gone, so that a flood of callers that disconnect
//! cannot keep new keys out. If a fetch fails, the old keys stay valid for a while; without any, every token is rejected.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use crate::Algorithm;
use crate::error::FetchError;
use crate::fetch::{FetchKeys, redact_password};
use crate::key_set::KeySet;
use crate::options::{CacheOptions, Clock, OperatorNotice};

/// Without an interval, every caller that waited for a fetch would trigger the next.
const MIN_FETCH_INTERVAL: Duration = Duration::from_secs(1);

/// A published key set that could not be fetched again, and whose old keys are still valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleKeys {
    /// Its URL, with any password redacted.
    pub url: String,
    /// Why the last fetch failed.
    pub problem: FetchError,
    /// How long its old keys stay valid; at zero their tokens are rejected.
    pub remaining: Duration,
}

/// The result of fetching a published key set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedKeys {
    /// Its URL, with any password redacted.
    pub url: String,
    /// The number of usable keys, or why there are none.
    pub keys: Result<usize, FetchError>,
}

/// One published key set.
pub(crate) struct RemoteKeySet {
    url: String,
    algorithms: Vec<Algorithm>,
    fetch: Arc<dyn FetchKeys>,
    clock: Clock,
    cache: CacheOptions,
    notify: OperatorNotice,
    /// Written only while holding `fetch_lock`.
    state: ArcSwap<KeySetState>,
    fetch_lock: Arc<Mutex<()>>,
}

/// The cached state.
#[derive(Clone, Default)]
struct KeySetState {
    keys: Arc<KeySet>,
    fetched: Option<SystemTime>,
    attempted: Option<SystemTime>,
    problem: Option<FetchError>,
    /// Whether the problem was reported to the operator.
    reported: bool,
}

impl RemoteKeySet {
    /// Nothing is fetched yet.
    pub(crate) fn new(
        url: String,
        algorithms: Vec<Algorithm>,
        fetch: Arc<dyn FetchKeys>,
        clock: Clock,
        cache: CacheOptions,
        notify: OperatorNotice,
    ) -> Self {
        Self {
            url,
            algorithms,
            fetch,
            clock,
            cache,
            notify,
            state: ArcSwap::default(),
            fetch_lock: Arc::default(),
        }
    }

    /// The keys, fetched first if there are none or they are old.
    pub(crate) async fn keys(self: &Arc<Self>) -> Arc<KeySet> {
        if !self.is_fresh() {
            self.refresh().await;
        }
        self.usable()
    }

    /// The keys after another fetch, unless the last one is too recent.
    pub(crate) async fn refetch_keys(self: &Arc<Self>) -> Arc<KeySet> {
        self.refresh().await;
        self.usable()
    }

    /// Why the last fetch failed, if it did.
    pub(crate) fn problem(&self) -> Option<FetchError> {
        self.state.load().problem
    }

    /// Fetches the keys, unless the last fetch is too recent.
    pub(crate) async fn probe(self: &Arc<Self>) -> FetchedKeys {
        let keys = self.refetch_keys().await;
        let keys = self.problem().map_or_else(|| Ok(keys.len()), Err);
        FetchedKeys { url: redact_password(&self.url), keys }
    }

    /// The problem, if the last fetch failed and there were keys before.
    pub(crate) fn stale(&self) -> Option<StaleKeys> {
        let state = self.state.load();
        let problem = state.problem.filter(|_| state.reported)?;
        let remaining = self.last_use().saturating_sub(self.age(&state)?);
        Some(StaleKeys { url: redact_password(&self.url), problem, remaining })
    }

    /// The age at which keys become invalid.
    fn last_use(&self) -> Duration {
        self.cache.max_age.saturating_add(self.cache.max_stale)
    }

    fn age(&self, state: &KeySetState) -> Option<Duration> {
        state.fetched.map(|then| (self.clock)().duration_since(then).unwrap_or_default())
    }

    /// If the clock was set back, the age is unknown, so the keys count as old.
    fn is_fresh(&self) -> bool {
        let fetched = self.state.load().fetched;
        fetched.is_some_and(|then| {
            (self.clock)().duration_since(then).is_ok_and(|age| age <= self.cache.max_age)
        })
    }

    /// The keys, unless they are too old even for a failed fetch.
    fn usable(&self) -> Arc<KeySet> {
        let state = self.state.load();
        match self.age(&state) {
            Some(age) if age <= self.last_use() => Arc::clone(&state.keys),
            _ => Arc::default(),
        }
    }

    /// Whether the last fetch is too recent for another. A clock that was set back does not delay the next one.
    fn in_cooldown(&self) -> bool {
        let pause = self.cache.min_interval.max(MIN_FETCH_INTERVAL);
        self.state
            .load()
            .attempted
            .is_some_and(|then| (self.clock)().duration_since(then).is_ok_and(|since| since < pause))
    }

    async fn refresh(self: &Arc<Self>) {
        let turn = Arc::clone(&self.fetch_lock).lock_owned().await;
        if self.in_cooldown() {
            return;
        }
        self.update(|state| state.problem = Some(FetchError::Aborted));
        let Ok(runtime) = Handle::try_current() else { return };
        let remote = Arc::clone(self);
        let fetch = runtime.spawn(async move {
            remote.fetch_once().await;
            drop(turn);
        });
        // A fetch that panicked leaves its attempt time and `Aborted` behind.
        let _ = fetch.await;
    }

    async fn fetch_once(&self) {
        let fetched = tokio::time::timeout(self.cache.timeout, self.fetch.fetch(&self.url)).await;
        let keys = fetched
            .unwrap_or(Err(FetchError::TimedOut))
            .and_then(|json| KeySet::parse(&json, &self.algorithms).ok_or(FetchError::NotAKeySet));
        let now = (self.clock)();
        self.report_problem(keys.as_ref().err());
        self.update(|state| match keys {
            Ok(keys) => {
                (state.keys, state.fetched, state.problem) = (Arc::new(keys), Some(now), None);
                state.reported = false;
            }
            Err(problem) => (state.problem, state.reported) = (Some(problem), state.fetched.is_some()),
        });
    }

    /// Reports once that keys cannot be fetched any more, and once that they can again. If there never were any, every token is rejected with that
    /// reason anyway.
    fn report_problem(&self, problem: Option<&FetchError>) {
        let state = self.state.load();
        let url = redact_password(&self.url);
        match (problem, state.reported) {
            (Some(problem), false) if state.fetched.is_some() => {
                let hours = self.cache.max_stale.as_secs_f64() / 3600.0;
                (self.notify)(&format!(
                    "the keys at `{url}` could not be fetched ({problem}); those that were fetched before count for up to {hours} h more"
                ));
            }
            (None, true) => (self.notify)(&format!("the keys at `{url}` were fetched again")),
            _ => {}
        }
    }

    /// Changes the state, and records the time of the attempt.
    fn update(&self, change: impl FnOnce(&mut KeySetState)) {
        let mut state = KeySetState::clone(&self.state.load());
        state.attempted = Some((self.clock)());
        change(&mut state);
        self.state.store(Arc::new(state));
    }
}
