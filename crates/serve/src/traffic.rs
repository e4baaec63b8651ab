//! What calls do to this process, for its operators: by second, by caller, by tool and by reason, in bounded memory.
//!
//! Unlike the [metrics](crate::metrics), it names callers and tools. Only who may see the records of all callers is shown it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use toolgate_gate::EndedCall;
use toolgate_types::{AgentName, Decision, ErrorCode, Stage};

/// How many seconds have a count of their own.
pub(crate) const SECONDS: usize = 60;
/// Of how many calls of a tool the durations are kept.
const MAX_DURATIONS: usize = 128;
/// The most callers and tools. Beyond them the one that was silent for longest is forgotten.
const MAX_CALLERS: usize = 512;
const MAX_TOOLS: usize = 1024;

/// The calls of a process.
pub(crate) struct Traffic {
    started: Instant,
    state: Mutex<TrafficState>,
}

#[derive(Default)]
struct TrafficState {
    calls: SecondCounts,
    refused: SecondCounts,
    failed: SecondCounts,
    callers: HashMap<CallerName, CallerCounts>,
    tools: HashMap<String, ToolCounts>,
    reasons: BTreeMap<(&'static str, &'static str), Counter>,
}

/// A caller, as records name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallerName {
    /// The authenticated subject.
    pub subject: String,
    /// The agent on whose behalf it calls.
    pub agent: Option<AgentName>,
}

/// How calls ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallTotals {
    /// All of them.
    pub calls: u64,
    /// Denied ones.
    pub refused: u64,
    /// Failed ones.
    pub failed: u64,
    /// Those of the last minute.
    pub last_minute: u64,
}

/// The calls of one caller.
#[derive(Clone, Debug)]
pub struct CallerTraffic {
    /// The caller.
    pub caller: CallerName,
    /// Its calls.
    pub totals: CallTotals,
    /// When the last one ended.
    pub last_at: SystemTime,
}

/// The calls of one tool.
#[derive(Clone, Debug)]
pub struct ToolTraffic {
    /// The tool.
    pub tool: String,
    /// Its calls.
    pub totals: CallTotals,
    /// When the last one ended.
    pub last_at: SystemTime,
    /// How long half and how long 95 % of the last calls that ran took at most, and the longest of them.
    pub median: Duration,
    /// See `median`.
    pub p95: Duration,
    /// See `median`.
    pub longest: Duration,
    /// The code of the last failure, and when.
    pub last_failure: Option<(&'static str, SystemTime)>,
}

/// Refusals and failures for one reason.
#[derive(Clone, Copy, Debug)]
pub struct ReasonTraffic {
    /// The stage.
    pub stage: &'static str,
    /// The code.
    pub code: &'static str,
    /// How many, since the start.
    pub count: u64,
    /// How many in the last minute.
    pub last_minute: u64,
}

/// A view of the traffic.
#[derive(Clone, Debug)]
pub struct TrafficSnapshot {
    /// Calls that ended in each of the last seconds, the oldest first.
    pub calls_per_second: Vec<u32>,
    /// Of these, denied ones.
    pub refused_per_second: Vec<u32>,
    /// Of these, failed ones.
    pub failed_per_second: Vec<u32>,
    /// By caller, the busiest of the last minute first.
    pub callers: Vec<CallerTraffic>,
    /// By tool, the busiest of the last minute first.
    pub tools: Vec<ToolTraffic>,
    /// By reason, the most frequent first.
    pub reasons: Vec<ReasonTraffic>,
}

impl Default for Traffic {
    fn default() -> Self {
        Self { started: Instant::now(), state: Mutex::default() }
    }
}

impl Traffic {
    /// Counts a call that ended.
    pub(crate) fn count(&self, call: &EndedCall<'_>) {
        self.count_at(call, self.started.elapsed().as_secs(), SystemTime::now());
    }

