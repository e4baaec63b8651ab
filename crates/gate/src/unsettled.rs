//! A call that has no record yet.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use toolgate_audit::{Denial, Entry, Response, Ticket};
use toolgate_types::digest::Sha256Hasher;
use toolgate_types::{
    Attachment, Caller, ErrorCode, Failure, Outcome, Sha256, Stage, ToolCall, ToolClass, ToolOutput,
};

use crate::gate::{AuditMode, Gate, Settled};

/// What is remembered of an answer after it has left.
pub(crate) struct RawOutput {
    hash: Sha256,
    bytes: u64,
    /// The fields that did not leave, or not as they were.
    pub(crate) redacted: Vec<String>,
}

impl RawOutput {
    pub(crate) fn of(output: &ToolOutput) -> Self {
        let of = |bytes: &[u8], known: Option<Sha256>| {
            let hash = match output.attachments.as_slice() {
                [] => known.unwrap_or_else(|| Sha256::of(bytes)),
                attached => with_attached(bytes, attached),
            };
            let attached: usize = output.attachments.iter().map(|attached| attached.data().len()).sum();
            Self { hash, bytes: (bytes.len() + attached) as u64, redacted: Vec::new() }
        };
        debug_assert!(
            output.text_sha256.is_none_or(|known| known == Sha256::of(output.text.as_bytes())),
            "a tool is wrong about the digest of its answer"
        );
        match output.text.as_bytes() {
            [] if output.text_as.is_none() => of(output.structured.json().as_bytes(), None),
            text => of(text, output.text_sha256),
        }
    }
}

/// The digest of an answer and of what goes with it.
fn with_attached(answer: &[u8], attached: &[Attachment]) -> Sha256 {
    let mut hasher = Sha256Hasher::new();
    hasher.update(answer);
    attached.iter().for_each(|attached| hasher.update(attached.data().as_bytes()));
    hasher.finish()
}

/// A call that has no record yet. If it is dropped, the record says so: there is no way out without one.
pub(crate) struct Unsettled<'g> {
    pub(crate) gate: &'g Gate,
    pub(crate) begun: Instant,
    pub(crate) call: &'g ToolCall,
    /// Who called, as far as that is known: of a token, nothing before it is verified.
    pub(crate) caller: Arc<Caller>,
    pub(crate) args_hash: Sha256,
    pub(crate) class: Option<ToolClass>,
    /// Where it is, should it be dropped.
    pub(crate) reached: Stage,
    pub(crate) cancelled: CancellationToken,
    pub(crate) settled: bool,
}

impl Unsettled<'_> {
    pub(crate) async fn settle(mut self, outcome: Outcome, response: Option<RawOutput>) -> Settled {
        let duration = self.begun.elapsed();
        self.settled = true;
        let recorded = self.append(&outcome, response.as_ref(), duration);
        let recorded = match (recorded, self.gate.audit_mode) {
            (Ok(ticket), AuditMode::Deny) => ticket.await.map_err(|error| error.to_string()),
            (Ok(_), AuditMode::Warn) => Ok(()),
            (Err(error), _) => Err(error),
        };
        let outcome = match recorded {
            Ok(()) => outcome,
            Err(reason) => self.without_record(outcome, &reason),
        };
        Settled { call: self.call.id, outcome, duration }
    }

    fn without_record(&self, outcome: Outcome, reason: &str) -> Outcome {
        (self.gate.complain)(&format!("a call could not be recorded: {reason}"));
        match self.gate.audit_mode {
            AuditMode::Warn => outcome,
            AuditMode::Deny => {
                let failure = Failure::new(
                    ErrorCode::AuditUnavailable,
                    "this call could not be recorded, so it has no answer",
                )
                .operator_note(reason);
                Outcome::Failed { stage: Stage::Output, failure }
            }
        }
    }

    fn append(
        &self,
        outcome: &Outcome,
        response: Option<&RawOutput>,
        duration: Duration,
    ) -> Result<Ticket, String> {
        let reason = match outcome {
            Outcome::Done(_) => String::new(),
            Outcome::Failed { failure, .. } => operator_reason(failure),
        };
        let denial = match outcome {
            Outcome::Done(_) => None,
            Outcome::Failed { stage, failure } => {
                Some(Denial { stage: *stage, code: failure.code, reason: &reason })
            }
        };
        let entry = Entry {
            call: self.call.id,
            client_call_id: self.call.client_id.as_deref(),
            caller: &self.caller,
            tool: &self.call.tool,
            class: self.class,
            args_hash: self.args_hash,
            denial,
            response: response.map(|raw| Response {
                redacted_fields: &raw.redacted,
                output_hash: raw.hash,
                output_bytes: raw.bytes,
            }),
            duration,
        };
        let audit = &self.gate.audit;
        // Whoever waits for the disk anyway is written together with all others who do.
        let together = self.settled && self.gate.audit_mode == AuditMode::Deny;
        let written = if together { audit.submit(&entry) } else { audit.append(&entry) };
        written.map_err(|error| error.to_string())
    }
}

/// Why, for the operator: the note where there is one. Messages may quote arguments, which records never do.
fn operator_reason(failure: &Failure) -> String {
    failure.operator_note.clone().unwrap_or_else(|| failure.code.as_str().to_owned())
}

impl Drop for Unsettled<'_> {
    fn drop(&mut self) {
        if !self.settled {
            // Whatever still works for this call stops at its next question.
            self.cancelled.cancel();
            let failure = Failure::new(ErrorCode::Cancelled, "the call was abandoned");
            let outcome = Outcome::Failed { stage: self.reached, failure };
            if let Err(reason) = self.append(&outcome, None, self.begun.elapsed()) {
                (self.gate.complain)(&format!("an abandoned call could not be recorded: {reason}"));
            }
        }
    }
}
