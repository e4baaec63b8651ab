//! Errors of the audit log.
//!
//! Messages name host paths and are for the operator only: the gate answers a model with `audit_unavailable` and nothing more.

use std::path::PathBuf;

use rustix::io::Errno;
use toolgate_fs::Holder;
use toolgate_types::ErrorCode;

/// Why the log could not be written or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuditError {
    /// A system call failed.
    #[error("could not {action} `{}`: {cause}", path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The errno.
        cause: Errno,
    },
    /// The write succeeded but the sync failed; nothing after it can be trusted to be durable either.
    #[error("the disk did not confirm the audit record: {cause}")]
    NotDurable {
        /// The errno.
        cause: Errno,
    },
    /// A line of a file was not written by a gate.
    #[error("`{}` cannot be read: {problem}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A key of the record cannot be used.
    #[error("the key `{}` of the record cannot be used: {problem}", path.display())]
    Key {
        /// The path of the key.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Another process holds the directory lock.
    #[error("`{}` is locked by {}, which did not let go of it in time", path.display(), describe_holder(holder.as_ref()))]
    Busy {
        /// The lock file.
        path: PathBuf,
        /// The holder, if the system reports it.
        holder: Option<Holder>,
    },
    /// The log contradicts what was signed last.
    #[error("the record in `{}` contradicts what was signed last, which `{}` says: {problem}", path.display(), signed.display())]
    Contradiction {
        /// The audit directory.
        path: PathBuf,
        /// The file with the last signed record.
        signed: PathBuf,
        /// How they differ.
        problem: String,
    },
    /// A call could neither be recorded nor counted as one without a record: it would leave no trace.
    #[error("{error}; nor could it be counted as a call without a record: {uncounted}")]
    Untraced {
        /// Why it could not be recorded.
        error: Box<AuditError>,
        /// Why it could not be counted.
        uncounted: Box<AuditError>,
    },
    /// A record could not be encoded.
    #[error("the record could not be written as JSON: {problem}")]
    Encoding {
        /// The encoder's message.
        problem: String,
    },
}

impl AuditError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Io { cause, .. } | Self::NotDurable { cause } => code_of(*cause),
            Self::Damaged { .. } | Self::Contradiction { .. } => ErrorCode::PreconditionFailed,
            Self::Busy { .. } => ErrorCode::Timeout,
            Self::Key { .. } => ErrorCode::PermissionDenied,
            Self::Untraced { error, .. } => error.code(),
            Self::Encoding { .. } => ErrorCode::Internal,
        }
    }

    /// What the operator can do about it.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::Damaged { .. } => {
                "run `toolgate audit verify` to see the first bad line, keep a copy, then move the file aside"
            }
            Self::Busy { .. } => {
                "end that process, or let it go on (`kill -CONT PID`) if it was stopped; `fuser -v` on the lock file lists who has it open"
            }
            Self::Contradiction { .. } => {
                "lines were changed or removed, or lost in a power failure: run `toolgate audit verify` and keep a copy; a new record begins \
                 when the audit directory and the file that says what was signed are moved aside"
            }
            Self::Key { .. } => "an audit key is 32 bytes, readable by its owner only (mode 0600)",
            Self::Untraced { error, .. } => error.help(),
            Self::Encoding { .. } => "this is a defect of the gate; please report it",
            Self::NotDurable { .. } => "check the disk, then start the gate again",
            Self::Io { cause: Errno::MFILE, .. } => {
                "too many files are open: raise the limit of the gate (`ulimit -n`)"
            }
            Self::Io { cause: Errno::NFILE, .. } => {
                "too many files are open: raise the limit of the system (`fs.file-max`)"
            }
            Self::Io { .. } => match self.code() {
                ErrorCode::DiskFull => "free some space, or put the audit directory on another disk",
                ErrorCode::ReadOnlyFilesystem => {
                    "put the audit directory on a filesystem that can be written"
                }
                ErrorCode::PermissionDenied => "let this user write there, or choose another audit directory",
                ErrorCode::NotADirectory | ErrorCode::NotAFile => {
                    "something else is in that place; move it away"
                }
                _ => "check that the audit directory exists and can be written",
            },
        }
    }
}

fn describe_holder(holder: Option<&Holder>) -> String {
    holder.map_or_else(|| "another process".to_owned(), Holder::to_string)
}

fn code_of(cause: Errno) -> ErrorCode {
    match cause {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => ErrorCode::DiskFull,
        Errno::MFILE | Errno::NFILE => ErrorCode::ResourceLimit,
        Errno::ROFS => ErrorCode::ReadOnlyFilesystem,
        Errno::ACCESS | Errno::PERM => ErrorCode::PermissionDenied,
        Errno::NOENT => ErrorCode::NotFound,
        Errno::NOTDIR => ErrorCode::NotADirectory,
        Errno::ISDIR | Errno::LOOP => ErrorCode::NotAFile,
        _ => ErrorCode::IoError,
    }
}

/// A problem that did not stop the operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuditWarning {
    /// A partial line left by a dying process was removed; no caller had been answered on the strength of it.
    #[error("removed {bytes} bytes of an unfinished line at the end of `{}`", path.display())]
    UnfinishedLine {
        /// The file.
        path: PathBuf,
        /// How many bytes were removed.
        bytes: u64,
    },
    /// Queued records could not be written. Their tickets report it too, but may have been dropped.
    #[error("{records} records could not be written: {error}")]
    NotWritten {
        /// How many.
        records: usize,
        /// Why.
        error: AuditError,
    },
    /// Records are written, but the newest are not covered by a signature yet.
    #[error("no checkpoint was signed: {0}")]
    Checkpoint(AuditError),
    /// A sync failed. Waiting tickets report it too, but there may be none. Reported once; later writes are not safe either.
    #[error("what was recorded last may be lost in a power failure: {0}")]
    NotDurable(AuditError),
    /// The log was dropped and could not be closed properly; every record is kept.
    #[error("the log was not closed properly: {0}")]
    Closing(AuditError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_a_code_and_a_remedy() {
        let mut table = String::new();
        for cause in [
            Errno::NOSPC,
            Errno::DQUOT,
            Errno::FBIG,
            Errno::MFILE,
            Errno::NFILE,
            Errno::ROFS,
            Errno::ACCESS,
            Errno::NOTDIR,
            Errno::IO,
        ] {
            let error = AuditError::Io { action: "write", path: "/a".into(), cause };
            table.push_str(&format!("{} | {error} | {}\n", error.code().as_str(), error.help()));
        }
        insta::assert_snapshot!(table, @r"
        disk_full | could not write `/a`: No space left on device (os error 28) | free some space, or put the audit directory on another disk
        disk_full | could not write `/a`: Disk quota exceeded (os error 122) | free some space, or put the audit directory on another disk
        disk_full | could not write `/a`: File too large (os error 27) | free some space, or put the audit directory on another disk
        resource_limit | could not write `/a`: Too many open files (os error 24) | too many files are open: raise the limit of the gate (`ulimit -n`)
        resource_limit | could not write `/a`: Too many open files in system (os error 23) | too many files are open: raise the limit of the system (`fs.file-max`)
        read_only_filesystem | could not write `/a`: Read-only file system (os error 30) | put the audit directory on a filesystem that can be written
        permission_denied | could not write `/a`: Permission denied (os error 13) | let this user write there, or choose another audit directory
        not_a_directory | could not write `/a`: Not a directory (os error 20) | something else is in that place; move it away
        io_error | could not write `/a`: Input/output error (os error 5) | check that the audit directory exists and can be written
        ");
    }
}
