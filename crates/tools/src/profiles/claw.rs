//! Five text tools: `ok: …`, or a stable category and a reason.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use toolgate_gate::Effect;
use toolgate_text::edit::Edit;
use toolgate_text::quoted_name;
use toolgate_types::{Category, ErrorCode, Failure, Limits, Outcome, ToolClass, ToolOutput};
use toolgate_workspace::{
    DryRun, FileContent, NoopRecorder, ReadRequest, Recorder, Transformed, WorkspaceError, WorkspaceView,
};

use super::native::list_text;
use super::{AnswerShape, LIMITS, Profile, ProfileDefinition};
use crate::arguments::{ListArguments, PathAndContent, every_entry, show_append, show_write};
use crate::file_tool::{ToolDeclaration, decode};
use crate::output_budget::{EntryCost, bound_listing};
use crate::preview::{PreviewContent, Verb};
use crate::profiled_gate::ModelAnswer;
use crate::schemas::{described, object, of_type};

impl Profile {
    /// MiniClaw's five text tools.
    pub const CLAW: Self = Self(&ProfileDefinition {
        error_code: category,
        text_is_json: false,
        limits: Limits { max_entries: 500, timeout: Duration::from_secs(10), ..LIMITS },
        ..ProfileDefinition::new("claw", tools, render, AnswerShape::Text)
    });
}

fn tools() -> Vec<ToolDeclaration> {
    let path = described("string", "Path relative to the workspace");
    let content = described("string", "Text content");
    let declare = |name, title, description, class, input, work, show| ToolDeclaration {
        name,
        title,
        description,
        class,
        category: Category::File,
        effect: Effect::Any,
        input,
        output: of_type("string").into(),
        work,
        show,
        resource: None,
    };
    vec![
        declare(
            "read_file",
            "Read a file",
            "Read a UTF-8 text file of the workspace.",
            ToolClass::Read,
            object([("path", path.clone())], &["path"]),
            read_file,
            None,
        ),
        declare(
            "write_file",
            "Write a file",
            "Replace the whole content of a file, or create it. Parent directories are made.",
            ToolClass::Write,
            object([("path", path.clone()), ("content", content.clone())], &["path", "content"]),
            write_file,
            Some(show_write),
        )
        .with_effect(Effect::Sets),
        declare(
            "append_file",
            "Append to a file",
            "Add text to the end of a file, or create it.",
            ToolClass::Write,
            object([("path", path.clone()), ("content", content)], &["path", "content"]),
            append_file,
            Some(show_append),
        )
        .with_effect(Effect::Adds),
        declare(
            "list_dir",
            "List a directory",
            "List the entries of a directory, sorted by name. Without a path: the workspace.",
            ToolClass::Read,
            object([("path", path.clone())], &[]),
            list_dir,
            None,
        ),
        declare(
            "edit_file",
            "Edit a file",
            "Replace exact text. old_text must match once, unless replace_all is true.",
            ToolClass::Write,
            object(
                [
                    ("path", path),
                    ("old_text", described("string", "Text to replace, exactly")),
                    ("new_text", described("string", "Text to put in its place")),
                    ("replace_all", described("boolean", "Replace every match (default false)")),
                ],
                &["path", "old_text", "new_text"],
            ),
            edit_file,
            Some(show_edit),
        ),
    ]
}

fn ok(text: String) -> Result<ToolOutput, Failure> {
    let text = format!("ok: {text}");
    Ok(ToolOutput::new(text.clone(), Value::String(text)))
}

#[derive(Deserialize)]
struct PathOnly {
    path: String,
}

fn read_file(view: &WorkspaceView<'_>, arguments: Value, _: &dyn Recorder) -> Result<ToolOutput, Failure> {
    let PathOnly { path } = decode(arguments)?;
    let read = view.read(&path, &ReadRequest::default())?;
    match read.content {
        FileContent::Binary { .. } => Err(WorkspaceError::Binary { path: read.path }.into()),
        FileContent::Text(window) => {
            let shown = window.text.len();
            let notice = match window.truncated {
                true => format!("\n[truncated: first {shown} of {} bytes shown]", read.bytes),
                false => String::new(),
            };
            ok(format!("read {shown} bytes from {}\n{}{notice}", quoted_name(&read.path), window.text))
        }
    }
}

fn write_file(
    view: &WorkspaceView<'_>,
    arguments: Value,
    recorder: &dyn Recorder,
) -> Result<ToolOutput, Failure> {
    let PathAndContent { path, content } = decode(arguments)?;
    let written = view.write(&path, content.as_bytes(), None, recorder)?;
    ok(format!("wrote {} bytes to {}", written.bytes, quoted_name(&written.path)))
}

