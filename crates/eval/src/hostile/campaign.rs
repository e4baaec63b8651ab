//! A run: many sequences against every target, and what becomes of one that fails.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::grammar::generate;
use super::play::{AttackedGate, Escape, PlayOptions};
use super::sequence::{HostileSequence, HostileStep};
use super::shrink::shrink;
use super::tap::Tap;
use super::target::{HostileTarget, targets};
use crate::process;
use crate::runner::EvalError;

/// How many sequences one gate serves before another one takes its place.
const SEQUENCES_PER_GATE: u64 = 40;

/// How often a failure that depends on timing is tried again before it counts as gone.
const TRIES: usize = 3;

/// The deadline of a generated call. Lines that wait for ever are many, so it is short.
const CALL_TIMEOUT: Duration = Duration::from_millis(1500);

/// The same for the few calls that are played again: what a busy machine does not do in time looks like something that the failure does not need.
const REPLAY_TIMEOUT: Duration = Duration::from_secs(6);

/// How a run is made.
#[derive(Clone)]
pub struct HostileOptions {
    /// The binary under test.
    pub binary: PathBuf,
    /// How many calls are made at least.
    pub calls: usize,
    /// How many sequences are played at least.
    pub sequences: usize,
    /// What the sequences are generated from.
    pub seed: u64,
    /// Names of targets; all if there are none.
    pub targets: Vec<String>,
    /// How many gates are attacked concurrently.
    pub jobs: usize,
    /// After so many failures the run ends.
    pub max_failures: usize,
    /// How often parts of a sequence that fails are played to make it small.
    pub max_plays: usize,
    /// A hole, to show that it is found.
    pub tap: Option<Arc<dyn Tap>>,
    /// `toolgate.yaml` in place of that of the targets, to show that a layer matters.
    pub config: Option<String>,
}

/// What a run found.
#[derive(Debug, Default)]
pub struct HostileReport {
    /// What the sequences were generated from.
    pub seed: u64,
    /// Calls that were made, without those of making failures smaller.
    pub calls: usize,
    /// Sequences that were played.
    pub sequences: usize,
    /// Calls and sequences of each target.
    pub by_target: BTreeMap<&'static str, (usize, usize)>,
    /// Calls that did what they were for.
    pub succeeded: usize,
    /// How long it took.
    pub took: Duration,
    /// What must not happen, and did.
    pub failures: Vec<HostileFailure>,
    /// Gates that could not be attacked.
    pub broken: Vec<String>,
}

/// A sequence that breaks what must hold.
#[derive(Clone, Debug)]
pub struct HostileFailure {
    /// The sequence, as small as it was found.
    pub sequence: HostileSequence,
    /// What it breaks.
    pub escape: Escape,
    /// The number of the sequence that was generated.
    pub number: u64,
    /// Whether the small one failed again on a ground of its own.
    pub reproduced: bool,
    /// `toolgate.yaml` of the run.
    pub config: Option<String>,
}

impl HostileFailure {
    /// The case that `toolgate eval` plays: its name, and its text.
    #[must_use]
    pub fn to_case(&self, seed: u64) -> (String, String) {
        let name = format!("hostile_{seed}_{}", self.number);
        let about =
            format!("{}: {}", self.escape.check, self.escape.problem.chars().take(300).collect::<String>());
        let text = self.sequence.to_case(&name, &about, self.config.as_deref());
        (name, text)
    }
}

impl HostileReport {
    /// Whether nothing was found, and everything was attacked.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.failures.is_empty() && self.broken.is_empty() && self.sequences > 0
    }
}

/// Sequences of one target, by number.
struct Batch {
    target: HostileTarget,
    first: u64,
}

struct Campaign<'o> {
    options: &'o HostileOptions,
    plan: Vec<HostileTarget>,
    next: AtomicUsize,
    /// Failures, also those that are still made small.
    failing: AtomicUsize,
    over: AtomicBool,
    report: Mutex<HostileReport>,
}

/// When a failure shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FoundWhen {
    /// When a sequence is over.
    Played,
    /// When the gate has ended.
    Closed,
}