    fn count_at(&self, call: &EndedCall<'_>, second: u64, at: SystemTime) {
        let mut state = self.lock();
        state.calls.add(second);
        match call.decision {
            Decision::Allowed => {}
            Decision::Denied => state.refused.add(second),
            Decision::Error => state.failed.add(second),
        }
        if let Some((stage, code)) = call.failed {
            state.reasons.entry((stage.as_str(), code.as_str())).or_default().add(second);
        }
        let name = CallerName { subject: call.caller.subject.clone(), agent: call.caller.agent.clone() };
        make_room(&mut state.callers, &name, MAX_CALLERS, |caller| caller.counts.last_at);
        state.callers.entry(name).or_default().counts.add(call.decision, second, at);
        let Some(tool) = call.tool else { return };
        if !state.tools.contains_key(tool) {
            make_room(&mut state.tools, &tool.to_owned(), MAX_TOOLS, |tool| tool.counts.last_at);
            state.tools.insert(tool.to_owned(), ToolCounts::default());
        }
        if let Some(counts) = state.tools.get_mut(tool) {
            counts.add(call, second, at);
        }
    }

    /// What was counted.
    pub(crate) fn snapshot(&self) -> TrafficSnapshot {
        self.snapshot_at(self.started.elapsed().as_secs())
    }

    fn snapshot_at(&self, second: u64) -> TrafficSnapshot {
        let state = self.lock();
        let caller = |(name, caller): (&CallerName, &CallerCounts)| CallerTraffic {
            caller: name.clone(),
            totals: caller.counts.totals(second),
            last_at: caller.counts.at(),
        };
        let mut callers: Vec<CallerTraffic> = state.callers.iter().map(caller).collect();
        let mut tools: Vec<ToolTraffic> =
            state.tools.iter().map(|(name, tool)| tool.traffic(name, second)).collect();
        let reason = |(&(stage, code), counter): (&(&'static str, &'static str), &Counter)| ReasonTraffic {
            stage,
            code,
            count: counter.total,
            last_minute: counter.recent.sum(second),
        };
        let mut reasons: Vec<ReasonTraffic> = state.reasons.iter().map(reason).collect();
        let (calls_per_second, refused_per_second, failed_per_second) =
            (state.calls.row(second), state.refused.row(second), state.failed.row(second));
        drop(state);
        callers.sort_by(|one, other| {
            busier(&one.totals, &other.totals).then(one.caller.cmp_names(&other.caller))
        });
        tools.sort_by(|one, other| busier(&one.totals, &other.totals).then(one.tool.cmp(&other.tool)));
        reasons.sort_by_key(|reason| std::cmp::Reverse((reason.last_minute, reason.count)));
        TrafficSnapshot { calls_per_second, refused_per_second, failed_per_second, callers, tools, reasons }
    }

    fn lock(&self) -> MutexGuard<'_, TrafficState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn busier(one: &CallTotals, other: &CallTotals) -> std::cmp::Ordering {
    (other.last_minute, other.calls).cmp(&(one.last_minute, one.calls))
}

impl CallerName {
    fn cmp_names(&self, other: &Self) -> std::cmp::Ordering {
        let agent = |name: &Self| name.agent.as_ref().map(ToString::to_string);
        (&self.subject, agent(self)).cmp(&(&other.subject, agent(other)))
    }
}

/// Removes the entry that was silent for longest, if there are too many and none of this name.
fn make_room<Name: Clone + Eq + std::hash::Hash, Counts>(
    all: &mut HashMap<Name, Counts>,
    name: &Name,
    most: usize,
    last_at: impl Fn(&Counts) -> Option<SystemTime>,
) {
    if all.len() < most || all.contains_key(name) {
        return;
    }
    let oldest = all.iter().min_by_key(|(_, counts)| last_at(counts)).map(|(name, _)| name.clone());
    if let Some(oldest) = oldest {
        all.remove(&oldest);
    }
}

/// Counts of the last seconds.
struct SecondCounts {
    slots: [u32; SECONDS],
    /// The second of the newest slot.
    newest: u64,
}

impl Default for SecondCounts {
    fn default() -> Self {
        Self { slots: [0; SECONDS], newest: 0 }
    }
}

impl SecondCounts {
    fn add(&mut self, second: u64) {
        self.forget_until(second);
        if let Some(slot) = self.slots.get_mut(slot(second)) {
            *slot = slot.saturating_add(1);
        }
    }

