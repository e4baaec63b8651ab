//! Making one or several changes, all or none.
//!
//! Everything is staged and recorded first. Then, with the folders locked against other gates, old and new change places in one step each.
//! What came out is compared with what was expected, so that a change made meanwhile by anyone is put back instead of being lost.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FlockOperation, RenameFlags};
use rustix::io::Errno;

use crate::change::{ChangeKind, PlannedChange, Recorder, Settled};
use crate::error::WorkspaceError;
use crate::stage::Staged;
use crate::target::{Target, stat_name};
use crate::view::View;

/// How long other gates may hold a folder.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);

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

/// Makes all changes or none.
pub(crate) fn carry_out(
    view: &View<'_>,
    mut steps: Vec<Step<'_>>,
    recorder: &dyn Recorder,
) -> Result<Attempt, WorkspaceError> {
    let names: Vec<OsString> = steps.iter().map(|step| temporary_name(&step.place().name)).collect();
    let planned: Vec<PlannedChange<'_>> =
        steps.iter().zip(&names).map(|(step, name)| step.plan(name)).collect();
    recorder.record(&planned).map_err(WorkspaceError::NotRecorded)?;
    drop(planned);
    let outcome = make_folders_and_swap(view, &mut steps, &names);
    recorder.settle(if matches!(outcome, Ok(Attempt::Done)) { Settled::Done } else { Settled::RolledBack });
    outcome
}

fn make_folders_and_swap(
    view: &View<'_>,
    steps: &mut [Step<'_>],
    names: &[OsString],
) -> Result<Attempt, WorkspaceError> {
    let mut made = Vec::new();
    let attempt = steps
        .iter_mut()
        .try_for_each(|step| step.destination_mut().make_parents(&mut made))
        .and_then(|()| swap_all(view, steps, names));
    if !matches!(attempt, Ok(Attempt::Done)) {
        for (directory, name) in made.iter().rev() {
            // A folder that others have begun to use meanwhile is not empty, and stays.
            let _ = rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR);
        }
    }
    attempt
}

fn swap_all(view: &View<'_>, steps: &[Step<'_>], names: &[OsString]) -> Result<Attempt, WorkspaceError> {
    let folders = lock_folders(view, steps)?;
    let mut swapped: Vec<(&Step<'_>, &OsString)> = Vec::new();
    for pair in steps.iter().zip(names) {
        match pair.0.swap(pair.1) {
            Ok(Attempt::Done) => swapped.push(pair),
            other => {
                swapped.iter().rev().for_each(|(step, name)| step.swap_back(name));
                return other;
            }
        }
    }
    swapped.iter().for_each(|(step, name)| step.clear_away(name));
    for (folder, shown) in &folders {
        // The changes are made and visible; only their survival of a power cut is in doubt, and that is worth an error.
        folder.sync_all().map_err(|error| WorkspaceError::io("saving the folder of", shown, error))?;
    }
    Ok(Attempt::Done)
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

/// Locks every folder once, in one order for all gates, so that none waits for another in a circle.
fn lock_folders<'s>(
    view: &View<'_>,
    steps: &'s [Step<'_>],
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
        lock(view, folder, shown)?;
    }
    Ok(folders.into_iter().map(|(_, folder, shown)| (folder, shown)).collect())
}

