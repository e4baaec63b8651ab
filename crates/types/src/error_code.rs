//! The stable codes of everything that can go wrong.
//!
//! A code never changes its meaning and never goes away. Profiles translate codes into the words of the system
//! they dress as; nothing else does.

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $kind:ident;)*) => {
        /// What went wrong, as a stable code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum ErrorCode {
            $($(#[$doc])* #[serde(rename = $text)] $name,)*
        }

        impl ErrorCode {
            /// Every code, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The code as it is written in answers and records.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            fn kind(self) -> CodeKind {
                match self { $(Self::$name => CodeKind::$kind,)* }
            }
        }
    };
}

/// What a code means for the decision that is recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CodeKind {
    /// The call tried to leave what was declared.
    Violation,
    /// The gate refused before the tool ran.
    Refusal,
    /// The tool ran, or tried to, and could not do it.
    Error,
}

codes! {
    /// The path is empty, holds NUL, is too long, or is of a form that is never accepted.
    InvalidPath = "invalid_path", Refusal;
    /// The path begins with an alias that is not mounted.
    UnknownAlias = "unknown_alias", Refusal;
    /// The path lies outside every mount.
    OutsideWorkspace = "outside_workspace", Violation;
    /// A symbolic link on the way leads outside, or nowhere.
    SymlinkOutsideWorkspace = "symlink_outside_workspace", Violation;
    /// Symbolic links lead in a circle.
    SymlinkLoop = "symlink_loop", Violation;
    /// The file is on the deny list.
    DeniedPath = "denied_path", Violation;
    /// The file is outside the globs that this agent or mount was given.
    OutOfScope = "out_of_scope", Violation;
    /// The mount, or this file of it, may be read but not changed.
    ReadOnly = "read_only", Violation;
    /// A FIFO, socket or device.
    SpecialFile = "special_file", Violation;

    /// Nothing there.
    NotFound = "not_found", Error;
    /// There, but not a regular file.
    NotAFile = "not_a_file", Error;
    /// There, but not a directory.
    NotADirectory = "not_a_directory", Error;
    /// Something is there already.
    AlreadyExists = "already_exists", Error;
    /// The operating system refused.
    PermissionDenied = "permission_denied", Error;
    /// The file is not text.
    BinaryFile = "binary_file", Error;
    /// More than may be read at once.
    ReadLimit = "read_limit", Error;
    /// More than may be written at once.
    WriteLimit = "write_limit", Error;
    /// The lines asked for do not exist or are the wrong way round.
    InvalidRange = "invalid_range", Error;
    /// The pattern or glob does not parse, or would cost too much.
    InvalidPattern = "invalid_pattern", Error;
    /// The file is not in the state that the call said it expects.
    PreconditionFailed = "precondition_failed", Error;
    /// The text to replace is not there.
    EditNotFound = "edit_not_found", Error;
    /// The text to replace is there several times.
    EditAmbiguous = "edit_ambiguous", Error;
    /// The patch does not parse.
    PatchInvalid = "patch_invalid", Error;
    /// The patch does not fit the files.
    PatchConflict = "patch_conflict", Error;
    /// The frontmatter is missing or does not parse.
    InvalidFrontmatter = "invalid_frontmatter", Error;
    /// The document does not fit its schema.
    SchemaViolation = "schema_violation", Error;
    /// The workflow has no such edge.
    InvalidTransition = "invalid_transition", Error;
    /// The command ran and said that it failed.
    CommandFailed = "command_failed", Error;
    /// There is no such program inside the sandbox.
    CommandNotFound = "command_not_found", Error;
    /// The command used more memory, processor time, processes or disk than it may.
    ResourceLimit = "resource_limit", Error;
    /// The disk or the quota is full.
    DiskFull = "disk_full", Error;
    /// The filesystem is mounted read-only.
    ReadOnlyFilesystem = "read_only_filesystem", Error;
    /// Any other failure of input or output.
    IoError = "io_error", Error;
    /// The call took longer than it may.
    Timeout = "timeout", Error;
    /// The call was cancelled.
    Cancelled = "cancelled", Error;
    /// The process ended before the call did.
    Interrupted = "interrupted", Error;
    /// The tool answered with something that it did not declare.
    OutputInvalid = "output_invalid", Error;
    /// A defect of the gate or of a tool.
    Internal = "internal", Error;

    /// No such tool, or none that this caller may see.
    UnknownTool = "unknown_tool", Refusal;
    /// The caller could not be verified.
    Unauthenticated = "unauthenticated", Refusal;
    /// The caller may not make this call.
    NotPermitted = "not_permitted", Refusal;
    /// The command is one that is never run.
    CommandBlocked = "command_blocked", Refusal;
    /// This machine cannot confine the command as far as the operator demands.
    SandboxUnavailable = "sandbox_unavailable", Refusal;
    /// More calls than this caller may make in the time.
    RateLimited = "rate_limited", Refusal;
    /// The tool kept failing and rests for a while.
    ToolSuspended = "tool_suspended", Refusal;
    /// The arguments do not fit the tool's schema.
    InvalidArguments = "invalid_arguments", Refusal;
    /// A person said no.
    ApprovalDenied = "approval_denied", Refusal;
    /// Nobody answered in time.
    ApprovalExpired = "approval_expired", Refusal;
    /// There is nobody to ask.
    ApprovalUnavailable = "approval_unavailable", Refusal;
    /// The call could not be recorded, so it may not run.
    AuditUnavailable = "audit_unavailable", Refusal;
}

impl ErrorCode {
    /// Whether the call tried to leave what was declared; `studio` ends the loop on these.
    #[must_use]
    pub fn is_violation(self) -> bool {
        self.kind() == CodeKind::Violation
    }

    /// Whether the record of the call says `DENIED` rather than `ERROR`.
    #[must_use]
    pub fn is_denial(self) -> bool {
        self.kind() != CodeKind::Error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serde_and_as_str_agree() {
        for code in ErrorCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
    }
}