/// Attacks every target until enough calls were made.
///
/// # Errors
/// If the machine cannot be watched, or a target has an unknown name.
pub fn attack(
    options: &HostileOptions,
    progress: &(dyn Fn(&HostileReport) + Sync),
) -> Result<HostileReport, EvalError> {
    process::adopt_orphans().map_err(EvalError::Subreaper)?;
    let begun = Instant::now();
    let campaign = Campaign {
        options,
        plan: plan(options)?,
        next: AtomicUsize::new(0),
        failing: AtomicUsize::new(0),
        over: AtomicBool::new(false),
        report: Mutex::new(HostileReport { seed: options.seed, ..HostileReport::default() }),
    };
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                while let Some(batch) = campaign.batch() {
                    campaign.play(&batch);
                    progress(&campaign.report());
                }
            });
        }
    });
    let mut report = campaign.report.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.took = begun.elapsed();
    let orphans = process::orphans();
    if !orphans.is_empty() {
        report.broken.push(format!("processes outlived their gates: {}", orphans.join(", ")));
    }
    Ok(report)
}

/// Targets in the order in which they get a batch: each as often as its share says, evenly spread.
fn plan(options: &HostileOptions) -> Result<Vec<HostileTarget>, EvalError> {
    let known = targets();
    if let Some(name) = options.targets.iter().find(|name| !known.iter().any(|target| target.name == **name))
    {
        return Err(EvalError::UnknownTarget(name.clone()));
    }
    let is_chosen = |target: &&HostileTarget| {
        options.targets.is_empty() || options.targets.iter().any(|name| name == target.name)
    };
    let mut due: Vec<(usize, HostileTarget)> = Vec::new();
    for target in known.iter().filter(is_chosen) {
        let mut target = target.clone();
        target.config = options.config.clone().or(target.config);
        due.extend((0..target.share).map(|turn| ((2 * turn + 1) * 1000 / target.share, target.clone())));
    }
    due.sort_by_key(|(turn, _)| *turn);
    Ok(due.into_iter().map(|(_, target)| target).collect())
}

impl Campaign<'_> {
    fn report(&self) -> std::sync::MutexGuard<'_, HostileReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether enough was played, or found.
    fn is_over(&self) -> bool {
        let report = self.report();
        self.over.load(Ordering::SeqCst)
            || (report.calls >= self.options.calls && report.sequences >= self.options.sequences)
    }

    /// The next batch, unless enough was played.
    fn batch(&self) -> Option<Batch> {
        if self.is_over() {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        let target = self.plan.get(number % self.plan.len().max(1))?.clone();
        Some(Batch { target, first: u64::try_from(number).unwrap_or_default() * SEQUENCES_PER_GATE })
    }

    fn play(&self, batch: &Batch) {
        if let Err(problem) = self.try_play(batch) {
            let mut report = self.report();
            report.broken.push(format!("{} from sequence {}: {problem}", batch.target.name, batch.first));
            self.over.store(report.broken.len() > 3, Ordering::SeqCst);
        }
    }

    fn try_play(&self, batch: &Batch) -> Result<(), String> {
        let options = PlayOptions {
            binary: self.options.binary.clone(),
            tap: self.options.tap.clone(),
            call_timeout: CALL_TIMEOUT,
            records: None,
        };
        let mut gate = AttackedGate::open(&batch.target, &options)?;
        let mut played: Vec<HostileStep> = Vec::new();
        for number in batch.first..batch.first + SEQUENCES_PER_GATE {
            if self.is_over() {
                break;
            }
            let steps = generate(&gate.tools, self.options.seed, number);
            let state = gate.play(&steps).map_err(|problem| format!("sequence {number}: {problem}"))?;
            self.count(&batch.target, &state.played);
            played.extend(steps.iter().cloned());
            if let Some(escape) = state.escapes.into_iter().next() {
                self.failed(batch, number, &[steps, played], (escape, FoundWhen::Played), &options);
                return Ok(());
            }
        }
        let (escapes, _) = gate.close()?;
        if let Some(escape) = escapes.into_iter().next() {
            self.failed(batch, batch.first, &[played], (escape, FoundWhen::Closed), &options);
        }
        Ok(())
    }

    fn count(&self, target: &HostileTarget, played: &[super::play::PlayedCall]) {
        let mut report = self.report();
        report.calls += played.len();
        report.sequences += 1;
        report.succeeded += played.iter().filter(|call| call.succeeded).count();
        let of = report.by_target.entry(target.name).or_default();
        *of = (of.0 + played.len(), of.1 + 1);
    }

    /// Makes the first candidate that fails again as small as it gets.
    fn failed(
        &self,
        batch: &Batch,
        number: u64,
        candidates: &[Vec<HostileStep>],
        (escape, when): (Escape, FoundWhen),
        options: &PlayOptions,
    ) {
        // No other is looked for while this one is made small, if it is the last.
        if self.failing.fetch_add(1, Ordering::SeqCst) + 1 >= self.options.max_failures {
            self.over.store(true, Ordering::SeqCst);
        }
        let options = PlayOptions { call_timeout: REPLAY_TIMEOUT, ..options.clone() };
        let again = |steps: &[HostileStep]| replays(&batch.target, steps, (escape.check, when), &options);
        let failing = candidates.iter().find(|steps| (0..TRIES).any(|_| again(steps)));
        let (steps, reproduced) = match failing {
            Some(steps) => (shrink(steps.clone(), self.options.max_plays, again).0, true),
            None => (candidates.first().cloned().unwrap_or_default(), false),
        };
        let sequence = HostileSequence { target: batch.target.name.to_owned(), steps };
        let config = self.options.config.clone();
        self.report().failures.push(HostileFailure { sequence, escape, number, reproduced, config });
    }
}

