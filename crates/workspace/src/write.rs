//! Writing, appending, and changing a text in place: each replaces a whole file in one step.

use std::cell::LazyCell;

use toolgate_text::common_affixes::common_prefix_len;
use toolgate_types::digest::Sha256Hasher;
use toolgate_types::{Failure, Sha256};

use crate::change::Recorder;
use crate::error::{WorkspaceError, WriteBound};
use crate::file_target::{FileTarget, find_target, too_many_conflicts};
use crate::open::OpenedFile;
use crate::requested_path::RequestedPath;
use crate::staged_file::{NewContent, stage};
use crate::transaction::{ChangeStep, CommitAttempt, commit};
use crate::view::WorkspaceView;

/// How often a change is tried anew when somebody else was faster.
const MAX_ATTEMPTS: usize = 64;

/// A file that is appended to or edited has at most this many times the bytes that one call may write.
const MAX_CHANGED_PER_WRITTEN: u64 = 64;

/// What a write did.
#[derive(Clone, Debug)]
pub struct WriteResult {
    /// The path as answers show it.
    pub path: String,
    /// Whether the file is new.
    pub created: bool,
    /// Digest of what was there before, where it had to be known.
    pub sha256_before: Option<Sha256>,
    /// Digest of what is there now.
    pub sha256_after: Sha256,
    /// Size of the file now.
    pub bytes: u64,
}

/// What a change of a text did, or would do.
#[derive(Clone, Debug)]
pub struct Transformed {
    /// The text before.
    pub before: String,
    /// The text after.
    pub after: String,
    /// What was written; for a rehearsal, what would have been.
    pub written: WriteResult,
}

/// Whether to make a change or only to say what it would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    /// Make it.
    No,
    /// Only say what it would be.
    Yes,
}

