//! Exchanges old and new files one at a time, and exchanges them back on rollback.
//!
//! Between any two of these system calls another process may give the name to another file. So only known files are unlinked: the one that was
//! staged, or the one that was found before and is kept in the journal. When it is unclear which file is where, both stay.

use std::ffi::{OsStr, OsString};
use std::fs::File;

use rustix::fs::{AtFlags, RenameFlags, Stat};
use rustix::io::Errno;

use crate::error::WorkspaceError;
use crate::file_target::{FileTarget, is_unmodified, same_file, stat_name};
use crate::staged_file::StagedFile;
use crate::transaction::ChangeStep;

/// How often files are exchanged before giving up against a process that keeps replacing the name.
const MAX_EXCHANGES: usize = 64;

/// How a step ended.
#[derive(Debug)]
pub(crate) enum SwapOutcome {
    /// It was made; this is the file that it created, if any.
    Done(Option<Stat>),
    /// The file was changed after it was examined; nothing was done.
    Conflict,
}

/// Why a step was not made.
#[derive(Debug)]
pub(crate) enum SwapError {
    /// Nothing was done.
    Untouched(WorkspaceError),
    /// Something was done and could not be rolled back.
    Indeterminate(WorkspaceError),
}

/// The state of a place is unclear; every cause gives the same message.
struct LeftInPlace;

impl From<Errno> for LeftInPlace {
    fn from(_: Errno) -> Self {
        Self
    }
}

impl ChangeStep<'_> {
    pub(crate) fn swap(&self, temporary: &OsStr) -> Result<SwapOutcome, SwapError> {
        match self {
            Self::Put(target, staged) if target.existing.is_none() => create(target, staged, temporary),
            Self::Put(target, staged) => exchange(target, staged, temporary),
            Self::Remove(target) => move_to_temporary(target, temporary),
            Self::Move(places) => relocate(&places.0, &places.1),
        }
    }

    /// Reverses [`ChangeStep::swap`]. On an error something is left for the next start to recover.
    pub(crate) fn swap_back(&self, temporary: &OsStr, ours: Option<&Stat>) -> Result<(), WorkspaceError> {
        let taken_back = match (self, ours) {
            (Self::Put(target, _), Some(ours)) if target.existing.is_none() => {
                uncreate(target, temporary, ours)
            }
            (Self::Put(target, _), Some(ours)) => restore_original(target, temporary, ours),
            (Self::Put(..), None) => Err(LeftInPlace),
            (Self::Remove(target), _) => {
                rename_to_free_name(&target.directory, temporary, &target.directory, &target.name)
                    .map_err(LeftInPlace::from)
            }
            (Self::Move(places), _) => move_back(&places.0, &places.1),
        };
        taken_back.map_err(|LeftInPlace| indeterminate(self.place()))
    }

    /// Removes the old content. It was compared with what was found before, and that is recorded.
    pub(crate) fn discard_old(&self, temporary: &OsStr) {
        let replaced = match self {
            Self::Put(target, _) => target.existing.is_some(),
            Self::Remove(_) => true,
            Self::Move(..) => false,
        };
        if replaced {
            // A leftover does not justify a rollback: its name identifies it as garbage.
            let _ = rustix::fs::unlinkat(&self.place().directory, temporary, AtFlags::empty());
        }
    }
}

/// Checked first, with the directory locked: a file that another gate has put there is never swapped out and back, which would briefly expose content
/// that is not meant to be visible. Processes that take no lock are detected by the comparison after the swap.
fn is_still_there(target: &FileTarget<'_>) -> bool {
    stat_name(&target.directory, &target.name).is_ok_and(|now| target.is_unchanged(&now))
}

fn indeterminate(target: &FileTarget<'_>) -> WorkspaceError {
    WorkspaceError::Unsure { path: target.shown.clone() }
}

fn untouched(target: &FileTarget<'_>, error: impl Into<std::io::Error>) -> SwapError {
    SwapError::Untouched(WorkspaceError::io("changing", &target.shown, error.into()))
}

