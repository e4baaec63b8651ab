//! `check_command` and `stop_command`: the background commands of the caller's own session.
//!
//! Neither can do more than the call that started a command: they see and end only what the same caller started in the same session. So both count as
//! reading, and no person is asked about them.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use toolgate_command::{BackgroundCommands, escape_name};
use toolgate_gate::{ApprovedCall, CallContext, Effect, Preview, PreviewBody, Tool, ToolFuture, ToolSpec};
use toolgate_text::confusables::quote_value;
use toolgate_types::{Category, Failure, ToolClass, ToolOutput};

use crate::command_answer::{background_schema, listed, reported};
use crate::file_tool::{coerce_integers, decode};
use crate::schemas::of_arguments;

/// Shows what a background command wrote.
pub(crate) const CHECK_COMMAND: &str = "check_command";

/// Ends a background command.
pub(crate) const STOP_COMMAND: &str = "stop_command";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CheckArguments {
    /// The id that `run_command` answered with; without one, all of this session are listed
    #[schemars(length(min = 1))]
    id: Option<String>,
    /// How long to wait for output if there is none yet; at most a minute
    #[schemars(range(min = 0, max = 60_000))]
    wait_ms: Option<u64>,
    /// Position to read from, as an earlier answer named it; what is new when absent
    after: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StopArguments {
    /// The id that `run_command` answered with
    #[schemars(length(min = 1))]
    id: String,
}

/// What one of the two tools does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Check,
    Stop,
}

/// One of the two tools.
struct BackgroundTool {
    spec: ToolSpec,
    action: Action,
    commands: Arc<BackgroundCommands>,
}

/// Both tools.
pub(crate) fn background_tools(commands: &Arc<BackgroundCommands>) -> Vec<Arc<dyn Tool>> {
    let check = "Show what a background command has written since the last look, and whether it still runs; without an id, list those of this session.";
    let stop = "End a background command with everything it started, and show its last output.";
    let parts = [
        (Action::Check, CHECK_COMMAND, "Check a background command", check, of_arguments::<CheckArguments>()),
        (Action::Stop, STOP_COMMAND, "Stop a background command", stop, of_arguments::<StopArguments>()),
    ];
    let tools = parts.into_iter().filter_map(|(action, name, title, description, input_schema)| {
        let spec = ToolSpec {
            name: name.parse().ok()?,
            title: title.to_owned(),
            description: description.to_owned(),
            class: ToolClass::Read,
            category: Category::Exec,
            input_schema,
            output_schema: background_schema(),
            requirements: None,
            output_policy: None,
            // A command that ignores `SIGTERM` takes five seconds to end, and the scan after it takes time.
            timeout: Some(Duration::from_secs(180)),
            suspended: None,
        };
        Some(Arc::new(BackgroundTool { spec, action, commands: Arc::clone(commands) }) as Arc<dyn Tool>)
    });
    tools.collect()
}

impl BackgroundTool {
    fn execute(&self, arguments: Value, context: &CallContext) -> Result<ToolOutput, Failure> {
        let arguments = coerce_integers(&self.spec.input_schema, arguments);
        let report = match self.action {
            Action::Stop => {
                let StopArguments { id } = decode(arguments)?;
                self.commands.stop(&id, context)?
            }
            Action::Check => {
                let CheckArguments { id, wait_ms, after } = decode(arguments)?;
                let Some(id) = id else { return Ok(listed(&self.commands.list(context))) };
                let wait = Duration::from_millis(wait_ms.unwrap_or(0));
                self.commands.check(&id, (after, wait), context)?
            }
        };
        reported(report, context)
    }
}

impl Tool for BackgroundTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self) -> Effect {
        match self.action {
            Action::Check => Effect::Any,
            Action::Stop => Effect::Sets,
        }
    }

    fn preview(&self, arguments: &Value, _: &CallContext) -> Result<Preview, Failure> {
        let id = arguments.get("id").and_then(Value::as_str).map(|id| quote_value(&escape_name(id)));
        let summary = match (self.action, id) {
            (Action::Check, Some(id)) => format!("show the output of the background command {id}"),
            (Action::Check, None) => "list the background commands of this session".to_owned(),
            (Action::Stop, id) => format!("end the background command {}", id.unwrap_or_default()),
        };
        Ok(Preview {
            summary: vec![summary],
            body: PreviewBody::Nothing,
            expected_changes: None,
            would_fail: None,
        })
    }

    fn run(self: Arc<Self>, call: ApprovedCall, context: CallContext) -> ToolFuture {
        Box::pin(async move {
            let blocking = context.blocking;
            blocking.run(move || self.execute(call.into_arguments(), &context)).await
        })
    }
}
