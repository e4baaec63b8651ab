//! Errors of stored conversations, with help for the user.

use std::path::{Path, PathBuf};

use rustix::io::Errno;
use toolgate_types::SessionId;

use crate::history::OrderError;

/// Why a conversation could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// There is no such session.
    #[error("there is no session `{name}`")]
    Unknown {
        /// The requested name.
        name: String,
    },
    /// Several sessions have this prefix.
    #[error("`{name}` could be {}", list(sessions))]
    Ambiguous {
        /// The requested name.
        name: String,
        /// Some of the matches.
        sessions: Vec<SessionId>,
    },
    /// The id is taken.
    #[error("there is a session `{id}` already")]
    Exists {
        /// The id.
        id: SessionId,
    },
    /// Another holder has it locked.
    #[error("the session `{id}` is in use{}", by(*process))]
    InUse {
        /// The session.
        id: SessionId,
        /// The process that holds it, if known.
        process: Option<u32>,
    },
    /// A message or result that is out of order. Nothing was added.
    #[error("{problem}")]
    Misplaced {
        /// What is wrong with it.
        problem: String,
    },
    /// A message that would not survive a round trip through JSON. Nothing was added.
    #[error("the message cannot be kept: {problem}")]
    NotKeepable {
        /// What is wrong with it.
        problem: String,
    },
    /// Another writer changed a session that is locked here. Nothing was added.
    #[error("somebody else wrote into the session `{id}`")]
    Conflict {
        /// The session.
        id: SessionId,
    },
    /// A stored session cannot be read. Other sessions can.
    #[error("the session `{id}` cannot be read at message {position}: {problem}")]
    Damaged {
        /// The session.
        id: SessionId,
        /// The position.
        position: u64,
        /// What is wrong.
        problem: String,
    },
    /// The file is not a database, or is damaged.
    #[error("`{}` is damaged: {problem}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// SQLite's message.
        problem: String,
    },
    /// A database of another program.
    #[error("`{}` is a database of another program", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A database of a newer Toolgate.
    #[error("`{}` was written by a newer toolgate: its version is {found}, and this one knows {known}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The newest version that is known here.
        known: i64,
    },
    /// A file or directory that other users could have written.
    #[error("`{}` cannot be trusted with conversations: {problem}", path.display())]
    Untrusted {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The file was removed or replaced while it was in use.
    #[error("`{}` was removed or replaced while it was in use", path.display())]
    Gone {
        /// The file.
        path: PathBuf,
    },
    /// The disk is full. Nothing was added.
    #[error("there is no room left for `{}`", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// Another process kept the database locked until the timeout. Nothing was added.
    #[error("another process keeps `{}` locked", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
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
    /// Any other SQLite error. Nothing was added.
    #[error("`{}` could not be used: {problem}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// SQLite's message.
        problem: String,
    },
}

impl SessionError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "unknown_session",
            Self::Ambiguous { .. } => "ambiguous_session",
            Self::Exists { .. } => "session_exists",
            Self::InUse { .. } => "session_in_use",
            Self::Misplaced { .. } => "message_misplaced",
            Self::NotKeepable { .. } => "message_not_keepable",
            Self::Conflict { .. } => "session_conflict",
            Self::Damaged { .. } => "session_damaged",
            Self::Corrupt { .. } => "database_corrupt",
            Self::Foreign { .. } => "database_foreign",
            Self::Newer { .. } => "database_newer",
            Self::Untrusted { .. } => "database_untrusted",
            Self::Gone { .. } => "database_gone",
            Self::Full { .. } => "disk_full",
            Self::Busy { .. } => "database_busy",
            Self::Io { .. } => "io_error",
            Self::Database { .. } => "database_error",
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn help(&self) -> String {
        let text = match self {
            Self::Unknown { .. } => "`toolgate sessions list --all` shows those that there are",
            Self::Ambiguous { .. } => "write more of it",
            Self::Exists { .. } => "continue it with --session, or choose another name",
            Self::InUse { .. } => "end the other conversation first, or begin a new one",
            Self::Misplaced { .. } | Self::NotKeepable { .. } => {
                "this is a defect of the gate; please report it"
            }
            Self::Conflict { .. } => "open the session again; what the other one wrote is kept",
            Self::Damaged { .. } => {
                "other sessions can still be used; `toolgate sessions delete` removes this one"
            }
            Self::Corrupt { path, .. } | Self::Foreign { path } => return move_aside(path),
            Self::Newer { .. } => "use the newer toolgate, or another --state-dir",
            Self::Untrusted { .. } => "put it right, or name another folder with --state-dir",
            Self::Gone { .. } => {
                "what was said is not kept; begin again, and leave the state directory to the gate"
            }
            Self::Full { .. } => "free some space, or name a folder on another disk with --state-dir",
            Self::Busy { .. } => "try again; if it lasts, look which process has the file open",
            Self::Io { .. } | Self::Database { .. } => {
                "check that the state directory exists, that this user may write there, and that the disk is well"
            }
        };
        text.to_owned()
    }
}

impl From<OrderError> for SessionError {
    fn from(misplaced: OrderError) -> Self {
        Self::Misplaced { problem: misplaced.to_string() }
    }
}

/// The whole directory, because a database has companion files (WAL). Its suffix stays, because that keeps it hidden from tools.
fn move_aside(file: &Path) -> String {
    let folder = file.parent().unwrap_or(file);
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let quoted = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', r"'\''"));
    let (from, to) = (quoted(folder), quoted(&folder.with_file_name(format!("aside-{name}"))));
    format!("to go on without the conversations in it, move its folder aside: mv {from} {to}")
}

fn list(sessions: &[SessionId]) -> String {
    let names: Vec<&str> = sessions.iter().map(SessionId::as_str).collect();
    names.join(", ")
}

fn by(process: Option<u32>) -> String {
    process.map(|process| format!(" by process {process}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_a_code_a_message_and_a_remedy() {
        let id = || "k3f9".parse::<SessionId>().unwrap();
        let path = || PathBuf::from("/state/sessions.toolgate/sessions.db");
        let errors = [
            SessionError::Unknown { name: "k3".to_owned() },
            SessionError::Ambiguous { name: "k3".to_owned(), sessions: vec![id(), id()] },
            SessionError::Exists { id: id() },
            SessionError::InUse { id: id(), process: Some(7) },
            SessionError::InUse { id: id(), process: None },
            OrderError::Unanswered(2).into(),
            SessionError::NotKeepable { problem: "recursion limit exceeded".to_owned() },
            SessionError::Conflict { id: id() },
            SessionError::Damaged { id: id(), position: 3, problem: "it is not there".to_owned() },
            SessionError::Corrupt { path: path(), problem: "file is not a database".to_owned() },
            SessionError::Foreign { path: "/it's/here/sessions.db".into() },
            SessionError::Newer { path: path(), found: 9, known: 1 },
            SessionError::Untrusted { path: path(), problem: "it has a second name" },
            SessionError::Gone { path: path() },
            SessionError::Full { path: path() },
            SessionError::Busy { path: path() },
            SessionError::Io { action: "open", path: path(), cause: Errno::ACCESS },
            SessionError::Database { path: path(), problem: "disk I/O error".to_owned() },
        ];
        let told =
            errors.map(|error| format!("{}\n  error: {error}\n  help: {}\n", error.code(), error.help()));
        insta::assert_snapshot!(told.concat());
    }
}
