//! The origin of stored content, which decides how early it may be dropped.
//!
//! A digest does not prove the origin: a model could write a copy of a person's file and so claim its content. The file's identity does. Content is
//! the gate's if the very file that a gate created holds it (`st_ino`, `st_size`, `st_mtime` and digest), as the entry of that call records. A copy,
//! a file moved to a name that a gate once used, or a file modified since, is another file.
//!
//! A gate's edit of a person's file still contains mostly the person's text. Such a version counts as the gate's only while the entry with the
//! person's own version, its root, is kept long enough to stand in for it. Content restored by an undo counts as from elsewhere.

use toolgate_types::{CallId, Sha256};

use super::change_set::{ChangeSet, FileChangeKind, MovedFileStamp};

/// Truncated digest of a file's identity and content.
pub(super) type FileKey = [u8; 16];

/// The origin of all content that a call replaced, deleted or moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentOrigin {
    /// Not from a gate, or unknown.
    Elsewhere,
    /// Created by a gate from nothing.
    Gate,
    /// Created by a gate from content that the entry of this call holds.
    DerivedFrom(CallId),
}

impl ContentOrigin {
    /// The origin of content that a call made from content of this origin.
    pub(super) fn for_output(self, call: CallId) -> Self {
        match self {
            Self::Elsewhere => Self::DerivedFrom(call),
            Self::Gate | Self::DerivedFrom(_) => self,
        }
    }
}

/// The files that a call replaced, deleted or moved; `None` for an unknown one. A created file replaces none.
pub(super) fn replaced_files(set: &ChangeSet) -> impl Iterator<Item = Option<FileKey>> {
    set.changes.iter().filter_map(|change| match change.kind {
        FileChangeKind::Create => None,
        FileChangeKind::Modify | FileChangeKind::Delete => {
            let kept = change.before.as_ref();
            Some(kept.and_then(|kept| Some(file_key(kept.sha256, kept.stamp?))))
        }
        FileChangeKind::Move => {
            Some(change.after.zip(change.stamp).map(|(sha256, stamp)| file_key(sha256, stamp)))
        }
    })
}

/// The files that a call created or rewrote.
pub(super) fn created_files(set: &ChangeSet) -> Vec<FileKey> {
    let is_new = |kind| matches!(kind, FileChangeKind::Create | FileChangeKind::Modify);
    let changes = set.changes.iter().filter(|change| set.undoes.is_none() && is_new(change.kind));
    changes.filter_map(|change| Some(file_key(change.after?, change.made?))).collect()
}

fn file_key(sha256: Sha256, stamp: MovedFileStamp) -> FileKey {
    let identity = stamp.to_bytes();
    let whole = Sha256::of(&[&sha256.as_bytes()[..], &identity[..]].concat());
    whole.as_bytes().first_chunk().copied().unwrap_or_default()
}
