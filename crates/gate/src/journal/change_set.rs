//! What an entry of the journal says.

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
    /// The call that put them back, if any did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone_by: Option<CallId>,
    /// The call whose changes this one put back, if it is an undo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<CallId>,
    /// Temporary names of somebody who put half-done changes back: litter, should that be interrupted too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub litter: Vec<MountedFile>,
}

/// The change of one file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FileChange {
    /// The mount's alias.
    pub mount: String,
    /// Where the mount is on this host, for people.
    pub root: String,
    /// Which directory that is: nothing is put back into another one.
    pub identity: MountIdentity,
    /// The file below it.
    pub path: String,
    /// What happened.
    pub kind: FileChangeKind,
    /// What was there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<StoredBlob>,
    /// Digest of what is there since; of a file that moved, what is under the new name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Sha256>,
    /// Of a file that moved, which one it is; in place of the digest, where it is too large to be hashed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stamp: Option<MovedFileStamp>,
    /// Which file holds since what the call wrote, where that was known before it had its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<MovedFileStamp>,
    /// Where it moved to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<MountedFile>,
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
pub enum FileChangeKind {
    /// It is new.
    Create,
    /// It has new content.
    Modify,
    /// It is gone.
    Delete,
    /// It has another name.
    Move,
}

impl FileChangeKind {
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
pub struct StoredBlob {
    /// Its name among the blobs.
    pub blob: String,
    /// Its size.
    pub bytes: u64,
    /// Its digest: something else is not put back.
    pub sha256: Sha256,
    /// Which file held it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stamp: Option<MovedFileStamp>,
    /// The file's mode.
    pub mode: u32,
    /// The user it belonged to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The group it belonged to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
}

impl StoredBlob {
    pub(super) fn owner(&self) -> Option<(u32, u32)> {
        self.uid.zip(self.gid)
    }
}

/// A file of a mount.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MountedFile {
    /// The mount's alias.
    pub mount: String,
    /// Where the mount is on this host, for people.
    pub root: String,
    /// Which directory that is.
    pub identity: MountIdentity,
    /// The file below it.
    pub path: String,
}

/// Which directory the root of a mount was.
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

/// Which file it was, and when it was last written.
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
    /// The mounts that its files are in: alias, place for people, and which directory that was.
    fn mounts(&self) -> impl Iterator<Item = (&str, &str, MountIdentity)> {
        let changed = self.changes.iter().map(|change| (&*change.mount, &*change.root, change.identity));
        let places = self.changes.iter().filter_map(|change| change.moved_to.as_ref()).chain(&self.litter);
        changed.chain(places.map(|place| (&*place.mount, &*place.root, place.identity)))
    }

    /// The first of its mounts that is not among those of a workspace, by alias and by the directory that it is.
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

    /// What must lie under the new name for the file to be moved back from there.
    pub(super) fn moved_file(&self) -> MovedFile {
        match (self.after, self.stamp) {
            (Some(digest), _) => MovedFile::Digest(digest),
            (None, Some(stamp)) => MovedFile::Stamp(stamp.into()),
            (None, None) => MovedFile::Anything,
        }
    }

    /// The mount in which folders were made for it: that of the new name, if it moved.
    pub(super) fn mount_of_new_directories(&self) -> &str {
        self.moved_to.as_ref().map_or(&self.mount, |place| &place.mount)
    }

    /// The file's new name with its alias, if it moved.
    #[must_use]
    pub fn display_destination(&self) -> Option<String> {
        self.moved_to.as_ref().map(|place| format!("{}/{}", place.mount, place.path))
    }
}
