//! Old and new change places, one file at a time, and change back.
//!
//! Between any two of these system calls somebody else may give the name to another file. So nothing is unlinked that is not known: either it is
//! the file that was staged, or the one that was found before and is kept in the journal. When it cannot be told what is where, both stay.

use std::ffi::{OsStr, OsString};
use std::fs::File;

use rustix::fs::{AtFlags, RenameFlags, Stat};
use rustix::io::Errno;

use crate::error::WorkspaceError;
use crate::stage::Staged;
use crate::target::{Target, is_unmodified, same_file, stat_name};
use crate::transaction::Step;

/// How a step went.
#[derive(Debug)]
pub(crate) enum Swap {
    /// It was made; this is the file it put there, if it put one.
    Done(Option<Stat>),
    /// Somebody changed the file after it was looked at; nothing was done.
    Overtaken,
}

/// Why a step was not made.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Nothing was done.
    Untouched(WorkspaceError),
    /// Something was done and could not be taken back.
    Unsure(WorkspaceError),
}

/// A reason to be unsure about a place; each of them is told in the same words.
struct LeftAsIs;

impl From<Errno> for LeftAsIs {
    fn from(_: Errno) -> Self {
        Self
    }
}

impl Step<'_> {
    pub(crate) fn swap(&self, temporary: &OsStr) -> Result<Swap, Trouble> {
        match self {
            Self::Put(target, staged) if target.existing.is_none() => create(target, staged, temporary),
            Self::Put(target, staged) => exchange(target, staged, temporary),
            Self::Remove(target) => hide(target, temporary),
            Self::Move(places) => relocate(&places.0, &places.1),
        }
    }

    /// Takes back what [`Step::swap`] did. An error says that something is left, for the next start to put right.
    pub(crate) fn swap_back(&self, temporary: &OsStr, ours: Option<&Stat>) -> Result<(), WorkspaceError> {
        let taken_back = match (self, ours) {
            (Self::Put(target, _), Some(ours)) if target.existing.is_none() => {
                uncreate(target, temporary, ours)
            }
            (Self::Put(target, _), Some(ours)) => put_back(target, temporary, ours),
            (Self::Put(..), None) => Err(LeftAsIs),
            (Self::Remove(target), _) => {
                rename_to_free_name(&target.directory, temporary, &target.directory, &target.name)
                    .map_err(LeftAsIs::from)
            }
            (Self::Move(places), _) => move_back(&places.0, &places.1),
        };
        taken_back.map_err(|LeftAsIs| unsure(self.place()))
    }

    /// Takes the old content away. It was compared with what was found before, and that was recorded.
    pub(crate) fn clear_away(&self, temporary: &OsStr) {
        let replaced = match self {
            Self::Put(target, _) => target.existing.is_some(),
            Self::Remove(_) => true,
            Self::Move(..) => false,
        };
        if replaced {
            // A leftover is no reason to take the change back: it has a name that says what it is.
            let _ = rustix::fs::unlinkat(&self.place().directory, temporary, AtFlags::empty());
        }
    }
}

fn unsure(target: &Target<'_>) -> WorkspaceError {
    WorkspaceError::Unsure { path: target.shown.clone() }
}

fn untouched(target: &Target<'_>, error: impl Into<std::io::Error>) -> Trouble {
    Trouble::Untouched(WorkspaceError::io("changing", &target.shown, error.into()))
}

/// A new file appears under its own name at once, or not at all when the name was taken meanwhile.
fn create(target: &Target<'_>, staged: &Staged, temporary: &OsStr) -> Result<Swap, Trouble> {
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
        Ok(ours) => Ok(Swap::Done(Some(ours))),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(Swap::Overtaken),
        Err(error) => Err(untouched(target, error)),
    }
}

/// Takes a new file away again, if it is still the one that was put there and nobody wrote into it.
fn uncreate(target: &Target<'_>, temporary: &OsStr, ours: &Stat) -> Result<(), LeftAsIs> {
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
    Err(LeftAsIs)
}

