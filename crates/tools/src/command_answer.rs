//! What the shell and the tools for background commands answer with.

use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::{Map, Value, json};
use toolgate_command::{BackgroundReport, BackgroundSummary, CommandFacts, CommandOutcome};
use toolgate_gate::{CallContext, ToolSchema};
use toolgate_types::{Failure, ToolOutput};

use crate::schemas::{leading, of_answer};

/// What `run_command` answers with.
#[derive(Serialize, JsonSchema)]
#[schemars(transform = leading(&["exit_code", "signal", "duration_ms", "stdout", "stderr"]), transform = closed)]
struct ShellAnswer {
    #[serde(flatten)]
    facts: CommandFacts,
    stdout: String,
    stderr: String,
    /// Where the whole output can be read for a while
    // Filled in by the frontend that keeps it, as is the notice.
    #[serde(skip_serializing_if = "Option::is_none")]
    full_output: Option<String>,
    /// The id of a line that goes on after this answer
    #[serde(skip_serializing_if = "Option::is_none")]
    background: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
}

/// What `check_command` and `stop_command` answer with: a list, or one command.
#[derive(Default, Serialize, JsonSchema)]
#[schemars(transform = closed)]
struct BackgroundAnswer {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<Map<String, Value>>>")]
    commands: Option<Vec<ListedCommand>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<CommandState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    /// Position after this output
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<u64>,
    /// Bytes before this output that are no longer kept
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<u64>,
    /// Whether there is more output now
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<bool>,
    /// Why it was ended
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<&'static str>,
    /// What is known of it: while it runs, only what was quarantined.
    #[serde(flatten)]
    #[schemars(with = "Option<CommandFacts>")]
    facts: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
}

/// A command in a list.
#[derive(Serialize)]
struct ListedCommand {
    id: String,
    command: String,
    state: CommandState,
    age_ms: u64,
}

// Whether a command runs.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CommandState {
    Running,
    Ended,
}

impl CommandState {
    fn of(is_running: bool) -> Self {
        if is_running { Self::Running } else { Self::Ended }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ended => "ended",
        }
    }
}

/// An object has no other members. `deny_unknown_fields` cannot say so of flattened ones.
fn closed(schema: &mut Schema) {
    schema.insert("additionalProperties".to_owned(), json!(false));
}

pub(crate) fn shell_schema() -> ToolSchema {
    of_answer::<ShellAnswer>()
}

pub(crate) fn background_schema() -> ToolSchema {
    of_answer::<BackgroundAnswer>()
}

/// An answer as data. What is no object matches no tool's schema.
fn data(answer: &impl Serialize) -> Value {
    serde_json::to_value(answer).unwrap_or_default()
}

/// Text, and all fields as data.
pub(crate) fn all_fields(finished: CommandOutcome, context: &CallContext) -> ToolOutput {
    let (text, text_cut) = finished.text(&context.limits);
    let (stdout, stderr, cut) = finished.streams(&context.limits);
    let cut = cut || text_cut;
    let facts = finished.facts(cut);
    let answer = ShellAnswer { facts, stdout, stderr, full_output: None, background: None, notice: None };
    ToolOutput { full_text: cut.then(|| finished.into_full_text()), ..ToolOutput::new(text, data(&answer)) }
}

/// A line was started in the background.
pub(crate) fn started(id: String) -> ToolOutput {
    let text = format!(
        "[started in the background as {id}: `check_command` shows its output, `stop_command` ends it; it ends with this session]"
    );
    let answer = ShellAnswer {
        facts: CommandOutcome::default().facts(false),
        stdout: String::new(),
        stderr: String::new(),
        full_output: None,
        background: Some(id),
        notice: None,
    };
    ToolOutput::new(text, data(&answer))
}

/// The background commands of a session.
pub(crate) fn listed(all: &[BackgroundSummary]) -> ToolOutput {
    let lines = all.iter().map(|summary| {
        let BackgroundSummary { id, command, age, is_running } = summary;
        format!("{id} {} started {} s ago: {command}\n", CommandState::of(*is_running).text(), age.as_secs())
    });
    let text: String = lines.collect();
    let text = if text.is_empty() { "no background commands in this session\n".to_owned() } else { text };
    let commands = all.iter().map(|summary| ListedCommand {
        id: summary.id.clone(),
        command: summary.command.clone(),
        state: CommandState::of(summary.is_running),
        age_ms: u64::try_from(summary.age.as_millis()).unwrap_or(u64::MAX),
    });
    let answer = BackgroundAnswer { commands: Some(commands.collect()), ..BackgroundAnswer::default() };
    ToolOutput::new(text, data(&answer))
}

/// A report in words and as data. A command whose end could not be scanned is a failure, as it is where it runs in the foreground.
pub(crate) fn reported(report: BackgroundReport, context: &CallContext) -> Result<ToolOutput, Failure> {
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
    let end = match end {
        None => CommandOutcome { quarantined, ..CommandOutcome::default() },
        Some(end) => {
            let mut end = (*end).clone()?;
            end.quarantined.splice(0..0, quarantined);
            end
        }
    };
    let state = CommandState::of(end.exit.is_none());
    match stopped.map(|reason| reason.text()) {
        Some(reason) => text.push_str(&format!("[{id} is {}: {reason}]\n", state.text())),
        None => text.push_str(&format!("[{id} is {}]\n", state.text())),
    }
    text.push_str(&end.text(&context.limits).0);
    if end.retry_asks {
        text.push_str("[starting it again asks a person whether it may reach what it was refused]\n");
    }
    let (has_ended, has_quarantined) = (end.exit.is_some(), !end.quarantined.is_empty());
    let mut facts = end.facts(false).into_fields();
    facts.retain(|name, value| {
        !value.is_null() && (has_ended || (has_quarantined && name.starts_with("quarantined")))
    });
    let answer = BackgroundAnswer {
        id: Some(id),
        state: Some(state),
        output: Some(output),
        after: Some(after),
        lost: Some(lost),
        more: Some(more),
        stopped: stopped.map(|reason| reason.as_str()),
        facts,
        ..BackgroundAnswer::default()
    };
    Ok(ToolOutput::new(text, data(&answer)))
}
