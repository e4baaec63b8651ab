//! The tools of a chat studio: `{output, metadata, isError}`.

use std::time::Duration;

use serde_json::{Map, Value, json};
use toolgate_command::{CommandOutcome, ShellTimeouts, output_before};
use toolgate_gate::{CallContext, Effect};
use toolgate_text::quoted_name;
use toolgate_types::{Category, Failure, Limits, OnFull, OnViolation, Outcome, ToolClass, ToolOutput};
use toolgate_workspace::{FileContent, ReadRequest, Recorder, WorkspaceError, WorkspaceView};

use super::native::content_notice;
use super::{AnswerShape, ConversationDefaults, LIMITS, Profile, ProfileDefinition};
use crate::arguments::{PathAndContent, ReadArguments, show_write};
use crate::file_tool::{ToolDeclaration, decode};
use crate::profiled_gate::ModelAnswer;
use crate::schemas::{described, object, of_type};
use crate::shell::{ShellPresentation, full_output};
use crate::web_search::WEB_SEARCH;

/// The name of its shell.
const BASH: &str = "bash";

impl Profile {
    /// The tools of a chat studio.
    pub const STUDIO: Self = Self(&ProfileDefinition {
        facts: metadata,
        limits: Limits { max_read_bytes: 100_000, ..LIMITS },
        shell: Some(&ShellPresentation {
            name: BASH,
            title: "Run a bash command",
            description: "Run a bash command within the sandbox. The project is at /mnt/project; there is no network unless it was allowed.",
            output: || json!({"type": "object", "properties": {"fullOutput": full_output()}}).into(),
            may_fetch: false,
            timeouts: ShellTimeouts { default: None, max: None },
            prefers_bash: true,
            answer: command_answer,
        }),
        searches_web: true,
        conversation: ConversationDefaults {
            max_tool_iterations: 200,
            on_full: OnFull::Stop,
            on_violation: OnViolation::Stop,
        },
        approval_timeout: Duration::from_secs(30),
        ..ProfileDefinition::new("studio", tools, render, AnswerShape::Envelope("metadata"))
    });
}

fn tools() -> Vec<ToolDeclaration> {
    let path = described("string", "Path relative to the project, or @central/… for the second zone");
    let line = |what: &str| json!({"type": "integer", "minimum": 1, "description": what});
    vec![
        ToolDeclaration {
            name: "file_read",
            title: "Read a file",
            description: "Read a file's contents within the sandbox, or a range of its lines.",
            class: ToolClass::Read,
            category: Category::File,
            effect: Effect::Any,
            input: object(
                [
                    ("path", path.clone()),
                    ("start_line", line("First line, from 1")),
                    ("end_line", line("Last line, inclusive")),
                ],
                &["path"],
            ),
            output: of_type("object").into(),
            work: file_read,
            show: None,
            resource: None,
        },
        ToolDeclaration {
            name: "file_write",
            title: "Write a file",
            description: "Create a file or replace its content within the sandbox.",
            class: ToolClass::Write,
            category: Category::File,
            effect: Effect::Sets,
            input: object(
                [("path", path), ("content", described("string", "The whole new content"))],
                &["path", "content"],
            ),
            output: of_type("object").into(),
            work: file_write,
            show: Some(show_write),
            resource: None,
        },
    ]
}

fn file_read(view: &WorkspaceView<'_>, arguments: Value, _: &dyn Recorder) -> Result<ToolOutput, Failure> {
    let ReadArguments { path, start_line, end_line } = decode(arguments)?;
    let read = view.read(&path, &ReadRequest { start_line, end_line, refuse_oversize: false })?;
    match read.content {
        FileContent::Binary { .. } => Err(WorkspaceError::Binary { path: read.path }.into()),
        FileContent::Text(window) => {
            let structured = json!({
                "path": read.path, "bytes": read.bytes, "sha256": read.sha256.to_string(), "lineCount": window.total_lines,
                "startLine": window.first_line, "endLine": window.last_line, "truncated": window.truncated,
            });
            let notice = content_notice(&window, read.bytes);
            Ok(ToolOutput::new(window.text + &notice, structured))
        }
    }
}

fn file_write(
    view: &WorkspaceView<'_>,
    arguments: Value,
    recorder: &dyn Recorder,
) -> Result<ToolOutput, Failure> {
    let PathAndContent { path, content } = decode(arguments)?;
    let written = view.write(&path, content.as_bytes(), None, recorder)?;
    let text = format!(
        "{} {} ({} bytes)",
        if written.created { "created" } else { "wrote" },
        quoted_name(&written.path),
        written.bytes
    );
    let structured = json!({
        "path": written.path, "bytes": written.bytes, "created": written.created, "sha256": written.sha256_after.to_string(),
    });
    Ok(ToolOutput::new(text, structured))
}

/// The output, with a limit of its own, and all other fields as metadata.
fn command_answer(finished: CommandOutcome, context: &CallContext) -> ToolOutput {
    let (text, cut) = finished.text_of_output(&context.limits);
    let mut facts = finished.facts(cut);
    facts.insert("bytes".to_owned(), json!(finished.bytes()));
    let whole = cut.then(|| finished.into_full_text());
    ToolOutput { full_text: whole, ..ToolOutput::new(text, Value::Object(camel_case(facts))) }
}

fn camel_case(fields: Map<String, Value>) -> Map<String, Value> {
    let rename = |name: String| {
        let mut words = name.split('_');
        let first = words.next().unwrap_or_default().to_owned();
        words.fold(first, |name, word| {
            let mut letters = word.chars();
            let upper = letters.next().map(|letter| letter.to_ascii_uppercase());
            name.chars().chain(upper).chain(letters).collect()
        })
    };
    fields.into_iter().map(|(name, value)| (rename(name), value)).collect()
}

/// The metadata of an answer.
fn metadata(mut answer: Value) -> Map<String, Value> {
    match answer.get_mut("metadata").map(Value::take) {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// A command with a non-zero exit code and a search without results count as failed.
fn is_failure(tool: &str, metadata: &Value) -> bool {
    match tool {
        BASH => metadata.get("exitCode") != Some(&json!(0)),
        WEB_SEARCH => metadata.get("results").and_then(Value::as_array).is_some_and(Vec::is_empty),
        _ => false,
    }
}

fn render(tool: &str, outcome: Outcome) -> ModelAnswer {
    let (result, is_error) = match outcome {
        Outcome::Done(output) => {
            // A tool that answers with text or a list has all of it in the output.
            let metadata = Some(output.structured.into_value()).filter(Value::is_object);
            let metadata = metadata.unwrap_or_else(|| json!({}));
            let failed = is_failure(tool, &metadata);
            (json!({"output": output.text, "metadata": metadata, "isError": failed}), failed)
        }
        Outcome::Failed { stage, failure } => {
            let mut metadata = json!({
                "code": failure.code.as_str(), "stage": stage.as_str(), "violation": failure.code.is_violation(),
            });
            let text = failure.to_string() + &output_before(&failure);
            if let (false, Value::Object(fields)) = (failure.details.is_empty(), &mut metadata) {
                fields.insert("details".to_owned(), Value::Object(failure.details));
            }
            (json!({"output": text, "metadata": metadata, "isError": true}), true)
        }
    };
    ModelAnswer { text: result.to_string(), structured: Some(result.into()), is_error }
}
