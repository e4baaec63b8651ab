//! Everything that can go wrong with a file, each with a stable code and a remedy.

use std::io;

use rustix::io::Errno;
use thiserror::Error;
use toolgate_types::{CancellationReason, ErrorCode, Failure};

use crate::change::KeptBound;
use crate::requested_path::{PathStyle, SHORTER, TOO_LONG};

/// What `max_write_bytes` limits in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteBound {
    /// The new content of a file.
    Content,
    /// The bytes appended to it.
    Appended,
    /// The whole file after an edit.
    Result,
}

impl WriteBound {
    fn message(self, path: &str, bytes: u64, limit: u64) -> String {
        match self {
            Self::Content => {
                format!("{bytes} bytes are more than the {limit} that may be written to `{path}` at once")
            }
            Self::Appended => {
                format!("{bytes} bytes are more than the {limit} that may be appended to `{path}` at once")
            }
            Self::Result => {
                format!("`{path}` would have {bytes} bytes, more than the {limit} that may be written")
            }
        }
    }
}

/// Why a file could not be reached, read or changed. Paths are shown as the caller wrote them or with an alias.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// The path has a form that is never accepted.
    #[error("path {reason}")]
    InvalidPath {
        /// What is wrong with it.
        reason: &'static str,
        /// The accepted form.
        help: &'static str,
    },
    /// The alias is not mounted.
    #[error("there is no mount `{alias}`")]
    UnknownAlias {
        /// The alias as named.
        alias: String,
        /// The aliases there are.
        known: String,
        /// Which path syntax applies.
        style: PathStyle,
    },
    /// The path must begin with an alias.
    #[error("`{path}` does not begin with a mount alias")]
    AliasRequired {
        /// The path as named.
        path: String,
        /// The aliases there are.
        known: String,
    },
    /// A `..` in a path where the profile allows none.
    #[error("`{path}` has a `..` in it")]
    ParentSegment {
        /// The path as named.
        path: String,
    },
    /// The path lies outside of every mount.
    #[error("`{path}` is outside the workspace")]
    Outside {
        /// The path as named.
        path: String,
    },
    /// A symlink on the path leads outside or dangles.
    #[error("`{path}` goes through a symbolic link that leads {}", if *.dangling { "nowhere" } else { "outside the workspace" })]
    SymlinkOutside {
        /// The path as named.
        path: String,
        /// Whether the symlink's target does not exist.
        dangling: bool,
    },
    /// Symlinks form a loop.
    #[error("`{path}` goes through symbolic links that lead in a circle")]
    SymlinkLoop {
        /// The path as named.
        path: String,
    },
    /// On the deny list.
    #[error("`{path}` is protected and cannot be reached")]
    Denied {
        /// The path as named.
        path: String,
        /// The rule, for the operator.
        rule: String,
    },
    /// Outside the globs that were granted.
    #[error("`{path}` is outside the paths granted for this call")]
    OutOfScope {
        /// The path as named.
        path: String,
    },
    /// May be read but not changed.
    #[error("`{path}` is read-only here")]
    ReadOnly {
        /// The path as named.
        path: String,
    },
    /// A FIFO, socket or device.
    #[error("`{path}` is not a regular file but a {kind}")]
    SpecialFile {
        /// The path as named.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// The file does not exist.
    #[error("`{path}` does not exist")]
    NotFound {
        /// The path as named.
        path: String,
    },
    /// A directory where a file is needed.
    #[error("`{path}` is a directory, not a file")]
    NotAFile {
        /// The path as named.
        path: String,
    },
    /// A symlink where the file itself must be named, because the name is to be removed.
    #[error("`{path}` is a symbolic link")]
    IsLink {
        /// The path as named.
        path: String,
    },
    /// A symlink lies on the path of a file that is to be restored, and did not when the file was changed.
    #[error("`{path}` is reached through a symbolic link that was not there when it was changed")]
    ReplacedByLink {
        /// The path as named.
        path: String,
    },
    /// The kept content does not have the digest of the file when it was changed.
    #[error("what was kept of `{path}` is not what it held, so it is not put back")]
    KeptContentDiffers {
        /// The path as named.
        path: String,
    },
    /// A file where a directory is needed.
    #[error("`{path}` is not a directory")]
    NotADirectory {
        /// The path as named.
        path: String,
    },
    /// The file already exists.
    #[error("`{path}` exists already")]
    AlreadyExists {
        /// The path as named.
        path: String,
    },
    /// Not text.
    #[error("`{path}` appears to be binary or invalid UTF-8")]
    Binary {
        /// The path as named.
        path: String,
    },
    /// Too large to be read completely.
    #[error("`{path}` has {bytes} bytes, more than the {limit} that may be read at once")]
    ReadLimit {
        /// The path as named.
        path: String,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// Too large to be written.
    #[error("{}", bound.message(path, *bytes, *limit))]
    WriteLimit {
        /// The path as named.
        path: String,
        /// The size of what is limited.
        bytes: u64,
        /// The limit.
        limit: u64,
        /// What is limited.
        bound: WriteBound,
    },
    /// Too large to be read into memory, changed and written back.
    #[error("`{path}` has more than the {limit} bytes up to which a file is changed in place")]
    TooLargeToChange {
        /// The path as named.
        path: String,
        /// How many bytes it has at least.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The requested line range is invalid.
    #[error("lines {start} to {end} are not a range of `{path}`")]
    InvalidRange {
        /// The path as named.
        path: String,
        /// First line asked for.
        start: u64,
        /// Last line asked for.
        end: u64,
        /// What would work.
        help: String,
    },
    /// The file is not in the state that the call expects.
    #[error("`{path}` is not in the expected state: {reason}")]
    Precondition {
        /// The path as named.
        path: String,
        /// What differs.
        reason: String,
    },
    /// The call was cancelled or its deadline passed.
    #[error("{}", match .0 { CancellationReason::Cancelled => "the call was cancelled", CancellationReason::Deadline => "the call took longer than it may" })]
    Stopped(CancellationReason),
    /// The change could not be recorded in the journal, so it was not made.
    #[error("the change could not be recorded, so nothing was changed")]
    NotRecorded(
        /// The reason, for the operator.
        String,
    ),
    /// The content to be replaced is too large to be kept for undo, so nothing was changed.
    #[error(
        "{bytes} bytes are more than the {limit} that are kept of one file for undo, so nothing was changed"
    )]
    TooLargeToKeep {
        /// The size of the file.
        bytes: u64,
        /// How much is kept of one file.
        limit: u64,
    },
    /// The undo journal has reached its limit, so nothing was changed.
    #[error("the undo journal is full, so nothing was changed")]
    JournalFull(
        /// The limit that was reached.
        KeptBound,
    ),
    /// The disk of the undo journal has no space for the content to be replaced, so nothing was changed.
    #[error("the disk that the gate keeps undo and records on is almost full, so nothing was changed")]
    NoSpaceToKeep(
        /// The reason, for the operator.
        String,
    ),
    /// A change failed half-way and could not be rolled back.
    #[error("changing `{path}` failed half-way, and not all of it could be taken back")]
    Unsure {
        /// The path as named.
        path: String,
    },
    /// So much of a mount would need an overlay that the command is not started.
    #[error(
        "more than {limit} places of `{alias}` would have to be kept from the command, the most in `{most}`"
    )]
    TooManyCovers {
        /// The mount.
        alias: String,
        /// The limit.
        limit: usize,
        /// The directory that holds the most of them.
        most: String,
    },
    /// Files that must be masked are being moved while the mount is walked.
    #[error("files of `{alias}` that no command may see are being moved")]
    Restless {
        /// The mount.
        alias: String,
    },
    /// A failure of the text or search layer, with its own explanation.
    #[error("{0}")]
    Other(Box<Failure>),
    /// No file descriptor is available (`EMFILE`, `ENFILE`).
    #[error("{doing} `{path}` failed: {} has too many files open", if *.of_system { "the system" } else { "the gate" })]
    TooManyOpenFiles {
        /// What was being done.
        doing: &'static str,
        /// The path as named.
        path: String,
        /// Whether the whole system has too many open (`ENFILE`), and not this process alone (`EMFILE`).
        of_system: bool,
    },
    /// A system call failed.
    #[error("{doing} `{path}` failed: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The path as named.
        path: String,
        /// The reason.
        source: io::Error,
    },
}

