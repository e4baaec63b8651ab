//! Conversion between rows and values.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;
use toolgate_llm::{ModelName, Usage};
use toolgate_types::Sha256;

use crate::error::SessionError;
use crate::summary::{SessionOwner, SessionSummary};

/// The columns that [`summary`] reads, after the session's number. A session's time is that of its newest row.
macro_rules! summaries {
    ($rest:literal) => {
        concat!(
            "SELECT s.number, s.id, s.title, s.agent, s.model, s.profile, s.workspace, s.created_ms,
                max(s.created_ms,
                    coalesce((SELECT at_ms FROM messages WHERE session = s.number ORDER BY position DESC LIMIT 1), 0),
                    coalesce((SELECT max(at_ms) FROM results WHERE session = s.number GROUP BY position
                        ORDER BY position DESC LIMIT 1), 0)) AS changed_ms,
                (SELECT count(*) FROM messages WHERE session = s.number),
                s.input_tokens, s.output_tokens, s.cached_tokens, s.owner, s.trust
            FROM sessions AS s ",
            $rest
        )
    };
}
pub(crate) use summaries;

/// A session's number and summary.
pub(crate) fn summary(row: &SqliteRow) -> Result<(i64, SessionSummary), sqlx::Error> {
    let model: String = row.try_get(4)?;
    let (provider, name) = model.split_once('/').unwrap_or(("", &model));
    let agent: Option<String> = row.try_get(3)?;
    let summary = SessionSummary {
        id: row.try_get::<&str, _>(1)?.parse().map_err(decoding)?,
        title: row.try_get(2)?,
        agent: agent.map(|agent| agent.parse()).transpose().map_err(decoding)?,
        model: ModelName { provider: provider.to_owned(), name: name.to_owned() },
        profile: row.try_get(5)?,
        workspace: PathBuf::from(OsString::from_vec(row.try_get(6)?)),
        created_at: timestamp(row.try_get(7)?)?,
        changed_at: timestamp(row.try_get(8)?)?,
        messages: unsigned(row.try_get(9)?),
        usage: Usage {
            input_tokens: unsigned(row.try_get(10)?),
            output_tokens: unsigned(row.try_get(11)?),
            cached_tokens: unsigned(row.try_get(12)?),
        },
        owner: owner(row.try_get(13)?)?,
        trust: row.try_get::<Option<&str>, _>(14)?.map(str::parse).transpose().map_err(decoding_text)?,
    };
    Ok((row.try_get(0)?, summary))
}

fn owner(stored: Option<&str>) -> Result<SessionOwner, sqlx::Error> {
    let caller = stored.map(str::parse::<Sha256>).transpose().map_err(decoding)?;
    Ok(caller.map_or(SessionOwner::Person, SessionOwner::Caller))
}

/// An owner as it is stored.
pub(crate) fn owner_text(owner: &SessionOwner) -> Option<String> {
    match owner {
        SessionOwner::Person => None,
        SessionOwner::Caller(identity) => Some(identity.to_string()),
    }
}

pub(crate) fn path_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// The current time with the stored precision.
pub(crate) fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}

pub(crate) fn timestamp(milliseconds: i64) -> Result<Timestamp, sqlx::Error> {
    Timestamp::from_millisecond(milliseconds).map_err(decoding)
}

/// Stored numbers are never negative and never near the limits of either type.
pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Encodes a message or result. A value that would not decode to itself, such as JSON nested too deeply, is refused before it is stored.
pub(crate) fn encode_body<T: Serialize + DeserializeOwned + PartialEq>(
    value: &T,
) -> Result<String, SessionError> {
    let refused = |problem: String| SessionError::NotKeepable { problem };
    let body = serde_json::to_string(value).map_err(|error| refused(error.to_string()))?;
    let again: T = serde_json::from_str(&body).map_err(|error| refused(error.to_string()))?;
    match again == *value {
        true => Ok(body),
        false => Err(refused("it would be read back as something else".to_owned())),
    }
}

fn decoding_text(error: String) -> sqlx::Error {
    sqlx::Error::Decode(error.into())
}

fn decoding(error: impl std::error::Error + Send + Sync + 'static) -> sqlx::Error {
    sqlx::Error::Decode(Box::new(error))
}
