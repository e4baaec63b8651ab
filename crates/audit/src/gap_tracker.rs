//! Counts calls without a record until a gap record can report them.
//!
//! Each such call is counted in a file of this process ([`MissedFile`]) before its caller gets a response; a call that cannot be counted either gets
//! none. A gap record with the count precedes the next call record. Calls with an intent are not counted: the next start writes their record from the
//! intent.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use toolgate_types::{CallId, Sha256, Stage, time};

use crate::entry::Denial;
use crate::missed_calls::{MissedCalls, MissedFile};
use crate::record::{RecordedCaller, RecordedGap};
use crate::record_body::RecordBody;
use crate::{AuditError, lock};

/// Stands in for the tool in a gap record. Only the `gap` field makes it one, because a caller may request a tool of any name.
const GAP_TOOL: &str = "audit_gap";
/// Stands in for the caller.
const GAP_SUBJECT: &str = "toolgate";
/// Stands in for the session.
const GAP_SESSION: &str = "audit";

impl MissedCalls {
    /// Encodes the gap record.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, AuditError> {
        let since = time::rfc3339_millis(self.since);
        let calls =
            if self.calls == 1 { "1 call has".to_owned() } else { format!("{} calls have", self.calls) };
        let reason = format!("{calls} no record since {since}: {}", self.reason);
        let caller = RecordedCaller {
            sub: GAP_SUBJECT.to_owned(),
            permissions: Vec::new(),
            agent: None,
            session: GAP_SESSION.to_owned(),
            run: None,
        };
        let body = RecordBody {
            call: CallId::fresh(),
            client_call_id: None,
            caller: (&caller).into(),
            tool: GAP_TOOL,
            class: None,
            version: None,
            args_hash: Sha256::from([0; 32]),
            changed_from: None,
            escalation: &[],
            repairs: &[],
            grant: None,
            denial: Some(Denial { stage: Stage::Output, code: self.code, reason: &reason, count: 1 }),
            response: None,
            details: None,
            sealed_details: None,
            flow: None,
            gap: Some(RecordedGap { id: self.id, since: self.since, calls: Some(self.calls) }),
            duration: Duration::ZERO,
            waited: Duration::ZERO,
        };
        body.encode()
    }
}

/// The open gap of this process, if any.
#[derive(Default)]
pub(crate) struct GapTracker {
    /// Whether there is one; read for every record.
    is_open: AtomicBool,
    state: Mutex<GapState>,
}

#[derive(Default)]
struct GapState {
    missed: Option<MissedCalls>,
    /// The file with the count; `None` if it could not be created yet.
    file: Option<MissedFile>,
}

impl GapTracker {
    /// Creates the count file.
    pub(crate) fn prepare(
        &self,
        make: impl FnOnce() -> Result<MissedFile, AuditError>,
    ) -> Result<(), AuditError> {
        lock(&self.state).file = Some(make()?);
        Ok(())
    }

    /// Counts calls without a record. `begin` describes a gap that starts here; `make` creates the count file if there is none.
    pub(crate) fn add(
        &self,
        calls: u64,
        begin: impl FnOnce() -> MissedCalls,
        make: impl FnOnce() -> Result<MissedFile, AuditError>,
    ) -> Result<(), AuditError> {
        let mut state = lock(&self.state);
        self.is_open.store(true, Ordering::Release);
        let is_first = state.missed.is_none();
        let missed = state.missed.get_or_insert_with(begin);
        missed.calls = missed.calls.saturating_add(calls);
        let missed = missed.clone();
        let file = match state.file.take() {
            Some(file) => file,
            None => make()?,
        };
        // If the write fails, the file is left to the next start, and the next call is counted in a new one.
        file.write(&missed)?;
        if is_first {
            // As for records with `on_failure: warn`, a failed sync does not withhold the response.
            let _ = file.sync();
        }
        state.file = Some(file);
        Ok(())
    }

    /// Writes records, preceded by the gap record if a gap is open; success closes the gap.
    pub(crate) fn end<T>(
        &self,
        write: impl FnOnce(Option<&[u8]>) -> Result<T, AuditError>,
    ) -> Result<T, AuditError> {
        if !self.is_open.load(Ordering::Acquire) {
            return write(None);
        }
        // Held across the write: a call missed at the same time must not replace a count that is in no record yet.
        let mut state = lock(&self.state);
        let body = state.missed.as_ref().map(MissedCalls::encode).transpose()?;
        let written = write(body.as_deref())?;
        // The count stays in its file until the next gap: it has the same id as the record, so it is not counted twice.
        state.missed = None;
        self.is_open.store(false, Ordering::Release);
        Ok(written)
    }

    /// Whether a gap is open.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Removes the count file, or leaves it for the next start if the gap could not be recorded.
    pub(crate) fn close(&self) -> Result<(), AuditError> {
        let mut state = lock(&self.state);
        match (state.file.take(), &state.missed) {
            (Some(file), None) => file.remove(),
            _ => Ok(()),
        }
    }
}