/// Creates a new file under its own name atomically, or not at all when the name was taken concurrently.
fn create(target: &FileTarget<'_>, staged: &StagedFile, temporary: &OsStr) -> Result<SwapOutcome, SwapError> {
    let directory = &target.directory;
    let linked = if staged.has_no_name() {
        staged.link(directory, &target.name)
    } else {
        staged.link(directory, temporary).and_then(|ours| {
            let renamed = rename_to_free_name(directory, temporary, directory, &target.name);
            if renamed.is_err() {
                let _ = discard(directory, temporary, &ours);
            }
            Ok(renamed.map(|()| ours)?)
        })
    };
    match linked {
        Ok(ours) => Ok(SwapOutcome::Done(Some(ours))),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(SwapOutcome::Conflict),
        Err(error) => Err(untouched(target, error)),
    }
}

/// Removes a new file again, if it is still the one that was created and was not written to.
fn uncreate(target: &FileTarget<'_>, temporary: &OsStr, ours: &Stat) -> Result<(), LeftInPlace> {
    let directory = &target.directory;
    match rename_to_free_name(directory, &target.name, directory, temporary) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    if discard(directory, temporary, ours)? {
        return Ok(());
    }
    rename_to_free_name(directory, temporary, directory, &target.name)?;
    Err(LeftInPlace)
}

/// Exchanges old and new. If the file that came out is not the one found before, exchanges them back.
fn exchange(
    target: &FileTarget<'_>,
    staged: &StagedFile,
    temporary: &OsStr,
) -> Result<SwapOutcome, SwapError> {
    let directory = &target.directory;
    if !is_still_there(target) {
        return Ok(SwapOutcome::Conflict);
    }
    let ours = staged.link(directory, temporary).map_err(|error| untouched(target, error))?;
    match rename_exchange(target, temporary) {
        Ok(()) => {}
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => return replace(target, temporary, ours),
        Err(error) => {
            discard(directory, temporary, &ours)
                .map_err(|_| SwapError::Indeterminate(indeterminate(target)))?;
            return if error == Errno::NOENT {
                Ok(SwapOutcome::Conflict)
            } else {
                Err(untouched(target, error))
            };
        }
    }
    let not_back = |_| SwapError::Indeterminate(indeterminate(target));
    let came_out = stat_name(directory, temporary).map_err(not_back)?;
    if target.is_unchanged(&came_out) {
        return Ok(SwapOutcome::Done(Some(ours)));
    }
    match exchange_back(target, temporary, &ours, &came_out) {
        Ok(()) => Ok(SwapOutcome::Conflict),
        Err(LeftInPlace) => Err(SwapError::Indeterminate(indeterminate(target))),
    }
}

/// Gives the name back to the file under the temporary name, and removes ours.
///
/// Other processes may give the name to newer files again and again. A file that comes out and is not the one just put there is newer, and must get
/// the name back in turn. Only if nothing came between is the other file the one that was replaced.
fn exchange_back(
    target: &FileTarget<'_>,
    temporary: &OsStr,
    ours: &Stat,
    waiting: &Stat,
) -> Result<(), LeftInPlace> {
    let (mut named, mut waiting) = (*ours, *waiting);
    for _ in 0..MAX_EXCHANGES {
        rename_exchange(target, temporary)?;
        let came_out = stat_name(&target.directory, temporary)?;
        if !same_file(&came_out, &named) {
            (named, waiting) = (waiting, came_out);
        } else if discard(&target.directory, temporary, &named)? {
            return Ok(());
        } else {
            // It was written to while it had the name, so it goes back there.
            rename_exchange(target, temporary)?;
            return Err(LeftInPlace);
        }
    }
    Err(LeftInPlace)
}

