//! Circuit breakers: a tool that keeps failing is not called for a while.
//!
//! Only failures of the tool itself count: a refusal, arguments that do not fit, a cancelled call or a command that rejects its input says nothing about
//! the tool. Failures are counted per caller, and an open circuit stops that caller alone: otherwise one caller could switch a tool off for all others.
//! The tool is stopped for everyone only while the circuits of several callers are open. After the open duration one call tries the tool (half-open);
//! until that call has ended, the others wait.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use toolgate_manifest::BreakerConfig;
use toolgate_types::{ErrorCode, Failure, Outcome};

use crate::gate::Clock;
use crate::rate_limits::with_retry_after;
use crate::tool::ToolSpec;

/// Upper bound of the open duration.
const MAX_OPEN_DURATION: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// How many failures of one caller are kept.
const MAX_FAILURES: usize = 10_000;
/// How many callers with failures are kept for one tool; beyond it, the one that failed longest ago is forgotten.
const MAX_CALLERS: usize = 1024;
/// How many callers must have an open circuit before the tool is stopped for everyone.
const MIN_CALLERS_FOR_ALL: usize = 2;

/// When a circuit opens, and of which tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BreakerRule {
    /// How many failures, within what time, and for how long the circuit stays open.
    pub config: BreakerConfig,
    /// Whether built-in tools have one too. They fail because of single files, so that a model could switch them off.
    pub built_in: bool,
}

impl From<BreakerConfig> for BreakerRule {
    fn from(config: BreakerConfig) -> Self {
        Self { config, built_in: false }
    }
}

impl BreakerRule {
    pub(crate) fn applies(&self, spec: &ToolSpec) -> bool {
        self.built_in || spec.requirements.is_some()
    }

    fn open_duration(&self) -> Duration {
        self.config.open_duration.min(MAX_OPEN_DURATION)
    }

    fn failures(&self) -> usize {
        usize::try_from(self.config.failures.get()).unwrap_or(MAX_FAILURES).min(MAX_FAILURES)
    }
}

/// One circuit: of a caller, or of all of them.
enum Circuit {
    /// Calls pass. The failures within the window, oldest first.
    Closed(VecDeque<Instant>),
    /// Calls are refused; afterwards one call tries the tool.
    Open { until: Instant },
    /// One call is trying the tool since the open duration ended.
    HalfOpen { opened_until: Instant },
}

impl Default for Circuit {
    fn default() -> Self {
        Self::Closed(VecDeque::new())
    }
}

impl Circuit {
    /// Whether a call could pass now; else how long it should wait.
    fn check(&self, rule: &BreakerRule, now: Instant) -> Result<(), Duration> {
        match self {
            Self::Open { until } if now < *until => Err(until.duration_since(now)),
            Self::HalfOpen { .. } => Err(rule.open_duration()),
            Self::Open { .. } | Self::Closed(_) => Ok(()),
        }
    }

    /// Admits a checked call, and returns whether it is the trial call.
    fn enter(&mut self) -> bool {
        let Self::Open { until } = *self else { return false };
        *self = Self::HalfOpen { opened_until: until };
        true
    }

    fn end_trial(&mut self, health: CallHealth, rule: &BreakerRule, now: Instant) {
        let Self::HalfOpen { opened_until } = *self else { return };
        *self = match health {
            CallHealth::Healthy => Self::default(),
            CallHealth::Broken => Self::Open { until: now + rule.open_duration() },
            CallHealth::Unknown => Self::Open { until: opened_until },
        };
    }

    fn note_failure(&mut self, rule: &BreakerRule, now: Instant) {
        // Calls that began before the circuit opened and end afterwards say nothing new.
        let Self::Closed(failures) = self else { return };
        failures.retain(|at| now.saturating_duration_since(*at) < rule.config.within);
        failures.push_back(now);
        if failures.len() >= rule.failures() {
            *self = Self::Open { until: now + rule.open_duration() };
        }
    }

    fn is_open(&self, now: Instant) -> bool {
        matches!(self, Self::Open { until } if now < *until) || matches!(self, Self::HalfOpen { .. })
    }

    /// When it failed last, or until when it is open; none while a trial is under way.
    fn last_event(&self) -> Option<Instant> {
        match self {
            Self::Closed(failures) => failures.back().copied(),
            Self::Open { until } => Some(*until),
            Self::HalfOpen { .. } => None,
        }
    }
}

