//! Faults that no further call can fix: a caller that makes calls in a loop ends there instead of asking the model again.

use std::fmt;

use toolgate_types::{ErrorCode, Stage};

use crate::profiled_gate::{CallResponse, ProfiledGate};

/// A fault of the gate's environment. A mistake in a call is not a fault: its answer says what is wrong, and the next call may succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A mount's directory was removed while in use.
    MountGone {
        /// The mount's alias.
        alias: String,
    },
    /// The undo journal was removed while in use.
    JournalGone,
    /// Calls cannot be audited, and none may run without a record.
    NotRecorded {
        /// Why, for the operator.
        reason: String,
    },
    /// The run log (`logs/execution.jsonl`) cannot be written.
    RunLog {
        /// Why.
        reason: String,
    },
}

impl Fault {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::MountGone { .. } => "workspace_gone",
            Self::JournalGone => "state_gone",
            Self::NotRecorded { .. } => ErrorCode::AuditUnavailable.as_str(),
            Self::RunLog { .. } => "run_log_unavailable",
        }
    }

    /// What the operator can do.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::MountGone { .. } => "begin again with a directory that is there",
            Self::JournalGone => "begin again, and leave the state directory to the gate",
            Self::NotRecorded { .. } => {
                "make the audit directory writable again; `audit.on_failure: warn` lets calls that only read go on without a record"
            }
            Self::RunLog { .. } => {
                "make `logs/execution.jsonl` of the run writable again; `audit.on_failure: warn` lets the run go on without it"
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MountGone { alias } => {
                write!(formatter, "the directory of `{alias}` was removed while it was in use")
            }
            Self::JournalGone => formatter.write_str("the undo journal was removed while it was in use"),
            Self::NotRecorded { reason } => write!(formatter, "calls cannot be recorded: {reason}"),
            Self::RunLog { reason } => {
                write!(formatter, "the run's log `@state/logs/execution.jsonl` cannot be written: {reason}")
            }
        }
    }
}

impl ProfiledGate {
    /// The reason why no call after this one can succeed, if there is one. Costs one `fstat` per mount and one for the journal.
    #[must_use]
    pub fn fault(&self, called: &CallResponse) -> Option<Fault> {
        let gone =
            self.workspace().and_then(|workspace| workspace.mounts().iter().find(|mount| mount.is_gone()));
        if let Some(mount) = gone {
            return Some(Fault::MountGone { alias: mount.alias().to_owned() });
        }
        if self.gate().journal().is_gone() {
            return Some(Fault::JournalGone);
        }
        if let Some(reason) = self.run_log_failure().filter(|_| self.gate().must_record()) {
            return Some(Fault::RunLog { reason: reason.to_owned() });
        }
        let (stage, failure) = called.failed.as_ref()?;
        // With `audit.on_failure: warn`, reads go on while their records can be counted. A read whose answer is withheld at the output stage because
        // its record failed is the first of many: every later one fails too.
        let is_last = self.gate().must_record() || *stage == Stage::Output;
        (failure.code == ErrorCode::AuditUnavailable && is_last).then(|| Fault::NotRecorded {
            reason: failure.operator_note.clone().unwrap_or_else(|| failure.message.clone()),
        })
    }
}
