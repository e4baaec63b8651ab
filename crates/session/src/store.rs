//! The store of conversations.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use sqlx::Connection as _;
use toolgate_llm::{ModelName, Usage};
use toolgate_types::{SessionId, Trust};

use crate::database::Database;
use crate::error::SessionError;
use crate::load::SessionReader;
use crate::private_dir::PrivateDir;
use crate::retention::SessionBounds;
use crate::row::{now, owner_text, path_bytes, summaries, summary, unsigned};
use crate::session::Session;
use crate::session_lock::SessionLocks;
use crate::summary::{ListFilter, NewSession, SessionOwner, SessionSummary};
use crate::transcript::Transcript;

/// Conversations in one database. Clones share it.
#[derive(Clone, Debug)]
pub struct SessionStore {
    pub(crate) database: Arc<Database>,
    locks: SessionLocks,
    pub(crate) bounds: SessionBounds,
}

impl SessionStore {
    /// Opens a database file, creating it and its directory, private to this user, if missing. Several processes may have it open.
    ///
    /// # Errors
    /// It cannot be used: see [`SessionError`].
    pub async fn open(path: &Path) -> Result<Self, SessionError> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str()))
        else {
            return Err(SessionError::Io { action: "open", path: path.to_owned(), cause: Errno::INVAL });
        };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let folder = Arc::new(PrivateDir::open_or_create(parent)?);
        let database = Arc::new(Database::open(Arc::clone(&folder), name).await?);
        let holds = SessionLocks::Directory(folder);
        holds.remove_stale();
        Ok(Self { database, locks: holds, bounds: SessionBounds::default() })
    }

    /// A store in memory, which ends with its last clone.
    ///
    /// # Errors
    /// SQLite cannot allocate it.
    pub async fn in_memory() -> Result<Self, SessionError> {
        let database = Arc::new(Database::in_memory().await?);
        let holds = SessionLocks::Memory(Arc::new(Mutex::new(BTreeSet::new())));
        Ok(Self { database, locks: holds, bounds: SessionBounds::default() })
    }

    /// Sets the retention bounds: whenever a conversation is created, the least recently used ones beyond them are deleted.
    #[must_use]
    pub fn with_bounds(self, bounds: SessionBounds) -> Self {
        Self { bounds, ..self }
    }

    /// A new random id: short, for people, and usually identified by its first characters. It contains letters and digits, so it is neither a word
    /// nor a number.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn fresh_id() -> Result<SessionId, SessionError> {
        let failed = || SessionError::Io { action: "read", path: "/dev/urandom".into(), cause: Errno::IO };
        let letter = |byte: &u8| LETTERS.get(usize::from(byte % 32)).copied().map(char::from);
        loop {
            let mut bytes = [0; 10];
            getrandom::fill(&mut bytes).map_err(|_| failed())?;
            let text: String = bytes.iter().filter_map(letter).collect();
            let digits = text.bytes().filter(u8::is_ascii_digit).count();
            if (1..text.len()).contains(&digits) {
                return text.parse().map_err(|_| failed());
            }
        }
    }

    /// Creates a conversation and locks it.
    ///
    /// # Errors
    /// The id is taken, or it could not be stored.
    pub async fn create(&self, new: NewSession) -> Result<Session, SessionError> {
        let hold = self.locks.acquire(&new.id)?;
        let at = now();
        let insert =
            "INSERT INTO sessions (id, title, agent, model, profile, workspace, created_ms, owner, trust)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let insert = sqlx::query(insert)
            .bind(new.id.as_str())
            .bind(&new.title)
            .bind(new.agent.as_ref().map(|agent| agent.as_str()))
            .bind(new.model.to_string())
            .bind(&new.profile)
            .bind(path_bytes(&new.workspace))
            .bind(at.as_millisecond())
            .bind(owner_text(&new.owner))
            .bind(new.trust.map(Trust::as_str));
        let done = {
            let mut connection = self.database.connection().await;
            insert.execute(&mut *connection).await
        };
        let done = done.map_err(|error| {
            match error.as_database_error().is_some_and(|error| error.is_unique_violation()) {
                true => SessionError::Exists { id: new.id.clone() },
                false => self.database.explain(&error),
            }
        })?;
        self.database.check_file_identity()?;
        self.apply_retention(&new.id).await?;
        let NewSession { id, title, agent, model, profile, workspace, owner, trust } = new;
        let summary = SessionSummary {
            id,
            title,
            agent,
            model,
            profile,
            workspace,
            created_at: at,
            changed_at: at,
            messages: 0,
            usage: Usage::default(),
            owner,
            trust,
        };
        Session::load(self.database.clone(), hold, done.last_insert_rowid(), summary).await
    }

    /// Opens a conversation and locks it.
    ///
    /// # Errors
    /// There is none with this id, it is locked, or it cannot be read.
    pub async fn open_session(&self, id: &SessionId) -> Result<Session, SessionError> {
        self.look_up(id).await?;
        let hold = self.locks.acquire(id)?;
        // Read again with the lock held, so that no other process can change or delete it.
        let (number, summary) = self.look_up(id).await?;
        Session::load(self.database.clone(), hold, number, summary).await
    }

    /// The session with this id, or the only one with this prefix.
    ///
    /// # Errors
    /// There is none, or there are several.
    pub async fn find(&self, name: &str) -> Result<SessionId, SessionError> {
        // The empty string is a prefix of every id.
        if name.is_empty() {
            return Err(SessionError::Unknown { name: String::new() });
        }
        let query =
            "SELECT id FROM sessions WHERE substr(id, 1, length(?1)) = ?1 ORDER BY id != ?1, id LIMIT 10";
        let rows = {
            let mut connection = self.database.connection().await;
            sqlx::query_scalar::<_, String>(query).bind(name).fetch_all(&mut *connection).await
        };
        let rows = rows.map_err(|error| self.database.explain(&error))?;
        let mut found: Vec<SessionId> = rows.iter().filter_map(|id| id.parse().ok()).collect();
        match found.first() {
            Some(first) if found.len() == 1 || first.as_str() == name => Ok(found.swap_remove(0)),
            Some(_) => Err(SessionError::Ambiguous { name: name.to_owned(), sessions: found }),
            None => Err(SessionError::Unknown { name: name.to_owned() }),
        }
    }

    /// Conversations, the most recently used first.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn list(&self, filter: &ListFilter) -> Result<Vec<SessionSummary>, SessionError> {
        let query = summaries!(
            "WHERE (?1 IS NULL OR s.workspace = ?1) AND (?3 IS NULL OR coalesce(s.owner, '') = ?3)
            ORDER BY changed_ms DESC, s.number DESC LIMIT ?2"
        );
        let rows = {
            let mut connection = self.database.connection().await;
            sqlx::query(query)
                .bind(filter.workspace.as_deref().map(path_bytes))
                .bind(filter.limit.map_or(-1, i64::from))
                .bind(filter.owner.as_ref().map(|owner| owner_text(owner).unwrap_or_default()))
                .fetch_all(&mut *connection)
                .await
        };
        let rows = rows.map_err(|error| self.database.explain(&error))?;
        let summaries: Result<Vec<SessionSummary>, _> =
            rows.iter().map(|row| summary(row).map(|(_, summary)| summary)).collect();
        summaries.map_err(|error| self.database.explain(&error))
    }

    /// The ids of conversations in which a person or a model said this. ASCII letters count in any case.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn mentioning(
        &self,
        filter: &ListFilter,
        text: &str,
    ) -> Result<BTreeSet<String>, SessionError> {
        // What was said is the text of a message or of its parts; names of fields and results of calls are not searched.
        let query = "SELECT s.id FROM sessions s
            WHERE (?1 IS NULL OR s.workspace = ?1) AND (?2 IS NULL OR coalesce(s.owner, '') = ?2) AND EXISTS (
                SELECT 1 FROM messages m, json_tree(CASE WHEN json_valid(m.body) THEN m.body ELSE '{}' END) said
                WHERE m.session = s.number AND said.key = 'text' AND said.type = 'text'
                    AND instr(lower(said.value), lower(?3)) > 0
            )";
        let mut connection = self.database.connection().await;
        let found = sqlx::query_scalar::<_, String>(query)
            .bind(filter.workspace.as_deref().map(path_bytes))
            .bind(filter.owner.as_ref().map(|owner| owner_text(owner).unwrap_or_default()))
            .bind(text)
            .fetch_all(&mut *connection)
            .await;
        drop(connection);
        Ok(found.map_err(|error| self.database.explain(&error))?.into_iter().collect())
    }

    /// The conversation of the person at this machine that was used last in a directory.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn last(&self, workspace: &Path) -> Result<Option<SessionId>, SessionError> {
        let filter = ListFilter {
            workspace: Some(workspace.to_owned()),
            limit: Some(1),
            owner: Some(SessionOwner::Person),
        };
        Ok(self.list(&filter).await?.pop().map(|summary| summary.id))
    }

    /// The metadata of a conversation, whether or not it is locked or its messages can be read.
    ///
    /// # Errors
    /// There is none with this id.
    pub async fn summary(&self, id: &SessionId) -> Result<SessionSummary, SessionError> {
        Ok(self.look_up(id).await?.1)
    }

    /// The whole conversation, whether or not it is locked.
    ///
    /// # Errors
    /// There is none with this id, or it cannot be read.
    pub async fn transcript(&self, id: &SessionId) -> Result<Transcript, SessionError> {
        let mut connection = self.database.connection().await;
        let explain = |error: sqlx::Error| self.database.explain(&error);
        // One transaction: a consistent snapshot of all tables while other processes write.
        let mut look = connection.begin().await.map_err(explain)?;
        let row = sqlx::query(BY_NAME).bind(id.as_str()).fetch_optional(&mut *look).await.map_err(explain)?;
        let row = row.ok_or_else(|| SessionError::Unknown { name: id.to_string() })?;
        let (number, summary) = summary(&row).map_err(explain)?;
        let reading = SessionReader { database: &self.database, connection: &mut look, id, number };
        let entries = reading.entries().await?;
        Ok(Transcript { summary, entries })
    }

    /// Sets the title of a conversation, whether or not it is locked.
    ///
    /// # Errors
    /// There is none with this id, or it could not be stored.
    pub async fn rename(&self, id: &SessionId, title: &str) -> Result<(), SessionError> {
        let update = sqlx::query("UPDATE sessions SET title = ? WHERE id = ?").bind(title.to_owned());
        self.update(update.bind(id.to_string()), id).await
    }

    /// Sets the trust level of a conversation, whether or not it is locked.
    ///
    /// # Errors
    /// There is none with this id, or it could not be stored.
    pub async fn set_trust(&self, id: &SessionId, trust: Trust) -> Result<(), SessionError> {
        let update = sqlx::query("UPDATE sessions SET trust = ? WHERE id = ?").bind(trust.as_str());
        self.update(update.bind(id.to_string()), id).await
    }

    /// Sets the model of a conversation, whether or not it is locked.
    ///
    /// # Errors
    /// There is none with this id, or it could not be stored.
    pub async fn set_model(&self, id: &SessionId, model: &ModelName) -> Result<(), SessionError> {
        let update = sqlx::query("UPDATE sessions SET model = ? WHERE id = ?").bind(model.to_string());
        self.update(update.bind(id.to_string()), id).await
    }

    /// Reserves numbers for the events of a conversation, and returns the last one that may have been given before: none is given twice, also after
    /// a restart.
    ///
    /// # Errors
    /// There is none with this id, or it could not be stored.
    pub async fn reserve_events(&self, id: &SessionId, count: u32) -> Result<u64, SessionError> {
        let update = "UPDATE sessions SET events = events + ?1 WHERE id = ?2 RETURNING events - ?1";
        let row = {
            let mut connection = self.database.connection().await;
            let update = sqlx::query_scalar::<_, i64>(update).bind(i64::from(count)).bind(id.as_str());
            update.fetch_optional(&mut *connection).await
        };
        let before = row.map_err(|error| self.database.explain(&error))?;
        before.map(unsigned).ok_or_else(|| SessionError::Unknown { name: id.to_string() })
    }

    async fn update(
        &self,
        update: sqlx::query::Query<'_, sqlx::Sqlite, sqlx::sqlite::SqliteArguments>,
        id: &SessionId,
    ) -> Result<(), SessionError> {
        let mut connection = self.database.connection().await;
        let done = update.execute(&mut *connection).await.map_err(|error| self.database.explain(&error))?;
        match done.rows_affected() {
            0 => Err(SessionError::Unknown { name: id.to_string() }),
            _ => Ok(()),
        }
    }

    /// Deletes a conversation and all its content in the files.
    ///
    /// # Errors
    /// There is none with this id, it is locked, or the write fails.
    pub async fn delete(&self, id: &SessionId) -> Result<(), SessionError> {
        let (number, _) = self.look_up(id).await?;
        let _hold = self.locks.acquire(id)?;
        let mut connection = self.database.connection().await;
        let explain = |error: sqlx::Error| self.database.explain(&error);
        let delete = sqlx::query("DELETE FROM sessions WHERE number = ?").bind(number);
        let done = delete.execute(&mut *connection).await.map_err(explain)?;
        if done.rows_affected() == 0 {
            return Err(SessionError::Unknown { name: id.to_string() });
        }
        // The content is still in the write-ahead log. If a reader is using that now, a later checkpoint truncates it.
        sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").fetch_one(&mut *connection).await.map_err(explain)?;
        Ok(())
    }

    async fn look_up(&self, id: &SessionId) -> Result<(i64, SessionSummary), SessionError> {
        let row = {
            let mut connection = self.database.connection().await;
            sqlx::query(BY_NAME).bind(id.as_str()).fetch_optional(&mut *connection).await
        };
        let row = row.map_err(|error| self.database.explain(&error))?;
        let row = row.ok_or_else(|| SessionError::Unknown { name: id.to_string() })?;
        summary(&row).map_err(|error| self.database.explain(&error))
    }
}

const BY_NAME: &str = summaries!("WHERE s.id = ?");

/// Letters and digits that are not easily confused.
const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
