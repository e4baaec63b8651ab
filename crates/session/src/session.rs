//! One conversation with an exclusive lock.

use std::sync::Arc;

use jiff::Timestamp;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Connection as _, Sqlite};
use toolgate_llm::{CallResult, Message, ModelCall, ModelName, Usage};
use toolgate_types::SessionId;

use crate::database::Database;
use crate::error::SessionError;
use crate::history::{History, ResultPosition};
use crate::load::SessionReader;
use crate::row::{encode_body, now, signed};
use crate::session_lock::SessionLock;
use crate::summary::SessionSummary;

/// A conversation that is locked for this holder. Dropping it releases the lock.
///
/// Every change is on disk when the call returns. If its future is dropped or returns an error, the change is either complete or absent, never
/// partial: the next call finds out which, or [`Session::refresh`] if no other call follows.
#[derive(Debug)]
pub struct Session {
    database: Arc<Database>,
    number: i64,
    summary: SessionSummary,
    history: History,
    /// Whether a write was started whose result is unknown.
    needs_refresh: bool,
    _lock: SessionLock,
}

impl Session {
    /// Loads a session whose lock was acquired.
    pub(crate) async fn load(
        database: Arc<Database>,
        hold: SessionLock,
        number: i64,
        summary: SessionSummary,
    ) -> Result<Self, SessionError> {
        let mut session =
            Self { database, number, summary, history: History::default(), needs_refresh: true, _lock: hold };
        session.refresh().await?;
        Ok(session)
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.summary.id
    }

    /// Its metadata, as known here.
    #[must_use]
    pub fn summary(&self) -> &SessionSummary {
        &self.summary
    }

