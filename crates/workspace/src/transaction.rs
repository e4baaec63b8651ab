//! Makes one or several changes atomically: all or none.
//!
//! Everything is staged and recorded in the journal first. Then, with the directories locked against other gates, old and new files are exchanged,
//! one rename each. The file that came out is compared with the expected one, so a concurrent change by any process is put back instead of being
//! lost.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;
use toolgate_fs::{FileLock, NotLocked};

use crate::change::{ChangeKind, JournalError, PlannedChange, Recorder, TransactionOutcome};
use crate::error::WorkspaceError;
use crate::file_target::FileTarget;
use crate::staged_file::StagedFile;
use crate::swap::{SwapError, SwapOutcome};
use crate::view::WorkspaceView;

/// How long to wait for a directory lock of another gate.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// One change, ready to be made.
#[derive(Debug)]
pub(crate) enum ChangeStep<'a> {
    /// New content for a place.
    Put(FileTarget<'a>, StagedFile),
    /// Removes the file at a place.
    Remove(FileTarget<'a>),
    /// Moves the file at the first place to the second, which must not exist.
    Move(Box<(FileTarget<'a>, FileTarget<'a>)>),
}

/// How an attempt ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CommitAttempt {
    /// All changes were made.
    Committed,
    /// A file was changed after it was examined; nothing was done.
    Conflict,
}

/// How an attempt ended, for the journal and for the caller.
struct TransactionEnd {
    settled: TransactionOutcome,
    answer: Result<CommitAttempt, WorkspaceError>,
}

impl TransactionEnd {
    fn rolled_back(answer: Result<CommitAttempt, WorkspaceError>) -> Self {
        Self { settled: TransactionOutcome::RolledBack, answer }
    }
}

/// Makes all changes or none.
pub(crate) fn commit(
    view: &WorkspaceView<'_>,
    steps: Vec<ChangeStep<'_>>,
    recorder: &dyn Recorder,
) -> Result<CommitAttempt, WorkspaceError> {
    commit_with_timeout(view, steps, recorder, LOCK_TIMEOUT)
}

/// Makes all changes or none, with a timeout for directory locks.
pub(crate) fn commit_with_timeout(
    view: &WorkspaceView<'_>,
    mut steps: Vec<ChangeStep<'_>>,
    recorder: &dyn Recorder,
    lock_timeout: Duration,
) -> Result<CommitAttempt, WorkspaceError> {
    view.stop.check()?;
    let names: Vec<OsString> = steps.iter().map(|step| temporary_name(&step.place().name)).collect();
    let planned: Vec<PlannedChange<'_>> =
        steps.iter().zip(&names).map(|(step, name)| step.plan(name)).collect();
    recorder.record(&planned, view.stop).map_err(|error| not_recorded(view, error))?;
    drop(planned);
    // The fsync was started before the changes were recorded, and ran in parallel.
    let saved = steps.iter_mut().try_for_each(ChangeStep::save);
    saved.inspect_err(|_| recorder.settle(TransactionOutcome::RolledBack))?;
    let mut locks = DirectoryLocks::new();
    let TransactionEnd { settled, answer } =
        create_directories_and_swap(view, &mut steps, &names, recorder, lock_timeout, &mut locks);
    recorder.settle(settled);
    answer
}

fn not_recorded(view: &WorkspaceView<'_>, error: JournalError) -> WorkspaceError {
    match (view.stop.reason(), error) {
        (Some(reason), _) => WorkspaceError::Stopped(reason),
        (None, JournalError::TooLarge { bytes, limit }) => WorkspaceError::TooLargeToKeep { bytes, limit },
        (None, JournalError::Full(bound)) => WorkspaceError::JournalFull(bound),
        (None, JournalError::NoSpace(reason)) => WorkspaceError::NoSpaceToKeep(reason),
        (None, JournalError::Failed(reason)) => WorkspaceError::NotRecorded(reason),
    }
}

