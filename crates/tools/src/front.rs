//! A profile in front of a gate.

use std::sync::Arc;

use serde_json::Value;
use toolgate_gate::{CallOptions, Gate, Settled};
use toolgate_types::{Caller, ToolCall};

use crate::crew::RunLog;
use crate::profile::Profile;

/// What a model is given.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The text.
    pub text: String,
    /// The same for programs, where the profile has it.
    pub structured: Option<Value>,
    /// Whether the call did not do what was asked.
    pub is_error: bool,
}

/// A gate that speaks a profile's language.
pub struct Front {
    profile: Profile,
    gate: Arc<Gate>,
    run_log: Option<RunLog>,
}

impl Front {
    /// A front without a run.
    #[must_use]
    pub fn new(profile: Profile, gate: Arc<Gate>) -> Self {
        Self { profile, gate, run_log: None }
    }

    /// Also writes every call to the run's own log, in this folder (`@state`).
    #[must_use]
    pub fn with_run_log(mut self, state: cap_std::fs::Dir) -> Self {
        self.run_log = Some(RunLog::new(state));
        self
    }

    /// The gate behind it.
    #[must_use]
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// One call. Answers with what a model is given, and with what the gate knows.
    pub async fn call(&self, call: ToolCall, caller: Caller, options: CallOptions) -> (Answer, Settled) {
        let told = self.run_log.as_ref().map(|log| log.begin(&call, &caller));
        let tool = call.tool.clone();
        let settled = self.gate.call(call, caller, options).await;
        let answer = self.profile.render(&tool, &settled.outcome);
        if let (Some(log), Some(told)) = (&self.run_log, told) {
            log.finish(told, &answer, settled.duration);
        }
        (answer, settled)
    }
}