/// Gives the name back to the original file, which has the temporary name.
fn restore_original(target: &FileTarget<'_>, temporary: &OsStr, ours: &Stat) -> Result<(), LeftInPlace> {
    let directory = &target.directory;
    let old = stat_name(directory, temporary)?;
    if exchange_back(target, temporary, ours, &old).is_ok() {
        return Ok(());
    }
    // Where the filesystem lacks `RENAME_EXCHANGE`, nothing was done; elsewhere the names may belong to other files by now.
    let is_as_before = is_unmodified(ours, &stat_name(directory, &target.name)?)
        && is_unmodified(&old, &stat_name(directory, temporary)?);
    if !is_as_before {
        return Err(LeftInPlace);
    }
    Ok(rustix::fs::renameat(directory, temporary, directory, &target.name)?)
}

fn rename_exchange(target: &FileTarget<'_>, temporary: &OsStr) -> Result<(), Errno> {
    let directory = &target.directory;
    rustix::fs::renameat_with(directory, temporary, directory, &target.name, RenameFlags::EXCHANGE)
}

/// Unlinks a name if it is that of a known, unmodified file; returns whether it was.
fn discard(directory: &File, name: &OsStr, known: &Stat) -> Result<bool, Errno> {
    if !is_unmodified(known, &stat_name(directory, name)?) {
        return Ok(false);
    }
    rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
    Ok(true)
}

/// For filesystems without `RENAME_EXCHANGE`: keep the old file under a second hard link, then rename over it.
fn replace(target: &FileTarget<'_>, temporary: &OsStr, ours: Stat) -> Result<SwapOutcome, SwapError> {
    let directory = &target.directory;
    let kept = backup_name(temporary);
    let give_up = |answer: Result<SwapOutcome, SwapError>| match discard(directory, temporary, &ours) {
        Ok(_) => answer,
        Err(_) => Err(SwapError::Indeterminate(indeterminate(target))),
    };
    match rustix::fs::linkat(directory, &target.name, directory, &kept, AtFlags::empty()) {
        Ok(()) => {}
        Err(Errno::NOENT) => return give_up(Ok(SwapOutcome::Conflict)),
        Err(error) => return give_up(Err(untouched(target, error))),
    }
    let found = stat_name(directory, &kept).is_ok_and(|now| target.is_unchanged(&now));
    let renamed = if found {
        rustix::fs::renameat(directory, temporary, directory, &target.name)
            .map(|()| SwapOutcome::Done(Some(ours)))
    } else {
        Ok(SwapOutcome::Conflict)
    };
    match renamed {
        // From here on the temporary name holds the old content, as after an exchange.
        Ok(SwapOutcome::Done(ours)) => match rustix::fs::renameat(directory, &kept, directory, temporary) {
            Ok(()) => Ok(SwapOutcome::Done(ours)),
            Err(_) => Err(SwapError::Indeterminate(indeterminate(target))),
        },
        not_done => {
            // This is only a second hard link of a file that still has its first name.
            let _ = rustix::fs::unlinkat(directory, &kept, AtFlags::empty());
            give_up(not_done.map_err(|error| untouched(target, error)))
        }
    }
}

/// The name that keeps the old file while the new one takes its name.
pub(crate) fn backup_name(temporary: &OsStr) -> OsString {
    let mut second = temporary.to_owned();
    second.push("~");
    second
}

/// The name under which new content is written on filesystems without `O_TMPFILE`, until it is complete.
pub(crate) fn unfinished_name(temporary: &OsStr) -> OsString {
    backup_name(&backup_name(temporary))
}

/// Moves the file from its name to the temporary one. If another file was there by now, it gets its name back.
fn move_to_temporary(target: &FileTarget<'_>, temporary: &OsStr) -> Result<SwapOutcome, SwapError> {
    let directory = &target.directory;
    if !is_still_there(target) {
        return Ok(SwapOutcome::Conflict);
    }
    match rename_to_free_name(directory, &target.name, directory, temporary) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Ok(SwapOutcome::Conflict),
        Err(error) => return Err(untouched(target, error)),
    }
    if stat_name(directory, temporary).is_ok_and(|came_out| target.is_unchanged(&came_out)) {
        return Ok(SwapOutcome::Done(None));
    }
    match rename_to_free_name(directory, temporary, directory, &target.name) {
        Ok(()) => Ok(SwapOutcome::Conflict),
        Err(_) => Err(SwapError::Indeterminate(indeterminate(target))),
    }
}

