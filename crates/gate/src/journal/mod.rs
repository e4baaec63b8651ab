//! What sessions changed, and how to put it back.
//!
//! Before a change becomes visible, what was there is kept in the journal's folder, outside the workspace, and an entry under `pending/` says what
//! is about to happen. Afterwards the entry moves to `done/`. An entry that is still pending while nobody holds its lock belongs to a process that died: the next
//! start puts its files back and clears its temporary names away, so that an interrupted call has changed nothing. What cannot be put back stays, with
//! all that was kept for it.
//!
//! What is kept is bounded: see [`MAX_AGE`](sweep::MAX_AGE), [`MAX_ENTRIES`](sweep::MAX_ENTRIES) and [`MAX_BYTES`](sweep::MAX_BYTES).

mod entry;
mod record;
mod recover;
mod sweep;
mod undo;

use std::io;
use std::path::Path;

use cap_std::fs::{Dir, DirBuilder, DirBuilderExt as _};
use toolgate_types::CallId;

pub use entry::{Change, ChangeSet};
pub(crate) use record::CallRecorder;
pub use recover::Recovery;
pub use undo::{UndoError, UndoOptions, Undone};

/// The journal of one state directory.
#[derive(Debug)]
pub struct Journal {
    pending: Dir,
    done: Dir,
    blobs: Dir,
    recovery: Recovery,
}

impl Journal {
    /// Opens the journal in a folder that belongs to it alone, and puts back what dead processes left half-done.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub fn open(folder: &Dir) -> io::Result<Self> {
        let mut journal = Self {
            pending: subfolder(folder, "pending")?,
            done: subfolder(folder, "done")?,
            blobs: subfolder(folder, "blobs")?,
            recovery: Recovery::default(),
        };
        journal.recovery = journal.recover()?;
        journal.sweep(folder);
        Ok(journal)
    }

    /// What was found half-done when the journal was opened, and what became of it. The operator should be told.
    #[must_use]
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Every change that was made and is still known, oldest first.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn changes(&self) -> io::Result<Vec<ChangeSet>> {
        let mut sets = Vec::new();
        for entry in self.done.entries()? {
            let name = entry?.file_name();
            if name.to_string_lossy().starts_with('.') {
                continue;
            }
            let Ok(bytes) = self.done.read(&name) else { continue };
            sets.extend(serde_json::from_slice::<ChangeSet>(&bytes));
        }
        sets.sort_by_key(|set| set.call);
        Ok(sets)
    }

    /// The changes of one call.
    #[must_use]
    pub fn change_set(&self, call: CallId) -> Option<ChangeSet> {
        serde_json::from_slice(&self.done.read(entry_name(call)).ok()?).ok()
    }
}

fn subfolder(folder: &Dir, name: &str) -> io::Result<Dir> {
    match folder.open_dir(name) {
        Ok(found) => Ok(found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut builder = DirBuilder::new();
            builder.mode(0o700);
            match folder.create_dir_with(name, &builder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                _ => folder.open_dir(name),
            }
        }
        Err(error) => Err(error),
    }
}

fn entry_name(call: CallId) -> String {
    format!("{call}.json")
}

/// Where an entry is written before it counts.
fn unfinished_name(call: CallId) -> String {
    format!(".{call}.json")
}

fn blob_name(call: CallId, index: usize) -> String {
    format!("{call}.{index}")
}

/// A location as the journal writes it; names that are not UTF-8 cannot be written down and so cannot be changed.
fn written(path: &Path) -> Result<String, String> {
    path.to_str().map(str::to_owned).ok_or_else(|| "the name is not UTF-8".to_owned())
}