impl WorkspaceView<'_> {
    /// Gives a file this content. With `if_match`, only if the file now has that digest.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn write(
        &self,
        path: &str,
        content: &[u8],
        if_match: Option<Sha256>,
        recorder: &dyn Recorder,
    ) -> Result<WriteResult, WorkspaceError> {
        let requested = self.request(path)?;
        self.check_write_size(content.len() as u64, WriteBound::Content, &requested.shown)?;
        self.retry_on_conflict(
            &requested,
            |target| {
                let before = self.check_digest(&target, if_match)?;
                let staged = stage(self, &target, NewContent::Bytes(content), None)?;
                Ok((ChangeStep::Put(FileTarget { sha256: before, ..target }, staged), before))
            },
            recorder,
        )
    }

    /// Adds to the end of a file; makes it if it is not there.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn append(
        &self,
        path: &str,
        content: &[u8],
        recorder: &dyn Recorder,
    ) -> Result<WriteResult, WorkspaceError> {
        let requested = self.request(path)?;
        self.check_write_size(content.len() as u64, WriteBound::Appended, &requested.shown)?;
        self.retry_on_conflict(
            &requested,
            |target| {
                // The file is copied and exchanged as a whole, so that it has a bound as well.
                let (bytes, limit) =
                    (target.existing.as_ref().map_or(0, OpenedFile::size), self.changeable());
                if bytes > limit {
                    let path = requested.shown.to_string();
                    return Err(WorkspaceError::TooLargeToChange { path, bytes, limit });
                }
                let existing = target.existing.as_ref().map(|existing| &existing.file);
                let content =
                    existing.map_or(NewContent::Bytes(content), |file| NewContent::Appended(file, content));
                let staged = stage(self, &target, content, None)?;
                Ok((ChangeStep::Put(target, staged), None))
            },
            recorder,
        )
    }

    /// Reads a text, lets `change` make a new one of it, and writes that back if nobody was faster.
    ///
    /// # Errors
    /// See [`WorkspaceError`]; what `change` says is passed on.
    pub fn transform(
        &self,
        path: &str,
        if_match: Option<Sha256>,
        rehearsal: DryRun,
        change: &dyn Fn(&str) -> Result<String, Failure>,
        recorder: &dyn Recorder,
    ) -> Result<Transformed, WorkspaceError> {
        let requested = self.request(path)?;
        for _ in 0..MAX_ATTEMPTS {
            let target = find_target(self, &requested)?;
            let Some(existing) = &target.existing else {
                return Err(WorkspaceError::NotFound { path: requested.shown.into_owned() });
            };
            let before = self.read_text(existing, self.changeable(), &requested.shown)?;
            if if_match.is_some() {
                check_match(if_match, Some(Sha256::of(before.as_bytes())), &requested.shown)?;
            }
            let after = change(&before);
            // Whoever ran out of time says so, whatever the change made of it.
            self.stop.check()?;
            let after = after.map_err(WorkspaceError::other)?;
            self.check_write_size(after.len() as u64, WriteBound::Result, &requested.shown)?;
            let path = self.show(target.mount, &target.location);
            let bytes = after.len() as u64;
            let digests = LazyCell::new(|| digests(before.as_bytes(), after.as_bytes()));
            let written = |(sha256_before, sha256_after)| WriteResult {
                path,
                created: false,
                sha256_before: Some(sha256_before),
                sha256_after,
                bytes,
            };
            if rehearsal == DryRun::Yes {
                let written = written(*digests);
                return Ok(Transformed { before, after, written });
            }
            let sha256 = || digests.1;
            let staged = stage(self, &target, NewContent::Digested(after.as_bytes(), &sha256), None)?;
            let written = written(*digests);
            let target = FileTarget { sha256: Some(digests.0), ..target };
            if commit(self, vec![ChangeStep::Put(target, staged)], recorder)? == CommitAttempt::Committed {
                return Ok(Transformed { before, after, written });
            }
        }
        Err(too_many_conflicts(&requested.shown))
    }

    fn retry_on_conflict<'v>(
        &'v self,
        requested: &RequestedPath<'_>,
        prepare: impl Fn(FileTarget<'v>) -> Result<(ChangeStep<'v>, Option<Sha256>), WorkspaceError>,
        recorder: &dyn Recorder,
    ) -> Result<WriteResult, WorkspaceError> {
        for _ in 0..MAX_ATTEMPTS {
            let target = find_target(self, requested)?;
            let path = self.show(target.mount, &target.location);
            let created = target.existing.is_none();
            let (step, sha256_before) = prepare(target)?;
            let ChangeStep::Put(_, staged) = &step else { return Err(too_many_conflicts(&requested.shown)) };
            let after = staged.after;
            if commit(self, vec![step], recorder)? == CommitAttempt::Committed {
                return Ok(WriteResult {
                    path,
                    created,
                    sha256_before,
                    sha256_after: after.sha256,
                    bytes: after.bytes,
                });
            }
        }
        Err(too_many_conflicts(&requested.shown))
    }

    pub(crate) fn check_write_size(
        &self,
        bytes: u64,
        bound: WriteBound,
        shown: &str,
    ) -> Result<(), WorkspaceError> {
        let limit = self.limits.max_write_bytes;
        if bytes > limit {
            return Err(WorkspaceError::WriteLimit { path: shown.to_owned(), bytes, limit, bound });
        }
        Ok(())
    }

    /// How large a file may be that is appended to, or read into memory and changed: an append and an edit may be small, and their work is not.
    pub(crate) fn changeable(&self) -> u64 {
        self.limits.max_write_bytes.saturating_mul(MAX_CHANGED_PER_WRITTEN)
    }

    /// Digest of what is there, when the call says what it expects.
    fn check_digest(
        &self,
        target: &FileTarget<'_>,
        if_match: Option<Sha256>,
    ) -> Result<Option<Sha256>, WorkspaceError> {
        if if_match.is_none() {
            return Ok(None);
        }
        let found = match &target.existing {
            Some(existing) => Some(self.hash(&existing.file, &target.shown)?),
            None => None,
        };
        check_match(if_match, found, &target.shown)?;
        Ok(found)
    }
}

/// The digests of a text before and after a change. What both begin with is hashed once: hashing takes longer than any other work on a text.
fn digests(before: &[u8], after: &[u8]) -> (Sha256, Sha256) {
    let same = common_prefix_len(before, after);
    let mut of_before = Sha256Hasher::new();
    of_before.update(before.get(..same).unwrap_or_default());
    let mut of_after = of_before.clone();
    of_before.update(before.get(same..).unwrap_or_default());
    of_after.update(after.get(same..).unwrap_or_default());
    (of_before.finish(), of_after.finish())
}

fn check_match(expected: Option<Sha256>, found: Option<Sha256>, shown: &str) -> Result<(), WorkspaceError> {
    let reason = match (expected, found) {
        (None, _) => return Ok(()),
        (Some(expected), Some(found)) if expected == found => return Ok(()),
        (Some(_), Some(found)) => format!("its SHA-256 is `{found}`"),
        (Some(_), None) => "it does not exist".to_owned(),
    };
    Err(WorkspaceError::Precondition { path: shown.to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn digests_are_those_of_each_text(same in "[ab]{0,200}", before in "[ab]{0,100}", after in "[ab]{0,100}") {
            let (before, after) = (same.clone() + &before, same + &after);
            let expected = (Sha256::of(before.as_bytes()), Sha256::of(after.as_bytes()));
            prop_assert_eq!(digests(before.as_bytes(), after.as_bytes()), expected);
        }
    }
}
