//! The tools of a chat studio: `{output, metadata, isError}`.

use std::sync::LazyLock;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolgate_command::{CommandOutcome, ShellTimeouts, output_before};
use toolgate_gate::{CallContext, Effect, ToolSchema};
use toolgate_manifest::ProfileName;
use toolgate_text::quoted_name;
use toolgate_types::{Failure, Limits, OnFull, OnViolation, Outcome, Sha256, ToolClass, ToolOutput};
use toolgate_workspace::{
    FileContent, FileRead, ReadRequest, Recorder, WorkspaceError, WorkspaceView, WriteResult,
};

use super::native::content_notice;
use super::{AnswerShape, ConversationDefaults, LIMITS, Profile, ProfileDefinition, camel_case};
use crate::file_tool::{Answer, ToolDeclaration};
use crate::preview::{PreviewContent, Verb};
use crate::profiled_gate::ModelAnswer;
use crate::schemas::Undeclared;
use crate::shell::ShellPresentation;
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
            output: command_schema,
            may_fetch: false,
            timeouts: ShellTimeouts { default: None, max: None },
            prefers_bash: true,
            answer: command_answer,
            has_background: false,
        }),
        searches_web: true,
        conversation: ConversationDefaults {
            max_tool_iterations: 200,
            on_full: OnFull::Stop,
            on_violation: OnViolation::Stop,
        },
        approval_timeout: Duration::from_secs(30),
        ..ProfileDefinition::new(ProfileName::Studio, tools, render, AnswerShape::Envelope("metadata"))
    });
}

fn tools() -> &'static [ToolDeclaration] {
    static TOOLS: LazyLock<[ToolDeclaration; 2]> = LazyLock::new(|| {
        [
            ToolDeclaration::new(
                "file_read",
                "Read a file",
                "Read a file's contents within the sandbox, or a range of its lines.",
                ToolClass::Read,
                file_read,
            ),
            ToolDeclaration::new(
                "file_write",
                "Write a file",
                "Create a file or replace its content within the sandbox.",
                ToolClass::Write,
                file_write,
            )
            .with_effect(Effect::Sets)
            .with_preview(|_, WriteArguments { content, .. }| {
                Ok(PreviewContent::Text(Verb::Replace, content))
            }),
        ]
    });
    &*TOOLS
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadArguments {
    /// Path relative to the project, or @central/… for the second zone
    path: String,
    /// First line, from 1
    #[schemars(range(min = 1))]
    start_line: Option<u64>,
    /// Last line, inclusive
    #[schemars(range(min = 1))]
    end_line: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReadMetadata {
    path: String,
    bytes: u64,
    sha256: Sha256,
    line_count: u64,
    start_line: u64,
    end_line: u64,
    truncated: bool,
}

fn file_read(
    view: &WorkspaceView<'_>,
    arguments: ReadArguments,
    _: &dyn Recorder,
) -> Result<Answer<Undeclared<ReadMetadata>>, Failure> {
    let ReadArguments { path, start_line, end_line } = arguments;
    let read = view.read(&path, &ReadRequest { start_line, end_line, refuse_oversize: false })?;
    let FileRead { path, bytes, sha256, content } = read;
    match content {
        FileContent::Binary { .. } => Err(WorkspaceError::Binary { path }.into()),
        FileContent::Text(window) => {
            let notice = content_notice(&window, bytes);
            let metadata = ReadMetadata {
                path,
                bytes,
                sha256,
                line_count: window.total_lines,
                start_line: window.first_line,
                end_line: window.last_line,
                truncated: window.truncated,
            };
            Ok(Answer::new(window.text.into_string() + &notice, Undeclared(metadata)))
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteArguments {
    /// Path relative to the project, or @central/… for the second zone
    path: String,
    /// The whole new content
    content: String,
}

#[derive(Serialize)]
struct WriteMetadata {
    path: String,
    bytes: u64,
    created: bool,
    sha256: Sha256,
}

fn file_write(
    view: &WorkspaceView<'_>,
    arguments: WriteArguments,
    recorder: &dyn Recorder,
) -> Result<Answer<Undeclared<WriteMetadata>>, Failure> {
    let WriteArguments { path, content } = arguments;
    let written = view.write(&path, content.as_bytes(), None, recorder)?;
    let WriteResult { path, bytes, created, sha256_after: sha256, .. } = written;
    let verb = if created { "created" } else { "wrote" };
    let text = format!("{verb} {} ({bytes} bytes)", quoted_name(&path));
    Ok(Answer::new(text, Undeclared(WriteMetadata { path, bytes, created, sha256 })))
}

/// What the frontend that keeps the whole output adds; the other members are not declared.
fn command_schema() -> ToolSchema {
    let full_output =
        json!({"type": "string", "description": "Where the whole output can be read for a while"});
    json!({"type": "object", "properties": {"fullOutput": full_output}}).into()
}

/// The output, with a limit of its own, and all other fields as metadata.
fn command_answer(finished: CommandOutcome, context: &CallContext) -> ToolOutput {
    let (text, cut) = finished.text_of_output(&context.limits);
    let mut facts = finished.facts(cut).into_fields();
    facts.insert("bytes".to_owned(), json!(finished.bytes()));
    let whole = cut.then(|| finished.into_full_text());
    ToolOutput { full_text: whole, ..ToolOutput::new(text, Value::Object(camel_case(facts))) }
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
            (json!({"output": output.text.as_str(), "metadata": metadata, "isError": failed}), failed)
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
