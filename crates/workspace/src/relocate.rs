//! Moving and deleting files. Folders are left alone: moving one would carry denied files to names that no rule knows.

use rustix::fs::Stat;

use crate::change::Recorder;
use crate::dress::Dress;
use crate::error::WorkspaceError;
use crate::stage::{Content, stage};
use crate::target::{Target, find_named, find_target, keeps_changing};
use crate::transaction::{Attempt, Step, carry_out};
use crate::view::View;

const ATTEMPTS: usize = 64;

/// What a move did.
#[derive(Clone, Debug)]
pub struct Moved {
    /// The old path as answers show it.
    pub from: String,
    /// The new path as answers show it.
    pub to: String,
    /// Whether another file was replaced.
    pub replaced: bool,
}

/// What a deletion did.
#[derive(Clone, Debug)]
pub struct Deleted {
    /// The path as answers show it.
    pub path: String,
    /// How much went away.
    pub bytes: u64,
}

/// Whether a move may replace a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// The new name must be free.
    No,
    /// What is there goes away.
    Yes,
}

impl View<'_> {
    /// Gives a file another name.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn move_file(
        &self,
        from: &str,
        to: &str,
        overwrite: Overwrite,
        recorder: &dyn Recorder,
    ) -> Result<Moved, WorkspaceError> {
        let (from, to) = (self.request(from)?, self.request(to)?);
        for _ in 0..ATTEMPTS {
            let source = must_exist(find_named(self, &from)?)?;
            let destination = find_target(self, &to)?;
            if destination.existing.is_some() && overwrite == Overwrite::No {
                return Err(WorkspaceError::AlreadyExists { path: to.shown.into_owned() });
            }
            let moved = Moved {
                from: self.show(source.mount, &source.location),
                to: self.show(destination.mount, &destination.location),
                replaced: destination.existing.is_some(),
            };
            if source.mount.alias() == destination.mount.alias() && source.location == destination.location {
                return Err(WorkspaceError::AlreadyExists { path: to.shown.into_owned() });
            }
            let steps = self.steps_of_move(source, destination, || find_target(self, &to))?;
            if carry_out(self, steps, recorder)? == Attempt::Done {
                return Ok(moved);
            }
        }
        Err(keeps_changing(&from.shown))
    }

    fn steps_of_move<'v>(
        &self,
        source: Target<'v>,
        destination: Target<'v>,
        find_again: impl Fn() -> Result<Target<'v>, WorkspaceError>,
    ) -> Result<Vec<Step<'v>>, WorkspaceError> {
        if device(&destination)? != source.existing.as_ref().map(|existing| existing.stat.st_dev) {
            // Another filesystem: the content is copied there, then the old name goes away, both or neither.
            let Some(existing) = &source.existing else { return Err(keeps_changing(&source.shown)) };
            let dress = Dress::of(&existing.file, &existing.stat);
            let staged = stage(self, &destination, Content::CopyOf(&existing.file), Some(dress))?;
            return Ok(vec![Step::Put(destination, staged), Step::Remove(source)]);
        }
        if destination.existing.is_none() {
            return Ok(vec![Step::Move(Box::new((source, destination)))]);
        }
        let again = find_again()?;
        Ok(vec![Step::Remove(destination), Step::Move(Box::new((source, again)))])
    }

    /// Takes a file away.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn delete(&self, path: &str, recorder: &dyn Recorder) -> Result<Deleted, WorkspaceError> {
        let requested = self.request(path)?;
        for _ in 0..ATTEMPTS {
            let target = must_exist(find_named(self, &requested)?)?;
            let bytes = target.existing.as_ref().map_or(0, crate::open::Opened::size);
            let deleted = Deleted { path: self.show(target.mount, &target.location), bytes };
            if carry_out(self, vec![Step::Remove(target)], recorder)? == Attempt::Done {
                return Ok(deleted);
            }
        }
        Err(keeps_changing(&requested.shown))
    }
}

fn must_exist(target: Target<'_>) -> Result<Target<'_>, WorkspaceError> {
    match target.existing {
        Some(_) => Ok(target),
        None => Err(WorkspaceError::NotFound { path: target.shown }),
    }
}

fn device(target: &Target<'_>) -> Result<Option<u64>, WorkspaceError> {
    let stat: Stat = rustix::fs::fstat(&target.directory)
        .map_err(|error| WorkspaceError::io("looking at the folder of", &target.shown, error.into()))?;
    Ok(Some(stat.st_dev))
}