impl WorkspaceError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::InvalidPath { .. } => ErrorCode::InvalidPath,
            Self::UnknownAlias { .. } => ErrorCode::UnknownAlias,
            Self::AliasRequired { .. } | Self::ParentSegment { .. } | Self::Outside { .. } => {
                ErrorCode::OutsideWorkspace
            }
            Self::SymlinkOutside { .. } => ErrorCode::SymlinkOutsideWorkspace,
            Self::ReplacedByLink { .. } | Self::KeptContentDiffers { .. } => ErrorCode::PreconditionFailed,
            Self::SymlinkLoop { .. } => ErrorCode::SymlinkLoop,
            Self::Denied { .. } => ErrorCode::DeniedPath,
            Self::OutOfScope { .. } => ErrorCode::OutOfScope,
            Self::ReadOnly { .. } => ErrorCode::ReadOnly,
            Self::SpecialFile { .. } => ErrorCode::SpecialFile,
            Self::NotFound { .. } => ErrorCode::NotFound,
            Self::NotAFile { .. } | Self::IsLink { .. } => ErrorCode::NotAFile,
            Self::NotADirectory { .. } => ErrorCode::NotADirectory,
            Self::AlreadyExists { .. } => ErrorCode::AlreadyExists,
            Self::Binary { .. } => ErrorCode::BinaryFile,
            Self::ReadLimit { .. } => ErrorCode::ReadLimit,
            Self::WriteLimit { .. } | Self::TooLargeToChange { .. } => ErrorCode::WriteLimit,
            Self::InvalidRange { .. } => ErrorCode::InvalidRange,
            Self::Precondition { .. } => ErrorCode::PreconditionFailed,
            Self::Stopped(CancellationReason::Cancelled) => ErrorCode::Cancelled,
            Self::Stopped(CancellationReason::Deadline) => ErrorCode::Timeout,
            Self::NotRecorded(_) => ErrorCode::AuditUnavailable,
            Self::TooLargeToKeep { .. } | Self::JournalFull(_) => ErrorCode::WriteLimit,
            Self::NoSpaceToKeep(_) => ErrorCode::DiskFull,
            Self::Unsure { .. } => ErrorCode::IoError,
            Self::TooManyCovers { .. } => ErrorCode::SandboxUnavailable,
            Self::Restless { .. } => ErrorCode::PreconditionFailed,
            Self::Other(failure) => failure.code,
            Self::TooManyOpenFiles { .. } => ErrorCode::ResourceLimit,
            Self::Io { source, .. } => io_code(source),
        }
    }

    fn help(&self) -> Option<String> {
        let text = match self {
            Self::InvalidPath { help, .. } => help,
            Self::UnknownAlias { known, style: PathStyle::AliasOnly, .. } => {
                return Some(format!("use one of {known}"));
            }
            Self::UnknownAlias { known, style: PathStyle::Free, .. } => {
                return Some(format!(
                    "use one of {known}; a file whose own name begins with `@` is written `./@name`"
                ));
            }
            Self::AliasRequired { known, .. } => return Some(format!("begin the path with one of {known}")),
            Self::ParentSegment { .. } => "write the path below its mount without `..`",
            Self::Outside { .. } => "stay inside the workspace; use a path relative to it",
            Self::SymlinkOutside { .. } => "stay inside the workspace; name a file that lies in it",
            Self::Denied { .. } => {
                "secrets and the gate's own files are never available; go on without this file"
            }
            Self::OutOfScope { .. } => {
                "choose a path inside the granted globs, or ask the operator to widen them"
            }
            Self::ReadOnly { .. } => {
                "it can be read; changes go to a read-write mount, and git's own files are changed by git"
            }
            Self::IsLink { .. } => "name the file itself",
            Self::TooLargeToKeep { .. } => "leave this file to a person",
            Self::NoSpaceToKeep(_) => {
                "ask the operator to free space; deleting with a file tool frees none, because what is deleted is kept for undo"
            }
            Self::JournalFull(_) => {
                "change nothing more; the operator has to make room for what was replaced: `retention.undo` bounds it"
            }
            Self::Unsure { .. } => {
                "read the file before going on; the next start of the gate puts right what it can"
            }
            Self::NotFound { .. } => "list the directory to see what is there",
            Self::NotAFile { .. } => "name a file inside this directory",
            Self::AlreadyExists { .. } => "choose another name, or allow overwriting",
            Self::Binary { .. } => "only text can be read or edited",
            Self::ReadLimit { .. } => "ask for a range of lines, or search the file",
            Self::WriteLimit { bound: WriteBound::Content, .. } => "write less at once",
            Self::WriteLimit { bound: WriteBound::Appended, .. } => "append it in several calls",
            Self::WriteLimit { bound: WriteBound::Result, .. } => "make the file no longer than that",
            Self::TooLargeToChange { .. } => {
                "leave this file to a person, or keep what is new in another file"
            }
            Self::InvalidRange { help, .. } => return Some(help.clone()),
            Self::Precondition { .. } => "read the file again and repeat the change on what is there now",
            Self::Stopped(CancellationReason::Deadline) => "ask for less, or narrow the path",
            Self::Restless { .. } => "try again when nothing else is moving files of the workspace",
            Self::TooManyCovers { .. } => {
                "ask the operator to move them into a directory of their own, to mount a smaller one, to deny whole directories instead of many files, or to widen the scope"
            }
            Self::TooManyOpenFiles { of_system: false, .. } => {
                "try again when less is under way, or ask the operator to raise the limit on open files (`ulimit -n`)"
            }
            Self::TooManyOpenFiles { of_system: true, .. } => {
                "try again when less is under way, or ask the operator to raise the system's limit (`fs.file-max`)"
            }
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "free some space; the old content is untouched"
            }
            _ => return None,
        };
        Some(text.to_owned())
    }

    /// A length past the end of its buffer. An empty slice instead would change or hash the file without that part.
    pub(crate) fn out_of_bounds() -> Self {
        Self::other(Failure::new(ErrorCode::Internal, "a file was not read as far as the system said"))
    }

    /// Wraps the failure of another layer unchanged.
    #[must_use]
    pub fn other(failure: impl Into<Failure>) -> Self {
        Self::Other(Box::new(failure.into()))
    }

    /// Maps an I/O error on a path by its errno.
    #[must_use]
    pub fn io(doing: &'static str, path: &str, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT) => Self::NotFound { path },
            Some(Errno::NOTDIR) => Self::NotADirectory { path },
            Some(Errno::LOOP) => Self::SymlinkLoop { path },
            Some(Errno::NAMETOOLONG) => Self::InvalidPath { reason: TOO_LONG, help: SHORTER },
            Some(Errno::MFILE) => Self::TooManyOpenFiles { doing, path, of_system: false },
            Some(Errno::NFILE) => Self::TooManyOpenFiles { doing, path, of_system: true },
            Some(Errno::NXIO) => Self::SpecialFile { path, kind: "socket or device" },
            _ => Self::Io { doing, path, source },
        }
    }
}