#[derive(Default)]
struct Circuits {
    for_all: Circuit,
    /// Callers whose calls failed, by subject.
    callers: HashMap<String, Circuit>,
}

impl Circuits {
    fn check(&self, caller: &str, rule: &BreakerRule, now: Instant) -> Result<(), Duration> {
        self.for_all.check(rule, now)?;
        self.callers.get(caller).map_or(Ok(()), |circuit| circuit.check(rule, now))
    }

    /// The caller's circuit, created if missing; evicts the caller whose failure is oldest if there are too many.
    fn of_caller(&mut self, caller: &str) -> &mut Circuit {
        if !self.callers.contains_key(caller) && self.callers.len() >= MAX_CALLERS {
            let known = self.callers.iter().filter_map(|(name, circuit)| Some((circuit.last_event()?, name)));
            if let Some((_, oldest)) = known.min().map(|(at, name)| (at, name.clone())) {
                self.callers.remove(&oldest);
            }
        }
        self.callers.entry(caller.to_owned()).or_default()
    }

    /// Stops the tool for everyone when several callers found it broken.
    fn open_for_all_if_many(&mut self, rule: &BreakerRule, now: Instant) {
        let open = self.callers.values().filter(|circuit| circuit.is_open(now)).count();
        if open >= MIN_CALLERS_FOR_ALL && matches!(self.for_all, Circuit::Closed(_)) {
            self.for_all = Circuit::Open { until: now + rule.open_duration() };
        }
    }
}

/// The circuits of one tool.
#[derive(Default)]
pub(crate) struct Breaker(Mutex<Circuits>);

impl Breaker {
    fn circuits(&self) -> MutexGuard<'_, Circuits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a call of this caller could go on now; else how long it should wait.
    pub(crate) fn check(&self, caller: &str, rule: &BreakerRule, now: Instant) -> Result<(), Duration> {
        self.circuits().check(caller, rule, now)
    }

    /// Admits a call, possibly as the trial call; otherwise returns how long to wait.
    pub(crate) fn enter(
        self: &Arc<Self>,
        caller: &str,
        rule: BreakerRule,
        clock: &Clock,
    ) -> Result<BreakerPermit, Duration> {
        let mut circuits = self.circuits();
        circuits.check(caller, &rule, clock())?;
        let tries_for_all = circuits.for_all.enter();
        let tries_for_caller = circuits.callers.get_mut(caller).is_some_and(Circuit::enter);
        drop(circuits);
        Ok(BreakerPermit {
            breaker: Arc::clone(self),
            caller: caller.to_owned(),
            rule,
            clock: Arc::clone(clock),
            tries_for_all,
            tries_for_caller,
            is_settled: false,
        })
    }
}

/// What the end of a call says about its tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallHealth {
    Healthy,
    Broken,
    Unknown,
}

impl CallHealth {
    /// `exit_codes` is whether a command that ended with a failing exit code counts as broken.
    fn of(outcome: &Outcome, exit_codes: bool) -> Self {
        let code = match outcome {
            Outcome::Done(_) => return Self::Healthy,
            Outcome::Failed { failure, .. } => failure.code,
        };
        match code {
            ErrorCode::Internal
            | ErrorCode::OutputInvalid
            | ErrorCode::Timeout
            | ErrorCode::IoError
            | ErrorCode::CommandNotFound
            | ErrorCode::ResourceLimit => Self::Broken,
            ErrorCode::CommandFailed if exit_codes => Self::Broken,
            // A server that is not up is restarted with backoff, and says so immediately.
            ErrorCode::Cancelled | ErrorCode::Interrupted | ErrorCode::ServerUnavailable => Self::Unknown,
            code if code.is_denial() => Self::Unknown,
            _ => Self::Healthy,
        }
    }
}

/// A call that the breaker admitted.
pub(crate) struct BreakerPermit {
    breaker: Arc<Breaker>,
    caller: String,
    rule: BreakerRule,
    clock: Clock,
    tries_for_all: bool,
    tries_for_caller: bool,
    is_settled: bool,
}

impl BreakerPermit {
    /// Updates the circuits with the outcome; `exit_codes` is [`Tool::exit_codes_break`](crate::Tool::exit_codes_break).
    pub(crate) fn settle(mut self, outcome: &Outcome, exit_codes: bool) {
        self.is_settled = true;
        self.learn(CallHealth::of(outcome, exit_codes));
    }

