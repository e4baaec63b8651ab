//! Retention: how many conversations are kept.

use std::time::Duration;

use toolgate_types::SessionId;

use crate::error::SessionError;
use crate::row::{now, summaries, summary};
use crate::store::SessionStore;

/// How many conversations are deleted when a new one is created. The rest is left to the next.
const MAX_DELETED_PER_CREATE: u32 = 16;

/// Bounds of stored conversations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionBounds {
    /// Used size of the database, without free pages.
    pub max_bytes: u64,
    /// A conversation that was not used for longer is deleted.
    pub max_age: Duration,
}

impl Default for SessionBounds {
    fn default() -> Self {
        Self { max_bytes: 1 << 30, max_age: Duration::from_secs(90 * 24 * 60 * 60) }
    }
}

impl SessionStore {
    /// Deletes the least recently used conversations while they are too old or the database is too large, and returns them. A locked one stays, and
    /// so does the one just created.
    pub(crate) async fn apply_retention(&self, begun: &SessionId) -> Result<Vec<SessionId>, SessionError> {
        let age = i64::try_from(self.bounds.max_age.as_millis()).unwrap_or(i64::MAX);
        let expired = now().as_millisecond().saturating_sub(age);
        let query = summaries!("ORDER BY changed_ms, s.number LIMIT ?1");
        let rows = {
            let mut connection = self.database.connection().await;
            sqlx::query(query).bind(MAX_DELETED_PER_CREATE).fetch_all(&mut *connection).await
        };
        let rows = rows.map_err(|error| self.database.explain(&error))?;
        let mut deleted = Vec::new();
        for row in &rows {
            let Ok((_, summary)) = summary(row) else { continue };
            let is_expired = summary.changed_at.as_millisecond() < expired;
            if !is_expired && self.used_bytes().await? <= self.bounds.max_bytes {
                break;
            }
            if summary.id == *begun {
                continue;
            }
            match self.delete(&summary.id).await {
                Ok(()) => deleted.push(summary.id),
                Err(SessionError::InUse { .. } | SessionError::Unknown { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(deleted)
    }

    /// The used size. Free pages are reused before the file grows.
    async fn used_bytes(&self) -> Result<u64, SessionError> {
        let query = "SELECT (page_count - freelist_count) * page_size
            FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()";
        let mut connection = self.database.connection().await;
        let used = sqlx::query_scalar::<_, i64>(query).fetch_one(&mut *connection).await;
        let used = used.map_err(|error| self.database.explain(&error))?;
        Ok(u64::try_from(used).unwrap_or(0))
    }
}