/// Waits for the lock as long as the call may take: whoever holds it for good must not hold us. Closing the handle unlocks.
fn lock(view: &View<'_>, folder: &File, shown: &str) -> Result<(), WorkspaceError> {
    let begun = Instant::now();
    loop {
        match rustix::fs::flock(folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if begun.elapsed() < LOCK_PATIENCE => view.stop.check()?,
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
    fn place(&self) -> &Target<'a> {
        match self {
            Self::Put(target, _) | Self::Remove(target) => target,
            Self::Move(places) => &places.0,
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

    fn swap(&self, temporary: &OsStr) -> Result<Attempt, WorkspaceError> {
        let failed = |error: std::io::Error| WorkspaceError::io("changing", &self.place().shown, error);
        match self {
            Self::Put(target, staged) if target.existing.is_none() => {
                create(target, staged, temporary).map_err(failed)
            }
            Self::Put(target, staged) => exchange(target, staged, temporary).map_err(failed),
            Self::Remove(target) => hide(target, temporary).map_err(failed),
            Self::Move(places) => relocate(&places.0, &places.1),
        }
    }

    fn swap_back(&self, temporary: &OsStr) {
        // Nothing better can be done about an error here; the recorded pre-image is still there for the next start.
        let _ = match self {
            Self::Put(target, _) if target.existing.is_none() => {
                rustix::fs::unlinkat(&target.directory, &target.name, AtFlags::empty())
            }
            Self::Put(target, _) | Self::Remove(target) => {
                rustix::fs::renameat(&target.directory, temporary, &target.directory, &target.name)
            }
            Self::Move(places) => {
                let (from, to) = places.as_ref();
                rename_to_free_name(&to.directory, &to.name, &from.directory, &from.name)
            }
        };
    }

    fn clear_away(&self, temporary: &OsStr) {
        let replaced = match self {
            Self::Put(target, _) => target.existing.is_some(),
            Self::Remove(_) => true,
            Self::Move(..) => false,
        };
        if replaced {
            // The old content; it was recorded before. A leftover is cleared away at the next start.
            let _ = rustix::fs::unlinkat(&self.place().directory, temporary, AtFlags::empty());
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

/// A new file appears under its own name at once, or not at all when the name was taken meanwhile.
fn create(target: &Target<'_>, staged: &Staged, temporary: &OsStr) -> std::io::Result<Attempt> {
    let linked = if staged.has_no_name() {
        staged.link(&target.directory, &target.name)
    } else {
        staged.link(&target.directory, temporary)?;
        let renamed = rename_to_free_name(&target.directory, temporary, &target.directory, &target.name);
        if renamed.is_err() {
            let _ = rustix::fs::unlinkat(&target.directory, temporary, AtFlags::empty());
        }
        renamed.map_err(Into::into)
    };
    match linked {
        Ok(()) => Ok(Attempt::Done),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(Attempt::Overtaken),
        Err(error) => Err(error),
    }
}

/// Old and new change places. If what came out is not what was found before, they change back.
fn exchange(target: &Target<'_>, staged: &Staged, temporary: &OsStr) -> std::io::Result<Attempt> {
    let directory = &target.directory;
    staged.link(directory, temporary)?;
    let discard = || rustix::fs::unlinkat(directory, temporary, AtFlags::empty());
    let swap =
        || rustix::fs::renameat_with(directory, temporary, directory, &target.name, RenameFlags::EXCHANGE);
    match swap() {
        Ok(()) => {}
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => return replace(target, temporary),
        Err(Errno::NOENT) => {
            let _ = discard();
            return Ok(Attempt::Overtaken);
        }
        Err(error) => {
            let _ = discard();
            return Err(error.into());
        }
    }
    if stat_name(directory, temporary).is_ok_and(|came_out| target.is_as_found(&came_out)) {
        return Ok(Attempt::Done);
    }
    swap()?;
    discard()?;
    Ok(Attempt::Overtaken)
}

/// For filesystems that cannot exchange: keep the old file under the temporary name, then rename over it.
fn replace(target: &Target<'_>, temporary: &OsStr) -> std::io::Result<Attempt> {
    let directory = &target.directory;
    let found = stat_name(directory, &target.name).is_ok_and(|now| target.is_as_found(&now));
    if !found {
        rustix::fs::unlinkat(directory, temporary, AtFlags::empty())?;
        return Ok(Attempt::Overtaken);
    }
    let kept = second_name(temporary);
    rustix::fs::linkat(directory, &target.name, directory, &kept, AtFlags::empty())?;
    rustix::fs::renameat(directory, temporary, directory, &target.name)?;
    // From here on the temporary name holds the old content, as after an exchange.
    rustix::fs::renameat(directory, &kept, directory, temporary)?;
    Ok(Attempt::Done)
}

/// Where the old file waits while the new one takes its name.
pub(crate) fn second_name(temporary: &OsStr) -> OsString {
    let mut second = temporary.to_owned();
    second.push("~");
    second
}

/// The file leaves its name. If another one was there by now, it gets its name back.
fn hide(target: &Target<'_>, temporary: &OsStr) -> std::io::Result<Attempt> {
    let directory = &target.directory;
    match rename_to_free_name(directory, &target.name, directory, temporary) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Ok(Attempt::Overtaken),
        Err(error) => return Err(error.into()),
    }
    if stat_name(directory, temporary).is_ok_and(|came_out| target.is_as_found(&came_out)) {
        return Ok(Attempt::Done);
    }
    rename_to_free_name(directory, temporary, directory, &target.name)?;
    Ok(Attempt::Overtaken)
}

fn relocate(from: &Target<'_>, to: &Target<'_>) -> Result<Attempt, WorkspaceError> {
    match rename_to_free_name(&from.directory, &from.name, &to.directory, &to.name) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(WorkspaceError::AlreadyExists { path: to.shown.clone() }),
        Err(Errno::NOENT) => return Ok(Attempt::Overtaken),
        Err(error) => return Err(WorkspaceError::io("moving", &from.shown, error.into())),
    }
    if stat_name(&to.directory, &to.name).is_ok_and(|moved| from.is_as_found(&moved)) {
        return Ok(Attempt::Done);
    }
    rename_to_free_name(&to.directory, &to.name, &from.directory, &from.name)
        .map_err(|error| WorkspaceError::io("moving back", &from.shown, error.into()))?;
    Ok(Attempt::Overtaken)
}

fn rename_to_free_name(from: &File, name: &OsStr, to: &File, new_name: &OsStr) -> Result<(), Errno> {
    match rustix::fs::renameat_with(from, name, to, new_name, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            rustix::fs::linkat(from, name, to, new_name, AtFlags::empty())?;
            rustix::fs::unlinkat(from, name, AtFlags::empty())
        }
        other => other,
    }
}
