//! The tools of a chat studio: `{output, metadata, isError}`.

use serde_json::{Value, json};
use toolgate_command::output_before;
use toolgate_gate::Effect;
use toolgate_text::quoted_name;
use toolgate_types::{Category, Failure, Outcome, ToolClass, ToolOutput};
use toolgate_workspace::{FileContent, ReadRequest, Recorder, WorkspaceError, WorkspaceView};

use crate::arguments::{PathAndContent, ReadArguments, show_write};
use crate::file_tool::{ToolDeclaration, decode};
use crate::native::content_notice;
use crate::profiled_gate::ModelAnswer;
use crate::schemas::{described, object, of_type};
use crate::shell::ShellPresentation;
use crate::web_search::WEB_SEARCH;

pub(crate) fn tools() -> Vec<ToolDeclaration> {
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

/// A command with a non-zero exit code and a search without results count as failed.
fn is_failure(tool: &str, metadata: &Value) -> bool {
    match tool {
        _ if tool == ShellPresentation::Studio.name() => metadata.get("exitCode") != Some(&json!(0)),
        WEB_SEARCH => metadata.get("results").and_then(Value::as_array).is_some_and(Vec::is_empty),
        _ => false,
    }
}

pub(crate) fn render(tool: &str, outcome: Outcome) -> ModelAnswer {
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
