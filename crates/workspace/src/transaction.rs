//! Making one or several changes, all or none.
//!
//! Everything is staged and recorded first. Then, with the folders locked against other gates, old and new change places in one step each.
//! What came out is compared with what was expected, so that a change made meanwhile by anyone is put back instead of being lost.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;
use toolgate_types::{FileLock, NotLocked};

use crate::change::{ChangeKind, NotKept, PlannedChange, Recorder, Settled};
use crate::error::WorkspaceError;
use crate::stage::Staged;
use crate::swap::{Swap, Trouble};
use crate::target::Target;
use crate::view::View;

/// How long other gates may hold a folder.
pub(crate) const LOCK_PATIENCE: Duration = Duration::from_secs(10);

/// One change, ready to be made.
#[derive(Debug)]
pub(crate) enum Step<'a> {
    /// New content for a place.
    Put(Target<'a>, Staged),
    /// The file at a place goes away.
    Remove(Target<'a>),
    /// The file at the first place moves to the second, which must be free.
    Move(Box<(Target<'a>, Target<'a>)>),
}

/// How an attempt went.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// All changes were made.
    Done,
    /// Somebody changed a file after it was looked at; nothing was done.
    Overtaken,
}

/// How an attempt ended: what the journal is told, and what the caller is told.
struct Ending {
    settled: Settled,
    answer: Result<Attempt, WorkspaceError>,
}

impl Ending {
    fn rolled_back(answer: Result<Attempt, WorkspaceError>) -> Self {
        Self { settled: Settled::RolledBack, answer }
    }
}

/// Makes all changes or none.
pub(crate) fn carry_out(
    view: &View<'_>,
    steps: Vec<Step<'_>>,
    recorder: &dyn Recorder,
) -> Result<Attempt, WorkspaceError> {
    carry_out_within(view, steps, recorder, LOCK_PATIENCE)
}

/// Makes all changes or none, waiting only so long for folders that others hold.
pub(crate) fn carry_out_within(
    view: &View<'_>,
    mut steps: Vec<Step<'_>>,
    recorder: &dyn Recorder,
    patience: Duration,
) -> Result<Attempt, WorkspaceError> {
    view.stop.check()?;
    let names: Vec<OsString> = steps.iter().map(|step| temporary_name(&step.place().name)).collect();
    let planned: Vec<PlannedChange<'_>> =
        steps.iter().zip(&names).map(|(step, name)| step.plan(name)).collect();
    recorder.record(&planned, view.stop).map_err(|error| not_recorded(view, error))?;
    drop(planned);
    // The disk had time for it while the changes were recorded.
    let saved = steps.iter_mut().try_for_each(Step::save);
    saved.inspect_err(|_| recorder.settle(Settled::RolledBack))?;
    let mut locks = Locks::new();
    let Ending { settled, answer } =
        make_folders_and_swap(view, &mut steps, &names, recorder, patience, &mut locks);
    recorder.settle(settled);
    answer
}

fn not_recorded(view: &View<'_>, error: NotKept) -> WorkspaceError {
    match (view.stop.reason(), error) {
        (Some(reason), _) => WorkspaceError::Stopped(reason),
        (None, NotKept::TooLarge { bytes, limit }) => WorkspaceError::TooLargeToKeep { bytes, limit },
        (None, NotKept::Full(bound)) => WorkspaceError::JournalFull(bound),
        (None, NotKept::NoSpace(reason)) => WorkspaceError::NoSpaceToKeep(reason),
        (None, NotKept::Failed(reason)) => WorkspaceError::NotRecorded(reason),
    }
}

fn make_folders_and_swap<'s>(
    view: &View<'_>,
    steps: &'s mut [Step<'_>],
    names: &[OsString],
    recorder: &dyn Recorder,
    patience: Duration,
    locks: &mut Locks<'s>,
) -> Ending {
    let mut made = Vec::new();
    let ending = match steps.iter_mut().try_for_each(|step| step.destination_mut().make_parents(&mut made)) {
        Ok(()) => swap_all(view, steps, names, recorder, patience, locks),
        Err(error) => Ending::rolled_back(Err(error)),
    };
    if ending.settled == Settled::RolledBack {
        for (directory, name) in made.iter().rev() {
            // A folder that others have begun to use meanwhile is not empty, and stays.
            let _ = rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR);
        }
    }
    ending
}