    fn learn(&self, health: CallHealth) {
        if !self.tries_for_all && !self.tries_for_caller && health != CallHealth::Broken {
            return;
        }
        let (now, mut circuits) = ((self.clock)(), self.breaker.circuits());
        if self.tries_for_all {
            circuits.for_all.end_trial(health, &self.rule, now);
        }
        if self.tries_for_caller {
            circuits.of_caller(&self.caller).end_trial(health, &self.rule, now);
        } else if health == CallHealth::Broken {
            circuits.of_caller(&self.caller).note_failure(&self.rule, now);
        }
        circuits.open_for_all_if_many(&self.rule, now);
    }
}

impl Drop for BreakerPermit {
    fn drop(&mut self) {
        // An abandoned call is no evidence and must not block the next trial; a panic counts as broken.
        if !self.is_settled {
            let is_panic = std::thread::panicking();
            self.learn(if is_panic { CallHealth::Broken } else { CallHealth::Unknown });
        }
    }
}

/// The failure while the circuit is open.
pub(crate) fn circuit_open(tool: &str, rest: Duration) -> Failure {
    let failure =
        Failure::new(ErrorCode::ToolSuspended, format!("`{tool}` kept failing and rests for a while"));
    with_retry_after(failure, rest)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use serde_json::json;
    use toolgate_types::{Stage, ToolOutput};

    use super::*;

    struct Stand {
        breaker: Arc<Breaker>,
        now: Arc<Mutex<Instant>>,
        clock: Clock,
    }

    fn rule() -> BreakerRule {
        let failures = NonZeroU32::new(3).unwrap();
        let (within, rest) = (Duration::from_secs(60), Duration::from_secs(30));
        BreakerConfig { failures, within, open_duration: rest }.into()
    }

    fn failed(code: ErrorCode) -> Outcome {
        Outcome::Failed { stage: Stage::Execution, failure: Failure::new(code, "") }
    }

    fn done() -> Outcome {
        Outcome::Done(ToolOutput::new(String::new(), json!(null)))
    }

    impl Stand {
        fn new() -> Self {
            let now = Arc::new(Mutex::new(Instant::now()));
            let read = Arc::clone(&now);
            Self { breaker: Arc::default(), now, clock: Arc::new(move || *read.lock().unwrap()) }
        }

        fn advance(&self, seconds: u64) {
            *self.now.lock().unwrap() += Duration::from_secs(seconds);
        }

        fn enter(&self) -> Result<BreakerPermit, u64> {
            self.enter_as("alice")
        }

        fn enter_as(&self, caller: &str) -> Result<BreakerPermit, u64> {
            self.breaker.enter(caller, rule(), &self.clock).map_err(|rest| rest.as_secs())
        }

        fn fail(&self) {
            self.fail_as("alice");
        }

        fn fail_as(&self, caller: &str) {
            self.enter_as(caller).ok().unwrap().settle(&failed(ErrorCode::Timeout), false);
        }
    }

    #[test]
    fn rests_after_failures_and_is_tried_by_one() {
        let stand = Stand::new();
        for _ in 0..3 {
            stand.fail();
        }
        assert_eq!(stand.enter().err(), Some(30));
        stand.advance(29);
        assert_eq!(stand.enter().err(), Some(1));
        stand.advance(1);
        let trial = stand.enter().ok().unwrap();
        assert_eq!(stand.enter().err(), Some(30), "two tried at once");
        trial.settle(&failed(ErrorCode::Internal), false);
        assert_eq!(stand.enter().err(), Some(30), "it did not rest again");
        stand.advance(30);
        stand.enter().ok().unwrap().settle(&done(), false);
        // After a success the earlier failures are forgotten.
        stand.fail();
        stand.fail();
        assert!(stand.enter().is_ok());
    }

    #[test]
    fn failures_that_are_long_ago_do_not_count() {
        let stand = Stand::new();
        for _ in 0..20 {
            stand.fail();
            stand.advance(30);
        }
        assert!(stand.enter().is_ok());
    }

    #[test]
    fn only_failures_of_the_tool_count() {
        let counted: Vec<&str> = ErrorCode::ALL
            .iter()
            .filter(|code| CallHealth::of(&failed(**code), false) == CallHealth::Broken)
            .map(|code| code.as_str())
            .collect();
        let expected =
            ["command_not_found", "resource_limit", "io_error", "timeout", "output_invalid", "internal"];
        assert_eq!(counted, expected);
        let stand = Stand::new();
        for code in
            [ErrorCode::CommandFailed, ErrorCode::Cancelled, ErrorCode::NotFound, ErrorCode::DeniedPath]
        {
            for _ in 0..5 {
                stand.enter().ok().unwrap().settle(&failed(code), false);
            }
        }
        assert!(stand.enter().is_ok());
    }

    #[test]
    fn exit_codes_count_where_the_tool_says_so() {
        let stand = Stand::new();
        for _ in 0..3 {
            stand.enter().ok().unwrap().settle(&failed(ErrorCode::CommandFailed), true);
        }
        assert_eq!(stand.enter().err(), Some(30));
    }

    #[test]
    fn a_trial_that_was_given_up_leaves_room_for_the_next() {
        let stand = Stand::new();
        for _ in 0..3 {
            stand.fail();
        }
        stand.advance(30);
        drop(stand.enter().ok().unwrap());
        stand.enter().ok().unwrap().settle(&failed(ErrorCode::Cancelled), false);
        stand.enter().ok().unwrap().settle(&done(), false);
        assert!(stand.enter().is_ok() && stand.enter().is_ok());
    }

    #[test]
    fn a_tool_that_panics_is_broken() {
        let stand = Stand::new();
        for _ in 0..3 {
            let entered = stand.enter().ok().unwrap();
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
                let _entered = entered;
                panic!("this tool has a defect");
            }));
            assert!(panicked.is_err());
        }
        assert_eq!(stand.enter().err(), Some(30));
    }

    #[test]
    fn calls_that_end_after_the_rest_began_do_not_prolong_it() {
        let stand = Stand::new();
        let late = [stand.enter(), stand.enter()];
        for _ in 0..3 {
            stand.fail();
        }
        stand.advance(20);
        for entered in late {
            entered.ok().unwrap().settle(&failed(ErrorCode::Timeout), false);
        }
        assert_eq!(stand.enter().err(), Some(10));
    }

    #[test]
    fn one_caller_does_not_switch_a_tool_off_for_others() {
        let stand = Stand::new();
        for _ in 0..3 {
            stand.fail_as("mallory");
        }
        assert_eq!(stand.enter_as("mallory").err(), Some(30));
        for _ in 0..50 {
            stand.enter_as("alice").ok().unwrap().settle(&done(), false);
            // Below its own threshold, whatever the other callers did.
            assert_eq!(stand.breaker.check("bob", &rule(), (stand.clock)()), Ok(()));
        }
        stand.fail_as("alice");
        assert!(stand.enter_as("bob").is_ok(), "failures of several callers were added up");
    }

    #[test]
    fn a_tool_that_fails_for_several_callers_is_stopped_for_all() {
        let stand = Stand::new();
        for caller in ["alice", "bob"] {
            for _ in 0..3 {
                stand.fail_as(caller);
            }
        }
        assert_eq!(stand.enter_as("carol").err(), Some(30));
        stand.advance(30);
        let trial = stand.enter_as("carol").ok().unwrap();
        assert_eq!(stand.enter_as("dave").err(), Some(30), "two tried at once");
        trial.settle(&failed(ErrorCode::IoError), false);
        assert_eq!(stand.enter_as("dave").err(), Some(30), "it was not stopped again");
        stand.advance(30);
        stand.enter_as("dave").ok().unwrap().settle(&done(), false);
        for caller in ["alice", "bob", "carol", "erin"] {
            stand.enter_as(caller).ok().unwrap().settle(&done(), false);
        }
    }

    #[test]
    fn callers_that_failed_are_kept_up_to_a_bound() {
        let stand = Stand::new();
        for number in 0..MAX_CALLERS + 10 {
            stand.fail_as(&format!("caller-{number}"));
            stand.advance(1);
        }
        let circuits = stand.breaker.circuits();
        assert_eq!(circuits.callers.len(), MAX_CALLERS);
        assert!(!circuits.callers.contains_key("caller-0"), "the newest was forgotten instead of the oldest");
    }
}
