//! Metadata of a conversation.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use toolgate_llm::{ModelName, Usage};
use toolgate_types::time::rfc3339_millis;
use toolgate_types::{AgentName, SessionId, Sha256, Trust};

/// Whose conversation it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum SessionOwner {
    /// The person at this machine, in the terminal and on the page.
    #[default]
    Person,
    /// A caller with a token of its own: the digest of its identity, without its permissions.
    Caller(Sha256),
}

/// A conversation to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSession {
    /// Its id, which calls through the gate carry too. [`crate::SessionStore::fresh_id`] generates a short one.
    pub id: SessionId,
    /// The title shown to people.
    pub title: String,
    /// The declared agent that it runs as.
    pub agent: Option<AgentName>,
    /// Its first model.
    pub model: ModelName,
    /// The profile that its tools are presented in.
    pub profile: String,
    /// The working directory of its tools.
    pub workspace: PathBuf,
    /// Whose it is.
    pub owner: SessionOwner,
    /// The trust level that was chosen for it, if one was.
    pub trust: Option<Trust>,
}

/// The metadata of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionSummary {
    /// Its id.
    pub id: SessionId,
    /// The title shown to people.
    pub title: String,
    /// The declared agent that it runs as.
    pub agent: Option<AgentName>,
    /// The model used last.
    #[serde(serialize_with = "as_text")]
    pub model: ModelName,
    /// The profile that its tools are presented in.
    pub profile: String,
    /// The working directory of its tools.
    #[serde(serialize_with = "as_path")]
    pub workspace: PathBuf,
    /// Whose it is.
    #[serde(skip)]
    pub owner: SessionOwner,
    /// The trust level that was chosen for it, if one was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
    /// When it was created.
    #[serde(serialize_with = "as_time")]
    pub created_at: Timestamp,
    /// When something was last added to it.
    #[serde(serialize_with = "as_time")]
    pub changed_at: Timestamp,
    /// Number of messages of people and models. Results of calls are not counted.
    pub messages: u64,
    /// Its token usage so far.
    pub usage: Usage,
}

/// Which conversations to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// Only those with this working directory.
    pub workspace: Option<PathBuf>,
    /// At most this many.
    pub limit: Option<u32>,
    /// Only those of this owner.
    pub owner: Option<SessionOwner>,
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
