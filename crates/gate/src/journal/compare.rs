//! The difference between what a call found and what it left, for people.
//!
//! The old content is the journal's; the new content is the file itself, where it still is as the call left it. It is read through the mount and its
//! rules: what a tool may not read is not shown here either.

use std::io::{self, Read as _};

use toolgate_text::diff::unified;
use toolgate_types::{Deadline, Sha256};
use toolgate_workspace::{EntireContent, EntireFile, Workspace, WorkspaceError};

use super::Journal;
use super::change_set::{FileChange, FileChangeKind, StoredBlob};
use super::undo::restore_view;

/// ComparedContent beyond this is not compared.
const MAX_COMPARED_BYTES: u64 = 1 << 20;

/// The lines around each change.
const CONTEXT_LINES: usize = 3;

/// What a call changed in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedChange {
    /// The file with its alias.
    pub path: String,
    /// The kind of change.
    pub kind: &'static str,
    /// A unified diff. Absent if the content is binary, too large, or no longer known.
    pub diff: Option<String>,
    /// Whether some of the content is not text.
    pub is_binary: bool,
    /// Whether some of the content is too large to be compared.
    pub is_too_large: bool,
    /// What is there now.
    pub current: CurrentContent,
}

/// What is there now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurrentContent {
    /// What the call left.
    Same,
    /// Something else.
    Changed,
    /// Nothing, although the call left a file.
    Missing,
}

impl CurrentContent {
    /// The word in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Changed => "changed",
            Self::Missing => "missing",
        }
    }
}

/// ComparedContent that is to be compared.
enum ComparedContent {
    Absent,
    Text(String),
    Binary,
    TooLarge,
    /// It cannot be read, or the rules of the mount forbid it.
    Unreadable,
}

impl Journal {
    /// Compares what a call found with what it left.
    #[must_use]
    pub fn compare(&self, change: &FileChange, workspace: &Workspace) -> ComparedChange {
        let path = change.display_path();
        let place = change.display_destination().unwrap_or_else(|| path.clone());
        let (now, digest) = current(&place, workspace);
        let current = match (&now, change.kind) {
            (ComparedContent::Absent, FileChangeKind::Delete) => CurrentContent::Same,
            (ComparedContent::Absent, _) => CurrentContent::Missing,
            (_, FileChangeKind::Delete) => CurrentContent::Changed,
            _ if change.after.is_none() || digest == change.after => CurrentContent::Same,
            _ => CurrentContent::Changed,
        };
        let before = match (&change.before, change.kind) {
            (Some(kept), _) => self.stored(kept).unwrap_or(ComparedContent::Unreadable),
            (None, FileChangeKind::Move) => ComparedContent::Unreadable,
            (None, _) => ComparedContent::Absent,
        };
        let after = match (change.kind, current) {
            (FileChangeKind::Delete, _) => ComparedContent::Absent,
            (_, CurrentContent::Same) => now,
            _ => ComparedContent::Unreadable,
        };
        let is_binary = [&before, &after].iter().any(|content| matches!(content, ComparedContent::Binary));
        let is_too_large =
            [&before, &after].iter().any(|content| matches!(content, ComparedContent::TooLarge));
        let label = |prefix: &str, content: &ComparedContent| match content {
            ComparedContent::Absent => "/dev/null".to_owned(),
            _ => format!("{prefix}/{path}"),
        };
        let diff = before
            .text()
            .zip(after.text())
            .map(|(old, new)| unified(old, new, &label("a", &before), &label("b", &after), CONTEXT_LINES));
        ComparedChange {
            path: path.clone(),
            kind: change.kind.as_str(),
            diff,
            is_binary,
            is_too_large,
            current,
        }
    }

    /// Stored content, if it is what was stored.
    fn stored(&self, kept: &StoredBlob) -> io::Result<ComparedContent> {
        if kept.bytes > MAX_COMPARED_BYTES {
            return Ok(ComparedContent::TooLarge);
        }
        let mut bytes = Vec::new();
        self.blobs.open(&kept.blob)?.into_std().take(MAX_COMPARED_BYTES).read_to_end(&mut bytes)?;
        match Sha256::of(&bytes) == kept.sha256 {
            true => Ok(text_or_binary(bytes)),
            false => Ok(ComparedContent::Unreadable),
        }
    }
}

impl ComparedContent {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Absent => Some(""),
            Self::Text(text) => Some(text),
            Self::Binary | Self::TooLarge | Self::Unreadable => None,
        }
    }
}

fn text_or_binary(bytes: Vec<u8>) -> ComparedContent {
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => ComparedContent::Text(text),
        _ => ComparedContent::Binary,
    }
}

/// What is under a name now, and its digest.
fn current(path: &str, workspace: &Workspace) -> (ComparedContent, Option<Sha256>) {
    let stop = Deadline::never();
    match restore_view(workspace, &stop).read_entire(path, MAX_COMPARED_BYTES) {
        Ok(EntireFile { content, sha256, .. }) => match content {
            EntireContent::Text(text) => (ComparedContent::Text(text.as_str().to_owned()), Some(sha256)),
            EntireContent::Bytes(_) => (ComparedContent::Binary, Some(sha256)),
        },
        Err(WorkspaceError::NotFound { .. }) => (ComparedContent::Absent, None),
        Err(WorkspaceError::ReadLimit { .. }) => (ComparedContent::TooLarge, None),
        Err(_) => (ComparedContent::Unreadable, None),
    }
}
