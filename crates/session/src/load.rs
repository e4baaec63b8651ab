//! Loads a conversation and detects damage.

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};
use toolgate_llm::{CallResult, Message};
use toolgate_types::SessionId;

use crate::database::Database;
use crate::error::SessionError;
use crate::history::History;
use crate::row::{signed, timestamp, unsigned};
use crate::transcript::TranscriptEntry;

/// Reads one session.
pub(crate) struct SessionReader<'r> {
    pub(crate) database: &'r Database,
    pub(crate) connection: &'r mut SqliteConnection,
    pub(crate) id: &'r SessionId,
    pub(crate) number: i64,
}

/// One row: position, time and value.
struct StoredRow<T> {
    position: u64,
    at: Timestamp,
    value: T,
}

const MESSAGES: &str =
    "SELECT position, at_ms, body FROM messages WHERE session = ? AND position >= ? ORDER BY position";
const RESULTS: &str =
    "SELECT position, at_ms, body FROM results WHERE session = ? AND position >= ? ORDER BY position, call";
const FRONTS: &str = "SELECT position, at_ms, body, replaced FROM fronts WHERE session = ? ORDER BY number";
const NEWEST_FRONT: &str =
    "SELECT position, at_ms, body, replaced FROM fronts WHERE session = ? ORDER BY number DESC LIMIT 1";

impl SessionReader<'_> {
    /// What a model is shown.
    pub(crate) async fn history(mut self) -> Result<History, SessionError> {
        let front = self.fronts(NEWEST_FRONT).await?.pop();
        let front = front.map(|(replaced, kept)| (replaced, kept.value));
        let first = front.as_ref().map_or(0, |(replaced, _)| *replaced);
        let (history, _) = self.replay(History::begin(front), first, |_, _, _| {}).await?;
        Ok(history)
    }

    /// The whole transcript.
    pub(crate) async fn entries(mut self) -> Result<Vec<TranscriptEntry>, SessionError> {
        let mut fronts = self.fronts(FRONTS).await?.into_iter().peekable();
        let mut entries = Vec::new();
        let (history, last) = self
            .replay(History::default(), 0, |position, at, message| {
                while let Some((replaced, kept)) = fronts.next_if(|(_, kept)| kept.position <= position) {
                    entries.push(TranscriptEntry::Front { replaced, at: kept.at, message: kept.value });
                }
                entries.push(TranscriptEntry::Message { position, at, message: message.clone() });
            })
            .await?;
        entries.extend(fronts.map(|(replaced, kept)| TranscriptEntry::Front {
            replaced,
            at: kept.at,
            message: kept.value,
        }));
        let results: Vec<CallResult> = history.known_results().cloned().collect();
        if let (Some(at), false) = (last, results.is_empty()) {
            entries.push(TranscriptEntry::PartialResults { position: history.next(), at, results });
        }
        Ok(entries)
    }

    /// Replays everything from a position into a history, and returns the time of the last result.
    async fn replay(
        &mut self,
        mut history: History,
        first: u64,
        mut each: impl FnMut(u64, Timestamp, &Message),
    ) -> Result<(History, Option<Timestamp>), SessionError> {
        let messages: Vec<StoredRow<Message>> = self.rows(MESSAGES, first).await?;
        let mut results = self.rows::<CallResult>(RESULTS, first).await?.into_iter().peekable();
        let mut last = None;
        let mut settle = |history: &mut History, each: &mut dyn FnMut(u64, Timestamp, &Message)| {
            let position = history.next();
            while let Some(kept) = results.next_if(|kept| kept.position == position) {
                history
                    .result_position(&kept.value.call)
                    .map_err(|problem| self.damaged(position, &problem))?;
                history.add_result(kept.value);
                last = Some(kept.at);
                if let (true, Some(message)) = (history.next() > position, history.messages().last()) {
                    each(position, kept.at, message);
                }
            }
            Ok::<(), SessionError>(())
        };
        for kept in messages {
            settle(&mut history, &mut each)?;
            let position = history.next();
            if kept.position != position {
                return Err(self.damaged(position, &"it is not there"));
            }
            history.check(&kept.value).map_err(|problem| self.damaged(position, &problem))?;
            each(position, kept.at, &kept.value);
            history.push(kept.value);
        }
        settle(&mut history, &mut each)?;
        match results.next() {
            None => Ok((history, last)),
            Some(kept) => Err(self.damaged(kept.position, &"a result has no call")),
        }
    }

    async fn rows<T: DeserializeOwned>(
        &mut self,
        query: &'static str,
        first: u64,
    ) -> Result<Vec<StoredRow<T>>, SessionError> {
        let rows = sqlx::query(query).bind(self.number).bind(signed(first));
        let rows = rows.fetch_all(&mut *self.connection).await;
        let rows = rows.map_err(|error| self.database.explain(&error))?;
        rows.iter().map(|row| self.stored_row(row)).collect()
    }

    /// Fronts, with how many messages each replaces.
    async fn fronts(&mut self, query: &'static str) -> Result<Vec<(u64, StoredRow<Message>)>, SessionError> {
        let rows = sqlx::query(query).bind(self.number).fetch_all(&mut *self.connection).await;
        let rows = rows.map_err(|error| self.database.explain(&error))?;
        let front = |row: &SqliteRow| {
            let replaced = row.try_get(3).map_err(|error| self.database.explain(&error))?;
            Ok((unsigned(replaced), self.stored_row(row)?))
        };
        rows.iter().map(front).collect()
    }

    fn stored_row<T: DeserializeOwned>(&self, row: &SqliteRow) -> Result<StoredRow<T>, SessionError> {
        let explain = |error: sqlx::Error| self.database.explain(&error);
        let position = unsigned(row.try_get(0).map_err(explain)?);
        let at = row.try_get(1).and_then(timestamp).map_err(explain)?;
        let body: &str = row.try_get(2).map_err(explain)?;
        let value = serde_json::from_str(body).map_err(|error| self.damaged(position, &error))?;
        Ok(StoredRow { position, at, value })
    }

    fn damaged(&self, position: u64, problem: &dyn std::fmt::Display) -> SessionError {
        SessionError::Damaged { id: self.id.clone(), position, problem: problem.to_string() }
    }
}
