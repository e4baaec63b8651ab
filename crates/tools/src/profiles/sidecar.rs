//! JSON observations for small local models; never more than five tools.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_command::{ShellTimeouts, output_before};
use toolgate_gate::Effect;
use toolgate_manifest::ProfileName;
use toolgate_types::{
    Category, ErrorCode, Failure, HashedText, Limits, Outcome, Sha256, ToolClass, ToolOutput,
};
use toolgate_workspace::{
    EntryKind, FileContent, FileRead, Hidden, ListedEntry, Match, ReadRequest, Recorder, SearchOptions,
    WorkspaceView, WriteResult,
};

use super::{AnswerShape, LIMITS, Profile, ProfileDefinition};
use crate::command_answer::all_fields;
use crate::file_tool::{Answer, ToolDeclaration};
use crate::output_budget::{EntryCost, bound_listing, bound_matches, every_entry};
use crate::preview::{PreviewContent, Verb};
use crate::profiled_gate::ModelAnswer;
use crate::schemas::{True, Undeclared};
use crate::shell::ShellPresentation;

impl Profile {
    /// JSON observations for small local models. They call five tools natively; with more, they write calls into their text.
    pub const SIDECAR: Self = Self(&ProfileDefinition {
        error_code: code,
        limits: Limits { max_read_bytes: 1_000_000, max_matches: 50, ..LIMITS },
        shell: Some(&ShellPresentation {
            has_background: false,
            name: "run_command",
            title: "Run a command",
            description: "Run a shell command in the workspace. Answers with stdout, stderr and the exit code.",
            output: || json!({"type": "object"}).into(),
            may_fetch: false,
            timeouts: ShellTimeouts { default: None, max: None },
            prefers_bash: false,
            // The text would repeat the fields.
            answer: |finished, context| ToolOutput {
                text: HashedText::default(),
                ..all_fields(finished, context)
            },
        }),
        max_tools: Some(5),
        ..ProfileDefinition::new(ProfileName::Sidecar, tools, render, AnswerShape::Envelope("output"))
    });
}

fn tools() -> &'static [ToolDeclaration] {
    static TOOLS: LazyLock<[ToolDeclaration; 4]> = LazyLock::new(|| {
        [
            ToolDeclaration::new(
                "read_file",
                "Read a file",
                "Read the contents of a file, or a range of its lines. Returns the content as it is, and the line numbers of its first and last line; of a binary file, its size and type.",
                ToolClass::Read,
                read_file,
            ),
            ToolDeclaration::new(
                "write_file",
                "Write a file",
                "Write content to a file. Creates the file and its parent directories if needed.",
                ToolClass::Write,
                write_file,
            )
            .with_effect(Effect::Sets)
            .with_preview(|_, WriteArguments { content, .. }| {
                Ok(PreviewContent::Text(Verb::Replace, content))
            }),
            ToolDeclaration::new(
                "list_directory",
                "List a directory",
                "List files and directories at a path.",
                ToolClass::Read,
                list_directory,
            ),
            ToolDeclaration::new(
                "search_files",
                "Search in files",
                "Search file contents for a text or a regular expression.",
                ToolClass::Read,
                search_files,
            )
            .with_category(Category::Search),
        ]
    });
    &*TOOLS
}