fn create_directories_and_swap<'s>(
    view: &WorkspaceView<'_>,
    steps: &'s mut [ChangeStep<'_>],
    names: &[OsString],
    recorder: &dyn Recorder,
    lock_timeout: Duration,
    locks: &mut DirectoryLocks<'s>,
) -> TransactionEnd {
    let mut made = Vec::new();
    let ending = match steps.iter_mut().try_for_each(|step| step.destination_mut().create_parents(&mut made))
    {
        Ok(()) => swap_all(view, steps, names, recorder, lock_timeout, locks),
        Err(error) => TransactionEnd::rolled_back(Err(error)),
    };
    if ending.settled == TransactionOutcome::RolledBack {
        for (directory, name) in made.iter().rev() {
            // Fails with `ENOTEMPTY` if other processes have put files into the directory; then it stays.
            let _ = rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR);
        }
    }
    ending
}

/// A step that was made, its temporary name, and the file that it created.
type AppliedStep<'s, 'a> = (&'s ChangeStep<'a>, &'s OsString, Option<Stat>);

fn swap_all<'s>(
    view: &WorkspaceView<'_>,
    steps: &'s [ChangeStep<'_>],
    names: &[OsString],
    recorder: &dyn Recorder,
    lock_timeout: Duration,
    locks: &mut DirectoryLocks<'s>,
) -> TransactionEnd {
    let folders = match lock_folders(view, steps, lock_timeout, locks) {
        Ok(folders) => folders,
        Err(error) => return TransactionEnd::rolled_back(Err(error)),
    };
    if let Err(error) = recorder.begin() {
        return TransactionEnd::rolled_back(Err(not_recorded(view, error)));
    }
    let mut made: Vec<AppliedStep<'_, '_>> = Vec::new();
    for (step, name) in steps.iter().zip(names) {
        match step.swap(name) {
            Ok(SwapOutcome::Done(ours)) => made.push((step, name, ours)),
            Ok(SwapOutcome::Conflict) => return roll_back(&made, Ok(CommitAttempt::Conflict)),
            Err(SwapError::Untouched(error)) => return roll_back(&made, Err(error)),
            Err(SwapError::Indeterminate(error)) => {
                let ending = roll_back(&made, Err(error));
                return TransactionEnd { settled: TransactionOutcome::Indeterminate, ..ending };
            }
        }
    }
    made.iter().for_each(|(step, name, _)| step.discard_old(name));
    if steps.iter().all(|step| matches!(step, ChangeStep::Put(..))) {
        // Other gates need not wait for the fsync: it covers their changes in the directory too. If this process dies before the journal is settled,
        // their later changes of these files survive: recovery restores only content that is still exactly what this call wrote.
        locks.clear();
    }
    TransactionEnd {
        settled: TransactionOutcome::Committed,
        answer: sync_directories(&folders).map(|()| CommitAttempt::Committed),
    }
}

/// Rolls back the steps made before one failed, newest first. What cannot be rolled back stays in the journal for the next start.
fn roll_back(made: &[AppliedStep<'_, '_>], answer: Result<CommitAttempt, WorkspaceError>) -> TransactionEnd {
    let mut ending = TransactionEnd::rolled_back(answer);
    for (step, name, ours) in made.iter().rev() {
        if let Err(error) = step.swap_back(name, ours.as_ref()) {
            ending = TransactionEnd { settled: TransactionOutcome::Indeterminate, answer: Err(error) };
        }
    }
    ending
}

/// `.name.tmp.<id>`, truncated to fit into `NAME_MAX`. Never inside a character: the journal stores it as text.
fn temporary_name(name: &OsStr) -> OsString {
    const MAX_STEM_BYTES: usize = 200;
    let name = name.to_string_lossy();
    let kept =
        name.char_indices().take_while(|(start, character)| start + character.len_utf8() <= MAX_STEM_BYTES);
    let kept: String = kept.map(|(_, character)| character).collect();
    OsString::from(format!(".{kept}.tmp.{}", toolgate_types::CallId::fresh()))
}

/// Whether a name looks like a temporary one.
pub(crate) fn is_temporary(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let id = name.strip_prefix('.').and_then(|rest| rest.rsplit_once(".tmp.")).map(|(_, id)| id);
    id.is_some_and(|id| id.trim_end_matches('~').parse::<toolgate_types::CallId>().is_ok())
}

