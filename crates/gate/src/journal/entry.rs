//! What an entry of the journal says.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use toolgate_types::{CallId, SessionId, Sha256};

/// All changes of one call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChangeSet {
    /// The call that made them.
    pub call: CallId,
    /// The session it belongs to.
    pub session: SessionId,
    /// The tool.
    pub tool: String,
    /// When, RFC 3339.
    pub at: String,
    /// One per file.
    pub changes: Vec<Change>,
    /// The call that put them back, if any did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone_by: Option<CallId>,
    /// The call whose changes this one put back, if it is an undo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<CallId>,
    /// Temporary names of somebody who put half-done changes back: litter, should that be interrupted too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub litter: Vec<Place>,
}

/// The change of one file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Change {
    /// The mount's alias.
    pub mount: String,
    /// Where the mount is on this host.
    pub root: String,
    /// The file below it.
    pub path: String,
    /// What happened.
    pub kind: Kind,
    /// What was there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Kept>,
    /// Digest of what is there since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Sha256>,
    /// Where it moved to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<Place>,
    /// A name beside it that is litter once the call is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temporary: Option<String>,
    /// Folders that were made for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub new_folders: Vec<PathBuf>,
}

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// It is new.
    Create,
    /// It has new content.
    Modify,
    /// It is gone.
    Delete,
    /// It has another name.
    Move,
}

impl Kind {
    /// A word for people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Modify => "modify",
            Self::Delete => "delete",
            Self::Move => "move",
        }
    }
}

/// Content that was kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kept {
    /// Its name among the blobs.
    pub blob: String,
    /// Its size.
    pub bytes: u64,
    /// The file's mode.
    pub mode: u32,
    /// The user it belonged to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The group it belonged to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
}

impl Kept {
    pub(super) fn owner(&self) -> Option<(u32, u32)> {
        self.uid.zip(self.gid)
    }
}

/// A file of a mount.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Place {
    /// The mount's alias.
    pub mount: String,
    /// Where the mount is on this host.
    pub root: String,
    /// The file below it.
    pub path: String,
}

impl Change {
    /// The file with its alias.
    #[must_use]
    pub fn shown(&self) -> String {
        format!("{}/{}", self.mount, self.path)
    }

    /// The mount in which folders were made for it: that of the new name, if it moved.
    pub(super) fn mount_of_new_folders(&self) -> &str {
        self.moved_to.as_ref().map_or(&self.mount, |place| &place.mount)
    }

    /// The file's new name with its alias, if it moved.
    #[must_use]
    pub fn shown_destination(&self) -> Option<String> {
        self.moved_to.as_ref().map(|place| format!("{}/{}", place.mount, place.path))
    }
}
