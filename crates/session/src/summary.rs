//! What is kept of a conversation beside its messages.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use toolgate_llm::{ModelName, Usage};
use toolgate_types::time::rfc3339_millis;
use toolgate_types::{AgentName, SessionId};

/// A conversation that is about to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSession {
    /// Its name, which calls through the gate carry too. [`crate::SessionStore::fresh_id`] makes a short one.
    pub id: SessionId,
    /// What people recognise it by.
    pub title: String,
    /// The declared agent that it is held as.
    pub agent: Option<AgentName>,
    /// The model that it begins with.
    pub model: ModelName,
    /// The profile that its tools are dressed in.
    pub profile: String,
    /// The folder that its tools work in.
    pub workspace: PathBuf,
}

/// A conversation, without what was said.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionSummary {
    /// Its name.
    pub id: SessionId,
    /// What people recognise it by.
    pub title: String,
    /// The declared agent that it is held as.
    pub agent: Option<AgentName>,
    /// The model that was asked last.
    #[serde(serialize_with = "as_text")]
    pub model: ModelName,
    /// The profile that its tools are dressed in.
    pub profile: String,
    /// The folder that its tools work in.
    #[serde(serialize_with = "as_path")]
    pub workspace: PathBuf,
    /// When it began.
    #[serde(serialize_with = "as_time")]
    pub created_at: Timestamp,
    /// When something was last added to it.
    #[serde(serialize_with = "as_time")]
    pub changed_at: Timestamp,
    /// How many messages of people and models it holds. Results of calls are not counted.
    pub messages: u64,
    /// What it used so far.
    pub usage: Usage,
}

/// Which conversations are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// Only those of this folder.
    pub workspace: Option<PathBuf>,
    /// At most this many.
    pub limit: Option<u32>,
}

fn as_text<S: Serializer>(model: &ModelName, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(model)
}

fn as_path<S: Serializer>(path: &std::path::Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

pub(crate) fn as_time<S: Serializer>(moment: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&rfc3339_millis(*moment))
}
