//! The SQLite connection, and the mapping of its errors.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, SqliteConnection};
use tokio::sync::{Mutex, MutexGuard};
use toolgate_fs::FileLock;

use crate::error::SessionError;
use crate::private_dir::PrivateDir;
use crate::schema;

/// How long to wait while another process has the database locked.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval for polling the lock of another process that is opening the database.
const OPEN_LOCK_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// One connection behind a mutex. SQLite has a single writer too, and writing a message takes about as long as one fsync.
#[derive(Debug)]
pub(crate) struct Database {
    connection: Mutex<SqliteConnection>,
    path: PathBuf,
    /// The database file, unless it is in memory.
    file: Option<DatabaseFile>,
}

/// The name and inode of the opened file.
#[derive(Debug)]
struct DatabaseFile {
    directory: Arc<PrivateDir>,
    name: String,
    file: (u64, u64),
}

impl Database {
    /// Opens a database file in a directory, creating it if missing.
    pub(crate) async fn open(folder: Arc<PrivateDir>, name: &str) -> Result<Self, SessionError> {
        let path = folder.path_of(name);
        // Switching a database to WAL mode needs exclusive access, and SQLite's busy timeout does not cover that.
        let _turn = lock_for_open(&folder, &path).await?;
        folder.ensure_private_file(name)?;
        let options = options().filename(&path);
        let mut connection = options.connect().await.map_err(|error| explain(&path, &error))?;
        schema::prepare(&mut connection, &path).await?;
        let gone = || SessionError::Gone { path: path.clone() };
        let place = DatabaseFile {
            file: folder.identity(name).ok_or_else(gone)?,
            name: name.to_owned(),
            directory: folder,
        };
        Ok(Self { connection: Mutex::new(connection), path, file: Some(place) })
    }

    /// Checks that the name still refers to the opened file. SQLite keeps writing to a removed file, and nothing written there could be found again.
    pub(crate) fn check_file_identity(&self) -> Result<(), SessionError> {
        match &self.file {
            Some(DatabaseFile { directory: folder, name, file }) if folder.identity(name) != Some(*file) => {
                Err(SessionError::Gone { path: self.path.clone() })
            }
            _ => Ok(()),
        }
    }

    /// A database in memory, which lives as long as this value.
    pub(crate) async fn in_memory() -> Result<Self, SessionError> {
        let path = PathBuf::from(":memory:");
        let options = options().in_memory(true);
        let mut connection = options.connect().await.map_err(|error| explain(&path, &error))?;
        schema::prepare(&mut connection, &path).await?;
        Ok(Self { connection: Mutex::new(connection), path, file: None })
    }

    pub(crate) async fn connection(&self) -> MutexGuard<'_, SqliteConnection> {
        self.connection.lock().await
    }

    pub(crate) fn explain(&self, error: &sqlx::Error) -> SessionError {
        explain(&self.path, error)
    }
}

fn options() -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        // `synchronous=FULL`: a commit is on disk when it returns.
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        // `secure_delete`: deleted content is overwritten, not only unlinked.
        .pragma("secure_delete", "ON")
        .pragma("trusted_schema", "OFF")
        .thread_name(|_| "toolgate-sessions".to_owned())
        .disable_statement_logging()
}

/// Waits until no other process is opening the database.
async fn lock_for_open(folder: &PrivateDir, path: &Path) -> Result<FileLock<File>, SessionError> {
    let waiting = async {
        loop {
            match folder.lock("opening")? {
                Some(lock) => return Ok(lock),
                None => tokio::time::sleep(OPEN_LOCK_POLL_INTERVAL).await,
            }
        }
    };
    let waited = tokio::time::timeout(BUSY_TIMEOUT, waiting).await;
    waited.unwrap_or_else(|_| Err(SessionError::Busy { path: path.to_owned() }))
}

/// Maps a SQLite error to a session error.
pub(crate) fn explain(path: &Path, error: &sqlx::Error) -> SessionError {
    let path = path.to_owned();
    let problem = match error {
        sqlx::Error::Database(error) => error.message().to_owned(),
        other => other.to_string(),
    };
    match primary_code(error) {
        Some(SQLITE_BUSY | SQLITE_LOCKED) => SessionError::Busy { path },
        Some(SQLITE_FULL) => SessionError::Full { path },
        Some(SQLITE_CORRUPT | SQLITE_NOT_A_DATABASE) => SessionError::Corrupt { path, problem },
        _ => SessionError::Database { path, problem },
    }
}

const SQLITE_BUSY: u32 = 5;
const SQLITE_LOCKED: u32 = 6;
const SQLITE_CORRUPT: u32 = 11;
const SQLITE_FULL: u32 = 13;
const SQLITE_NOT_A_DATABASE: u32 = 26;

/// The low byte of an extended result code is the primary code.
fn primary_code(error: &sqlx::Error) -> Option<u32> {
    let code = error.as_database_error()?.code()?;
    code.parse::<u32>().ok().map(|code| code & 0xff)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A power cut cannot be tested here, but the setting that survives one can be queried.
    #[test]
    fn a_commit_is_on_disk_when_it_returns() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let scratch = tempfile::tempdir().unwrap();
            let folder = Arc::new(PrivateDir::open_or_create(&scratch.path().join("s")).unwrap());
            let database = Database::open(folder, "sessions.db").await.unwrap();
            let mut connection = database.connection().await;
            for (question, answer) in [("PRAGMA synchronous", "2"), ("PRAGMA foreign_keys", "1")] {
                let found: i64 = sqlx::query_scalar(question).fetch_one(&mut *connection).await.unwrap();
                assert_eq!(found.to_string(), answer, "{question}");
            }
            let mode = sqlx::query_scalar::<_, String>("PRAGMA journal_mode");
            assert_eq!(mode.fetch_one(&mut *connection).await.unwrap(), "wal");
        });
    }
}
