//! Five text tools: `ok: …`, or a stable category and a reason.

use std::sync::LazyLock;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use toolgate_gate::Effect;
use toolgate_manifest::ProfileName;
use toolgate_text::edit::Edit;
use toolgate_text::quoted_name;
use toolgate_types::{ErrorCode, Failure, Limits, Outcome, ToolClass};
use toolgate_workspace::{
    DryRun, FileContent, NoopRecorder, ReadRequest, Recorder, Transformed, WorkspaceError, WorkspaceView,
};

use super::native::list_text;
use super::{AnswerShape, LIMITS, Profile, ProfileDefinition};
use crate::file_tool::{Answer, ToolDeclaration};
use crate::output_budget::{EntryCost, bound_listing, every_entry};
use crate::preview::{PreviewContent, Verb};
use crate::profiled_gate::ModelAnswer;

impl Profile {
    /// MiniClaw's five text tools.
    pub const CLAW: Self = Self(&ProfileDefinition {
        error_code: category,
        text_is_json: false,
        limits: Limits { max_entries: 500, timeout: Duration::from_secs(10), ..LIMITS },
        ..ProfileDefinition::new(ProfileName::Claw, tools, render, AnswerShape::Text)
    });
}

fn tools() -> &'static [ToolDeclaration] {
    static TOOLS: LazyLock<[ToolDeclaration; 5]> = LazyLock::new(|| {
        [
            ToolDeclaration::new(
                "read_file",
                "Read a file",
                "Read a UTF-8 text file of the workspace.",
                ToolClass::Read,
                read_file,
            ),
            ToolDeclaration::new(
                "write_file",
                "Write a file",
                "Replace the whole content of a file, or create it. Parent directories are made.",
                ToolClass::Write,
                write_file,
            )
            .with_effect(Effect::Sets)
            .with_preview(|_, PathAndContent { content, .. }| {
                Ok(PreviewContent::Text(Verb::Replace, content))
            }),
            ToolDeclaration::new(
                "append_file",
                "Append to a file",
                "Add text to the end of a file, or create it.",
                ToolClass::Write,
                append_file,
            )
            .with_effect(Effect::Adds)
            .with_preview(|_, PathAndContent { content, .. }| {
                Ok(PreviewContent::Text(Verb::Append, content))
            }),
            ToolDeclaration::new(
                "list_dir",
                "List a directory",
                "List the entries of a directory, sorted by name. Without a path: the workspace.",
                ToolClass::Read,
                list_dir,
            ),
            ToolDeclaration::new(
                "edit_file",
                "Edit a file",
                "Replace exact text. old_text must match once, unless replace_all is true.",
                ToolClass::Write,
                edit_file,
            )
            .with_preview(preview_edit),
        ]
    });
    &*TOOLS
}

/// All that a tool answers is its text.
fn ok(text: &str) -> Result<Answer<String>, Failure> {
    let text = format!("ok: {text}");
    Ok(Answer::new(text.clone(), text))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadArguments {
    /// Path relative to the workspace
    path: String,
}

fn read_file(
    view: &WorkspaceView<'_>,
    arguments: ReadArguments,
    _: &dyn Recorder,
) -> Result<Answer<String>, Failure> {
    let read = view.read(&arguments.path, &ReadRequest::default())?;
    match read.content {
        FileContent::Binary { .. } => Err(WorkspaceError::Binary { path: read.path }.into()),
        FileContent::Text(window) => {
            let shown = window.text.len();
            let notice = match window.truncated {
                true => format!("\n[truncated: first {shown} of {} bytes shown]", read.bytes),
                false => String::new(),
            };
            ok(&format!("read {shown} bytes from {}\n{}{notice}", quoted_name(&read.path), window.text))
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PathAndContent {
    /// Path relative to the workspace
    path: String,
    /// Text content
    content: String,
}

fn write_file(
    view: &WorkspaceView<'_>,
    arguments: PathAndContent,
    recorder: &dyn Recorder,
) -> Result<Answer<String>, Failure> {
    let PathAndContent { path, content } = arguments;
    let written = view.write(&path, content.as_bytes(), None, recorder)?;
    ok(&format!("wrote {} bytes to {}", written.bytes, quoted_name(&written.path)))
}

fn append_file(
    view: &WorkspaceView<'_>,
    arguments: PathAndContent,
    recorder: &dyn Recorder,
) -> Result<Answer<String>, Failure> {
    let PathAndContent { path, content } = arguments;
    let written = view.append(&path, content.as_bytes(), recorder)?;
    let (added, path) = (content.len(), quoted_name(&written.path));
    ok(&format!("appended {added} bytes to {path} (now {} bytes)", written.bytes))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    /// Path relative to the workspace
    path: Option<String>,
}

fn list_dir(
    view: &WorkspaceView<'_>,
    arguments: ListArguments,
    _: &dyn Recorder,
) -> Result<Answer<String>, Failure> {
    let mut listed = view.list(arguments.path.as_deref().unwrap_or("."), &every_entry(view, true))?;
    bound_listing(view, &mut listed, EntryCost { names: 1, overhead: 24 });
    ok(&format!("{} entries in {}\n{}", listed.total, quoted_name(&listed.path), list_text(&listed)))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EditArguments {
    /// Path relative to the workspace
    path: String,
    /// Text to replace, exactly
    old_text: String,
    /// Text to put in its place
    new_text: String,
    /// Replace every match (default false)
    #[serde(default)]
    replace_all: bool,
}

fn edit(
    view: &WorkspaceView<'_>,
    arguments: EditArguments,
    rehearsal: DryRun,
    recorder: &dyn Recorder,
) -> Result<(Transformed, usize), Failure> {
    let EditArguments { path, old_text, new_text, replace_all } = arguments;
    let edits = [Edit { old_text, new_text, replace_all }];
    crate::edit::edit(view, &path, &edits, rehearsal, recorder)
}

fn preview_edit(view: &WorkspaceView<'_>, arguments: EditArguments) -> Result<PreviewContent, Failure> {
    let (transformed, _) = edit(view, arguments, DryRun::Yes, &NoopRecorder)?;
    Ok(PreviewContent::Text(Verb::Edit, transformed.after))
}

fn edit_file(
    view: &WorkspaceView<'_>,
    arguments: EditArguments,
    recorder: &dyn Recorder,
) -> Result<Answer<String>, Failure> {
    let (transformed, count) = edit(view, arguments, DryRun::No, recorder)?;
    ok(&format!("replaced {count} of {count} matches in {}", quoted_name(&transformed.written.path)))
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
        | ErrorCode::ServerUnavailable
        | ErrorCode::OutputInvalid
        | ErrorCode::Internal
        | ErrorCode::AuditUnavailable => "io_error",
    }
}

fn render(_: &str, outcome: Outcome) -> ModelAnswer {
    match outcome {
        Outcome::Done(output) => {
            ModelAnswer { text: output.text.into_string(), structured: None, is_error: false }
        }
        Outcome::Failed { failure, .. } => ModelAnswer {
            text: format!("{}: {failure}", category(failure.code)),
            structured: None,
            is_error: true,
        },
    }
}