fn append_file(
    view: &WorkspaceView<'_>,
    arguments: Value,
    recorder: &dyn Recorder,
) -> Result<ToolOutput, Failure> {
    let PathAndContent { path, content } = decode(arguments)?;
    let written = view.append(&path, content.as_bytes(), recorder)?;
    ok(format!(
        "appended {} bytes to {} (now {} bytes)",
        content.len(),
        quoted_name(&written.path),
        written.bytes
    ))
}

fn list_dir(view: &WorkspaceView<'_>, arguments: Value, _: &dyn Recorder) -> Result<ToolOutput, Failure> {
    let arguments: ListArguments = decode(arguments)?;
    let mut listed = view.list(arguments.path(), &every_entry(view, true))?;
    bound_listing(view, &mut listed, EntryCost { names: 1, overhead: 24 });
    ok(format!("{} entries in {}\n{}", listed.total, quoted_name(&listed.path), list_text(&listed)))
}

#[derive(Deserialize)]
struct EditArguments {
    path: String,
    old_text: String,
    new_text: String,
    #[serde(default)]
    replace_all: bool,
}

fn edit(
    view: &WorkspaceView<'_>,
    arguments: Value,
    rehearsal: DryRun,
    recorder: &dyn Recorder,
) -> Result<(Transformed, usize), Failure> {
    let EditArguments { path, old_text, new_text, replace_all } = decode(arguments)?;
    let edits = [Edit { old_text, new_text, replace_all }];
    crate::edit::edit(view, &path, &edits, rehearsal, recorder)
}

fn show_edit(view: &WorkspaceView<'_>, arguments: Value) -> Result<PreviewContent, Failure> {
    let (transformed, _) = edit(view, arguments, DryRun::Yes, &NoopRecorder)?;
    Ok(PreviewContent::Text(Verb::Edit, transformed.after))
}

fn edit_file(
    view: &WorkspaceView<'_>,
    arguments: Value,
    recorder: &dyn Recorder,
) -> Result<ToolOutput, Failure> {
    let (transformed, count) = edit(view, arguments, DryRun::No, recorder)?;
    ok(format!("replaced {count} of {count} matches in {}", quoted_name(&transformed.written.path)))
}

/// This profile's stable error categories.
#[deny(
    clippy::wildcard_enum_match_arm,
    reason = "a new code does not compile before the profile decides about it"
)]
fn category(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::InvalidPath => "invalid_path",
        ErrorCode::UnknownAlias
        | ErrorCode::OutsideWorkspace
        | ErrorCode::SymlinkOutsideWorkspace
        | ErrorCode::SymlinkLoop => "outside_workspace",
        ErrorCode::NotFound => "path_not_found",
        ErrorCode::DeniedPath
        | ErrorCode::OutOfScope
        | ErrorCode::ReadOnly
        | ErrorCode::SpecialFile
        | ErrorCode::PermissionDenied
        | ErrorCode::NotPermitted
        | ErrorCode::Unauthenticated
        | ErrorCode::CommandBlocked
        | ErrorCode::SandboxUnavailable
        | ErrorCode::RateLimited
        | ErrorCode::ToolSuspended
        | ErrorCode::ApprovalDenied
        | ErrorCode::ApprovalExpired
        | ErrorCode::ApprovalUnavailable => "permission_denied",
        ErrorCode::EditAmbiguous => "ambiguous_edit",
        ErrorCode::EditNotFound => "edit_not_found",
        // The original has no category for a call that never reached a file; the gate's own code is the most precise.
        ErrorCode::UnknownTool | ErrorCode::InvalidArguments => code.as_str(),
        ErrorCode::NotAFile
        | ErrorCode::NotADirectory
        | ErrorCode::AlreadyExists
        | ErrorCode::BinaryFile
        | ErrorCode::ReadLimit
        | ErrorCode::WriteLimit
        | ErrorCode::InvalidRange
        | ErrorCode::InvalidPattern
        | ErrorCode::PreconditionFailed
        | ErrorCode::PatchInvalid
        | ErrorCode::PatchConflict
        | ErrorCode::InvalidFrontmatter
        | ErrorCode::SchemaViolation
        | ErrorCode::InvalidTransition
        | ErrorCode::CommandFailed
        | ErrorCode::CommandNotFound
        | ErrorCode::ResourceLimit
        | ErrorCode::DiskFull
        | ErrorCode::ReadOnlyFilesystem
        | ErrorCode::IoError
        | ErrorCode::Timeout
        | ErrorCode::Cancelled
        | ErrorCode::Interrupted
        | ErrorCode::OutputInvalid
        | ErrorCode::Internal
        | ErrorCode::AuditUnavailable => "io_error",
    }
}

fn render(_: &str, outcome: Outcome) -> ModelAnswer {
    match outcome {
        Outcome::Done(output) => ModelAnswer { text: output.text, structured: None, is_error: false },
        Outcome::Failed { failure, .. } => ModelAnswer {
            text: format!("{}: {failure}", category(failure.code)),
            structured: None,
            is_error: true,
        },
    }
}