/// A step that was made, its temporary name, and the file that it put there.
type Made<'s, 'a> = (&'s Step<'a>, &'s OsString, Option<Stat>);

fn swap_all<'s>(
    view: &View<'_>,
    steps: &'s [Step<'_>],
    names: &[OsString],
    recorder: &dyn Recorder,
    patience: Duration,
    locks: &mut Locks<'s>,
) -> Ending {
    let folders = match lock_folders(view, steps, patience, locks) {
        Ok(folders) => folders,
        Err(error) => return Ending::rolled_back(Err(error)),
    };
    if let Err(error) = recorder.begin() {
        return Ending::rolled_back(Err(not_recorded(view, error)));
    }
    let mut made: Vec<Made<'_, '_>> = Vec::new();
    for (step, name) in steps.iter().zip(names) {
        match step.swap(name) {
            Ok(Swap::Done(ours)) => made.push((step, name, ours)),
            Ok(Swap::Overtaken) => return take_back(&made, Ok(Attempt::Overtaken)),
            Err(Trouble::Untouched(error)) => return take_back(&made, Err(error)),
            Err(Trouble::Unsure(error)) => {
                let ending = take_back(&made, Err(error));
                return Ending { settled: Settled::Unsure, ..ending };
            }
        }
    }
    made.iter().for_each(|(step, name, _)| step.clear_away(name));
    if steps.iter().all(|step| matches!(step, Step::Put(..))) {
        // Others need not wait for the disk: their own changes are saved with these. If this process dies before the journal knows, what they made of
        // these files is left alone: only content that is still the very same is put back.
        locks.clear();
    }
    Ending { settled: Settled::Done, answer: save(&folders).map(|()| Attempt::Done) }
}

/// Takes back what was made before a step failed, newest first. Whatever cannot be taken back stays in the journal for the next start.
fn take_back(made: &[Made<'_, '_>], answer: Result<Attempt, WorkspaceError>) -> Ending {
    let mut ending = Ending::rolled_back(answer);
    for (step, name, ours) in made.iter().rev() {
        if let Err(error) = step.swap_back(name, ours.as_ref()) {
            ending = Ending { settled: Settled::Unsure, answer: Err(error) };
        }
    }
    ending
}

/// `.name.tmp.<id>`, cut so that it fits into a name. Never inside a character: the journal must be able to write it down.
fn temporary_name(name: &OsStr) -> OsString {
    const KEPT: usize = 200;
    let name = name.to_string_lossy();
    let kept = name.char_indices().take_while(|(start, character)| start + character.len_utf8() <= KEPT);
    let kept: String = kept.map(|(_, character)| character).collect();
    OsString::from(format!(".{kept}.tmp.{}", toolgate_types::CallId::fresh()))
}

/// Whether a name looks like one of the above.
pub(crate) fn is_temporary(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let id = name.strip_prefix('.').and_then(|rest| rest.rsplit_once(".tmp.")).map(|(_, id)| id);
    id.is_some_and(|id| id.trim_end_matches('~').parse::<toolgate_types::CallId>().is_ok())
}

/// Folders that no other gate changes meanwhile.
///
/// The journal's entry counts only once they are locked, and they stay so until it is settled. Of a name that is free the next start cannot tell whose doing
/// that was: if somebody else could use it, or free it, while the entry counts, and this process died, what they did would be put back.
type Locks<'s> = Vec<FileLock<&'s File>>;

/// The changes are made and visible by now; only their survival of a power cut is in doubt, and that is worth an error.
fn save(folders: &[(&File, &str)]) -> Result<(), WorkspaceError> {
    folders.iter().try_for_each(|(folder, shown)| {
        let saved = folder.sync_all();
        #[cfg(test)]
        tests::a_folder_was_saved();
        saved.map_err(|error| WorkspaceError::io("saving the folder of", shown, error))
    })
}