/// Whether these steps break the same on a ground of their own.
fn replays(
    target: &HostileTarget,
    steps: &[HostileStep],
    (check, when): (&str, FoundWhen),
    options: &PlayOptions,
) -> bool {
    let play = || -> Result<bool, String> {
        let mut gate = AttackedGate::open(target, options)?;
        let mut escapes = gate.play(steps)?.escapes;
        if when == FoundWhen::Closed {
            escapes.extend(gate.close()?.0);
        }
        Ok(escapes.iter().any(|escape| escape.check == check))
    };
    play().unwrap_or(false)
}

/// The most that is asked of a sequence: one row for the report of a case.
pub(crate) struct Replay {
    pub(crate) escapes: Vec<Escape>,
    pub(crate) played: Vec<super::play::PlayedCall>,
    pub(crate) records: Vec<serde_json::Value>,
}

/// Plays a sequence on a ground of its own.
pub(crate) fn replay(
    target: &HostileTarget,
    steps: &[HostileStep],
    options: &PlayOptions,
) -> Result<Replay, String> {
    let mut gate = AttackedGate::open(target, options)?;
    let state = gate.play(steps)?;
    let (mut escapes, played) = (state.escapes, state.played);
    let (at_the_end, records) = gate.close()?;
    escapes.extend(at_the_end);
    Ok(Replay { escapes, played, records })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_gets_its_share_early_and_unknown_names_are_refused() {
        let mut options = HostileOptions {
            binary: PathBuf::new(),
            calls: 1,
            sequences: 0,
            seed: 1,
            targets: Vec::new(),
            jobs: 1,
            max_failures: 1,
            max_plays: 1,
            tap: None,
            config: None,
        };
        let all = plan(&options).unwrap();
        let of =
            |name: &str, plan: &[HostileTarget]| plan.iter().filter(|target| target.name == name).count();
        for target in targets() {
            assert_eq!(of(target.name, &all), target.share);
            assert!(of(target.name, &all[..30.min(all.len())]) > 0, "{}", target.name);
        }
        options.targets = vec!["claw".to_owned()];
        assert!(plan(&options).unwrap().iter().all(|target| target.name == "claw"));
        options.targets = vec!["clew".to_owned()];
        assert!(plan(&options).is_err());
    }
}
