//! What sessions changed, and how to put it back.
//!
//! Before a change becomes visible, what was there is kept in the journal's folder, outside the workspace, and an entry under `pending/` says what
//! is about to happen. Afterwards the entry moves to `done/`. An entry that is still pending while nobody holds its lock belongs to a process that died: the next
//! start over the same mounts puts its files back and clears its temporary names away, so that an interrupted call has changed nothing. What cannot be
//! put back stays, with all that was kept for it.
//!
//! An entry is believed only with a seal of this user's key, and puts back only into a mount of the present settings that is the directory it was: by the
//! rules of that mount, never through a symlink, and only content that has the digest of what was there.
//!
//! What is kept is bounded, as entries are added: see [`JournalBounds`].

mod bounds;
mod format;
mod change_set;
mod seal;
mod call_recorder;
mod recovery;
mod background_sync;
mod dropped_entries;
mod content_origin;
mod written_files;
mod sweep;
mod undo;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use cap_std::fs::{Dir, DirBuilder, DirBuilderExt as _, OpenOptions, OpenOptionsExt as _};
use rustix::fs::{AtFlags, Mode};
use toolgate_types::{CallId, ChangeFate, StateKey};
use toolgate_workspace::{DiskReserve, KeptBound, Workspace};

use background_sync::BackgroundSync;
pub use bounds::JournalBounds;
pub(crate) use call_recorder::CallRecorder;
pub use change_set::{ChangeSet, FileChange};
pub use dropped_entries::DroppedEntries;
pub use recovery::JournalRecovery;
use seal::{EntryPhase, JournalSealer};
use sweep::Sweeper;
pub use undo::{UndoError, UndoOptions, UndoOutcome};

/// The journal of one state directory.
#[derive(Debug)]
pub struct Journal {
    directory: Dir,
    pending: Dir,
    done: Dir,
    blobs: Dir,
    sealer: JournalSealer,
    recovery: JournalRecovery,
    sweeper: Sweeper,
    reserve: Option<DiskReserve>,
    background_sync: BackgroundSync,
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.background_sync.close();
    }
}

/// A journal whose pending entries were not looked at yet: what dead processes left half-done is put back first.
#[derive(Debug)]
pub struct UnrecoveredJournal(Journal);

impl UnrecoveredJournal {
    /// Keeps no more than this.
    #[must_use]
    pub fn bounded(mut self, bounds: JournalBounds) -> Self {
        self.0.sweeper.bounds = bounds;
        self
    }

    /// Refuses changes that would leave less than this.
    #[must_use]
    pub fn reserving(mut self, reserve: DiskReserve) -> Self {
        self.0.reserve = Some(reserve);
        self
    }

    /// The bound that has changes refused, because what is kept must not be let go. Nothing is removed.
    #[must_use]
    pub fn full(&self) -> Option<KeptBound> {
        self.0.full()
    }

    /// Puts back what dead processes left half-done in the mounts of this workspace, by their rules.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn recover(self, workspace: &Workspace) -> io::Result<Journal> {
        let Self(mut journal) = self;
        journal.recovery = journal.recover(workspace)?;
        Ok(journal)
    }
}

impl Journal {
    /// Opens the journal in a directory that belongs to it alone. Only entries that were sealed with this key are believed.
    ///
    /// # Errors
    /// The directory cannot be used, or the journal in it is of another version.
    pub fn open(directory: &Dir, key: &StateKey) -> io::Result<UnrecoveredJournal> {
        format::check_version(directory)?;
        close_to_others(directory)?;
        Ok(UnrecoveredJournal(Self {
            pending: open_subdirectory(directory, "pending")?,
            done: open_subdirectory(directory, "done")?,
            blobs: open_subdirectory(directory, "blobs")?,
            sealer: JournalSealer::new(key.clone(), directory)?,
            directory: directory.try_clone()?,
            recovery: JournalRecovery::default(),
            sweeper: Sweeper::default(),
            reserve: None,
            background_sync: BackgroundSync::default(),
        }))
    }

    /// Whether its directory was removed since it was opened (`st_nlink` of its handle): nothing can be kept for undo any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        rustix::fs::fstat(&self.pending).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// Whether this version could open a journal, as far as its format says. Nothing is written.
    ///
    /// # Errors
    /// It is of another version, or cannot be read.
    pub fn check_format(directory: &Dir) -> io::Result<()> {
        format::look(directory).map(drop)
    }

    /// What was found half-done when the journal was opened, and what became of it. The operator should be told.
    #[must_use]
    pub fn recovery(&self) -> &JournalRecovery {
        &self.recovery
    }