/// Locks on directories, held against other gates.
///
/// The journal entry becomes effective only once they are held, and they are held until it is settled, unless all steps are `Put`s, which free no
/// name. At the next start, recovery cannot know which gate freed a name: if another gate could take or free it while the entry is effective, and this
/// process died, recovery would undo the other gate's change.
type DirectoryLocks<'s> = Vec<FileLock<&'s File>>;

/// fsyncs the directories. The changes are already made and visible; only their durability after a power failure is in doubt, and that is worth an
/// error.
fn sync_directories(folders: &[(&File, &str)]) -> Result<(), WorkspaceError> {
    folders.iter().try_for_each(|(folder, shown)| {
        let saved = folder.sync_all();
        #[cfg(test)]
        tests::a_folder_was_saved();
        saved.map_err(|error| WorkspaceError::io("saving the folder of", shown, error))
    })
}

/// Locks every directory once, ordered by device and inode in all gates, so that they cannot deadlock. Returns the directories with their shown
/// paths.
fn lock_folders<'s>(
    view: &WorkspaceView<'_>,
    steps: &'s [ChangeStep<'_>],
    lock_timeout: Duration,
    locks: &mut DirectoryLocks<'s>,
) -> Result<Vec<(&'s File, &'s str)>, WorkspaceError> {
    let mut folders = Vec::new();
    for place in steps.iter().flat_map(ChangeStep::places) {
        let stat = rustix::fs::fstat(&place.directory)
            .map_err(|error| WorkspaceError::io("looking at the folder of", &place.shown, error.into()))?;
        folders.push(((stat.st_dev, stat.st_ino), &place.directory, place.shown.as_str()));
    }
    folders.sort_by_key(|(identity, _, _)| *identity);
    folders.dedup_by_key(|(identity, _, _)| *identity);
    for (_, folder, shown) in &folders {
        locks.extend(lock(view, folder, shown, lock_timeout)?);
    }
    Ok(folders.into_iter().map(|(_, folder, shown)| (folder, shown)).collect())
}

/// Waits for the lock until the timeout or the call's deadline, so that a process that never releases it cannot block this one. `None` where the
/// filesystem has no locks.
fn lock<'s>(
    view: &WorkspaceView<'_>,
    folder: &'s File,
    shown: &str,
    lock_timeout: Duration,
) -> Result<Option<FileLock<&'s File>>, WorkspaceError> {
    match FileLock::within(folder, lock_timeout, || view.stop.check().is_err()) {
        Ok(locked) => Ok(Some(locked)),
        // The model sees this reason; which program holds the lock concerns the operator only.
        Err(NotLocked::Held(_)) => {
            view.stop.check()?;
            let reason = "its folder is locked by another program".to_owned();
            Err(WorkspaceError::Precondition { path: shown.to_owned(), reason })
        }
        Err(NotLocked::Failed(error)) => match Errno::from_io_error(&error) {
            // Without locks, the comparison after the swap has to detect conflicts.
            Some(Errno::NOLCK | Errno::OPNOTSUPP | Errno::INVAL) => Ok(None),
            _ => Err(WorkspaceError::io("locking the folder of", shown, error)),
        },
    }
}