fn relocate(from: &FileTarget<'_>, to: &FileTarget<'_>) -> Result<SwapOutcome, SwapError> {
    if !is_still_there(from) {
        return Ok(SwapOutcome::Conflict);
    }
    match rename_to_free_name(&from.directory, &from.name, &to.directory, &to.name) {
        Ok(()) => {}
        Err(Errno::EXIST) => {
            return Err(SwapError::Untouched(WorkspaceError::AlreadyExists { path: to.shown.clone() }));
        }
        Err(Errno::NOENT) => return Ok(SwapOutcome::Conflict),
        Err(error) => return Err(untouched(from, error)),
    }
    if stat_name(&to.directory, &to.name).is_ok_and(|moved| from.is_unchanged(&moved)) {
        return Ok(SwapOutcome::Done(None));
    }
    match rename_to_free_name(&to.directory, &to.name, &from.directory, &from.name) {
        Ok(()) => Ok(SwapOutcome::Conflict),
        Err(_) => Err(SwapError::Indeterminate(indeterminate(from))),
    }
}

/// Gives a moved file its old name again, if it is still the one that was moved.
fn move_back(from: &FileTarget<'_>, to: &FileTarget<'_>) -> Result<(), LeftInPlace> {
    if !from
        .existing
        .as_ref()
        .is_some_and(|moved| stat_name(&to.directory, &to.name).is_ok_and(|now| same_file(&moved.stat, &now)))
    {
        return Err(LeftInPlace);
    }
    Ok(rename_to_free_name(&to.directory, &to.name, &from.directory, &from.name)?)
}

