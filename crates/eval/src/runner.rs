//! Plays cases, several concurrently.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use thiserror::Error;

use crate::case::{Case, CaseCommands, Player};
use crate::checks::{CheckResult, judge};
use crate::evidence::{Evidence, EvidencedCall, NOT_STARTED};
use crate::hostile::{self, HostileSequence, PlayOptions, Tap, UnconfinedCommands};
use crate::playground::Playground;
use crate::{conversation_try, http_try, kept_record, process};

/// The deadline of a call in a sequence. It is far above what a loop of a case takes on a busy machine.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

/// How cases are played.
#[derive(Clone, Debug)]
pub struct EvalOptions {
    /// The binary that is judged.
    pub binary: PathBuf,
    /// A model such as `ollama/qwen3`; the case's own script by default.
    pub model: Option<String>,
    /// How often each case is played.
    pub tries: usize,
    /// How many cases are played concurrently.
    pub jobs: usize,
    /// How long one conversation may take.
    pub timeout: Duration,
    /// Where a copy of each case's record is kept.
    pub records: Option<PathBuf>,
    /// A hole between the calls of a sequence and the gate, to show that it is found.
    pub tap: Option<Arc<dyn Tap>>,
}

/// Why nothing could be played.
#[derive(Debug, Error)]
pub enum EvalError {
    /// Processes that a case leaves could not be found.
    #[error("orphaned processes cannot be adopted: {0}")]
    Subreaper(std::io::Error),
    /// No target has this name.
    #[error("no target is named `{0}`")]
    UnknownTarget(String),
}

/// One try of a case.
#[derive(Clone, Debug)]
pub struct TryResult {
    /// Who made the calls.
    pub player: Player,
    /// Every check, in order.
    pub checks: Vec<CheckResult>,
    /// The records of the gate.
    pub records: Vec<Value>,
    /// What was called, with what, and what came of it.
    pub calls: Vec<(String, Value, bool)>,
    /// The final answer.
    pub answer: String,
    /// How long it took.
    pub took: Duration,
    /// Why it could not be played at all.
    pub broken: Option<String>,
}

impl TryResult {
    fn broken(player: Player, why: String, took: Duration) -> Self {
        Self {
            player,
            checks: Vec::new(),
            records: Vec::new(),
            calls: Vec::new(),
            answer: String::new(),
            took,
            broken: Some(why),
        }
    }

    /// Whether every check holds.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.broken.is_none() && self.checks.iter().all(|check| check.problem.is_none())
    }

    /// What does not hold.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let failed = |check: &CheckResult| Some(format!("{}: {}", check.check, check.problem.as_ref()?));
        self.broken.iter().cloned().chain(self.checks.iter().filter_map(failed)).collect()
    }
}

/// A case with its tries.
#[derive(Clone, Debug)]
pub struct CaseResult {
    /// The case.
    pub case: Case,
    /// Its tries, in order.
    pub tries: Vec<TryResult>,
}

impl CaseResult {
    /// A case passes if every try does: a boundary that holds most of the time is none.
    #[must_use]
    pub fn passed(&self) -> bool {
        !self.tries.is_empty() && self.tries.iter().all(TryResult::passed)
    }
}

/// Plays every case, and reports each as it ends.
///
/// # Errors
/// If the machine cannot be watched.
pub fn run(
    cases: &[Case],
    options: &EvalOptions,
    progress: &(dyn Fn(&CaseResult) + Sync),
) -> Result<Vec<CaseResult>, EvalError> {
    process::adopt_orphans().map_err(EvalError::Subreaper)?;
    let waiting: Mutex<VecDeque<usize>> = Mutex::new((0..cases.len()).collect());
    let ended: Mutex<Vec<(usize, CaseResult)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some((index, case)) = next.and_then(|index| Some((index, cases.get(index)?))) else {
                        return;
                    };
                    let tries = (0..options.tries.max(1)).map(|number| play(case, number, options)).collect();
                    let result = CaseResult { case: case.clone(), tries };
                    progress(&result);
                    ended.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
                }
            });
        }
    });
    let mut ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    ended.sort_by_key(|(index, _)| *index);
    let mut results: Vec<CaseResult> = ended.into_iter().map(|(_, result)| result).collect();
    // Cases run concurrently, so an orphan has no known case, and every case is charged.
    let orphans = process::orphans();
    let problem = (!orphans.is_empty()).then(|| format!("still running: {}", orphans.join(", ")));
    for one in results.iter_mut().flat_map(|result| result.tries.iter_mut()) {
        one.checks.push(CheckResult { check: "no process was left", problem: problem.clone() });
    }
    Ok(results)
}

