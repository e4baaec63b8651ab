//! JSON observations for small local models; never more than five tools.

use serde_json::{Value, json};
use toolgate_command::{ShellTimeouts, output_before};
use toolgate_gate::Effect;
use toolgate_types::{Category, ErrorCode, Failure, Limits, Outcome, ToolClass, ToolOutput};
use toolgate_workspace::{EntryKind, FileContent, ReadRequest, Recorder, SearchOptions, WorkspaceView};

use super::{AnswerShape, LIMITS, Profile, ProfileDefinition};
use crate::arguments::{
    ListArguments, PathAndContent, ReadArguments, SearchArguments, every_entry, show_write,
};
use crate::file_tool::{ToolDeclaration, decode};
use crate::output_budget::{EntryCost, bound_listing, bound_matches};
use crate::profiled_gate::ModelAnswer;
use crate::schemas::{described, object, of_type};
use crate::shell::{ShellPresentation, all_fields};

impl Profile {
    /// JSON observations for small local models. They call five tools natively; with more, they write calls into their text.
    pub const SIDECAR: Self = Self(&ProfileDefinition {
        error_code: code,
        limits: Limits { max_read_bytes: 1_000_000, max_matches: 50, ..LIMITS },
        shell: Some(&ShellPresentation {
            name: "run_command",
            title: "Run a command",
            description: "Run a shell command in the workspace. Answers with stdout, stderr and the exit code.",
            output: || of_type("object").into(),
            may_fetch: false,
            timeouts: ShellTimeouts { default: None, max: None },
            prefers_bash: false,
            // The text would repeat the fields.
            answer: |finished, context| ToolOutput { text: String::new(), ..all_fields(finished, context) },
        }),
        max_tools: Some(5),
        ..ProfileDefinition::new("sidecar", tools, render, AnswerShape::Envelope("output"))
    });
}

fn tools() -> Vec<ToolDeclaration> {
    let line = |what: &str| json!({"type": "integer", "minimum": 1, "description": what});
    let declare = |name, title, description, class, input, work, show| ToolDeclaration {
        name,
        title,
        description,
        class,
        category: Category::File,
        effect: Effect::Any,
        input,
        output: of_type("object").into(),
        work,
        show,
        resource: None,
    };
    vec![
        declare(
            "read_file",
            "Read a file",
            "Read the contents of a file, or a range of its lines. Returns the content as it is, and the line numbers of its first and last line; of a binary file, its size and type.",
            ToolClass::Read,
            object(
                [
                    ("path", described("string", "File path relative to workspace root")),
                    ("start_line", line("Starting line number (1-based, optional)")),
                    ("end_line", line("Ending line number (inclusive, optional)")),
                ],
                &["path"],
            ),
            read_file,
            None,
        ),
        declare(
            "write_file",
            "Write a file",
            "Write content to a file. Creates the file and its parent directories if needed.",
            ToolClass::Write,
            object(
                [
                    ("path", described("string", "File path relative to workspace root")),
                    ("content", described("string", "Content to write")),
                ],
                &["path", "content"],
            ),
            write_file,
            Some(show_write),
        )
        .with_effect(Effect::Sets),
        declare(
            "list_directory",
            "List a directory",
            "List files and directories at a path.",
            ToolClass::Read,
            object(
                [("path", described("string", "Directory path relative to workspace root (optional)"))],
                &[],
            ),
            list_directory,
            None,
        ),
        declare(
            "search_files",
            "Search in files",
            "Search file contents for a text or a regular expression.",
            ToolClass::Read,
            object(
                [
                    (
                        "pattern",
                        json!({"type": "string", "minLength": 1, "description": "Text to search for"}),
                    ),
                    ("path", described("string", "File or directory to search (optional)")),
                    ("regex", described("boolean", "Read the pattern as a regular expression")),
                    ("case_sensitive", described("boolean", "Whether a and A differ (default true)")),
                    ("glob", described("string", "Only files that match, such as *.js")),
                    (
                        "max_matches",
                        json!({"type": "integer", "minimum": 1, "maximum": 50, "description": "At most 50"}),
                    ),
                ],
                &["pattern"],
            ),
            search_files,
            None,
        )
        .with_category(Category::Search),
    ]
}

fn observed(structured: Value) -> Result<ToolOutput, Failure> {
    Ok(ToolOutput::new(String::new(), structured))
}

fn read_file(view: &WorkspaceView<'_>, arguments: Value, _: &dyn Recorder) -> Result<ToolOutput, Failure> {
    let ReadArguments { path, start_line, end_line } = decode(arguments)?;
    let read = view.read(&path, &ReadRequest { start_line, end_line, refuse_oversize: true })?;
    observed(match read.content {
        FileContent::Binary { beginning } => json!({
            "path": read.path, "binary": true, "type": media_type(&beginning), "size": read.bytes,
            "sha256": read.sha256.to_string(),
        }),
        FileContent::Text(window) => json!({
            "content": window.text, "lines": window.total_lines, "path": read.path, "size": read.bytes,
            "start_line": window.first_line, "end_line": window.last_line, "truncated": window.truncated,
        }),
    })
}

/// The media type of a binary file by its first bytes; its name is not evidence.
fn media_type(beginning: &[u8]) -> &'static str {
    infer::get(beginning).map_or("application/octet-stream", |kind| kind.mime_type())
}