/// Locks every folder once, in one order for all gates, so that none waits for another in a circle. Says which they are, and how they are called.
fn lock_folders<'s>(
    view: &View<'_>,
    steps: &'s [Step<'_>],
    patience: Duration,
    locks: &mut Locks<'s>,
) -> Result<Vec<(&'s File, &'s str)>, WorkspaceError> {
    let mut folders = Vec::new();
    for place in steps.iter().flat_map(Step::places) {
        let stat = rustix::fs::fstat(&place.directory)
            .map_err(|error| WorkspaceError::io("looking at the folder of", &place.shown, error.into()))?;
        folders.push(((stat.st_dev, stat.st_ino), &place.directory, place.shown.as_str()));
    }
    folders.sort_by_key(|(identity, _, _)| *identity);
    folders.dedup_by_key(|(identity, _, _)| *identity);
    for (_, folder, shown) in &folders {
        locks.extend(lock(view, folder, shown, patience)?);
    }
    Ok(folders.into_iter().map(|(_, folder, shown)| (folder, shown)).collect())
}

/// Waits for the lock as long as the call may take: whoever holds it for good must not hold us. Nothing where there are no locks.
fn lock<'s>(
    view: &View<'_>,
    folder: &'s File,
    shown: &str,
    patience: Duration,
) -> Result<Option<FileLock<&'s File>>, WorkspaceError> {
    match FileLock::within(folder, patience, || view.stop.check().is_err()) {
        Ok(locked) => Ok(Some(locked)),
        // Which program that is concerns the operator alone: the reason is told to the model.
        Err(NotLocked::Held(_)) => {
            view.stop.check()?;
            let reason = "its folder is locked by another program".to_owned();
            Err(WorkspaceError::Precondition { path: shown.to_owned(), reason })
        }
        Err(NotLocked::Failed(error)) => match Errno::from_io_error(&error) {
            // Filesystems without locks are left to the comparison after the swap.
            Some(Errno::NOLCK | Errno::OPNOTSUPP | Errno::INVAL) => Ok(None),
            _ => Err(WorkspaceError::io("locking the folder of", shown, error)),
        },
    }
}

impl<'a> Step<'a> {
    /// The place whose content is at stake.
    pub(crate) fn place(&self) -> &Target<'a> {
        match self {
            Self::Put(target, _) | Self::Remove(target) => target,
            Self::Move(places) => &places.0,
        }
    }

    /// Waits until the new content, if there is one, lies on the disk.
    fn save(&mut self) -> Result<(), WorkspaceError> {
        match self {
            Self::Put(target, staged) => {
                staged.save().map_err(|error| WorkspaceError::io("writing", &target.shown, error))
            }
            Self::Remove(_) | Self::Move(_) => Ok(()),
        }
    }

    fn destination_mut(&mut self) -> &mut Target<'a> {
        match self {
            Self::Put(target, _) | Self::Remove(target) => target,
            Self::Move(places) => &mut places.1,
        }
    }

    fn places(&self) -> Vec<&Target<'a>> {
        match self {
            Self::Put(target, _) | Self::Remove(target) => vec![target],
            Self::Move(places) => vec![&places.0, &places.1],
        }
    }

    fn staged(&self) -> Option<&Staged> {
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
            after_stamp: self.staged().and_then(Staged::stamp),
            temporary: Some(temporary.to_owned()),
            new_folders: maker.new_folders(),
        }
    }
}