/// Where the record of one try is kept.
fn kept(case: &Case, number: usize, options: &EvalOptions) -> Option<PathBuf> {
    let name = if number == 0 { case.name.clone() } else { format!("{}-{}", case.name, number + 1) };
    Some(options.records.as_ref()?.join(name))
}

fn play(case: &Case, number: usize, options: &EvalOptions) -> TryResult {
    let begun = Instant::now();
    if let Some(sequence) = &case.sequence {
        return play_sequence(case, sequence, kept(case, number, options), options);
    }
    let player = case.player(options.model.is_some());
    match gather(case, kept(case, number, options), options) {
        Ok(evidence) => TryResult {
            player,
            checks: judge(case, player, &evidence),
            calls: evidence
                .calls
                .into_iter()
                .map(|EvidencedCall { tool, input, succeeded, .. }| (tool, input, succeeded))
                .collect(),
            records: evidence.records,
            answer: evidence.answer,
            took: begun.elapsed(),
            broken: None,
        },
        Err(broken) => TryResult::broken(player, broken, begun.elapsed()),
    }
}

/// Plays the calls of a case as they are, and judges what they leave.
fn play_sequence(
    case: &Case,
    sequence: &HostileSequence,
    records: Option<PathBuf>,
    options: &EvalOptions,
) -> TryResult {
    let begun = Instant::now();
    let played = hostile::target(&sequence.target)
        .ok_or_else(|| format!("`{}` is no target", sequence.target))
        .and_then(|target| {
            let options = PlayOptions {
                binary: options.binary.clone(),
                tap: options.tap.clone().or(match case.gate.commands {
                    Some(CaseCommands::Host) => Some(Arc::new(UnconfinedCommands)),
                    None => None,
                }),
                call_timeout: CALL_TIMEOUT,
                records,
            };
            hostile::replay(&target.set_up(&case.gate), &sequence.steps, &options)
        });
    match played {
        Err(broken) => TryResult::broken(Player::Sequence, broken, begun.elapsed()),
        Ok(played) => TryResult {
            player: Player::Sequence,
            checks: hostile::CHECKS
                .iter()
                .map(|check| {
                    let problem = played.escapes.iter().find(|escape| escape.check == *check);
                    CheckResult { check, problem: problem.map(|escape| escape.problem.clone()) }
                })
                .collect(),
            calls: played
                .played
                .into_iter()
                .map(|played| (played.call.tool, played.call.arguments, played.succeeded))
                .collect(),
            records: played.records,
            answer: String::new(),
            took: begun.elapsed(),
            broken: None,
        },
    }
}

fn gather(case: &Case, records: Option<PathBuf>, options: &EvalOptions) -> Result<Evidence, String> {
    let place = Playground::lay_out(case).map_err(|error| format!("the case cannot be laid out: {error}"))?;
    let mut evidence = match &case.gate.token {
        Some(caller) => http_try::play(&options.binary, case, &place, caller, options.timeout)?,
        None => {
            conversation_try::play(&options.binary, case, &place, options.model.as_deref(), options.timeout)?
        }
    };
    // Without a gate there is no record either.
    if evidence.reason != NOT_STARTED {
        conversation_try::read_record(&options.binary, case, &place, &mut evidence)?;
    }
    if let Some(directory) = records.filter(|_| !evidence.records.is_empty()) {
        kept_record::copy(&place.path("state"), &directory)
            .map_err(|error| format!("the record cannot be kept: {error}"))?;
    }
    let unread = |error: std::io::Error| format!("the files of the case cannot be read: {error}");
    evidence.changed = place.changed_in_workspace().map_err(unread)?;
    evidence.changed_outside = place.changed_outside().map_err(unread)?;
    evidence.connections = place.canary.seen();
    evidence.secret.clone_from(&place.secret);
    Ok(evidence)
}
