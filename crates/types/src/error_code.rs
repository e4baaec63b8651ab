//! The stable codes of everything that can go wrong.
//!
//! A code never changes its meaning and is never removed. Profiles translate codes into the words of the system that they emulate; nothing else does.

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

/// How a code maps to the recorded decision.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CodeKind {
    /// The call tried to leave the declared limits.
    Violation,
    /// The gate refused before the tool ran.
    Refusal,
    /// The tool was started and failed.
    Error,
}

codes! {
    /// The path is empty, contains NUL, is too long, or has a form that is never accepted.
    InvalidPath = "invalid_path", Refusal;
    /// The path begins with an alias that is not mounted.
    UnknownAlias = "unknown_alias", Refusal;
    /// The path lies outside every mount.
    OutsideWorkspace = "outside_workspace", Violation;
    /// A symlink on the path leads outside, or dangles.
    SymlinkOutsideWorkspace = "symlink_outside_workspace", Violation;
    /// Symlinks form a loop.
    SymlinkLoop = "symlink_loop", Violation;
    /// The file is on the deny list.
    DeniedPath = "denied_path", Violation;
    /// The file is outside the globs that this agent or mount was granted.
    OutOfScope = "out_of_scope", Violation;
    /// The mount, or this file of it, may be read but not changed.
    ReadOnly = "read_only", Violation;
    /// A FIFO, socket or device.
    SpecialFile = "special_file", Violation;

    /// The file does not exist.
    NotFound = "not_found", Error;
    /// It exists, but is not a regular file.
    NotAFile = "not_a_file", Error;
    /// It exists, but is not a directory.
    NotADirectory = "not_a_directory", Error;
    /// It already exists.
    AlreadyExists = "already_exists", Error;
    /// The operating system denied access.
    PermissionDenied = "permission_denied", Error;
    /// The file is not text.
    BinaryFile = "binary_file", Error;
    /// More bytes than one call may read.
    ReadLimit = "read_limit", Error;
    /// More bytes than one call may write.
    WriteLimit = "write_limit", Error;
    /// The requested line range does not exist or is inverted.
    InvalidRange = "invalid_range", Error;
    /// The pattern or glob does not parse, or would cost too much.
    InvalidPattern = "invalid_pattern", Error;
    /// The file is not in the state that the call expects.
    PreconditionFailed = "precondition_failed", Error;
    /// The text to replace was not found.
    EditNotFound = "edit_not_found", Error;
    /// The text to replace occurs several times.
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
    /// The command ran and reported a failure.
    CommandFailed = "command_failed", Error;
    /// There is no such program inside the sandbox.
    CommandNotFound = "command_not_found", Error;
    /// The command exceeded its limit on memory, CPU time, processes or disk.
    ResourceLimit = "resource_limit", Error;
    /// The disk or the quota is full.
    DiskFull = "disk_full", Error;
    /// The filesystem is mounted read-only.
    ReadOnlyFilesystem = "read_only_filesystem", Error;
    /// Any other I/O error.
    IoError = "io_error", Error;
    /// The call exceeded its deadline.
    Timeout = "timeout", Error;
    /// The call was cancelled.
    Cancelled = "cancelled", Error;
    /// The process ended before the call did.
    Interrupted = "interrupted", Error;
    /// The server of the tool is not up.
    ServerUnavailable = "server_unavailable", Error;
    /// The tool's answer does not match its declared schema.
    OutputInvalid = "output_invalid", Error;
    /// A defect of the gate or of a tool.
    Internal = "internal", Error;

    /// No such tool, or none that this caller may see.
    UnknownTool = "unknown_tool", Refusal;
    /// The caller could not be verified.
    Unauthenticated = "unauthenticated", Refusal;
    /// The caller may not make this call.
    NotPermitted = "not_permitted", Refusal;
    /// The command is on the block list.
    CommandBlocked = "command_blocked", Refusal;
    /// This machine cannot confine the command as far as the operator requires.
    SandboxUnavailable = "sandbox_unavailable", Refusal;
    /// The caller exceeded its rate limit.
    RateLimited = "rate_limited", Refusal;
    /// The tool kept failing, and its circuit breaker is open.
    ToolSuspended = "tool_suspended", Refusal;
    /// The arguments do not fit the tool's schema.
    InvalidArguments = "invalid_arguments", Refusal;
    /// The approver denied the call.
    ApprovalDenied = "approval_denied", Refusal;
    /// The approval was not answered before its timeout.
    ApprovalExpired = "approval_expired", Refusal;
    /// No approver is available.
    ApprovalUnavailable = "approval_unavailable", Refusal;
    /// The call could not be recorded, so it may not run.
    AuditUnavailable = "audit_unavailable", Refusal;
}

impl ErrorCode {
    /// Whether the call tried to leave the declared limits; `studio` ends the loop on these.
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