impl Target<'_> {
    fn as_move_destination(&self) -> ChangeKind {
        ChangeKind::Move {
            alias: self.mount.alias().to_owned(),
            host_root: self.mount.host_root().to_path_buf(),
            root: self.mount.identity(),
            location: self.location.clone(),
        }
    }

    /// Folders that do not exist yet, outermost first.
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

    use toolgate_types::Cancellation;

    use super::*;
    use crate::Overwrite;
    use crate::stage::{Content, stage};
    use crate::testing::{view, workspace};

    thread_local! {
        /// What a test does whenever its thread has saved a folder.
        static WHEN_SAVED: RefCell<Box<dyn FnMut()>> = RefCell::new(Box::new(|| {}));
    }

    pub(super) fn a_folder_was_saved() {
        WHEN_SAVED.with_borrow_mut(|look| look());
    }

    /// Another gate, which knocks at `here/` and `there/` and writes down which of them it finds locked.
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
        fn record(&self, _changes: &[PlannedChange<'_>], _stop: &Cancellation) -> Result<(), NotKept> {
            Ok(())
        }

        fn begin(&self) -> Result<(), NotKept> {
            self.look("begun");
            Ok(())
        }

        fn await_intent(&self) -> Result<(), String> {
            Ok(())
        }

        fn settle(&self, settled: Settled) {
            self.look(&format!("{settled:?}"));
        }
    }

    type Change = fn(&View<'_>, &Neighbour);

    /// Makes a change among `here/a`, `here/b` and `there/`, and says which of the two folders were locked when it counted, each time that one had
    /// been saved, when the journal was told, and in the end.
    fn locked_during(change: Change) -> Vec<String> {
        let scratch = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(scratch.path()).unwrap();
        for folder in ["here", "there"] {
            fs::create_dir(root.join(folder)).unwrap();
        }
        for file in ["here/a", "here/b"] {
            fs::write(root.join(file), "old").unwrap();
        }
        let (workspace, stop) = (workspace(&root), Cancellation::never());
        let neighbour = Neighbour { root, seen: Arc::default() };
        let looking = neighbour.clone();
        WHEN_SAVED.set(Box::new(move || looking.look("saved")));
        change(&view(&workspace, &stop), &neighbour);
        WHEN_SAVED.set(Box::new(|| {}));
        neighbour.look("in the end");
        neighbour.seen.lock().unwrap().split_off(0)
    }

    /// What a move to another filesystem is made of.
    fn copy_and_remove(view: &View<'_>, neighbour: &Neighbour) {
        let (from, to) = (view.find_by_name("here/a").unwrap(), view.find_by_name("there/a").unwrap());
        let staged = stage(view, &to, Content::Bytes(b"old"), None).unwrap();
        let steps = vec![Step::Put(to, staged), Step::Remove(from)];
        assert_eq!(carry_out(view, steps, neighbour).unwrap(), Attempt::Done);
    }

    /// A deletion that is taken back, because somebody was faster at another file.
    fn overtaken(view: &View<'_>, neighbour: &Neighbour) {
        let (from, other) = (view.find_by_name("here/a").unwrap(), view.find_by_name("here/b").unwrap());
        let staged = stage(view, &other, Content::Bytes(b"new"), None).unwrap();
        fs::write(neighbour.root.join("here/b"), "newer").unwrap();
        let steps = vec![Step::Remove(from), Step::Put(other, staged)];
        assert_eq!(carry_out(view, steps, neighbour).unwrap(), Attempt::Overtaken);
    }

    #[test]
    fn where_a_name_became_free_the_folder_is_locked_until_the_journal_knows() {
        fn moved(view: &View<'_>, to: &str, overwrite: Overwrite, neighbour: &Neighbour) {
            view.move_file("here/a", to, overwrite, neighbour).unwrap();
        }
        let both = ["begun: here there", "saved: here there", "saved: here there", "Done: here there"];
        let changes: [(&str, Change, &[&str]); 6] = [
            (
                "a deletion",
                |view, neighbour| drop(view.delete("here/a", neighbour).unwrap()),
                &["begun: here", "saved: here", "Done: here"],
            ),
            (
                "another name",
                |view, neighbour| moved(view, "here/c", Overwrite::No, neighbour),
                &["begun: here", "saved: here", "Done: here"],
            ),
            (
                "the name of another file",
                |view, neighbour| moved(view, "here/b", Overwrite::Yes, neighbour),
                &["begun: here", "saved: here", "Done: here"],
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
            assert_eq!(locked_during(change), ["begun: here", "saved: ", "Done: ", "in the end: "]);
        }
    }
}