/// Renames a file to a name that is free (`RENAME_NOREPLACE`; `linkat` and `unlinkat` where the filesystem does not support it).
///
/// # Errors
/// I/O errors; `EEXIST` where the name is taken.
pub fn rename_to_free_name(from: &File, name: &OsStr, to: &File, new_name: &OsStr) -> Result<(), Errno> {
    match rustix::fs::renameat_with(from, name, to, new_name, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            rustix::fs::linkat(from, name, to, new_name, AtFlags::empty())?;
            rustix::fs::unlinkat(from, name, AtFlags::empty()).inspect_err(|_| {
                // Both names are hard links of one file now; unlinking the new one restores the former state.
                let _ = rustix::fs::unlinkat(to, new_name, AtFlags::empty());
            })
        }
        other => other,
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests arrange files by hand")]
mod tests {
    use std::fs;
    use std::path::Path;

    use toolgate_types::Deadline;

    use super::*;
    use crate::WorkspaceView;
    use crate::staged_file::{NewContent, stage};
    use crate::testing::{view, workspace};

    const TEMPORARY: &str = ".a.txt.tmp.x";

    /// Prepares one step in a directory that holds `a.txt`, passes it to a test, and returns the files that are left.
    fn with_step(
        make: impl for<'v> Fn(&'v WorkspaceView<'v>) -> ChangeStep<'v>,
        test: impl FnOnce(&Path, &ChangeStep<'_>),
    ) -> Vec<(String, String)> {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::write(root.join("a.txt"), "old").unwrap();
        let (workspace, stop) = (workspace(&root), Deadline::never());
        let view = view(&workspace, &stop);
        test(&root, &make(&view));
        let mut found: Vec<_> = fs::read_dir(&root)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| {
                (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(path).unwrap())
            })
            .collect();
        found.sort();
        found
    }

    fn put<'v>(view: &'v WorkspaceView<'v>, path: &str) -> ChangeStep<'v> {
        let target = view.find_by_name(path).unwrap();
        let staged = stage(view, &target, NewContent::Bytes(b"ours"), None).unwrap();
        ChangeStep::Put(target, staged)
    }

    fn made(step: &ChangeStep<'_>) -> Option<Stat> {
        match step.swap(TEMPORARY.as_ref()).unwrap() {
            SwapOutcome::Done(ours) => ours,
            SwapOutcome::Conflict => panic!("nobody was faster"),
        }
    }

    /// As editors save: a new file is renamed over the name.
    fn save(root: &Path, name: &str, content: &str) {
        fs::write(root.join("saved"), content).unwrap();
        fs::rename(root.join("saved"), root.join(name)).unwrap();
    }

    fn files(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(name, content)| ((*name).to_owned(), (*content).to_owned())).collect()
    }

    #[test]
    fn what_was_made_is_taken_back() {
        for path in ["a.txt", "new.txt"] {
            let found = with_step(
                |view| put(view, path),
                |_, step| step.swap_back(TEMPORARY.as_ref(), made(step).as_ref()).unwrap(),
            );
            assert_eq!(found, files(&[("a.txt", "old")]), "{path}");
        }
    }

    #[test]
    fn a_file_that_was_overtaken_keeps_what_the_faster_one_wrote() {
        let found = with_step(
            |view| put(view, "a.txt"),
            |root, step| {
                save(root, "a.txt", "a person's");
                assert!(matches!(step.swap(TEMPORARY.as_ref()), Ok(SwapOutcome::Conflict)));
            },
        );
        assert_eq!(found, files(&[("a.txt", "a person's")]));
    }

    #[test]
    fn an_update_between_exchange_and_exchange_back_is_not_lost() {
        let found = with_step(
            |view| put(view, "a.txt"),
            |root, step| {
                let ours = made(step).unwrap();
                let ChangeStep::Put(target, _) = step else { panic!("a put") };
                let waiting = stat_name(&target.directory, TEMPORARY.as_ref()).unwrap();
                save(root, "a.txt", "newest");
                assert!(exchange_back(target, TEMPORARY.as_ref(), &ours, &waiting).is_ok());
            },
        );
        assert_eq!(found, files(&[("a.txt", "newest")]));
    }

    #[test]
    fn what_somebody_wrote_into_the_new_file_is_not_taken_away() {
        for (path, expected) in [
            ("a.txt", files(&[(TEMPORARY, "old"), ("a.txt", "ours, and more")])),
            ("new.txt", files(&[("a.txt", "old"), ("new.txt", "ours, and more")])),
        ] {
            let found = with_step(
                |view| put(view, path),
                |root, step| {
                    let ours = made(step);
                    fs::write(root.join(path), "ours, and more").unwrap();
                    let error = step.swap_back(TEMPORARY.as_ref(), ours.as_ref()).unwrap_err();
                    assert!(matches!(error, WorkspaceError::Unsure { .. }), "{path}: {error}");
                },
            );
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn a_file_that_somebody_put_in_place_of_the_new_one_stays() {
        let found = with_step(
            |view| put(view, "new.txt"),
            |root, step| {
                let ours = made(step);
                save(root, "new.txt", "a person's");
                step.swap_back(TEMPORARY.as_ref(), ours.as_ref()).unwrap_err();
            },
        );
        assert_eq!(found, files(&[("a.txt", "old"), ("new.txt", "a person's")]));
    }

    #[test]
    fn a_removed_file_whose_name_was_taken_waits_under_the_temporary_one() {
        let found = with_step(
            |view| ChangeStep::Remove(view.find_by_name("a.txt").unwrap()),
            |root, step| {
                made(step);
                save(root, "a.txt", "a person's");
                step.swap_back(TEMPORARY.as_ref(), None).unwrap_err();
            },
        );
        assert_eq!(found, files(&[(TEMPORARY, "old"), ("a.txt", "a person's")]));
    }
}