    /// Empties the slots that stood for seconds of more than a minute ago.
    fn forget_until(&mut self, second: u64) {
        let passed = second.saturating_sub(self.newest).min(SECONDS as u64);
        for gone in 0..passed {
            if let Some(slot) = self.slots.get_mut(slot(second - gone)) {
                *slot = 0;
            }
        }
        self.newest = self.newest.max(second);
    }

    /// The counts of the last seconds, the oldest first.
    fn row(&self, second: u64) -> Vec<u32> {
        let count = |ago: u64| match second.checked_sub(ago) {
            Some(at) if at <= self.newest && self.newest - at < SECONDS as u64 => {
                self.slots.get(slot(at)).copied().unwrap_or(0)
            }
            _ => 0,
        };
        (0..SECONDS as u64).rev().map(count).collect()
    }

    fn sum(&self, second: u64) -> u64 {
        self.row(second).into_iter().map(u64::from).sum()
    }
}

fn slot(second: u64) -> usize {
    usize::try_from(second % SECONDS as u64).unwrap_or(0)
}

/// A count since the start, and of the last seconds.
#[derive(Default)]
struct Counter {
    total: u64,
    recent: SecondCounts,
}

impl Counter {
    fn add(&mut self, second: u64) {
        self.total += 1;
        self.recent.add(second);
    }
}

/// Calls by how they ended.
#[derive(Default)]
struct Counts {
    calls: Counter,
    refused: u64,
    failed: u64,
    last_at: Option<SystemTime>,
}

impl Counts {
    fn add(&mut self, decision: Decision, second: u64, at: SystemTime) {
        self.calls.add(second);
        self.refused += u64::from(decision == Decision::Denied);
        self.failed += u64::from(decision == Decision::Error);
        self.last_at = Some(at);
    }

    fn totals(&self, second: u64) -> CallTotals {
        CallTotals {
            calls: self.calls.total,
            refused: self.refused,
            failed: self.failed,
            last_minute: self.calls.recent.sum(second),
        }
    }

