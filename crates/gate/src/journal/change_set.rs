//! The contents of a journal entry.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use toolgate_types::{CallId, SessionId, Sha256};
use toolgate_workspace::{FileStamp, MovedFile, RootIdentity, Workspace};

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
    pub changes: Vec<FileChange>,
    /// The call that undid them, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone_by: Option<CallId>,
    /// The call that this one undid, if it is an undo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<CallId>,
    /// Temporary files of an interrupted recovery, to be removed by the next one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub litter: Vec<MountedFile>,
}

/// The change of one file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FileChange {
    /// The mount's alias.
    pub mount: String,
    /// Host path of the mount, for people.
    pub root: String,
    /// Identity of that directory: nothing is restored into another one.
    pub identity: MountIdentity,
    /// The file, relative to the mount.
    pub path: String,
    /// The kind of change.
    pub kind: FileChangeKind,
    /// The old content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<StoredBlob>,
    /// Digest of the new content; for a move, of the file under its new name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Sha256>,
    /// For a move: identity of the file, in place of the digest if it is too large to hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stamp: Option<MovedFileStamp>,
    /// Identity of the file that the call wrote, if it was known before the file got its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<MovedFileStamp>,
    /// For a move: the destination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<MountedFile>,
    /// The name of a temporary file beside it, to be removed once the call is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temporary: Option<String>,
    /// Directories created for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub new_folders: Vec<PathBuf>,
}

/// The kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileChangeKind {
    /// The file is new.
    Create,
    /// Its content changed.
    Modify,
    /// It was deleted.
    Delete,
    /// It was renamed.
    Move,
}

impl FileChangeKind {
    /// The name shown to people.
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

/// Stored content.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredBlob {
    /// Its file name under `blobs/`.
    pub blob: String,
    /// Its size.
    pub bytes: u64,
    /// Its digest; content with another digest is not restored.
    pub sha256: Sha256,
    /// Identity of the file that held it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stamp: Option<MovedFileStamp>,
    /// The file's mode.
    pub mode: u32,
    /// Its owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Its group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
}

impl StoredBlob {
    pub(super) fn owner(&self) -> Option<(u32, u32)> {
        self.uid.zip(self.gid)
    }
}

/// A file in a mount.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MountedFile {
    /// The mount's alias.
    pub mount: String,
    /// Host path of the mount, for people.
    pub root: String,
    /// Identity of that directory.
    pub identity: MountIdentity,
    /// The file, relative to the mount.
    pub path: String,
}

/// Identity of the root directory of a mount.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct MountIdentity {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
    /// `f_fsid`.
    pub filesystem: u64,
}

impl From<RootIdentity> for MountIdentity {
    fn from(RootIdentity { device, inode, filesystem }: RootIdentity) -> Self {
        Self { device, inode, filesystem }
    }
}

impl From<MountIdentity> for RootIdentity {
    fn from(MountIdentity { device, inode, filesystem }: MountIdentity) -> Self {
        Self { device, inode, filesystem }
    }
}

/// Identity of a file: inode, size and modification time.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct MovedFileStamp {
    inode: u64,
    bytes: u64,
    modified: (i64, u64),
}

impl MovedFileStamp {
    pub(super) fn to_bytes(self) -> [u8; 32] {
        let (seconds, nanoseconds) = self.modified;
        let parts = [self.inode, self.bytes, seconds.cast_unsigned(), nanoseconds].map(u64::to_le_bytes);
        let mut bytes = [0; 32];
        bytes.iter_mut().zip(parts.as_flattened()).for_each(|(to, from)| *to = *from);
        bytes
    }
}

impl From<FileStamp> for MovedFileStamp {
    fn from(FileStamp { inode, bytes, modified }: FileStamp) -> Self {
        Self { inode, bytes, modified }
    }
}

impl From<MovedFileStamp> for FileStamp {
    fn from(MovedFileStamp { inode, bytes, modified }: MovedFileStamp) -> Self {
        Self { inode, bytes, modified }
    }
}

impl ChangeSet {
    /// The mounts of its files: alias, host path and identity.
    fn mounts(&self) -> impl Iterator<Item = (&str, &str, MountIdentity)> {
        let changed = self.changes.iter().map(|change| (&*change.mount, &*change.root, change.identity));
        let places = self.changes.iter().filter_map(|change| change.moved_to.as_ref()).chain(&self.litter);
        changed.chain(places.map(|place| (&*place.mount, &*place.root, place.identity)))
    }

    /// The first of its mounts that is missing from a workspace, compared by alias and identity.
    #[must_use]
    pub fn missing_mount(&self, workspace: &Workspace) -> Option<(String, String)> {
        let is_present = |alias: &str, identity: MountIdentity| {
            let mount = workspace.mount(alias);
            mount.is_some_and(|mount| mount.identity().is_same(&identity.into()))
        };
        let mut missing = self.mounts().filter(|(alias, _, identity)| !is_present(alias, *identity));
        missing.next().map(|(alias, root, _)| (alias.to_owned(), root.to_owned()))
    }
}

impl FileChange {
    /// The file with its alias.
    #[must_use]
    pub fn display_path(&self) -> String {
        format!("{}/{}", self.mount, self.path)
    }

    /// What must be found under the new name for the file to be moved back.
    pub(super) fn moved_file(&self) -> MovedFile {
        match (self.after, self.stamp) {
            (Some(digest), _) => MovedFile::Digest(digest),
            (None, Some(stamp)) => MovedFile::Stamp(stamp.into()),
            (None, None) => MovedFile::Anything,
        }
    }

    /// The mount in which directories were created for it: for a move, that of the destination.
    pub(super) fn mount_of_new_directories(&self) -> &str {
        self.moved_to.as_ref().map_or(&self.mount, |place| &place.mount)
    }

    /// For a move: the destination with its alias.
    #[must_use]
    pub fn display_destination(&self) -> Option<String> {
        self.moved_to.as_ref().map(|place| format!("{}/{}", place.mount, place.path))
    }
}
