//! The tables and their migrations.

use std::path::Path;

use sqlx::{Connection as _, Row as _, SqliteConnection};

use crate::database::explain;
use crate::error::SessionError;

/// The migration to each version, starting from an empty database. Released migrations are never changed; new ones are appended.
const MIGRATIONS: [&str; 2] = [include_str!("migrations/1.sql"), include_str!("migrations/2.sql")];

/// `application_id` of our database files.
const APPLICATION_ID: i64 = 0x546f_4761;

/// Migrates a database to the current version.
pub(crate) async fn prepare(connection: &mut SqliteConnection, path: &Path) -> Result<(), SessionError> {
    let failed = |error| explain(path, &error);
    let is_current = missing(connection, path).await?.is_empty();
    // WAL mode is persistent. A reader never waits for a writer, and an append costs one fsync.
    sqlx::query("PRAGMA journal_mode = WAL").fetch_one(&mut *connection).await.map_err(failed)?;
    if is_current {
        return Ok(());
    }
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
    // Another process may have migrated it in the meantime.
    for migration in missing(&mut transaction, path).await? {
        sqlx::raw_sql(*migration).execute(&mut *transaction).await.map_err(failed)?;
    }
    transaction.commit().await.map_err(failed)
}

/// The migrations that a database still needs.
async fn missing(
    connection: &mut SqliteConnection,
    path: &Path,
) -> Result<&'static [&'static str], SessionError> {
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    let version = number(connection, "PRAGMA user_version", path).await?;
    let application = number(connection, "PRAGMA application_id", path).await?;
    let tables = number(connection, "SELECT count(*) FROM sqlite_schema", path).await?;
    let is_new = version == 0 && application == 0 && tables == 0;
    if !is_new && application != APPLICATION_ID {
        return Err(SessionError::Foreign { path: path.to_owned() });
    }
    let done = usize::try_from(version).ok().and_then(|version| MIGRATIONS.get(version..));
    done.ok_or(SessionError::Newer { path: path.to_owned(), found: version, known })
}

async fn number(
    connection: &mut SqliteConnection,
    query: &'static str,
    path: &Path,
) -> Result<i64, SessionError> {
    let row = sqlx::query(query).fetch_one(connection).await.map_err(|error| explain(path, &error))?;
    row.try_get(0).map_err(|error| explain(path, &error))
}