    fn at(&self) -> SystemTime {
        self.last_at.unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

#[derive(Default)]
struct CallerCounts {
    counts: Counts,
}

#[derive(Default)]
struct ToolCounts {
    counts: Counts,
    /// Microseconds of the last calls that ran.
    durations: Vec<u32>,
    next: usize,
    last_failure: Option<(&'static str, SystemTime)>,
}

impl ToolCounts {
    fn add(&mut self, call: &EndedCall<'_>, second: u64, at: SystemTime) {
        self.counts.add(call.decision, second, at);
        if let Some((_, code)) = call.failed {
            self.last_failure = Some((ErrorCode::as_str(code), at));
        }
        // A call that was refused before it ran says nothing about its tool.
        let ran = call.failed.is_none_or(|(stage, _)| matches!(stage, Stage::Execution | Stage::Output));
        if !ran {
            return;
        }
        let micros = u32::try_from(call.duration.as_micros()).unwrap_or(u32::MAX);
        match self.durations.get_mut(self.next) {
            Some(slot) => *slot = micros,
            None => self.durations.push(micros),
        }
        self.next = (self.next + 1) % MAX_DURATIONS;
    }

    fn traffic(&self, tool: &str, second: u64) -> ToolTraffic {
        let mut sorted = self.durations.clone();
        sorted.sort_unstable();
        let at = |percent: usize| {
            let place = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
            Duration::from_micros(sorted.get(place).copied().unwrap_or(0).into())
        };
        ToolTraffic {
            tool: tool.to_owned(),
            totals: self.counts.totals(second),
            last_at: self.counts.at(),
            median: at(50),
            p95: at(95),
            longest: at(100),
            last_failure: self.last_failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use toolgate_types::{Caller, Trust};

    use super::*;

    fn caller(subject: &str) -> Caller {
        Caller {
            subject: subject.to_owned(),
            permissions: Default::default(),
            agent: None,
            session: "s".parse().unwrap(),
            run: None,
            trust: Trust::Guided,
        }
    }

    fn count(
        traffic: &Traffic,
        subject: &str,
        tool: Option<&str>,
        failed: Option<(Stage, ErrorCode)>,
        second: u64,
    ) {
        let (caller, at) = (caller(subject), SystemTime::UNIX_EPOCH + Duration::from_secs(second));
        let decision = match failed {
            None => Decision::Allowed,
            Some((_, code)) if code.is_denial() => Decision::Denied,
            Some(_) => Decision::Error,
        };
        let duration = Duration::from_millis(second + 1);
        let call = EndedCall {
            tool,
            class: None,
            caller: &caller,
            decision,
            failed,
            duration,
            waited: Duration::ZERO,
        };
        traffic.count_at(&call, second, at);
    }

    #[test]
    fn seconds_have_counts_of_their_own_and_are_forgotten_after_a_minute() {
        let traffic = Traffic::default();
        // After each call: how many calls of the last minute are known.
        for (second, known) in [(0, 1), (0, 2), (1, 3), (59, 4), (60, 3), (61, 3), (61, 4), (200, 1)] {
            count(&traffic, "alice", Some("read_file"), None, second);
            let row = traffic.snapshot_at(second).calls_per_second;
            assert_eq!((row.len(), row.iter().sum::<u32>()), (SECONDS, known), "{second}: {row:?}");
        }
        let at = |second| traffic.snapshot_at(second).calls_per_second;
        assert_eq!((at(200)[59], at(201)[58], at(200).iter().sum::<u32>()), (1, 1, 1));
        assert_eq!(at(260).iter().sum::<u32>(), 0);
        let totals = traffic.snapshot_at(200).callers[0].totals;
        assert_eq!(totals, CallTotals { calls: 8, refused: 0, failed: 0, last_minute: 1 });
    }

    #[test]
    fn calls_are_counted_by_caller_tool_and_reason() {
        let traffic = Traffic::default();
        count(&traffic, "alice", Some("read_file"), None, 1);
        count(&traffic, "alice", Some("read_file"), Some((Stage::Execution, ErrorCode::Timeout)), 9);
        count(&traffic, "bob", Some("write_file"), Some((Stage::Permission, ErrorCode::NotPermitted)), 1);
        count(&traffic, "bob", None, Some((Stage::Registry, ErrorCode::UnknownTool)), 2);
        let seen = traffic.snapshot_at(9);
        let callers: Vec<_> =
            seen.callers.iter().map(|one| (one.caller.subject.as_str(), one.totals.calls)).collect();
        assert_eq!(callers, [("alice", 2), ("bob", 2)]);
        // A name that is no tool is not listed.
        let tools: Vec<_> =
            seen.tools.iter().map(|one| (one.tool.as_str(), one.totals.failed, one.longest)).collect();
        let millis = Duration::from_millis;
        assert_eq!(tools, [("read_file", 1, millis(10)), ("write_file", 0, millis(0))]);
        assert_eq!((seen.tools[0].median, seen.tools[0].p95), (millis(2), millis(10)));
        assert_eq!(seen.tools[0].last_failure.unwrap().0, "timeout");
        let reasons: Vec<_> = seen.reasons.iter().map(|one| (one.stage, one.code, one.count)).collect();
        assert_eq!(reasons.len(), 3, "{reasons:?}");
        assert!(reasons.contains(&("PERMISSION", "not_permitted", 1)));
    }

    #[test]
    fn callers_without_end_take_bounded_memory() {
        let traffic = Traffic::default();
        for number in 0..(3 * MAX_CALLERS as u64) {
            count(&traffic, &format!("caller-{number}"), Some(&format!("tool-{number}")), None, number);
        }
        let seen = traffic.snapshot_at(3 * MAX_CALLERS as u64);
        assert_eq!((seen.callers.len(), seen.tools.len()), (MAX_CALLERS, MAX_TOOLS));
        assert!(
            seen.callers.iter().any(|one| one.caller.subject == format!("caller-{}", 3 * MAX_CALLERS - 1))
        );
    }
}
