//! The undo journal: what calls changed, and how to revert it.
//!
//! Before a change becomes visible, the old content is stored in the journal's directory, outside the workspace, and an entry under `pending/`
//! describes the change. Afterwards the entry moves to `done/`. A pending entry whose lock is free belongs to a process that died: the next start
//! over the same mounts restores its files and removes its temporary files, so that an interrupted call has changed nothing. What cannot be restored
//! stays, with all content stored for it.
//!
//! An entry is trusted only if it is sealed with this user's key. It is restored only into a configured mount that is still the same directory, under
//! the rules of that mount, never through a symlink, and only with content that matches the recorded digest.
//!
//! The journal's size is bounded as entries are added: see [`JournalBounds`].

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
mod compare;

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
pub use compare::{ComparedChange, CurrentContent};
pub use dropped_entries::DroppedEntries;
pub use recovery::JournalRecovery;
use seal::{EntryPhase, JournalSealer};
use sweep::Sweeper;
pub use undo::{UndoError, UndoOptions, UndoOutcome};

/// The journal in one state directory.
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
        self.close();
    }
}

/// A journal before recovery: the half-done changes of dead processes are restored first.
#[derive(Debug)]
pub struct UnrecoveredJournal(Journal);

impl UnrecoveredJournal {
    /// Sets the size bounds.
    #[must_use]
    pub fn bounded(mut self, bounds: JournalBounds) -> Self {
        self.0.sweeper.bounds = bounds;
        self
    }

    /// Refuses changes that would leave less free disk space than this.
    #[must_use]
    pub fn reserving(mut self, reserve: DiskReserve) -> Self {
        self.0.reserve = Some(reserve);
        self
    }

    /// The bound at which changes are refused because no entry may be dropped. Removes nothing.
    #[must_use]
    pub fn full(&self) -> Option<KeptBound> {
        self.0.full()
    }

    /// Restores what dead processes left half-done in the mounts of this workspace, under their rules.
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
    /// Opens the journal in a directory of its own. Only entries sealed with this key are trusted.
    ///
    /// # Errors
    /// The directory cannot be used, or its journal has another format version.
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

    /// Whether its directory was removed since it was opened (`st_nlink` is 0): changes can no longer be stored for undo.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        rustix::fs::fstat(&self.pending).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// Whether this version can open a journal, according to its format file. Writes nothing.
    ///
    /// # Errors
    /// It has another format version, or cannot be read.
    pub fn check_format(directory: &Dir) -> io::Result<()> {
        format::look(directory).map(drop)
    }

    /// Waits until every finished entry is on disk (fsync). Dropping the journal does the same, but its last owner may be a sweep thread, which the end
    /// of the process does not wait for.
    pub fn close(&self) {
        self.background_sync.close();
    }

    /// What recovery found when the journal was opened, for the operator.
    #[must_use]
    pub fn recovery(&self) -> &JournalRecovery {
        &self.recovery
    }

    /// What became of the changes of an interrupted call. Consistent with [`changes`](Self::changes), which lists the call only if its changes
    /// stayed. Costs at most three name lookups.
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

    /// How much was dropped since the journal was created.
    #[must_use]
    pub fn dropped(&self) -> DroppedEntries {
        DroppedEntries::read(&self.directory)
    }

    /// Whether a call without an entry is old enough that its entry may have been dropped.
    fn may_have_dropped(&self, call: CallId) -> bool {
        self.dropped().newest.is_some_and(|newest| call <= newest)
    }

    /// Every change that was made and is still stored, oldest first.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn changes(&self) -> io::Result<Vec<ChangeSet>> {
        self.list().map(|listing| listing.change_sets)
    }

    /// The same, with the number of untrusted entries.
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

    /// The content of an entry, if its seal is valid and it names the call of its file name.
    fn verified_entry(&self, name: &str, bytes: &[u8]) -> Option<(ChangeSet, EntryPhase)> {
        self.sealer
            .unseal_entry(bytes)
            .filter(|(set, _)| name.trim_start_matches('.') == entry_name(set.call))
    }
}

/// What a journal holds.
#[derive(Clone, Debug, Default)]
pub struct JournalListing {
    /// Committed changes, oldest first.
    pub change_sets: Vec<ChangeSet>,
    /// How many entries are ignored because they carry no valid seal of this user's key.
    pub unsealed: usize,
    /// How many entries are empty or truncated by a power cut.
    pub torn: usize,
}

/// Whether an entry is empty, truncated before its seal, or contains the zero bytes that a filesystem leaves in place of lost data.
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

/// Removes group and other permissions from the journal's directory: earlier versions created it with the umask's mode.
fn close_to_others(directory: &Dir) -> io::Result<()> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(directory)?.st_mode);
    if mode.intersects(Mode::RWXG | Mode::RWXO) {
        rustix::fs::chmodat(directory, c".", Mode::RWXU, AtFlags::empty())?;
    }
    Ok(())
}

/// Replaces a file of the journal by `rename`: a reader sees the old content or the new one.
fn write_atomically(directory: &Dir, name: &str, bytes: &[u8]) -> io::Result<()> {
    use std::io::Write as _;
    let temporary = format!(".{name}");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    directory.open_with(&temporary, &options)?.write_all(bytes)?;
    directory.rename(&temporary, directory, name)
}

/// Maximum size of an entry. A call whose entry would be larger is refused, because the entry could not be read back.
const MAX_ENTRY_BYTES: u64 = 16 << 20;

/// Reads at most [`MAX_ENTRY_BYTES`]. A file that cannot be read counts as empty.
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

/// The name of an entry before it is published.
fn unfinished_name(call: CallId) -> String {
    format!(".{call}.json")
}

fn blob_name(call: CallId, index: usize) -> String {
    format!("{call}.{index}")
}

/// A location as the journal stores it. A name that is not UTF-8 cannot be stored, so such a file cannot be changed.
fn utf8_path(path: &Path) -> Result<String, String> {
    path.to_str().map(str::to_owned).ok_or_else(|| "the name is not UTF-8".to_owned())
}
