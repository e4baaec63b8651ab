//! CrewAgent's presentation: `fs.*` tools over `@project`, `@pkg` and `@state`, answered as a ToolResult union.

mod tools;
mod workflow;
mod run;

use std::time::Duration;

use serde_json::{Value, json};
use toolgate_manifest::ProfileName;
use toolgate_types::{ErrorCode, Limits, Outcome};
use toolgate_workspace::PathStyle;

use self::run::initialise_run;
use self::tools::tools;
use super::{AnswerShape, LIMITS, Profile, ProfileDefinition, scalar_members};
use crate::profiled_gate::ModelAnswer;

pub use run::RunError;

impl Profile {
    /// CrewAgent's `fs.*` tools over `@project`, `@pkg` and `@state`.
    pub const CREW: Self = Self(&ProfileDefinition {
        error_code: code,
        facts: scalar_members,
        details_refused_paths: true,
        path_style: PathStyle::AliasOnly,
        limits: Limits {
            max_read_bytes: 50_000,
            max_write_bytes: 100_000,
            max_entries: 200,
            max_matches: 50,
            timeout: Duration::from_secs(30),
            ..LIMITS
        },
        run: Some(initialise_run),
        ..ProfileDefinition::new(ProfileName::Crew, tools, render, AnswerShape::Declared)
    });
}

/// This profile's error codes.
#[deny(
    clippy::wildcard_enum_match_arm,
    reason = "a new code does not compile before the profile decides about it"
)]
fn code(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::NotFound => "ENOENT",
        ErrorCode::ReadLimit => "E_READ_LIMIT",
        ErrorCode::WriteLimit => "E_WRITE_LIMIT",
        ErrorCode::InvalidFrontmatter => "E_INVALID_FRONTMATTER",
        ErrorCode::SchemaViolation | ErrorCode::InvalidArguments => "E_SCHEMA_VALIDATION",
        ErrorCode::InvalidTransition => "E_INVALID_TRANSITION",
        ErrorCode::PreconditionFailed => "E_PRECONDITION_FAILED",
        ErrorCode::NotPermitted
        | ErrorCode::Unauthenticated
        | ErrorCode::CommandBlocked
        | ErrorCode::InvalidPath
        | ErrorCode::UnknownAlias
        | ErrorCode::OutsideWorkspace
        | ErrorCode::SymlinkOutsideWorkspace
        | ErrorCode::SymlinkLoop
        | ErrorCode::DeniedPath
        | ErrorCode::OutOfScope
        | ErrorCode::ReadOnly
        | ErrorCode::SpecialFile => "E_SANDBOX_VIOLATION",
        ErrorCode::NotAFile
        | ErrorCode::NotADirectory
        | ErrorCode::AlreadyExists
        | ErrorCode::PermissionDenied
        | ErrorCode::BinaryFile
        | ErrorCode::InvalidRange
        | ErrorCode::InvalidPattern
        | ErrorCode::EditNotFound
        | ErrorCode::EditAmbiguous
        | ErrorCode::PatchInvalid
        | ErrorCode::PatchConflict
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
        | ErrorCode::UnknownTool
        | ErrorCode::SandboxUnavailable
        | ErrorCode::RateLimited
        | ErrorCode::ToolSuspended
        | ErrorCode::ApprovalDenied
        | ErrorCode::ApprovalExpired
        | ErrorCode::ApprovalUnavailable
        | ErrorCode::AuditUnavailable => "E_INTERNAL",
    }
}

fn render(_: &str, outcome: Outcome) -> ModelAnswer {
    let (result, is_error) = match outcome {
        Outcome::Done(output) => (output.structured.into_value(), false),
        Outcome::Failed { stage, failure } => {
            let mut details = failure.details;
            details.insert("code".to_owned(), json!(failure.code.as_str()));
            details.insert("stage".to_owned(), json!(stage.as_str()));
            if let Some(help) = &failure.help {
                details.insert("hint".to_owned(), json!(help));
            }
            let error = json!({"code": code(failure.code), "message": failure.message, "details": Value::Object(details)});
            (json!({"ok": false, "error": error}), true)
        }
    };
    ModelAnswer { text: result.to_string(), structured: Some(result.into()), is_error }
}
