//! Writing, appending, and editing a text: each replaces the whole file atomically.

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

/// How often a change is retried after a conflict with another process.
const MAX_ATTEMPTS: usize = 64;

/// A file that is appended to or edited may have at most this many times the bytes that one call may write.
const MAX_CHANGED_PER_WRITTEN: u64 = 64;

/// Result of a write.
#[derive(Clone, Debug)]
pub struct WriteResult {
    /// The path as answers show it.
    pub path: String,
    /// Whether the file is new.
    pub created: bool,
    /// Digest of the content before, where it had to be computed.
    pub sha256_before: Option<Sha256>,
    /// Digest of the content now.
    pub sha256_after: Sha256,
    /// Size of the file now.
    pub bytes: u64,
}

/// Result of an edit, or of its dry run.
#[derive(Clone, Debug)]
pub struct Transformed {
    /// The text before.
    pub before: String,
    /// The text after.
    pub after: String,
    /// What was written; in a dry run, what would have been.
    pub written: WriteResult,
}

/// Whether to make a change or only to compute its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    /// Make it.
    No,
    /// Only compute the result.
    Yes,
}

impl WorkspaceView<'_> {
    /// Replaces the content of a file. With `if_match`, only if the file now has that digest.
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

    /// Appends to a file; creates it if it does not exist.
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
                // An append copies the whole file and exchanges it, so the whole file is limited too.
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

    /// Reads a text, passes it to `change`, and writes the result back; retries after a conflict.
    ///
    /// # Errors
    /// See [`WorkspaceError`]; an error of `change` is passed on.
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
            // A passed deadline is reported as such, whatever `change` returned.
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

    /// The largest file that may be appended to or edited: however small the change, the whole file is copied.
    pub(crate) fn changeable(&self) -> u64 {
        self.limits.max_write_bytes.saturating_mul(MAX_CHANGED_PER_WRITTEN)
    }

    /// Digest of the current content, if the call has a precondition.
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

/// The digests of a text before and after a change. The common prefix is hashed once: hashing takes longer than any other work on a text.
fn digests(before: &[u8], after: &[u8]) -> (Sha256, Sha256) {
    let same = common_prefix_len(before, after);
    let split = before.split_at_checked(same).zip(after.split_at_checked(same));
    let Some(((common, rest_before), (_, rest_after))) = split else {
        return (Sha256::of(before), Sha256::of(after));
    };
    let mut of_before = Sha256Hasher::new();
    of_before.update(common);
    let mut of_after = of_before.clone();
    of_before.update(rest_before);
    of_after.update(rest_after);
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
