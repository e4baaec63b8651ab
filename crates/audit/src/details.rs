//! What a call touched: the member `details` of a record.
//!
//! Names only: of files and directories in mounts, of hosts and, if the operator wants them, the words of a command. Never the content of a file, an
//! answer or any other argument. Names come from calls and are untrusted, so they are bounded like all text in a record.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::truncate::{truncate_list, truncate_reason};

/// What a call touched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallDetails {
    /// Files and directories that the arguments name and that are not among the changes below: what was read, searched or asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Files that the call created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub created: Vec<String>,
    /// Files that got other content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modified: Vec<String>,
    /// Files that the call deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deleted: Vec<String>,
    /// Files that the call moved: `@project/old -> @project/new`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<String>,
    /// Hosts that the command of the call connected to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Hosts that the command was refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_hosts: Vec<String>,
    /// Questions of servers behind the gate to the person: the server, the names of the fields and how each ended. Never what was answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<String>,
    /// The command, without what looks like a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl CallDetails {
    /// Whether nothing is known to have been touched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The same, bounded for a record.
    pub(crate) fn truncated(&self) -> Self {
        let list = |names: &[String]| truncate_list(names).map(Cow::into_owned).collect();
        Self {
            paths: list(&self.paths),
            created: list(&self.created),
            modified: list(&self.modified),
            deleted: list(&self.deleted),
            moved: list(&self.moved),
            hosts: list(&self.hosts),
            refused_hosts: list(&self.refused_hosts),
            questions: list(&self.questions),
            command: self.command.as_deref().map(|command| truncate_reason(command).into_owned()),
        }
    }
}
