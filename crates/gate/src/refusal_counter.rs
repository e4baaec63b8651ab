//! Rate-limited calls, counted into one record per interval.
//!
//! A call that a rate limit refuses costs its caller nothing, so one record per refusal would cost the gate more than the call. The first refusal of
//! a kind is recorded like any call; those that follow within [`FLUSH_INTERVAL`] are counted, and one record carries their number (`denial.count`).
//! Counts are flushed when the interval ends, at [`MAX_COUNTED`], and when the gate is dropped. A gate that is killed (`SIGKILL`, power cut) loses at
//! most one count per kind. No refused call had an effect, and the first record of the kind is in the log.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use toolgate_audit::{AuditEntry, AuditLog, Denial};
use toolgate_types::{CallId, Caller, ErrorCode, Sha256, Stage, ToolClass};

use crate::gate::Clock;

/// How long refusals of a kind are counted before they are written.
pub(crate) const FLUSH_INTERVAL: Duration = Duration::from_secs(10);

/// A count that reaches this is written before the interval ends.
pub(crate) const MAX_COUNTED: u64 = 10_000;

/// How many kinds are counted at a time. Refusals of further kinds are recorded individually.
const MAX_KEYS: usize = 4096;

/// What refusals counted together have in common. All unknown tools share one key, and sessions are not part of it: both names are the caller's to
/// invent, and would make the map unbounded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RefusalKey {
    subject: String,
    agent: Option<String>,
    tool: Option<String>,
    stage: Stage,
    code: ErrorCode,
}

/// A refused call, as it is recorded.
#[derive(Clone, Debug)]
pub(crate) struct RefusedCall {
    pub(crate) call: CallId,
    pub(crate) caller: Arc<Caller>,
    pub(crate) tool: String,
    pub(crate) class: Option<ToolClass>,
    pub(crate) version: Option<String>,
    pub(crate) args_hash: Sha256,
    pub(crate) stage: Stage,
    pub(crate) code: ErrorCode,
    pub(crate) reason: String,
}

impl RefusedCall {
    /// Only rate-limited refusals can come in large numbers.
    pub(crate) fn is_counted(code: ErrorCode) -> bool {
        code == ErrorCode::RateLimited
    }

    fn key(&self) -> RefusalKey {
        RefusalKey {
            subject: self.caller.subject.clone(),
            agent: self.caller.agent.as_ref().map(ToString::to_string),
            tool: self.class.map(|_| self.tool.clone()),
            stage: self.stage,
            code: self.code,
        }
    }

    fn entry(&self, count: u64) -> AuditEntry<'_> {
        AuditEntry {
            call: self.call,
            client_call_id: None,
            caller: &self.caller,
            tool: &self.tool,
            class: self.class,
            version: self.version.as_deref(),
            args_hash: self.args_hash,
            changed_from: None,
            escalation: &[],
            repairs: &[],
            grant: None,
            denial: Some(Denial { stage: self.stage, code: self.code, reason: &self.reason, count }),
            response: None,
            details: None,
            flow: None,
            duration: Duration::ZERO,
            waited: Duration::ZERO,
        }
    }
}

/// Refusals that have no record yet.
struct RefusalCount {
    since: Instant,
    count: u64,
    /// The last one; its record represents all of them.
    last: RefusedCall,
}

#[derive(Default)]
struct RefusalState {
    counts: HashMap<RefusalKey, RefusalCount>,
    /// Whether a timer thread is running that flushes the counts.
    has_timer: bool,
    is_closed: bool,
}

/// The refusal counts of a gate.
pub(crate) struct RefusalCounter {
    state: Mutex<RefusalState>,
    audit: Weak<AuditLog>,
    clock: Clock,
    warn: Arc<dyn Fn(&str) + Send + Sync>,
}

impl RefusalCounter {
    pub(crate) fn new(
        audit: Option<&Arc<AuditLog>>,
        clock: &Clock,
        complain: &Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            audit: audit.map(Arc::downgrade).unwrap_or_default(),
            clock: Arc::clone(clock),
            warn: Arc::clone(complain),
        })
    }

    /// Counts a refusal. `Some(n)`: write a record that represents `n` refusals, including this one. `None`: a later record includes it.
    pub(crate) fn count(self: &Arc<Self>, refusal: RefusedCall) -> Option<u64> {
        let (kind, now) = (refusal.key(), (self.clock)());
        let mut state = self.state();
        if let Some(counted) = state.counts.get_mut(&kind) {
            let is_over = now.saturating_duration_since(counted.since) >= FLUSH_INTERVAL;
            if is_over || counted.count + 1 >= MAX_COUNTED {
                let count = counted.count + 1;
                *counted = RefusalCount { since: now, count: 0, last: refusal };
                return Some(count);
            }
            counted.count += 1;
            counted.last = refusal;
            if !std::mem::replace(&mut state.has_timer, true) {
                drop(state);
                self.start_timer();
            }
            return None;
        }
        if state.counts.len() >= MAX_KEYS {
            state.counts.retain(|_, counted| {
                counted.count > 0 || now.saturating_duration_since(counted.since) < FLUSH_INTERVAL
            });
        }
        if state.counts.len() < MAX_KEYS {
            state.counts.insert(kind, RefusalCount { since: now, count: 0, last: refusal });
        }
        Some(1)
    }

    /// Writes the record of a refusal that has no call, because its request was not accepted.
    pub(crate) fn record(self: &Arc<Self>, refusal: RefusedCall) {
        if let Some(count) = self.count(refusal.clone()) {
            self.write(&refusal, count);
        }
    }

    /// Flushes all counts; no more are accepted.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        self.write_all(&mut state);
    }

    /// A thread rather than a runtime timer: a gate may be used without a runtime.
    fn start_timer(self: &Arc<Self>) {
        let refusals = Arc::downgrade(self);
        let timer = move || {
            while let Some(refusals) = {
                thread::sleep(FLUSH_INTERVAL);
                refusals.upgrade()
            } {
                // The lock is held while records are written: the gate's `Drop` waits for it, and then holds the last reference to the log.
                let mut state = refusals.state();
                refusals.write_all(&mut state);
                if state.counts.is_empty() || state.is_closed {
                    state.has_timer = false;
                    return;
                }
            }
        };
        if thread::Builder::new().name("refusals".to_owned()).spawn(timer).is_err() {
            // Without the thread, the next refusal of the kind or the gate's `Drop` flushes the count.
            self.state().has_timer = false;
        }
    }

    /// Also removes kinds without a refusal since the last flush.
    fn write_all(&self, state: &mut RefusalState) {
        let now = (self.clock)();
        state.counts.retain(|_, counted| counted.count > 0);
        for counted in state.counts.values_mut() {
            self.write(&counted.last, counted.count);
            (counted.since, counted.count) = (now, 0);
        }
    }

    fn write(&self, refusal: &RefusedCall, count: u64) {
        let Some(audit) = self.audit.upgrade() else { return };
        if let Err(error) = audit.append(&refusal.entry(count)) {
            (self.warn)(&format!("{count} refused calls could not be recorded: {error}"));
        }
    }

    fn state(&self) -> MutexGuard<'_, RefusalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
