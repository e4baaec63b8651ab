//! `check_command` and `stop_command`: the background commands of the caller's own session.
//!
//! Neither can do more than the call that started a command: they see and end only what the same caller started in the same session. So both count as
//! reading, and no person is asked about them.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolgate_command::{
    BackgroundCommands, BackgroundReport, BackgroundSummary, CommandOutcome, escape_name,
};
use toolgate_gate::{
    ApprovedCall, CallContext, Effect, Preview, PreviewBody, Tool, ToolFuture, ToolSchema, ToolSpec,
};
use toolgate_text::confusables::quote_value;
use toolgate_types::{Category, Failure, ToolClass, ToolOutput};

use crate::file_tool::{coerce_integers, decode};
use crate::schemas::{NOTICE, of_arguments};

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
            output_schema: output_schema(),
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

fn output_schema() -> ToolSchema {
    let objects = json!({"type": "array", "items": {"type": "object"}});
    json!({
        "type": "object",
        "properties": {
            "commands": objects,
            "id": {"type": "string"},
            "state": {"type": "string", "enum": ["running", "ended"]},
            "output": {"type": "string"},
            "after": {"type": "integer", "description": "Position after this output"},
            "lost": {"type": "integer", "description": "Bytes before this output that are no longer kept"},
            "more": {"type": "boolean", "description": "Whether there is more output now"},
            "stopped": {"type": "string", "description": "Why it was ended"},
            "exit_code": {"type": ["integer", "null"]},
            "signal": {"type": ["string", "null"]},
            "duration_ms": {"type": "integer"},
            "truncated": {"type": "boolean"},
            "timed_out": {"type": "boolean"},
            "denied": objects,
            "refused_hosts": objects,
            "quarantined": objects,
            "quarantined_total": {"type": "integer"},
            "left_behind": objects,
            "hidden_files": {"type": "integer"},
            "pinned_folders": {"type": "integer"},
            "hidden_folders": {"type": "array", "items": {"type": "string"}},
            NOTICE: {"type": "string"},
        },
        "additionalProperties": false,
    })
    .into()
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
        answer(report, context)
    }
}

fn listed(all: &[BackgroundSummary]) -> ToolOutput {
    let state = |summary: &BackgroundSummary| if summary.is_running { "running" } else { "ended" };
    let lines = all.iter().map(|summary| {
        let BackgroundSummary { id, command, age, .. } = summary;
        format!("{id} {} started {} s ago: {command}\n", state(summary), age.as_secs())
    });
    let text: String = lines.collect();
    let text = if text.is_empty() { "no background commands in this session\n".to_owned() } else { text };
    let commands: Vec<Value> = all
        .iter()
        .map(|summary| {
            let age = u64::try_from(summary.age.as_millis()).unwrap_or(u64::MAX);
            json!({"id": summary.id, "command": summary.command, "state": state(summary), "age_ms": age})
        })
        .collect();
    ToolOutput::new(text, json!({"commands": commands}))
}

/// A report in words and as data. A command whose end could not be scanned is a failure, as it is where it runs in the foreground.
fn answer(report: BackgroundReport, context: &CallContext) -> Result<ToolOutput, Failure> {
    let BackgroundReport { id, output, after, lost, more, end, stopped, quarantined } = report;
    let mut text =
        if lost > 0 { format!("[{lost} bytes before this are no longer kept]\n") } else { String::new() };
    text.push_str(&output);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    if more {
        text.push_str("[there is more: call again]\n");
    }
    let mut fields = Map::new();
    let end = match end {
        None => CommandOutcome { quarantined, ..CommandOutcome::default() },
        Some(end) => {
            let mut end = (*end).clone()?;
            end.quarantined.splice(0..0, quarantined);
            fields = end.facts(false);
            end
        }
    };
    let state = if end.exit.is_some() { "ended" } else { "running" };
    match stopped.map(|reason| reason.text()) {
        Some(reason) => text.push_str(&format!("[{id} is {state}: {reason}]\n")),
        None => text.push_str(&format!("[{id} is {state}]\n")),
    }
    let (words, _) = end.text(&context.limits);
    text.push_str(&words);
    if end.exit.is_none() && !end.quarantined.is_empty() {
        let facts = end.facts(false).into_iter();
        fields = facts.filter(|(name, _)| name.starts_with("quarantined")).collect();
    }
    let own = [
        ("id", json!(id)),
        ("state", json!(state)),
        ("output", json!(output)),
        ("after", json!(after)),
        ("lost", json!(lost)),
        ("more", json!(more)),
    ];
    let stopped = stopped.map(|reason| ("stopped", json!(reason.as_str())));
    fields.extend(own.into_iter().chain(stopped).map(|(name, value)| (name.to_owned(), value)));
    Ok(ToolOutput::new(text, Value::Object(fields)))
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
