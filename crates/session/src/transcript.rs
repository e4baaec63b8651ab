//! A whole conversation, to be read.

use jiff::Timestamp;
use serde::Serialize;
use toolgate_llm::{CallResult, Message};

use crate::summary::{SessionSummary, as_time};

/// A conversation with everything that was ever said in it, also what a model is no longer shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Transcript {
    /// What it is.
    pub summary: SessionSummary,
    /// What was said, oldest first.
    pub entries: Vec<TranscriptEntry>,
}

/// Something that was kept, and when.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TranscriptEntry {
    /// A message.
    Message {
        /// Where it stands, counted from nought.
        position: u64,
        /// When it was added.
        #[serde(serialize_with = "as_time")]
        at: Timestamp,
        /// The message.
        message: Message,
    },
    /// Results of calls of which others have none yet.
    PartialResults {
        /// Where they will stand.
        position: u64,
        /// When the last of them was added.
        #[serde(serialize_with = "as_time")]
        at: Timestamp,
        /// Those that there are.
        results: Vec<CallResult>,
    },
    /// From here on, a model is shown this instead of the first so many messages.
    Front {
        /// How many.
        replaced: u64,
        /// Since when.
        #[serde(serialize_with = "as_time")]
        at: Timestamp,
        /// What it is shown.
        message: Message,
    },
}

impl TranscriptEntry {
    /// When it was kept.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Message { at, .. } | Self::PartialResults { at, .. } | Self::Front { at, .. } => *at,
        }
    }
}

impl Transcript {
    /// One JSON object for each line: what the session is, then its entries.
    ///
    /// # Errors
    /// Something of it is not JSON, which nothing that was kept is.
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