    /// What became of the changes of a call that was interrupted. It says the same as [`changes`](Self::changes), which lists the call only if its
    /// changes stayed. Costs at most three look-ups of a name.
    #[must_use]
    pub fn fate_of(&self, call: CallId) -> ChangeFate {
        let is_pending = |name: &str| self.pending.exists(name);
        match () {
            () if self.recovery.restored.contains(&call) => ChangeFate::PutBack,
            () if self.change_set(call).is_some() => ChangeFate::Stayed,
            () if is_pending(&entry_name(call)) || is_pending(&unfinished_name(call)) => {
                ChangeFate::Unresolved
            }
            () if self.done.exists(entry_name(call)) || self.may_have_dropped(call) => ChangeFate::Unknown,
            () => ChangeFate::NoEntry,
        }
    }

    /// How much was let go since the journal was made.
    #[must_use]
    pub fn dropped(&self) -> DroppedEntries {
        DroppedEntries::read(&self.directory)
    }

    /// Whether a call of which there is no entry is old enough to be among those that were let go.
    fn may_have_dropped(&self, call: CallId) -> bool {
        self.dropped().newest.is_some_and(|newest| call <= newest)
    }

    /// Every change that was made and is still known, oldest first.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn changes(&self) -> io::Result<Vec<ChangeSet>> {
        self.list().map(|listing| listing.change_sets)
    }

    /// The same, and how many entries are not believed.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn list(&self) -> io::Result<JournalListing> {
        let mut listing = JournalListing::default();
        for entry in self.done.entries()? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') {
                continue;
            }
            let Ok(file) = self.done.open(&name) else { continue };
            let bytes = read_entry(&file.into_std());
            match self.verified_entry(&name, &bytes) {
                Some((set, EntryPhase::Done)) => listing.change_sets.push(set),
                _ if is_torn(&bytes) => listing.torn += 1,
                _ => listing.unsealed += 1,
            }
        }
        listing.change_sets.sort_by_key(|set| set.call);
        Ok(listing)
    }

    /// The changes of one call.
    #[must_use]
    pub fn change_set(&self, call: CallId) -> Option<ChangeSet> {
        let name = entry_name(call);
        let file = self.done.open(&name).ok()?.into_std();
        match self.verified_entry(&name, &read_entry(&file))? {
            (set, EntryPhase::Done) => Some(set),
            (_, EntryPhase::Pending) => None,
        }
    }

    /// What an entry of this name says, if a gate of this user wrote it under this name.
    fn verified_entry(&self, name: &str, bytes: &[u8]) -> Option<(ChangeSet, EntryPhase)> {
        self.sealer
            .unseal_entry(bytes)
            .filter(|(set, _)| name.trim_start_matches('.') == entry_name(set.call))
    }
}

/// What a journal holds.
#[derive(Clone, Debug, Default)]
pub struct JournalListing {
    /// Changes that were made, oldest first.
    pub change_sets: Vec<ChangeSet>,
    /// How many entries are not believed, because no gate of this user wrote them here.
    pub unsealed: usize,
    /// How many entries are empty or cut off: a power cut took them.
    pub torn: usize,
}

/// Whether an entry is empty, cut off before its seal, or full of the zeroes that a filesystem puts where it lost what was written.
fn is_torn(bytes: &[u8]) -> bool {
    bytes.is_empty() || bytes.contains(&0) || !(bytes.contains(&b'\n') || bytes.ends_with(b"}"))
}

fn open_subdirectory(folder: &Dir, name: &str) -> io::Result<Dir> {
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

/// Takes the rights of others from the directory of a journal: earlier gates made it as the umask said.
fn close_to_others(directory: &Dir) -> io::Result<()> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(directory)?.st_mode);
    if mode.intersects(Mode::RWXG | Mode::RWXO) {
        rustix::fs::chmodat(directory, c".", Mode::RWXU, AtFlags::empty())?;
    }
    Ok(())
}

/// Writes a file of the journal anew: whoever reads it finds the old content or the new one.
fn write_atomically(directory: &Dir, name: &str, bytes: &[u8]) -> io::Result<()> {
    use std::io::Write as _;
    let temporary = format!(".{name}");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    directory.open_with(&temporary, &options)?.write_all(bytes)?;
    directory.rename(&temporary, directory, name)
}

/// The longest entry. A call that changes more at once is refused: its entry could not be read.
const MAX_ENTRY_BYTES: u64 = 16 << 20;

/// What a file holds that is no longer than an entry may be. Whatever cannot be read is no entry.
fn read_entry(file: &File) -> Vec<u8> {
    let mut bytes = Vec::new();
    match file.take(MAX_ENTRY_BYTES).read_to_end(&mut bytes) {
        Ok(_) => bytes,
        Err(_) => Vec::new(),
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
fn utf8_path(path: &Path) -> Result<String, String> {
    path.to_str().map(str::to_owned).ok_or_else(|| "the name is not UTF-8".to_owned())
}
