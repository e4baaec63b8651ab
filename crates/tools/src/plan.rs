//! The plan of a task, as the model keeps it with `update_plan`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The tool that a model keeps its plan with.
pub const PLAN_TOOL: &str = "update_plan";

// The doc comments of a member's type would be its description.

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// All steps, in order.
    pub steps: Vec<PlanStep>,
}

impl Plan {
    /// How much of it is done: `1 of 3 steps completed`.
    #[must_use]
    pub fn progress(&self) -> String {
        let completed = self.steps.iter().filter(|step| step.status == PlanStatus::Completed).count();
        format!("{completed} of {} steps completed", self.steps.len())
    }
}

// One step of a plan.
#[allow(missing_docs, reason = "a doc comment would be the description of every member of this type")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanStep {
    /// What is done, in a few words
    #[schemars(length(min = 1, max = 400))]
    pub step: String,
    /// How far it is
    pub status: PlanStatus,
}

// How far a step is.
#[allow(missing_docs, reason = "a doc comment would be the description of every member of this type")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanStatus {
    Pending,
    InProgress,
    Completed,
}
