//! Calls that have no record, counted until the record itself can say how many they are.
//!
//! A gap is two records with the same id. The first is written when the first call is missed, into space that is kept for it, so that a gate that
//! dies before writing works again leaves a trace. The second says how many calls have no record, and comes before the next record of a call. Calls
//! that were announced are not counted: each of them has an intent, from which the next start makes its record.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use toolgate_types::{CallId, Sha256, Stage, time};

use crate::body::Body;
use crate::entry::Denial;
use crate::record::{RecordedCaller, RecordedGap};
use crate::{AuditError, lock};

/// What stands in place of a tool in the record of a gap. The field `gap` is what makes it one: a caller may ask for a tool of any name.
const TOOL: &str = "audit_gap";
/// What stands in place of a caller: the gate.
const SUBJECT: &str = "toolgate";
/// And of a session.
const SESSION: &str = "audit";

/// Calls without a record, since the last one that was written.
#[derive(Clone, Debug)]
pub(crate) struct Missed {
    id: CallId,
    since: Timestamp,
    calls: u64,
    error: AuditError,
}

impl Missed {
    /// The record that there is a gap.
    pub(crate) fn begun(&self) -> Result<Vec<u8>, AuditError> {
        let reason = format!("calls cannot be recorded: {}", self.error);
        self.to_body(None, &reason)
    }

    /// The record of how many calls are missing.
    pub(crate) fn ended(&self) -> Result<Vec<u8>, AuditError> {
        let since = time::rfc3339_millis(self.since);
        let calls =
            if self.calls == 1 { "1 call has".to_owned() } else { format!("{} calls have", self.calls) };
        let reason = format!("{calls} no record since {since}: {}", self.error);
        self.to_body(Some(self.calls), &reason)
    }

    fn to_body(&self, calls: Option<u64>, reason: &str) -> Result<Vec<u8>, AuditError> {
        let caller = RecordedCaller {
            sub: SUBJECT.to_owned(),
            permissions: Vec::new(),
            agent: None,
            session: SESSION.to_owned(),
            run: None,
        };
        let body = Body {
            call: CallId::fresh(),
            client_call_id: None,
            caller: (&caller).into(),
            tool: TOOL,
            class: None,
            version: None,
            args_hash: Sha256::from([0; 32]),
            repairs: &[],
            denial: Some(Denial { stage: Stage::Output, code: self.error.code(), reason, count: 1 }),
            response: None,
            gap: Some(RecordedGap { id: self.id, since: self.since, calls }),
            duration: Duration::ZERO,
        };
        body.to_bytes()
    }
}

/// The gap of this process, if there is one.
#[derive(Default)]
pub(crate) struct Gap {
    /// Whether there is one: asked for every record.
    is_open: AtomicBool,
    missed: Mutex<Option<Missed>>,
}

impl Gap {
    /// Counts calls without a record. Says what was missed where this begins a gap.
    pub(crate) fn add(&self, calls: u64, now: Timestamp, error: &AuditError) -> Option<Missed> {
        let mut missed = lock(&self.missed);
        self.is_open.store(true, Ordering::Release);
        match &mut *missed {
            Some(missed) => {
                missed.calls = missed.calls.saturating_add(calls);
                None
            }
            None => {
                let id = CallId::fresh();
                missed.insert(Missed { id, since: now, calls, error: error.clone() }).clone().into()
            }
        }
    }

    /// Takes what the next record is to say. Whoever cannot write it puts it back.
    pub(crate) fn take(&self) -> Option<Missed> {
        if !self.is_open.load(Ordering::Acquire) {
            return None;
        }
        let mut missed = lock(&self.missed);
        self.is_open.store(false, Ordering::Release);
        missed.take()
    }

    /// Goes on with a gap that could not be closed.
    pub(crate) fn put_back(&self, mut taken: Missed) {
        let mut missed = lock(&self.missed);
        taken.calls = taken.calls.saturating_add(missed.as_ref().map_or(0, |newer| newer.calls));
        *missed = Some(taken);
        self.is_open.store(true, Ordering::Release);
    }
}