/// Old and new change places. If what came out is not what was found before, they change back.
fn exchange(target: &Target<'_>, staged: &Staged, temporary: &OsStr) -> Result<Swap, Trouble> {
    let directory = &target.directory;
    let ours = staged.link(directory, temporary).map_err(|error| untouched(target, error))?;
    match trade(target, temporary) {
        Ok(()) => {}
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => return replace(target, temporary, ours),
        Err(error) => {
            discard(directory, temporary, &ours).map_err(|_| Trouble::Unsure(unsure(target)))?;
            return if error == Errno::NOENT { Ok(Swap::Overtaken) } else { Err(untouched(target, error)) };
        }
    }
    match stat_name(directory, temporary) {
        Ok(came_out) if target.is_as_found(&came_out) => Ok(Swap::Done(Some(ours))),
        Ok(came_out) => match trade_back(target, temporary, &ours, &came_out) {
            Ok(()) => Ok(Swap::Overtaken),
            Err(LeftAsIs) => Err(Trouble::Unsure(unsure(target))),
        },
        Err(_) => Err(Trouble::Unsure(unsure(target))),
    }
}

/// Gives the name back to what came out. Should somebody have given it to a newer file meanwhile, that one keeps it.
fn trade_back(target: &Target<'_>, temporary: &OsStr, ours: &Stat, theirs: &Stat) -> Result<(), LeftAsIs> {
    let directory = &target.directory;
    trade(target, temporary)?;
    if discard(directory, temporary, ours)? {
        return Ok(());
    }
    let newer = stat_name(directory, temporary)?;
    trade(target, temporary)?;
    // What came out first was replaced by whoever put the newer file there; unless that one is ours and was written into.
    if !same_file(&newer, ours) && discard(directory, temporary, theirs)? { Ok(()) } else { Err(LeftAsIs) }
}

/// Gives the name back to the file that was found before, which waits under the temporary name.
fn put_back(target: &Target<'_>, temporary: &OsStr, ours: &Stat) -> Result<(), LeftAsIs> {
    let directory = &target.directory;
    match trade(target, temporary) {
        Ok(()) if discard(directory, temporary, ours)? => return Ok(()),
        Ok(()) => trade(target, temporary)?,
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            if is_unmodified(ours, &stat_name(directory, &target.name)?) {
                return Ok(rustix::fs::renameat(directory, temporary, directory, &target.name)?);
            }
        }
        Err(error) => return Err(error.into()),
    }
    Err(LeftAsIs)
}

fn trade(target: &Target<'_>, temporary: &OsStr) -> Result<(), Errno> {
    let directory = &target.directory;
    rustix::fs::renameat_with(directory, temporary, directory, &target.name, RenameFlags::EXCHANGE)
}

/// Unlinks a name if it is that of a known file that nobody wrote into; says whether it was.
fn discard(directory: &File, name: &OsStr, known: &Stat) -> Result<bool, Errno> {
    if !is_unmodified(known, &stat_name(directory, name)?) {
        return Ok(false);
    }
    rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
    Ok(true)
}

/// For filesystems that cannot exchange: keep the old file under a second name, then rename over it.
fn replace(target: &Target<'_>, temporary: &OsStr, ours: Stat) -> Result<Swap, Trouble> {
    let directory = &target.directory;
    let kept = second_name(temporary);
    let give_up = |answer: Result<Swap, Trouble>| match discard(directory, temporary, &ours) {
        Ok(_) => answer,
        Err(_) => Err(Trouble::Unsure(unsure(target))),
    };
    match rustix::fs::linkat(directory, &target.name, directory, &kept, AtFlags::empty()) {
        Ok(()) => {}
        Err(Errno::NOENT) => return give_up(Ok(Swap::Overtaken)),
        Err(error) => return give_up(Err(untouched(target, error))),
    }
    let found = stat_name(directory, &kept).is_ok_and(|now| target.is_as_found(&now));
    let renamed = if found {
        rustix::fs::renameat(directory, temporary, directory, &target.name).map(|()| Swap::Done(Some(ours)))
    } else {
        Ok(Swap::Overtaken)
    };
    match renamed {
        // From here on the temporary name holds the old content, as after an exchange.
        Ok(Swap::Done(ours)) => match rustix::fs::renameat(directory, &kept, directory, temporary) {
            Ok(()) => Ok(Swap::Done(ours)),
            Err(_) => Err(Trouble::Unsure(unsure(target))),
        },
        not_done => {
            // Only a second name of a file that still has its first one.
            let _ = rustix::fs::unlinkat(directory, &kept, AtFlags::empty());
            give_up(not_done.map_err(|error| untouched(target, error)))
        }
    }
}

