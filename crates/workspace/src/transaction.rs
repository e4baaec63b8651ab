//! Making one or several changes, all or none.
//!
//! Everything is staged and recorded first. Then, with the folders locked against other gates, old and new change places in one step each.
//! What came out is compared with what was expected, so that a change made meanwhile by anyone is put back instead of being lost.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FlockOperation, Stat};
use rustix::io::Errno;

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
    let Ending { settled, answer } = make_folders_and_swap(view, &mut steps, &names, patience);
    recorder.settle(settled);
    answer
}

fn not_recorded(view: &View<'_>, error: NotKept) -> WorkspaceError {
    match (view.stop.reason(), error) {
        (Some(reason), _) => WorkspaceError::Stopped(reason),
        (None, NotKept::TooLarge { bytes, limit }) => WorkspaceError::TooLargeToKeep { bytes, limit },
        (None, NotKept::Failed(reason)) => WorkspaceError::NotRecorded(reason),
    }
}

fn make_folders_and_swap(
    view: &View<'_>,
    steps: &mut [Step<'_>],
    names: &[OsString],
    patience: Duration,
) -> Ending {
    let mut made = Vec::new();
    let ending = match steps.iter_mut().try_for_each(|step| step.destination_mut().make_parents(&mut made)) {
        Ok(()) => swap_all(view, steps, names, patience),
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

fn swap_all(view: &View<'_>, steps: &[Step<'_>], names: &[OsString], patience: Duration) -> Ending {
    let folders = match lock_folders(view, steps, patience) {
        Ok(folders) => folders,
        Err(error) => return Ending::rolled_back(Err(error)),
    };
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
    let saved = match steps.iter().all(|step| matches!(step, Step::Put(..))) {
        // Others need not wait for the disk: their own changes are saved with these.
        true => save(&folders.unlock()),
        // Where a name is free again, somebody else could use it; if this process died now, that would be taken for what was moved or deleted.
        false => save(&folders.0),
    };
    Ending { settled: Settled::Done, answer: saved.map(|()| Attempt::Done) }
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

/// Folders that no other gate changes meanwhile, and how they are called.
///
/// Closing a handle would not unlock it at once: a process that another thread is just starting has all handles, until it becomes another program.
struct LockedFolders<'s>(Vec<(&'s File, &'s str)>);

impl<'s> LockedFolders<'s> {
    /// Lets others in.
    fn unlock(mut self) -> Vec<(&'s File, &'s str)> {
        self.release();
        std::mem::take(&mut self.0)
    }

    fn release(&self) {
        for (folder, _) in &self.0 {
            // Where there are no locks there is nothing to unlock.
            let _ = rustix::fs::flock(folder, FlockOperation::Unlock);
        }
    }
}

impl Drop for LockedFolders<'_> {
    fn drop(&mut self) {
        self.release();
    }
}

/// The changes are made and visible by now; only their survival of a power cut is in doubt, and that is worth an error.
fn save(folders: &[(&File, &str)]) -> Result<(), WorkspaceError> {
    folders.iter().try_for_each(|(folder, shown)| {
        let saved = folder.sync_all();
        #[cfg(test)]
        tests::a_folder_was_saved();
        saved.map_err(|error| WorkspaceError::io("saving the folder of", shown, error))
    })
}

/// Locks every folder once, in one order for all gates, so that none waits for another in a circle.
fn lock_folders<'s>(
    view: &View<'_>,
    steps: &'s [Step<'_>],
    patience: Duration,
) -> Result<LockedFolders<'s>, WorkspaceError> {
    let mut folders = Vec::new();
    for place in steps.iter().flat_map(Step::places) {
        let stat = rustix::fs::fstat(&place.directory)
            .map_err(|error| WorkspaceError::io("looking at the folder of", &place.shown, error.into()))?;
        folders.push(((stat.st_dev, stat.st_ino), &place.directory, place.shown.as_str()));
    }
    folders.sort_by_key(|(identity, _, _)| *identity);
    folders.dedup_by_key(|(identity, _, _)| *identity);
    let mut locked = LockedFolders(Vec::with_capacity(folders.len()));
    for (_, folder, shown) in folders {
        lock(view, folder, shown, patience)?;
        locked.0.push((folder, shown));
    }
    Ok(locked)
}