impl<'a> ChangeStep<'a> {
    /// The place whose content changes.
    pub(crate) fn place(&self) -> &FileTarget<'a> {
        match self {
            Self::Put(target, _) | Self::Remove(target) => target,
            Self::Move(places) => &places.0,
        }
    }

    /// Waits until the new content, if any, is synced.
    fn save(&mut self) -> Result<(), WorkspaceError> {
        match self {
            Self::Put(target, staged) => {
                staged.wait_for_sync().map_err(|error| WorkspaceError::io("writing", &target.shown, error))
            }
            Self::Remove(_) | Self::Move(_) => Ok(()),
        }
    }

    fn destination_mut(&mut self) -> &mut FileTarget<'a> {
        match self {
            Self::Put(target, _) | Self::Remove(target) => target,
            Self::Move(places) => &mut places.1,
        }
    }

    fn places(&self) -> Vec<&FileTarget<'a>> {
        match self {
            Self::Put(target, _) | Self::Remove(target) => vec![target],
            Self::Move(places) => vec![&places.0, &places.1],
        }
    }

    fn staged(&self) -> Option<&StagedFile> {
        match self {
            Self::Put(_, staged) => Some(staged),
            Self::Remove(_) | Self::Move(_) => None,
        }
    }

    fn plan<'s>(&'s self, temporary: &OsStr) -> PlannedChange<'s> {
        let place = self.place();
        let (kind, after, maker) = match self {
            Self::Put(target, staged) if target.existing.is_none() => {
                (ChangeKind::Create, Some(staged.after), target)
            }
            Self::Put(target, staged) => (ChangeKind::Modify, Some(staged.after), target),
            Self::Remove(target) => (ChangeKind::Delete, None, target),
            Self::Move(places) => (places.1.as_move_destination(), None, &places.1),
        };
        PlannedChange {
            alias: place.mount.alias(),
            host_root: place.mount.host_root(),
            root: place.mount.identity(),
            location: &place.location,
            kind,
            before: place.existing.as_ref().map(|existing| &existing.file),
            before_sha256: place.sha256,
            after,
            after_stamp: self.staged().and_then(StagedFile::stamp),
            temporary: Some(temporary.to_owned()),
            new_directories: maker.new_folders(),
        }
    }
}

