//! A guard that writes the audit record of a call, even if the call is dropped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolgate_audit::{AuditEntry, AuditError, Denial, GroupedWrite, ResponseSummary, Ticket};
use toolgate_types::{Caller, ErrorCode, Failure, Outcome, Sha256, Stage, ToolCall, ToolClass};

use crate::approval::ApprovalWait;
use crate::flow::CallFlow;
use crate::gate::{AuditMode, FinishedCall, Gate};
use crate::output::RawOutput;
use crate::refusal_counter::RefusedCall;
use crate::touched::TouchedNames;
use crate::trace::CallSpan;

/// A call that a person changed before approving it.
pub(crate) struct ChangedCall {
    /// Digest of the model's arguments.
    from: Sha256,
    /// The arguments that the person left.
    arguments: Value,
}

/// A call without a record yet. Dropping it writes a `Cancelled` record, so no code path ends without one.
pub(crate) struct AuditGuard<'g> {
    pub(crate) gate: &'g Gate,
    pub(crate) started: Instant,
    pub(crate) call: &'g ToolCall,
    /// The caller as far as it is known. For a token: the unverified placeholder until it is verified.
    pub(crate) caller: Arc<Caller>,
    pub(crate) args_hash: Sha256,
    pub(crate) class: Option<ToolClass>,
    pub(crate) version: Option<&'g str>,
    /// The stage to record if it is dropped.
    pub(crate) stage: Stage,
    /// The lasting grant that answered its question.
    pub(crate) grant: Option<String>,
    pub(crate) cancelled: &'g CancellationToken,
    pub(crate) settled: bool,
    /// Whether other calls are at hand that may end together with it.
    pub(crate) is_contended: bool,
    /// How long a person was waited for.
    pub(crate) waited: Arc<ApprovalWait>,
    /// How many calls its session made before, once they are counted.
    pub(crate) session_calls: Option<u64>,
    /// What a person allowed it beyond the configuration.
    pub(crate) escalation: Vec<String>,
    /// The call as a person changed it.
    pub(crate) changed: Option<ChangedCall>,
    /// What it touches.
    pub(crate) touched: TouchedNames,
    /// Its information flow.
    pub(crate) flow: CallFlow,
    pub(crate) span: CallSpan,
}

