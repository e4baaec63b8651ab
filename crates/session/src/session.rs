//! One conversation that is held.

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

/// A conversation that is held by nobody else. Dropping it lets go.
///
/// Whatever changes it is on disk when it returns. A future that is dropped on the way, or an error, leaves the change done or not done and never
/// half: the next call finds out which, and [`Session::refresh`] does when nothing else is wanted.
#[derive(Debug)]
pub struct Session {
    database: Arc<Database>,
    number: i64,
    summary: SessionSummary,
    history: History,
    /// Whether a write began whose end nobody saw.
    needs_refresh: bool,
    _lock: SessionLock,
}

impl Session {
    /// Reads a session whose hold was taken.
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

    /// Its name.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.summary.id
    }

    /// What it is, as far as it is known here.
    #[must_use]
    pub fn summary(&self) -> &SessionSummary {
        &self.summary
    }

    /// What a model is shown: whole messages, oldest first. Results that wait for others are not among them yet.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        self.history.messages()
    }

    /// Calls of the last message that have no result.
    #[must_use]
    pub fn unanswered(&self) -> Vec<ModelCall> {
        self.history.unanswered().cloned().collect()
    }

    /// Adds a message. Results come together here, or one by one through [`Session::add_result`].
    ///
    /// # Errors
    /// It cannot stand there, or could not be kept.
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

    /// Adds the result of one call of the last message. When the last one is there, they become one message.
    ///
    /// # Errors
    /// No such call waits for a result, or it could not be kept.
    pub async fn add_result(&mut self, result: CallResult) -> Result<(), SessionError> {
        self.refresh().await?;
        self.add_results(vec![result]).await
    }

    /// Answers every call that has no result with the same words, as an error, and says which they were.
    ///
    /// # Errors
    /// It could not be kept; then none of them is answered.
    pub async fn interrupt(&mut self, text: &str) -> Result<Vec<CallResult>, SessionError> {
        self.refresh().await?;
        let answer = |call: &ModelCall| CallResult {
            call: call.id.clone(),
            name: call.name.clone(),
            text: text.to_owned(),
            is_error: true,
        };
        let results: Vec<CallResult> = self.history.unanswered().map(answer).collect();
        if !results.is_empty() {
            self.add_results(results.clone()).await?;
        }
        Ok(results)
    }

    /// Lets one message stand for the first so many of [`Session::messages`]. They stay in the [`crate::Transcript`].
    ///
    /// # Errors
    /// There are not so many, a call would be parted from its results, or it could not be kept.
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

    /// Says what the whole conversation used so far.
    ///
    /// # Errors
    /// It could not be kept.
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

    /// Says what people recognise it by.
    ///
    /// # Errors
    /// It could not be kept.
    pub async fn set_title(&mut self, title: &str) -> Result<(), SessionError> {
        let update = sqlx::query("UPDATE sessions SET title = ? WHERE number = ?");
        self.write(update.bind(title.to_owned()).bind(self.number)).await?;
        title.clone_into(&mut self.summary.title);
        Ok(())
    }

    /// Says which model is asked from now on.
    ///
    /// # Errors
    /// It could not be kept.
    pub async fn set_model(&mut self, model: &ModelName) -> Result<(), SessionError> {
        let update = sqlx::query("UPDATE sessions SET model = ? WHERE number = ?");
        self.write(update.bind(model.to_string()).bind(self.number)).await?;
        self.summary.model = model.clone();
        Ok(())
    }

    /// Finds out how a write ended that nobody saw the end of. Where there was none, this does nothing.
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

    /// All of them, or none.
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

    /// One statement, which SQLite does whole or not at all.
    async fn write(
        &mut self,
        statement: sqlx::query::Query<'_, Sqlite, SqliteArguments>,
    ) -> Result<(), SessionError> {
        let was_unsure = std::mem::replace(&mut self.needs_refresh, true);
        let mut connection = self.database.connection().await;
        statement.execute(&mut *connection).await.map_err(|error| self.explain(&error))?;
        drop(connection);
        // Afterwards: it may be removed at any time.
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
