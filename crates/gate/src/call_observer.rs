//! Counting calls as they end, for operators.

use std::time::Duration;

use toolgate_types::{Caller, Decision, ErrorCode, Outcome, Stage, ToolClass};

use crate::audit_guard::AuditGuard;

/// Observes every call, whatever front end or conversation made it. It is notified on the thread of the call, so it must not wait.
pub trait CallObserver: Send + Sync {
    /// A call ended. Each one ends once, also when its future is dropped.
    fn call_ended(&self, call: &EndedCall<'_>);
}

/// Sees the outcome of one call before the call ends, which may take until its record is on disk.
pub trait OutputObserver: Send + Sync {
    /// Nothing will be added to the outcome. It is notified on the thread of the call, so it must not wait.
    fn output_ready(&self, outcome: &Outcome);
}

/// How a call ended, without its arguments and its output.
#[derive(Clone, Copy, Debug)]
pub struct EndedCall<'c> {
    /// The tool; `None` if there is none of the name that the caller chose.
    pub tool: Option<&'c str>,
    /// The class of the tool.
    pub class: Option<ToolClass>,
    /// The caller; for a token that was not verified, a placeholder.
    pub caller: &'c Caller,
    /// The decision as audited.
    pub decision: Decision,
    /// The stage and the code of a denial or failure.
    pub failed: Option<(Stage, ErrorCode)>,
    /// How long it took, without the time that a person was waited for.
    pub duration: Duration,
    /// How long a person was waited for.
    pub waited: Duration,
}

impl AuditGuard<'_> {
    /// Notifies the observer.
    pub(crate) fn report_end(&self, outcome: &Outcome, duration: Duration) {
        let Some(observer) = self.gate.observer.get() else { return };
        let failed = match outcome {
            Outcome::Done(_) => None,
            Outcome::Failed { stage, failure } => Some((*stage, failure.code)),
        };
        observer.call_ended(&EndedCall {
            tool: self.class.map(|_| self.call.tool.as_str()),
            class: self.class,
            caller: &self.caller,
            decision: outcome.decision(),
            failed,
            duration,
            waited: self.waited.total(),
        });
    }
}