impl AuditGuard<'_> {
    /// Continues with other arguments, which a person left. The record names both digests.
    pub(crate) fn change(&mut self, arguments: &Value) {
        let left = Sha256::of(&serde_json::to_vec(arguments).unwrap_or_default());
        let from = std::mem::replace(&mut self.args_hash, left);
        self.changed = Some(ChangedCall { from, arguments: arguments.clone() });
    }

    pub(crate) async fn settle(&mut self, outcome: Outcome, response: Option<RawOutput>) -> FinishedCall {
        let duration = self.elapsed();
        self.settled = true;
        let Some(count) = self.represented_calls(&outcome) else {
            return self.finished(outcome, duration);
        };
        let recorded = self.append(&outcome, response.as_ref(), duration, count);
        let recorded = match recorded {
            Ok(RecordWrite::Durable(ticket)) => ticket.await,
            Ok(RecordWrite::Grouped(write)) => write.await,
            Ok(RecordWrite::Written) => Ok(()),
            Err(error) => Err(error),
        };
        let outcome = match recorded {
            Ok(()) => outcome,
            Err(error) => self.outcome_without_record(outcome, &error),
        };
        self.finished(outcome, duration)
    }

    fn finished(&mut self, outcome: Outcome, duration: Duration) -> FinishedCall {
        self.record_span(&outcome);
        self.report_end(&outcome, duration);
        let changed = self.changed.take().map(|changed| changed.arguments);
        FinishedCall { call: self.call.id, outcome, duration, waited: self.waited.total(), changed }
    }

    /// The time since the call was received, without the time that a person was waited for.
    fn elapsed(&self) -> Duration {
        self.started.elapsed().saturating_sub(self.waited.total())
    }

    /// A tool has a class once it was found in the registry.
    fn record_span(&self, outcome: &Outcome) {
        let known = self.class.map(|_| self.call.tool.as_str());
        self.span.record(known, &self.caller, outcome);
    }

    fn outcome_without_record(&self, outcome: Outcome, error: &AuditError) -> Outcome {
        (self.gate.warn)(&format!("a call could not be recorded: {error}; {}", error.help()));
        match (self.gate.audit_mode, error) {
            // The call would leave no trace in the log.
            (AuditMode::Warn, AuditError::Untraced { .. }) | (AuditMode::Deny, _) => {
                let failure = Failure::new(
                    ErrorCode::AuditUnavailable,
                    "this call could not be recorded, so it has no answer",
                )
                .operator_note(error.to_string());
                Outcome::Failed { stage: Stage::Output, failure }
            }
            (AuditMode::Warn, _) => outcome,
        }
    }

    /// How many calls this record represents; `None` if another record counts this call.
    fn represented_calls(&self, outcome: &Outcome) -> Option<u64> {
        let Outcome::Failed { stage, failure } = outcome else { return Some(1) };
        if !RefusedCall::is_counted(failure.code) {
            return Some(1);
        }
        self.gate.refusals.count(RefusedCall {
            call: self.call.id,
            caller: Arc::clone(&self.caller),
            tool: self.call.tool.clone(),
            class: self.class,
            version: self.version.map(str::to_owned),
            args_hash: self.args_hash,
            stage: *stage,
            code: failure.code,
            reason: operator_reason(failure),
        })
    }

    fn append(
        &self,
        outcome: &Outcome,
        response: Option<&RawOutput>,
        duration: Duration,
        count: u64,
    ) -> Result<RecordWrite, AuditError> {
        let reason = match outcome {
            Outcome::Done(_) => String::new(),
            Outcome::Failed { failure, .. } => operator_reason(failure),
        };
        let denial = match outcome {
            Outcome::Done(_) => None,
            Outcome::Failed { stage, failure } => {
                Some(Denial { stage: *stage, code: failure.code, reason: &reason, count })
            }
        };
        let (details, flow) = (self.touched.collected(), self.flow.recorded());
        let entry = AuditEntry {
            call: self.call.id,
            client_call_id: self.call.client_id.as_deref(),
            caller: &self.caller,
            tool: &self.call.tool,
            class: self.class,
            version: self.version,
            args_hash: self.args_hash,
            changed_from: self.changed.as_ref().map(|changed| changed.from),
            escalation: &self.escalation,
            repairs: &self.call.repairs,
            grant: self.grant.as_deref(),
            denial,
            response: response.map(|raw| ResponseSummary {
                redacted_fields: &raw.redacted,
                output_hash: raw.hash,
                output_bytes: raw.bytes,
            }),
            details: Some(&details),
            flow: flow.as_ref(),
            duration,
            waited: self.waited.total(),
        };
        let audit = self.gate.audit.as_ref().map_err(Clone::clone)?;
        // Where nothing can wait, and for a record that counts other calls too, it is written by itself.
        let may_wait = self.settled && count == 1;
        match self.gate.audit_mode {
            AuditMode::Deny if may_wait => audit.submit(&entry).map(RecordWrite::Durable),
            AuditMode::Deny => audit.append(&entry).map(RecordWrite::Durable),
            AuditMode::Warn if may_wait && self.is_contended => {
                audit.append_grouped(&entry).map(RecordWrite::Grouped)
            }
            AuditMode::Warn => audit.append(&entry).map(|_| RecordWrite::Written),
        }
    }
}

/// How far the record of a call is.
enum RecordWrite {
    /// To be awaited: until it is on disk.
    Durable(Ticket),
    /// To be awaited: until it is written with those of other calls.
    Grouped(GroupedWrite),
    Written,
}

/// The reason for the operator: the note, or else the error code. The message may quote arguments, and records never contain those.
pub(crate) fn operator_reason(failure: &Failure) -> String {
    failure.operator_note.clone().unwrap_or_else(|| failure.code.as_str().to_owned())
}

impl Drop for AuditGuard<'_> {
    fn drop(&mut self) {
        if !self.settled {
            // Work that still runs for this call stops when it next polls its cancellation.
            self.cancelled.cancel();
            let failure = Failure::new(ErrorCode::Cancelled, "the call was abandoned");
            let outcome = Outcome::Failed { stage: self.stage, failure };
            self.record_span(&outcome);
            self.report_end(&outcome, self.elapsed());
            if let Err(error) = self.append(&outcome, None, self.elapsed(), 1) {
                (self.gate.warn)(&format!("an abandoned call could not be recorded: {error}"));
            }
        }
    }
}
