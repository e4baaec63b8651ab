//! Undoing a call's changes: an effect like any other, with an intent and a record.

use std::sync::Arc;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolgate_types::{CallId, Caller, Failure, Outcome, Stage, ToolCall, ToolClass, ToolOutput};

use crate::audit_guard::AuditGuard;
use crate::gate::{AuditMode, Gate};
use crate::journal::{UndoError, UndoOptions, UndoOutcome};

impl Gate {
    /// Undoes the changes of an earlier call. It is an effect like any other, with a write-ahead intent and a record.
    ///
    /// # Errors
    /// See [`UndoError`].
    pub async fn undo(
        &self,
        target: CallId,
        caller: Caller,
        options: UndoOptions,
    ) -> Result<UndoOutcome, UndoError> {
        let call = ToolCall::new("undo", json!({"call": target, "force": options.force}));
        let cancelled = CancellationToken::new();
        let mut unsettled = self.receive(&call, &call.arguments, Arc::new(caller), &cancelled);
        unsettled.class = Some(ToolClass::Write);
        unsettled.stage = Stage::Execution;
        let undone = match self.record_intent(&unsettled, ToolClass::Write) {
            Err(failure) => Err(UndoError::NotRecorded(failure.operator_note.unwrap_or(failure.message))),
            Ok(intent) => {
                let waited = match intent {
                    Some(ticket) => match ticket.await {
                        Err(error) if self.audit_mode == AuditMode::Deny => {
                            Err(UndoError::NotRecorded(error.to_string()))
                        }
                        _ => Ok(()),
                    },
                    None => Ok(()),
                };
                match waited {
                    Ok(()) => self.restore(target, &unsettled, options).await,
                    Err(error) => Err(error),
                }
            }
        };
        let outcome = match &undone {
            Ok(undone) => {
                Outcome::Done(ToolOutput::new(undone.paths.join("\n"), json!({"paths": undone.paths})))
            }
            Err(error) => {
                let failure = Failure::new(error.code(), error.to_string());
                Outcome::Failed { stage: Stage::Execution, failure }
            }
        };
        unsettled.settle(outcome, None).await;
        undone
    }

    async fn restore(
        &self,
        target: CallId,
        unsettled: &AuditGuard<'_>,
        options: UndoOptions,
    ) -> Result<UndoOutcome, UndoError> {
        let Some(workspace) = self.current.load().workspace.clone() else {
            return Err(UndoError::NoWorkspace);
        };
        let (journal, session) = (Arc::clone(self.journal()), unsettled.caller.session.clone());
        let (by, touched) = (unsettled.call.id, unsettled.touched.clone());
        let undoing = move || Ok(journal.undo(target, (by, session), options, &workspace, touched));
        self.blocking.run(undoing).await.unwrap_or_else(|failure| {
            // The undo panicked. The next start's recovery reverts what it left half-done.
            Err(UndoError::NotRecorded(failure.message))
        })
    }
}
