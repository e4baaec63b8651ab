//! A tool that keeps failing rests for a while.
//!
//! Only failures of the tool itself count: a refusal, arguments that do not fit, a cancelled call or a command that says no to its input is not a broken
//! tool. After its rest a tool is tried with one call; until that has ended, the others wait.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use toolgate_manifest::BreakerConfig;
use toolgate_types::{ErrorCode, Failure, Outcome};

use crate::gate::Clock;
use crate::rates::wait;
use crate::tool::ToolSpec;

/// No rest is longer.
const LONGEST_REST: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// No more failures are remembered.
const MOST_FAILURES: usize = 10_000;

/// When a tool rests, and which tools do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BreakerRule {
    /// How many failures, within what time, and how long the rest.
    pub config: BreakerConfig,
    /// Whether built-in tools rest too. They fail because of single files, so that a model could put them to rest for everyone.
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

    fn rest(&self) -> Duration {
        self.config.rest.min(LONGEST_REST)
    }

    fn failures(&self) -> usize {
        usize::try_from(self.config.failures.get()).unwrap_or(MOST_FAILURES).min(MOST_FAILURES)
    }
}

/// What is known about the health of one tool.
#[derive(Default)]
pub(crate) struct Breaker(Mutex<Health>);

enum Health {
    /// It works, but for these failures, oldest first.
    Working(VecDeque<Instant>),
    /// It rests; after that, one call may try it.
    Resting { until: Instant },
    /// One call is trying it since its rest ended.
    Tried { rested_until: Instant },
}

impl Default for Health {
    fn default() -> Self {
        Self::Working(VecDeque::new())
    }
}

impl Breaker {
    fn health(&self) -> MutexGuard<'_, Health> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a call could go on now; else how long it should wait.
    pub(crate) fn look(&self, rule: &BreakerRule, now: Instant) -> Result<(), Duration> {
        match &*self.health() {
            Health::Resting { until } if now < *until => Err(until.duration_since(now)),
            Health::Tried { .. } => Err(rule.rest()),
            Health::Resting { .. } | Health::Working(_) => Ok(()),
        }
    }

    /// Lets a call go on, perhaps as the one that tries; else says how long it should wait.
    pub(crate) fn enter(self: &Arc<Self>, rule: BreakerRule, clock: &Clock) -> Result<Entered, Duration> {
        self.look(&rule, clock())?;
        let mut health = self.health();
        let is_trial = match &*health {
            Health::Working(_) => false,
            Health::Resting { until } => {
                let rested_until = *until;
                *health = Health::Tried { rested_until };
                true
            }
            // Somebody else was faster.
            Health::Tried { .. } => return Err(rule.rest()),
        };
        drop(health);
        Ok(Entered { breaker: Arc::clone(self), rule, clock: Arc::clone(clock), is_trial, is_settled: false })
    }

    fn end_trial(&self, sign: Sign, rule: &BreakerRule, now: Instant) {
        let mut health = self.health();
        let Health::Tried { rested_until } = &*health else { return };
        *health = match sign {
            Sign::Well => Health::default(),
            Sign::Broken => Health::Resting { until: now + rule.rest() },
            Sign::Nothing => Health::Resting { until: *rested_until },
        };
    }

    fn note_failure(&self, rule: &BreakerRule, now: Instant) {
        let mut health = self.health();
        // Calls that began before the rest and end in it say nothing new.
        let Health::Working(failures) = &mut *health else { return };
        failures.retain(|at| now.saturating_duration_since(*at) < rule.config.within);
        failures.push_back(now);
        if failures.len() >= rule.failures() {
            *health = Health::Resting { until: now + rule.rest() };
        }
    }
}

/// What the end of a call says about its tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Well,
    Broken,
    Nothing,
}

impl Sign {
    fn of(outcome: &Outcome) -> Self {
        let code = match outcome {
            Outcome::Done(_) => return Self::Well,
            Outcome::Failed { failure, .. } => failure.code,
        };
        match code {
            ErrorCode::Internal
            | ErrorCode::OutputInvalid
            | ErrorCode::Timeout
            | ErrorCode::IoError
            | ErrorCode::CommandNotFound
            | ErrorCode::ResourceLimit => Self::Broken,
            ErrorCode::Cancelled | ErrorCode::Interrupted => Self::Nothing,
            code if code.is_denial() => Self::Nothing,
            _ => Self::Well,
        }
    }
}

/// A call that its tool's breaker let go on.
pub(crate) struct Entered {
    breaker: Arc<Breaker>,
    rule: BreakerRule,
    clock: Clock,
    is_trial: bool,
    is_settled: bool,
}

impl Entered {
    /// Learns from how the call ended.
    pub(crate) fn settle(mut self, outcome: &Outcome) {
        self.is_settled = true;
        self.learn(Sign::of(outcome));
    }

    fn learn(&self, sign: Sign) {
        let now = (self.clock)();
        if self.is_trial {
            self.breaker.end_trial(sign, &self.rule, now);
        } else if sign == Sign::Broken {
            self.breaker.note_failure(&self.rule, now);
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        // A call that was given up says nothing, and must not keep others from trying; one whose tool panicked says enough.
        if !self.is_settled {
            self.learn(if std::thread::panicking() { Sign::Broken } else { Sign::Nothing });
        }
    }
}

/// What the model is told of a tool that rests.
pub(crate) fn suspended(tool: &str, rest: Duration) -> Failure {
    let failure =
        Failure::new(ErrorCode::ToolSuspended, format!("`{tool}` kept failing and rests for a while"));
    wait(failure, rest)
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
        BreakerConfig { failures, within, rest }.into()
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

        fn enter(&self) -> Result<Entered, u64> {
            self.breaker.enter(rule(), &self.clock).map_err(|rest| rest.as_secs())
        }

        fn fail(&self) {
            self.enter().ok().unwrap().settle(&failed(ErrorCode::Timeout));
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
        trial.settle(&failed(ErrorCode::Internal));
        assert_eq!(stand.enter().err(), Some(30), "it did not rest again");
        stand.advance(30);
        stand.enter().ok().unwrap().settle(&done());
        // It works again, and what was before is forgotten.
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
            .filter(|code| Sign::of(&failed(**code)) == Sign::Broken)
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
                stand.enter().ok().unwrap().settle(&failed(code));
            }
        }
        assert!(stand.enter().is_ok());
    }

    #[test]
    fn a_trial_that_was_given_up_leaves_room_for_the_next() {
        let stand = Stand::new();
        for _ in 0..3 {
            stand.fail();
        }
        stand.advance(30);
        drop(stand.enter().ok().unwrap());
        stand.enter().ok().unwrap().settle(&failed(ErrorCode::Cancelled));
        stand.enter().ok().unwrap().settle(&done());
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
            entered.ok().unwrap().settle(&failed(ErrorCode::Timeout));
        }
        assert_eq!(stand.enter().err(), Some(10));
    }
}