/// Where the old file waits while the new one takes its name.
pub(crate) fn second_name(temporary: &OsStr) -> OsString {
    let mut second = temporary.to_owned();
    second.push("~");
    second
}

/// Where new content is written on filesystems without unnamed files, until it is whole.
pub(crate) fn unfinished_name(temporary: &OsStr) -> OsString {
    second_name(&second_name(temporary))
}

/// The file leaves its name. If another one was there by now, it gets its name back.
fn hide(target: &Target<'_>, temporary: &OsStr) -> Result<Swap, Trouble> {
    let directory = &target.directory;
    match rename_to_free_name(directory, &target.name, directory, temporary) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Ok(Swap::Overtaken),
        Err(error) => return Err(untouched(target, error)),
    }
    if stat_name(directory, temporary).is_ok_and(|came_out| target.is_as_found(&came_out)) {
        return Ok(Swap::Done(None));
    }
    match rename_to_free_name(directory, temporary, directory, &target.name) {
        Ok(()) => Ok(Swap::Overtaken),
        Err(_) => Err(Trouble::Unsure(unsure(target))),
    }
}

fn relocate(from: &Target<'_>, to: &Target<'_>) -> Result<Swap, Trouble> {
    match rename_to_free_name(&from.directory, &from.name, &to.directory, &to.name) {
        Ok(()) => {}
        Err(Errno::EXIST) => {
            return Err(Trouble::Untouched(WorkspaceError::AlreadyExists { path: to.shown.clone() }));
        }
        Err(Errno::NOENT) => return Ok(Swap::Overtaken),
        Err(error) => return Err(untouched(from, error)),
    }
    if stat_name(&to.directory, &to.name).is_ok_and(|moved| from.is_as_found(&moved)) {
        return Ok(Swap::Done(None));
    }
    match rename_to_free_name(&to.directory, &to.name, &from.directory, &from.name) {
        Ok(()) => Ok(Swap::Overtaken),
        Err(_) => Err(Trouble::Unsure(unsure(from))),
    }
}

/// Gives a moved file its old name again, if it is still the one that was moved.
fn move_back(from: &Target<'_>, to: &Target<'_>) -> Result<(), LeftAsIs> {
    if !from
        .existing
        .as_ref()
        .is_some_and(|moved| stat_name(&to.directory, &to.name).is_ok_and(|now| same_file(&moved.stat, &now)))
    {
        return Err(LeftAsIs);
    }
    Ok(rename_to_free_name(&to.directory, &to.name, &from.directory, &from.name)?)
}

pub(crate) fn rename_to_free_name(
    from: &File,
    name: &OsStr,
    to: &File,
    new_name: &OsStr,
) -> Result<(), Errno> {
    match rustix::fs::renameat_with(from, name, to, new_name, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            rustix::fs::linkat(from, name, to, new_name, AtFlags::empty())?;
            rustix::fs::unlinkat(from, name, AtFlags::empty()).inspect_err(|_| {
                // Both names are those of one file now; without the new one it is as before.
                let _ = rustix::fs::unlinkat(to, new_name, AtFlags::empty());
            })
        }
        other => other,
    }
}
