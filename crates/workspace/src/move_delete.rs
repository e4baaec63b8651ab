//! Moving and deleting files. Directories are not moved: that would carry denied files to names that no rule matches.

use rustix::fs::Stat;

use crate::change::Recorder;
use crate::error::WorkspaceError;
use crate::file_attributes::FileAttributes;
use crate::file_target::{FileTarget, find_named, find_target, too_many_conflicts};
use crate::staged_file::{NewContent, stage};
use crate::transaction::{ChangeStep, CommitAttempt, commit};
use crate::view::WorkspaceView;

const MAX_ATTEMPTS: usize = 64;

/// Result of a move.
#[derive(Clone, Debug)]
pub struct MoveResult {
    /// The old path as answers show it.
    pub from: String,
    /// The new path as answers show it.
    pub to: String,
    /// Whether another file was replaced.
    pub replaced: bool,
}

/// Result of a deletion.
#[derive(Clone, Debug)]
pub struct Deleted {
    /// The path as answers show it.
    pub path: String,
    /// Size of the deleted file.
    pub bytes: u64,
}

/// Whether a move may replace a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// The new name must not exist.
    No,
    /// An existing file is replaced.
    Yes,
}

impl WorkspaceView<'_> {
    /// Moves a file to another path.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn move_file(
        &self,
        from: &str,
        to: &str,
        overwrite: Overwrite,
        recorder: &dyn Recorder,
    ) -> Result<MoveResult, WorkspaceError> {
        let (from, to) = (self.request(from)?, self.request(to)?);
        for _ in 0..MAX_ATTEMPTS {
            let source = require_existing(find_named(self, &from)?)?;
            let destination = find_target(self, &to)?;
            if destination.existing.is_some() && overwrite == Overwrite::No {
                return Err(WorkspaceError::AlreadyExists { path: to.shown.into_owned() });
            }
            let moved = MoveResult {
                from: self.show(source.mount, &source.location),
                to: self.show(destination.mount, &destination.location),
                replaced: destination.existing.is_some(),
            };
            if source.mount.alias() == destination.mount.alias() && source.location == destination.location {
                return Err(WorkspaceError::AlreadyExists { path: to.shown.into_owned() });
            }
            let steps = self.steps_of_move(source, destination, || find_target(self, &to))?;
            if commit(self, steps, recorder)? == CommitAttempt::Committed {
                return Ok(moved);
            }
        }
        Err(too_many_conflicts(&from.shown))
    }

    fn steps_of_move<'v>(
        &self,
        source: FileTarget<'v>,
        destination: FileTarget<'v>,
        find_again: impl Fn() -> Result<FileTarget<'v>, WorkspaceError>,
    ) -> Result<Vec<ChangeStep<'v>>, WorkspaceError> {
        if device(&destination)? != source.existing.as_ref().map(|existing| existing.stat.st_dev) {
            // Another filesystem: copy the content there, then remove the old name, both or neither.
            let Some(existing) = &source.existing else { return Err(too_many_conflicts(&source.shown)) };
            let dress = FileAttributes::of(&existing.file, &existing.stat);
            let staged = stage(self, &destination, NewContent::CopyOf(&existing.file), Some(dress))?;
            return Ok(vec![ChangeStep::Put(destination, staged), ChangeStep::Remove(source)]);
        }
        if destination.existing.is_none() {
            return Ok(vec![ChangeStep::Move(Box::new((source, destination)))]);
        }
        let again = find_again()?;
        Ok(vec![ChangeStep::Remove(destination), ChangeStep::Move(Box::new((source, again)))])
    }

    /// Deletes a file.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn delete(&self, path: &str, recorder: &dyn Recorder) -> Result<Deleted, WorkspaceError> {
        let requested = self.request(path)?;
        for _ in 0..MAX_ATTEMPTS {
            let target = require_existing(find_named(self, &requested)?)?;
            let bytes = target.existing.as_ref().map_or(0, crate::open::OpenedFile::size);
            let deleted = Deleted { path: self.show(target.mount, &target.location), bytes };
            if commit(self, vec![ChangeStep::Remove(target)], recorder)? == CommitAttempt::Committed {
                return Ok(deleted);
            }
        }
        Err(too_many_conflicts(&requested.shown))
    }
}

fn require_existing(target: FileTarget<'_>) -> Result<FileTarget<'_>, WorkspaceError> {
    match target.existing {
        Some(_) => Ok(target),
        None => Err(WorkspaceError::NotFound { path: target.shown }),
    }
}

fn device(target: &FileTarget<'_>) -> Result<Option<u64>, WorkspaceError> {
    let stat: Stat = rustix::fs::fstat(&target.directory)
        .map_err(|error| WorkspaceError::io("looking at the folder of", &target.shown, error.into()))?;
    Ok(Some(stat.st_dev))
}