fn io_code(source: &io::Error) -> ErrorCode {
    match source.kind() {
        io::ErrorKind::PermissionDenied => ErrorCode::PermissionDenied,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorCode::DiskFull,
        io::ErrorKind::ReadOnlyFilesystem => ErrorCode::ReadOnlyFilesystem,
        io::ErrorKind::FileTooLarge => ErrorCode::WriteLimit,
        io::ErrorKind::IsADirectory => ErrorCode::NotAFile,
        io::ErrorKind::AlreadyExists => ErrorCode::AlreadyExists,
        _ => ErrorCode::IoError,
    }
}

impl From<CancellationReason> for WorkspaceError {
    fn from(reason: CancellationReason) -> Self {
        Self::Stopped(reason)
    }
}

impl From<WorkspaceError> for Failure {
    fn from(error: WorkspaceError) -> Self {
        if let WorkspaceError::Other(failure) = error {
            return *failure;
        }
        // A file name in it may contain line breaks and other control characters.
        let mut failure = Self::new(error.code(), toolgate_text::escaped_line(&error.to_string()));
        failure.help = error.help();
        match &error {
            WorkspaceError::Denied { rule, .. } => {
                failure.operator_note = Some(format!("deny rule `{rule}`"))
            }
            WorkspaceError::NotRecorded(reason) => failure.operator_note = Some(reason.clone()),
            WorkspaceError::NoSpaceToKeep(reason) => {
                failure.operator_note = Some(format!(
                    "{reason}; free space on the filesystem of the state directory, or lower `retention.undo`"
                ));
            }
            WorkspaceError::JournalFull(bound) => failure.operator_note = Some(bound.to_string()),
            WorkspaceError::ReadLimit { bytes, limit, .. }
            | WorkspaceError::TooLargeToKeep { bytes, limit }
            | WorkspaceError::TooLargeToChange { bytes, limit, .. }
            | WorkspaceError::WriteLimit { bytes, limit, .. } => {
                failure = failure.detail("bytes", *bytes).detail("limit", *limit);
            }
            _ => {}
        }
        failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_nothing_could_be_recorded_is_for_the_operator() {
        let failure = Failure::from(WorkspaceError::NotRecorded("/srv/state is full".to_owned()));
        assert_eq!(failure.message, "the change could not be recorded, so nothing was changed");
        assert!(!format!("{:?}{:?}", failure.help, failure.details).contains("/srv"));
        assert_eq!(failure.operator_note.as_deref(), Some("/srv/state is full"));
    }
}