fn write_file(
    view: &WorkspaceView<'_>,
    arguments: Value,
    recorder: &dyn Recorder,
) -> Result<ToolOutput, Failure> {
    let PathAndContent { path, content } = decode(arguments)?;
    let written = view.write(&path, content.as_bytes(), None, recorder)?;
    observed(json!({"path": written.path, "bytes_written": written.bytes, "created": written.created}))
}

fn list_directory(
    view: &WorkspaceView<'_>,
    arguments: Value,
    _: &dyn Recorder,
) -> Result<ToolOutput, Failure> {
    let arguments: ListArguments = decode(arguments)?;
    let mut listed = view.list(arguments.path(), &every_entry(view, true))?;
    bound_listing(view, &mut listed, EntryCost { names: 1, overhead: 64 });
    let entries: Vec<Value> = listed
        .entries
        .iter()
        .map(|entry| {
            let kind = match entry.kind {
                EntryKind::File => "file",
                EntryKind::Directory => "directory",
                EntryKind::Symlink => "symlink",
                EntryKind::Other => "other",
            };
            json!({"name": listed.name(entry), "type": kind, "size": entry.size})
        })
        .collect();
    observed(
        json!({"path": listed.path, "entries": entries, "count": listed.total, "truncated": listed.truncated}),
    )
}

fn search_files(view: &WorkspaceView<'_>, arguments: Value, _: &dyn Recorder) -> Result<ToolOutput, Failure> {
    let arguments: SearchArguments = decode(arguments)?;
    let most = view.limits.max_matches;
    let options = SearchOptions { skip_directories: &["node_modules"], ..arguments.options(view, most) };
    let mut found = view.search(arguments.path(), &options)?;
    bound_matches(view, &mut found);
    let matches: Vec<Value> = found
        .matches
        .iter()
        .map(|(path, found)| json!({"file": path, "line": found.number, "text": found.line.text}))
        .collect();
    observed(
        json!({"pattern": arguments.pattern, "matches": matches, "count": matches.len(), "truncated": found.truncated}),
    )
}

/// The codes that this profile's models know: the sandbox's own, errno names, or a plain failure.
#[deny(
    clippy::wildcard_enum_match_arm,
    reason = "a new code does not compile before the profile decides about it"
)]
fn code(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::OutsideWorkspace | ErrorCode::UnknownAlias => "PATH_OUTSIDE_WORKSPACE",
        ErrorCode::SymlinkOutsideWorkspace | ErrorCode::SymlinkLoop => "SYMLINK_OUTSIDE_WORKSPACE",
        ErrorCode::InvalidPath => "INVALID_PATH",
        ErrorCode::DeniedPath | ErrorCode::OutOfScope | ErrorCode::ReadOnly | ErrorCode::SpecialFile => {
            "PATH_DENIED"
        }
        ErrorCode::UnknownTool => "UNKNOWN_TOOL",
        ErrorCode::InvalidArguments => "INVALID_ARGUMENTS",
        ErrorCode::NotPermitted | ErrorCode::Unauthenticated => "NOT_PERMITTED",
        ErrorCode::ApprovalDenied | ErrorCode::ApprovalExpired | ErrorCode::ApprovalUnavailable => {
            "NOT_APPROVED"
        }
        ErrorCode::NotFound => "ENOENT",
        ErrorCode::NotAFile => "EISDIR",
        ErrorCode::NotADirectory => "ENOTDIR",
        ErrorCode::PermissionDenied => "EACCES",
        ErrorCode::DiskFull => "ENOSPC",
        ErrorCode::ReadOnlyFilesystem => "EROFS",
        ErrorCode::ReadLimit | ErrorCode::WriteLimit => "FILE_TOO_LARGE",
        ErrorCode::InvalidPattern => "INVALID_PATTERN",
        ErrorCode::CommandBlocked => "COMMAND_BLOCKED",
        ErrorCode::CommandNotFound => "COMMAND_NOT_FOUND",
        ErrorCode::ResourceLimit => "RESOURCE_LIMIT",
        ErrorCode::SandboxUnavailable => "SANDBOX_UNAVAILABLE",
        ErrorCode::RateLimited => "RATE_LIMITED",
        ErrorCode::ToolSuspended => "TOOL_SUSPENDED",
        ErrorCode::Timeout => "TIMEOUT",
        ErrorCode::Cancelled => "CANCELLED",
        ErrorCode::AlreadyExists
        | ErrorCode::BinaryFile
        | ErrorCode::InvalidRange
        | ErrorCode::PreconditionFailed
        | ErrorCode::EditNotFound
        | ErrorCode::EditAmbiguous
        | ErrorCode::PatchInvalid
        | ErrorCode::PatchConflict
        | ErrorCode::InvalidFrontmatter
        | ErrorCode::SchemaViolation
        | ErrorCode::InvalidTransition
        | ErrorCode::CommandFailed
        | ErrorCode::IoError
        | ErrorCode::Interrupted
        | ErrorCode::OutputInvalid
        | ErrorCode::Internal
        | ErrorCode::AuditUnavailable => "EXECUTION_ERROR",
    }
}

fn render(tool: &str, outcome: Outcome) -> ModelAnswer {
    let (observation, is_error) = match outcome {
        Outcome::Done(output) => {
            let output = output.structured.into_value();
            (json!({"success": true, "tool": tool, "output": output, "error": null}), false)
        }
        Outcome::Failed { failure, .. } => {
            let error = json!({"code": code(failure.code), "message": failure.to_string() + &output_before(&failure)});
            (json!({"success": false, "tool": tool, "output": null, "error": error}), true)
        }
    };
    ModelAnswer { text: observation.to_string(), structured: Some(observation.into()), is_error }
}