/// What stands in the observation, which has no text beside it.
fn observed<Data>(data: Data) -> Result<Answer<Undeclared<Data>>, Failure> {
    Ok(Answer::new(String::new(), Undeclared(data)))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadArguments {
    /// File path relative to workspace root
    path: String,
    /// Starting line number (1-based, optional)
    #[schemars(range(min = 1))]
    start_line: Option<u64>,
    /// Ending line number (inclusive, optional)
    #[schemars(range(min = 1))]
    end_line: Option<u64>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum FileAnswer {
    Binary {
        path: String,
        binary: True,
        r#type: &'static str,
        size: u64,
        sha256: Sha256,
    },
    Text {
        content: String,
        lines: u64,
        path: String,
        size: u64,
        start_line: u64,
        end_line: u64,
        truncated: bool,
    },
}

fn read_file(
    view: &WorkspaceView<'_>,
    arguments: ReadArguments,
    _: &dyn Recorder,
) -> Result<Answer<Undeclared<FileAnswer>>, Failure> {
    let ReadArguments { path, start_line, end_line } = arguments;
    let read = view.read(&path, &ReadRequest { start_line, end_line, refuse_oversize: true })?;
    let FileRead { path, bytes: size, sha256, content } = read;
    observed(match content {
        FileContent::Binary { beginning } => {
            FileAnswer::Binary { path, binary: True, r#type: media_type(&beginning), size, sha256 }
        }
        FileContent::Text(window) => FileAnswer::Text {
            content: window.text.into_string(),
            lines: window.total_lines,
            path,
            size,
            start_line: window.first_line,
            end_line: window.last_line,
            truncated: window.truncated,
        },
    })
}

/// The media type of a binary file by its first bytes; its name is not evidence.
fn media_type(beginning: &[u8]) -> &'static str {
    infer::get(beginning).map_or("application/octet-stream", |kind| kind.mime_type())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteArguments {
    /// File path relative to workspace root
    path: String,
    /// Content to write
    content: String,
}

#[derive(Serialize)]
struct WriteAnswer {
    path: String,
    bytes_written: u64,
    created: bool,
}

fn write_file(
    view: &WorkspaceView<'_>,
    arguments: WriteArguments,
    recorder: &dyn Recorder,
) -> Result<Answer<Undeclared<WriteAnswer>>, Failure> {
    let WriteArguments { path, content } = arguments;
    let WriteResult { path, bytes, created, .. } = view.write(&path, content.as_bytes(), None, recorder)?;
    observed(WriteAnswer { path, bytes_written: bytes, created })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    /// Directory path relative to workspace root (optional)
    path: Option<String>,
}

#[derive(Serialize)]
struct ListAnswer {
    path: String,
    entries: Vec<Entry>,
    count: usize,
    truncated: bool,
}

#[derive(Serialize)]
struct Entry {
    name: String,
    r#type: &'static str,
    size: Option<u64>,
}

fn list_directory(
    view: &WorkspaceView<'_>,
    arguments: ListArguments,
    _: &dyn Recorder,
) -> Result<Answer<Undeclared<ListAnswer>>, Failure> {
    let mut listed = view.list(arguments.path.as_deref().unwrap_or("."), &every_entry(view, true))?;
    bound_listing(view, &mut listed, EntryCost { names: 1, overhead: 64 });
    let entry = |entry: &ListedEntry| Entry {
        name: listed.name(entry).to_owned(),
        r#type: match entry.kind {
            EntryKind::File => "file",
            EntryKind::Directory => "directory",
            EntryKind::Symlink => "symlink",
            EntryKind::Other => "other",
        },
        size: entry.size,
    };
    let entries = listed.entries.iter().map(entry).collect();
    observed(ListAnswer { entries, count: listed.total, truncated: listed.truncated, path: listed.path })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    /// Text to search for
    #[schemars(length(min = 1))]
    pattern: String,
    /// File or directory to search (optional)
    path: Option<String>,
    /// Read the pattern as a regular expression
    #[serde(default)]
    regex: bool,
    /// Whether a and A differ (default true)
    case_sensitive: Option<bool>,
    /// Only files that match, such as *.js
    glob: Option<String>,
    /// At most 50
    #[schemars(range(min = 1, max = 50))]
    max_matches: Option<usize>,
}

#[derive(Serialize)]
struct SearchAnswer {
    pattern: String,
    matches: Vec<MatchAnswer>,
    count: usize,
    truncated: bool,
}

#[derive(Serialize)]
struct MatchAnswer {
    file: String,
    line: u64,
    text: String,
}

fn search_files(
    view: &WorkspaceView<'_>,
    arguments: SearchArguments,
    _: &dyn Recorder,
) -> Result<Answer<Undeclared<SearchAnswer>>, Failure> {
    let most = view.limits.max_matches;
    let options = SearchOptions {
        regex: arguments.regex,
        case_sensitive: arguments.case_sensitive.unwrap_or(true),
        glob: arguments.glob.as_deref(),
        max_matches: arguments.max_matches.unwrap_or(most).min(most),
        max_bytes: usize::try_from(view.limits.max_output_bytes).unwrap_or(usize::MAX),
        hidden: Hidden::All,
        skip_directories: &["node_modules"],
        ..SearchOptions::new(&arguments.pattern)
    };
    let mut found = view.search(arguments.path.as_deref().unwrap_or("."), &options)?;
    bound_matches(view, &mut found);
    let shown =
        |(file, found): (String, Match)| MatchAnswer { file, line: found.number, text: found.line.text };
    let matches: Vec<MatchAnswer> = found.matches.into_iter().map(shown).collect();
    let count = matches.len();
    observed(SearchAnswer { pattern: arguments.pattern, matches, count, truncated: found.truncated })
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
        | ErrorCode::ServerUnavailable
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
