//! A plan that the model keeps. It reads and changes nothing: frontends show it.

use schemars::JsonSchema;
use serde::Deserialize;
use toolgate_types::{Failure, ToolClass};
use toolgate_workspace::{Recorder, WorkspaceView};

use crate::file_tool::{Answer, ToolDeclaration};
use crate::plan::{PLAN_TOOL, Plan, PlanStep};

pub(super) fn tools() -> [ToolDeclaration; 1] {
    [ToolDeclaration::new(
        PLAN_TOOL,
        "Update the plan",
        "Show the person the steps of a task that takes several, and how far each is. Send all steps every time; at most one is in_progress. \
         It changes no file.",
        ToolClass::Read,
        update_plan,
    )]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PlanArguments {
    /// All steps, in order
    #[schemars(length(min = 1, max = 50))]
    steps: Vec<PlanStep>,
}

fn update_plan(
    _: &WorkspaceView<'_>,
    PlanArguments { steps }: PlanArguments,
    _: &dyn Recorder,
) -> Result<Answer<Plan>, Failure> {
    let plan = Plan { steps };
    Ok(Answer::new(format!("the plan is shown: {}", plan.progress()), plan))
}