impl FileTarget<'_> {
    fn as_move_destination(&self) -> ChangeKind {
        ChangeKind::Move {
            alias: self.mount.alias().to_owned(),
            host_root: self.mount.host_root().to_path_buf(),
            root: self.mount.identity(),
            location: self.location.clone(),
        }
    }

    /// Directories that do not exist yet, outermost first.
    fn new_folders(&self) -> Vec<PathBuf> {
        let mut folders: Vec<PathBuf> =
            self.location.ancestors().skip(1).take(self.missing.len()).map(PathBuf::from).collect();
        folders.reverse();
        folders
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests arrange files by hand")]
mod tests {
    use std::cell::RefCell;
    use std::fs;
    use std::fs::TryLockError;
    use std::sync::{Arc, Mutex};

    use toolgate_types::Deadline;

    use super::*;
    use crate::Overwrite;
    use crate::staged_file::{NewContent, stage};
    use crate::testing::{view, workspace};

    thread_local! {
        /// What a test does whenever its thread has synced a directory.
        static WHEN_SAVED: RefCell<Box<dyn FnMut()>> = RefCell::new(Box::new(|| {}));
    }

    pub(super) fn a_folder_was_saved() {
        WHEN_SAVED.with_borrow_mut(|look| look());
    }

    /// Another gate, which tries to lock `here/` and `there/` and records which of them are locked.
    #[derive(Clone)]
    struct Neighbour {
        root: PathBuf,
        seen: Arc<Mutex<Vec<String>>>,
    }

    impl Neighbour {
        fn look(&self, event: &str) {
            let is_locked = |folder: &&str| {
                let handle = File::open(self.root.join(folder)).unwrap();
                matches!(FileLock::try_lock(handle), Err(TryLockError::WouldBlock))
            };
            let locked: Vec<&str> = ["here", "there"].into_iter().filter(is_locked).collect();
            self.seen.lock().unwrap().push(format!("{event}: {}", locked.join(" ")));
        }
    }

    impl Recorder for Neighbour {
        fn record(&self, _changes: &[PlannedChange<'_>], _stop: &Deadline) -> Result<(), JournalError> {
            Ok(())
        }

        fn begin(&self) -> Result<(), JournalError> {
            self.look("begun");
            Ok(())
        }

        fn await_intent(&self) -> Result<(), String> {
            Ok(())
        }

        fn settle(&self, settled: TransactionOutcome) {
            self.look(&format!("{settled:?}"));
        }
    }

    type Change = fn(&WorkspaceView<'_>, &Neighbour);

    /// Makes a change among `here/a`, `here/b` and `there/`. Returns which of the two directories were locked when the entry became effective, after
    /// each fsync of a directory, when the journal was settled, and in the end.
    fn locked_during(change: Change) -> Vec<String> {
        let scratch = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(scratch.path()).unwrap();
        for folder in ["here", "there"] {
            fs::create_dir(root.join(folder)).unwrap();
        }
        for file in ["here/a", "here/b"] {
            fs::write(root.join(file), "old").unwrap();
        }
        let (workspace, stop) = (workspace(&root), Deadline::never());
        let neighbour = Neighbour { root, seen: Arc::default() };
        let looking = neighbour.clone();
        WHEN_SAVED.set(Box::new(move || looking.look("saved")));
        change(&view(&workspace, &stop), &neighbour);
        WHEN_SAVED.set(Box::new(|| {}));
        neighbour.look("in the end");
        neighbour.seen.lock().unwrap().split_off(0)
    }

    /// The steps of a move to another filesystem.
    fn copy_and_remove(view: &WorkspaceView<'_>, neighbour: &Neighbour) {
        let (from, to) = (view.find_by_name("here/a").unwrap(), view.find_by_name("there/a").unwrap());
        let staged = stage(view, &to, NewContent::Bytes(b"old"), None).unwrap();
        let steps = vec![ChangeStep::Put(to, staged), ChangeStep::Remove(from)];
        assert_eq!(commit(view, steps, neighbour).unwrap(), CommitAttempt::Committed);
    }

    /// A deletion that is rolled back because of a conflict at another file.
    fn overtaken(view: &WorkspaceView<'_>, neighbour: &Neighbour) {
        let (from, other) = (view.find_by_name("here/a").unwrap(), view.find_by_name("here/b").unwrap());
        let staged = stage(view, &other, NewContent::Bytes(b"new"), None).unwrap();
        fs::write(neighbour.root.join("here/b"), "newer").unwrap();
        let steps = vec![ChangeStep::Remove(from), ChangeStep::Put(other, staged)];
        assert_eq!(commit(view, steps, neighbour).unwrap(), CommitAttempt::Conflict);
    }

    #[test]
    fn where_a_name_became_free_the_folder_is_locked_until_the_journal_knows() {
        fn moved(view: &WorkspaceView<'_>, to: &str, overwrite: Overwrite, neighbour: &Neighbour) {
            view.move_file("here/a", to, overwrite, neighbour).unwrap();
        }
        let both = ["begun: here there", "saved: here there", "saved: here there", "Committed: here there"];
        let changes: [(&str, Change, &[&str]); 6] = [
            (
                "a deletion",
                |view, neighbour| drop(view.delete("here/a", neighbour).unwrap()),
                &["begun: here", "saved: here", "Committed: here"],
            ),
            (
                "another name",
                |view, neighbour| moved(view, "here/c", Overwrite::No, neighbour),
                &["begun: here", "saved: here", "Committed: here"],
            ),
            (
                "the name of another file",
                |view, neighbour| moved(view, "here/b", Overwrite::Yes, neighbour),
                &["begun: here", "saved: here", "Committed: here"],
            ),
            ("another folder", |view, neighbour| moved(view, "there/a", Overwrite::No, neighbour), &both),
            ("another filesystem", copy_and_remove, &both),
            ("a deletion that is taken back", overtaken, &["begun: here", "RolledBack: here"]),
        ];
        for (what, change, expected) in changes {
            assert_eq!(locked_during(change), [expected, &["in the end: "]].concat(), "{what}");
        }
    }

    #[test]
    fn others_need_not_wait_until_new_content_is_saved() {
        let changes: [Change; 2] = [
            |view, neighbour| drop(view.write("here/a", b"new", None, neighbour).unwrap()),
            |view, neighbour| drop(view.write("here/new", b"new", None, neighbour).unwrap()),
        ];
        for change in changes {
            assert_eq!(locked_during(change), ["begun: here", "saved: ", "Committed: ", "in the end: "]);
        }
    }
}