    /// What a model is shown: complete messages, oldest first. Results that wait for others are not included yet.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        self.history.messages()
    }

    /// The position of the next message that is appended. The results of open calls, which come before it, are counted.
    #[must_use]
    pub fn next_position(&self) -> u64 {
        self.history.next() + u64::from(self.history.unanswered().next().is_some())
    }

    /// Calls of the last message without a result.
    #[must_use]
    pub fn unanswered(&self) -> Vec<ModelCall> {
        self.history.unanswered().cloned().collect()
    }

    /// Appends a message. Results are added together here, or one by one with [`Session::add_result`].
    ///
    /// # Errors
    /// It is out of order, or could not be stored.
    pub async fn append(&mut self, message: Message) -> Result<(), SessionError> {
        self.refresh().await?;
        self.history.check(&message)?;
        if let Message::Results { results } = message {
            return self.add_results(results).await;
        }
        let at = now();
        let insert = sqlx::query("INSERT INTO messages (session, position, at_ms, body) VALUES (?, ?, ?, ?)")
            .bind(self.number)
            .bind(signed(self.history.next()))
            .bind(at.as_millisecond())
            .bind(encode_body(&message)?);
        self.write(insert).await?;
        self.summary.changed_at = at;
        self.summary.messages = self.summary.messages.saturating_add(1);
        self.history.push(message);
        Ok(())
    }

    /// Adds the result of one call of the last message. The last one completes the results message.
    ///
    /// # Errors
    /// No such call is open, or it could not be stored.
    pub async fn add_result(&mut self, result: CallResult) -> Result<(), SessionError> {
        self.refresh().await?;
        self.add_results(vec![result]).await
    }

    /// Answers every open call with the same text, as an error, and returns these results.
    ///
    /// # Errors
    /// It could not be stored; then no call is answered.
    pub async fn interrupt(&mut self, text: &str) -> Result<Vec<CallResult>, SessionError> {
        self.refresh().await?;
        let answer = |call: &ModelCall| CallResult {
            call: call.id.clone(),
            name: call.name.clone(),
            text: text.to_owned(),
            is_error: true,
            recorded: None,
        };
        let results: Vec<CallResult> = self.history.unanswered().map(answer).collect();
        if !results.is_empty() {
            self.add_results(results.clone()).await?;
        }
        Ok(results)
    }

    /// Replaces the first messages of [`Session::messages`] with one. They stay in the [`crate::Transcript`].
    ///
    /// # Errors
    /// There are fewer messages, a call would be separated from its results, or it could not be stored.
    pub async fn replace_front(&mut self, messages: usize, front: Message) -> Result<(), SessionError> {
        self.refresh().await?;
        let replaced = self.history.check_front(messages, &front)?;
        let insert = "INSERT INTO fronts (session, replaced, position, at_ms, body) VALUES (?, ?, ?, ?, ?)";
        let insert = sqlx::query(insert)
            .bind(self.number)
            .bind(signed(replaced))
            .bind(signed(self.history.next()))
            .bind(now().as_millisecond())
            .bind(encode_body(&front)?);
        self.write(insert).await?;
        self.history.replace_front(messages, replaced, front);
        Ok(())
    }

    /// Sets the total usage of the conversation.
    ///
    /// # Errors
    /// It could not be stored.
    pub async fn set_usage(&mut self, usage: Usage) -> Result<(), SessionError> {
        let update =
            "UPDATE sessions SET input_tokens = ?, output_tokens = ?, cached_tokens = ? WHERE number = ?";
        let update = sqlx::query(update)
            .bind(signed(usage.input_tokens))
            .bind(signed(usage.output_tokens))
            .bind(signed(usage.cached_tokens))
            .bind(self.number);
        self.write(update).await?;
        self.summary.usage = usage;
        Ok(())
    }

    /// Sets the title.
    ///
    /// # Errors
    /// It could not be stored.
    pub async fn set_title(&mut self, title: &str) -> Result<(), SessionError> {
        let update = sqlx::query("UPDATE sessions SET title = ? WHERE number = ?");
        self.write(update.bind(title.to_owned()).bind(self.number)).await?;
        title.clone_into(&mut self.summary.title);
        Ok(())
    }

    /// Sets the model used from now on.
    ///
    /// # Errors
    /// It could not be stored.
    pub async fn set_model(&mut self, model: &ModelName) -> Result<(), SessionError> {
        let update = sqlx::query("UPDATE sessions SET model = ? WHERE number = ?");
        self.write(update.bind(model.to_string()).bind(self.number)).await?;
        self.summary.model = model.clone();
        Ok(())
    }

    /// Reloads the session if the result of a write is unknown; otherwise does nothing.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn refresh(&mut self) -> Result<(), SessionError> {
        if self.needs_refresh {
            let connection = &mut *self.database.connection().await;
            let (database, id, number) = (&*self.database, &self.summary.id, self.number);
            self.history = SessionReader { database, connection, id, number }.history().await?;
            self.needs_refresh = false;
        }
        Ok(())
    }

    /// Adds all of them, or none.
    async fn add_results(&mut self, results: Vec<CallResult>) -> Result<(), SessionError> {
        let at = now();
        let mut rows = Vec::with_capacity(results.len());
        for result in &results {
            rows.push((self.history.result_position(&result.call)?, encode_body(result)?));
        }
        self.needs_refresh = true;
        self.insert_results(rows, at).await?;
        self.needs_refresh = false;
        self.summary.changed_at = at;
        for result in results {
            self.history.add_result(result);
        }
        Ok(())
    }

    async fn insert_results(
        &self,
        rows: Vec<(ResultPosition, String)>,
        at: Timestamp,
    ) -> Result<(), SessionError> {
        let failed = |error: sqlx::Error| self.explain(&error);
        let mut connection = self.database.connection().await;
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
        for (place, body) in rows {
            let insert = "INSERT INTO results (session, position, call, at_ms, body) VALUES (?, ?, ?, ?, ?)";
            let insert = sqlx::query(insert)
                .bind(self.number)
                .bind(signed(place.position))
                .bind(signed(place.call))
                .bind(at.as_millisecond())
                .bind(body);
            insert.execute(&mut *transaction).await.map_err(failed)?;
        }
        transaction.commit().await.map_err(failed)?;
        self.database.check_file_identity()
    }

    /// One statement, which SQLite executes atomically.
    async fn write(
        &mut self,
        statement: sqlx::query::Query<'_, Sqlite, SqliteArguments>,
    ) -> Result<(), SessionError> {
        let was_unsure = std::mem::replace(&mut self.needs_refresh, true);
        let mut connection = self.database.connection().await;
        statement.execute(&mut *connection).await.map_err(|error| self.explain(&error))?;
        drop(connection);
        // Checked after the write: the file may be removed at any time.
        self.database.check_file_identity()?;
        self.needs_refresh = was_unsure;
        Ok(())
    }

    fn explain(&self, error: &sqlx::Error) -> SessionError {
        match error.as_database_error().is_some_and(|error| error.is_unique_violation()) {
            true => SessionError::Conflict { id: self.summary.id.clone() },
            false => self.database.explain(error),
        }
    }
}
