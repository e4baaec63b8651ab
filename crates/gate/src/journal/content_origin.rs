//! Where the content that an entry holds came from, and so how soon it may be let go.
//!
//! A digest does not tell: a model can write a copy of a person's file, and with that would have made the person's content its own. What tells is the file.
//! Content is a gate's if it is held by the very file that a gate made (`st_ino`, `st_size`, `st_mtime` and digest), as the entry of that call says. A copy, a
//! file that was moved to a name that a gate once used, or one that was written to since, is another file.
//!
//! What a gate made of a person's file is still that person's text for the most part. Such a version counts as the gate's only while the entry that holds the
//! person's own, its root, is kept long enough to stand in for it. What an undo put back is what was there before, and counts as from elsewhere.

use toolgate_types::{CallId, Sha256};

use super::change_set::{ChangeSet, FileChangeKind, MovedFileStamp};

/// The beginning of a digest over what identifies a file and its content.
pub(super) type FileKey = [u8; 16];

/// Where all content that a call replaced, removed or moved came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentOrigin {
    /// Not from a gate, or that is not known.
    Elsewhere,
    /// From a gate, which made it out of nothing.
    Gate,
    /// From a gate, which made it of what the entry of this call holds.
    DerivedFrom(CallId),
}

impl ContentOrigin {
    /// Where content came from that a call made of content of this origin.
    pub(super) fn for_output(self, call: CallId) -> Self {
        match self {
            Self::Elsewhere => Self::DerivedFrom(call),
            Self::Gate | Self::DerivedFrom(_) => self,
        }
    }
}

/// The files that a call replaced, removed or moved; nothing for one that is not known. What is only new replaces none.
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

/// The files that a call made.
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
