//! A whole conversation, for reading.

use jiff::Timestamp;
use serde::Serialize;
use toolgate_llm::{CallResult, Message};

use crate::summary::{SessionSummary, as_time};

/// A conversation with all its messages, including those that a model is no longer shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Transcript {
    /// Its metadata.
    pub summary: SessionSummary,
    /// Its entries, oldest first.
    pub entries: Vec<TranscriptEntry>,
}

/// One stored entry.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TranscriptEntry {
    /// A message.
    Message {
        /// Its position, starting at zero.
        position: u64,
        /// When it was added.
        #[serde(serialize_with = "as_time")]
        at: Timestamp,
        /// The message.
        message: Message,
    },
    /// Results of a message whose other calls have none yet.
    PartialResults {
        /// Their future position.
        position: u64,
        /// When the last of them was added.
        #[serde(serialize_with = "as_time")]
        at: Timestamp,
        /// The results so far.
        results: Vec<CallResult>,
    },
    /// From here on, a model is shown this in place of the first messages.
    Front {
        /// How many messages it replaces.
        replaced: u64,
        /// When it was added.
        #[serde(serialize_with = "as_time")]
        at: Timestamp,
        /// The replacement.
        message: Message,
    },
}

impl TranscriptEntry {
    /// When it was stored.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Message { at, .. } | Self::PartialResults { at, .. } | Self::Front { at, .. } => *at,
        }
    }
}

impl Transcript {
    /// JSON Lines: the session's metadata, then its entries.
    ///
    /// # Errors
    /// A value cannot be encoded as JSON, which is impossible for stored ones.
    pub fn jsonl(&self) -> Result<String, serde_json::Error> {
        let mut text =
            serde_json::to_string(&Heading { kind: "session", format: 1, session: &self.summary })?;
        text.push('\n');
        for entry in &self.entries {
            text.push_str(&serde_json::to_string(entry)?);
            text.push('\n');
        }
        Ok(text)
    }
}

#[derive(Serialize)]
struct Heading<'t> {
    kind: &'static str,
    format: u32,
    session: &'t SessionSummary,
}
