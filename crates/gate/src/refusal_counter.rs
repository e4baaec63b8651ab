//! Refusals of callers that are above their bound, counted into one record per interval.
//!
//! A call that a rate refuses costs its caller nothing, so a record for each of them would cost the gate more than the calls do. The first of a kind is
//! recorded like every call; those that follow within [`INTERVAL`] are counted, and one record says how many they were (`denial.count`). What is
//! counted is written when the interval is over, when there are [`MAX_COUNTED`] of them, and when the gate is dropped. A gate that is killed (`SIGKILL`, a
//! power cut) loses at most that much of a kind, and none of it had an effect; that there were such refusals is on record before.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use toolgate_audit::{AuditEntry, AuditLog, Denial};
use toolgate_types::{CallId, Caller, ErrorCode, Sha256, Stage, ToolClass};

use crate::gate::Clock;

/// How long refusals of a kind are counted before they are written.
pub(crate) const FLUSH_INTERVAL: Duration = Duration::from_secs(10);

/// So many refusals are written without waiting for the end of the interval.
pub(crate) const MAX_COUNTED: u64 = 10_000;

/// Kinds that are counted at a time. Refusals of more kinds are recorded one by one.
const MAX_KEYS: usize = 4096;

/// What refusals have in common that are counted together. All tools that there are not are one: their names are the caller's to invent, and so are
/// sessions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RefusalKey {
    subject: String,
    agent: Option<String>,
    tool: Option<String>,
    stage: Stage,
    code: ErrorCode,
}

/// A refusal, as it is recorded.
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
    /// Only what a bound refuses comes in any number.
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
            repairs: &[],
            denial: Some(Denial { stage: self.stage, code: self.code, reason: &self.reason, count }),
            response: None,
            duration: Duration::ZERO,
        }
    }
}

/// Refusals that have no record yet.
struct RefusalCount {
    since: Instant,
    count: u64,
    /// The last of them stands for all.
    last: RefusedCall,
}

#[derive(Default)]
struct RefusalState {
    counts: HashMap<RefusalKey, RefusalCount>,
    /// A thread writes what is counted when the interval is over.
    has_timer: bool,
    is_closed: bool,
}

/// What is counted of a gate's refusals.
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

    /// Counts a refusal. `Some` is how many, this one among them, its record stands for; `None` is that another record will.
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

    /// Writes the record of a refusal that has no call of its own, because its request was not taken.
    pub(crate) fn record(self: &Arc<Self>, refusal: RefusedCall) {
        if let Some(count) = self.count(refusal.clone()) {
            self.write(&refusal, count);
        }
    }

    /// Writes what is counted, for the last time.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        self.write_all(&mut state);
    }

    /// A thread, and not a timer of a runtime: a gate may be called from none.
    fn start_timer(self: &Arc<Self>) {
        let refusals = Arc::downgrade(self);
        let timer = move || {
            while let Some(refusals) = {
                thread::sleep(FLUSH_INTERVAL);
                refusals.upgrade()
            } {
                // The lock is held while records are written: a gate that is dropped waits for it, and is the last to hold the log.
                let mut state = refusals.state();
                refusals.write_all(&mut state);
                if state.counts.is_empty() || state.is_closed {
                    state.has_timer = false;
                    return;
                }
            }
        };
        if thread::Builder::new().name("refusals".to_owned()).spawn(timer).is_err() {
            // Then the next call, or the end of the gate, writes them.
            self.state().has_timer = false;
        }
    }

    /// Kinds of which nothing came since the last time are forgotten.
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
