//! Calls that have no record, counted until the record itself can say how many they are.
//!
//! Each is counted in a file of this process ([`MissedFile`]) before its caller is answered, and a call that cannot be counted either has no answer. A record
//! of the gap, with the count, comes before the next record of a call. Calls that were announced are not counted: each of them has an intent, from which the
//! next start makes its record.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use toolgate_types::{CallId, Sha256, Stage, time};

use crate::entry::Denial;
use crate::missed_calls::{MissedCalls, MissedFile};
use crate::record::{RecordedCaller, RecordedGap};
use crate::record_body::RecordBody;
use crate::{AuditError, lock};

/// What stands in place of a tool in the record of a gap. The field `gap` is what makes it one: a caller may ask for a tool of any name.
const GAP_TOOL: &str = "audit_gap";
/// What stands in place of a caller: the gate.
const GAP_SUBJECT: &str = "toolgate";
/// And of a session.
const GAP_SESSION: &str = "audit";

impl MissedCalls {
    /// The record of how many calls have none.
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
            repairs: &[],
            denial: Some(Denial { stage: Stage::Output, code: self.code, reason: &reason, count: 1 }),
            response: None,
            gap: Some(RecordedGap { id: self.id, since: self.since, calls: Some(self.calls) }),
            duration: Duration::ZERO,
        };
        body.encode()
    }
}

/// The gap of this process, if there is one.
#[derive(Default)]
pub(crate) struct GapTracker {
    /// Whether there is one: asked for every record.
    is_open: AtomicBool,
    state: Mutex<GapState>,
}

#[derive(Default)]
struct GapState {
    missed: Option<MissedCalls>,
    /// Where it is counted; none where it could not be made yet.
    file: Option<MissedFile>,
}

impl GapTracker {
    /// Makes the file that calls are counted in.
    pub(crate) fn prepare(
        &self,
        make: impl FnOnce() -> Result<MissedFile, AuditError>,
    ) -> Result<(), AuditError> {
        lock(&self.state).file = Some(make()?);
        Ok(())
    }

    /// Counts calls without a record. `begin` says what a gap that begins here is about; `make` makes the file that they are counted in, should there be none.
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
        // A file that cannot be written is given up to the next start, and the next call is counted in another.
        file.write(&missed)?;
        if is_first {
            // As for records with `on_failure: warn`, a disk that does not confirm keeps nobody from an answer.
            let _ = file.sync();
        }
        state.file = Some(file);
        Ok(())
    }

    /// Has records written, before them the record of the gap if there is one; when that succeeds, the gap is over.
    pub(crate) fn end<T>(
        &self,
        write: impl FnOnce(Option<&[u8]>) -> Result<T, AuditError>,
    ) -> Result<T, AuditError> {
        if !self.is_open.load(Ordering::Acquire) {
            return write(None);
        }
        // Held while it is written: what is missed meanwhile must not take the place of a count that is in no record yet.
        let mut state = lock(&self.state);
        let body = state.missed.as_ref().map(MissedCalls::encode).transpose()?;
        let written = write(body.as_deref())?;
        // The count stays in its file until the next gap: the record has the same id.
        state.missed = None;
        self.is_open.store(false, Ordering::Release);
        Ok(written)
    }

    /// Whether there is one.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Lets go of the file: it stays for the next start where the gap could not be recorded.
    pub(crate) fn close(&self) -> Result<(), AuditError> {
        let mut state = lock(&self.state);
        match (state.file.take(), &state.missed) {
            (Some(file), None) => file.remove(),
            _ => Ok(()),
        }
    }
}