/// Waits for the lock as long as the call may take: whoever holds it for good must not hold us.
fn lock(view: &View<'_>, folder: &File, shown: &str, patience: Duration) -> Result<(), WorkspaceError> {
    let begun = Instant::now();
    loop {
        match rustix::fs::flock(folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if begun.elapsed() < patience => view.stop.check()?,
            Err(Errno::WOULDBLOCK) => {
                let reason = "its folder is locked by another program".to_owned();
                return Err(WorkspaceError::Precondition { path: shown.to_owned(), reason });
            }
            // Filesystems without locks are left to the comparison after the swap.
            Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::INVAL) => return Ok(()),
            Err(error) => return Err(WorkspaceError::io("locking the folder of", shown, error.into())),
        }
        std::thread::sleep(Duration::from_micros(200));
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
            location: &place.location,
            kind,
            before: place.existing.as_ref().map(|existing| &existing.file),
            after,
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
    use std::path::Path;
    use std::rc::Rc;

    use toolgate_types::Stop;

    use super::*;
    use crate::stage::{Content, stage};
    use crate::testing::{view, workspace};
    use crate::{Forgetful, Overwrite};

    thread_local! {
        /// What a test does whenever its thread has saved a folder.
        static WHEN_SAVED: RefCell<Box<dyn FnMut()>> = RefCell::new(Box::new(|| {}));
    }

    pub(super) fn a_folder_was_saved() {
        WHEN_SAVED.with_borrow_mut(|look| look());
    }

    /// What another gate finds, through a handle of its own.
    fn is_locked(folder: &Path) -> bool {
        let folder = File::open(folder).unwrap();
        match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => rustix::fs::flock(&folder, FlockOperation::Unlock).map(|()| false).unwrap(),
            Err(error) => error == Errno::WOULDBLOCK,
        }
    }

    /// Makes a change among `here/a`, `here/b` and `there/`, and says which of the two folders were locked each time that one had been saved.
    fn locked_when_saved(change: impl FnOnce(&View<'_>)) -> Vec<Vec<&'static str>> {
        let scratch = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(scratch.path()).unwrap();
        for folder in ["here", "there"] {
            fs::create_dir(root.join(folder)).unwrap();
        }
        for file in ["here/a", "here/b"] {
            fs::write(root.join(file), "old").unwrap();
        }
        let (workspace, stop) = (workspace(&root), Stop::never());
        let locked =
            move || ["here", "there"].into_iter().filter(|folder| is_locked(&root.join(folder))).collect();
        let seen: Rc<RefCell<Vec<Vec<&'static str>>>> = Rc::default();
        let (look, seeing) = (locked.clone(), Rc::clone(&seen));
        WHEN_SAVED.set(Box::new(move || seeing.borrow_mut().push(look())));
        change(&view(&workspace, &stop));
        WHEN_SAVED.set(Box::new(|| {}));
        let left: Vec<&str> = locked();
        assert!(left.is_empty(), "{left:?} stayed locked");
        seen.take()
    }

    /// What a move to another filesystem is made of.
    fn copy_and_remove(view: &View<'_>) {
        let (from, to) = (view.find_by_name("here/a").unwrap(), view.find_by_name("there/a").unwrap());
        let staged = stage(view, &to, Content::Bytes(b"old"), None).unwrap();
        let steps = vec![Step::Put(to, staged), Step::Remove(from)];
        assert_eq!(carry_out(view, steps, &Forgetful).unwrap(), Attempt::Done);
    }

    #[test]
    fn where_a_name_became_free_the_folder_is_locked_until_that_is_saved() {
        fn moved(view: &View<'_>, to: &str, overwrite: Overwrite) {
            view.move_file("here/a", to, overwrite, &Forgetful).unwrap();
        }
        type Change = fn(&View<'_>);
        let changes: [(&str, Change, &[&[&str]]); 5] = [
            ("a deletion", |view| drop(view.delete("here/a", &Forgetful).unwrap()), &[&["here"]]),
            ("another name", |view| moved(view, "here/c", Overwrite::No), &[&["here"]]),
            ("the name of another file", |view| moved(view, "here/b", Overwrite::Yes), &[&["here"]]),
            (
                "another folder",
                |view| moved(view, "there/a", Overwrite::No),
                &[&["here", "there"], &["here", "there"]],
            ),
            ("another filesystem", copy_and_remove, &[&["here", "there"], &["here", "there"]]),
        ];
        for (what, change, expected) in changes {
            assert_eq!(locked_when_saved(change), expected, "{what}");
        }
    }

    #[test]
    fn others_need_not_wait_until_new_content_is_saved() {
        for path in ["here/a", "here/new"] {
            let write = |view: &View<'_>| drop(view.write(path, b"new", None, &Forgetful).unwrap());
            assert_eq!(locked_when_saved(write), [[""; 0]], "{path}");
        }
    }
}
