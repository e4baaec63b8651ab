//! Keeping what a call is about to change.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use jiff::Timestamp;
use rustix::fs::{AtFlags, CWD, FlockOperation};
use toolgate_audit::Ticket;
use toolgate_types::time::rfc3339_millis;
use toolgate_types::{CallId, SessionId};
use toolgate_workspace::{ChangeKind, PlannedChange, Recorder, Settled};

use super::entry::{Change, ChangeSet, Kept, Kind, Place};
use super::{Journal, blob_name, entry_name, unfinished_name, written};

/// Records the changes of one call. A call that changes nothing leaves nothing.
pub(crate) struct CallRecorder {
    journal: Arc<Journal>,
    set: ChangeSet,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The intent in the audit log; it must be on disk before the first change.
    intent: Option<Ticket>,
    /// The open and locked entry: as long as it is held, nobody takes this process for dead.
    entry: Option<File>,
    blobs: Vec<String>,
}

impl CallRecorder {
    pub(crate) fn new(
        journal: Arc<Journal>,
        call: CallId,
        session: SessionId,
        tool: &str,
        intent: Option<Ticket>,
        undoes: Option<CallId>,
    ) -> Self {
        let at = rfc3339_millis(Timestamp::now());
        let set = ChangeSet {
            call,
            session,
            tool: tool.to_owned(),
            at,
            changes: Vec::new(),
            undone_by: None,
            undoes,
            litter: Vec::new(),
        };
        Self { journal, set, state: Mutex::new(State { intent, ..State::default() }) }
    }

    fn keep(&self, state: &mut State, changes: &[PlannedChange<'_>]) -> Result<(), String> {
        let entry = self.journal.begin(self.set.call).map_err(|error| error.to_string())?;
        let mut set = self.set.clone();
        for (index, change) in changes.iter().enumerate() {
            set.changes.push(self.keep_one(state, index, change)?);
        }
        self.journal.announce(&entry, &set).map_err(|error| error.to_string())?;
        state.entry = Some(entry);
        match state.intent.take() {
            Some(intent) => intent.wait().map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }

    fn keep_one(
        &self,
        state: &mut State,
        index: usize,
        change: &PlannedChange<'_>,
    ) -> Result<Change, String> {
        let (kind, moved_to) = match &change.kind {
            ChangeKind::Create => (Kind::Create, None),
            ChangeKind::Modify => (Kind::Modify, None),
            ChangeKind::Delete => (Kind::Delete, None),
            ChangeKind::Move { alias, host_root, location } => {
                let place =
                    Place { mount: alias.clone(), root: written(host_root)?, path: written(location)? };
                (Kind::Move, Some(place))
            }
        };
        let before = match change.before {
            // What only moves stays what it is; its content need not be kept.
            Some(file) if kind != Kind::Move => {
                let blob = blob_name(self.set.call, index);
                state.blobs.push(blob.clone());
                Some(self.journal.keep_content(file, blob).map_err(|error| error.to_string())?)
            }
            _ => None,
        };
        Ok(Change {
            mount: change.alias.to_owned(),
            root: written(change.host_root)?,
            path: written(change.location)?,
            kind,
            before,
            after: change.after.map(|after| after.sha256),
            moved_to,
            temporary: change.temporary.as_ref().map(|name| name.to_string_lossy().into_owned()),
            new_folders: change.new_folders.clone(),
        })
    }
}

impl Recorder for CallRecorder {
    fn record(&self, changes: &[PlannedChange<'_>]) -> Result<(), String> {
        let mut state = self.state.lock().map_err(|_| "an earlier change was interrupted".to_owned())?;
        let kept = self.keep(&mut state, changes);
        if kept.is_err() {
            self.journal.forget(self.set.call, &mut state.blobs);
        }
        kept
    }

    fn settle(&self, settled: Settled) {
        let Ok(mut state) = self.state.lock() else { return };
        match settled {
            Settled::Done => self.journal.finish(&self.set),
            Settled::RolledBack => self.journal.forget(self.set.call, &mut state.blobs),
        }
        state.entry = None;
    }
}

impl Journal {
    /// Keeps content: as another name of the same file where that is possible and safe, else as a copy.
    fn keep_content(&self, file: &File, blob: String) -> io::Result<Kept> {
        let stat = rustix::fs::fstat(file)?;
        // Another name elsewhere means that somebody may still write into this very file.
        let linked = stat.st_nlink == 1 && self.link(file, &blob).is_ok();
        if !linked {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            let mut copy = self.blobs.open_with(&blob, &options)?.into_std();
            let mut source = file;
            io::Seek::rewind(&mut source)?;
            io::copy(&mut source, &mut copy)?;
        }
        Ok(Kept { blob, bytes: u64::try_from(stat.st_size).unwrap_or(0), mode: stat.st_mode & 0o777 })
    }

    fn link(&self, file: &File, blob: &str) -> io::Result<()> {
        use std::os::fd::AsRawFd as _;
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        match rustix::fs::linkat(CWD, name.as_str(), &self.blobs, blob, AtFlags::SYMLINK_FOLLOW) {
            Err(rustix::io::Errno::EXIST) => {
                self.blobs.remove_file(blob)?;
                Ok(rustix::fs::linkat(CWD, name.as_str(), &self.blobs, blob, AtFlags::SYMLINK_FOLLOW)?)
            }
            other => Ok(other?),
        }
    }

    /// An entry that says nothing yet. It is locked before anything is kept for it, so that nobody takes it for one of a dead process,
    /// and whatever is kept for it is found if this process dies now.
    pub(super) fn begin(&self, call: CallId) -> io::Result<File> {
        let unfinished = unfinished_name(call);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        loop {
            let entry = self.pending.open_with(&unfinished, &options)?.into_std();
            rustix::fs::flock(&entry, FlockOperation::LockExclusive)?;
            // Before it was locked, another start may have taken it for litter.
            if is_named(&self.pending, &unfinished, &entry) {
                return Ok(entry);
            }
        }
    }

    /// Lets an entry count: from here on its changes are put back unless it is finished.
    pub(super) fn announce(&self, mut entry: &File, set: &ChangeSet) -> io::Result<()> {
        use std::io::Write as _;
        entry.write_all(&serde_json::to_vec(set)?)?;
        self.pending.rename(unfinished_name(set.call), &self.pending, entry_name(set.call))
    }

    fn finish(&self, set: &ChangeSet) {
        // If this fails, the entry stays pending and the next start puts the change back; the answer says nothing else.
        let name = entry_name(set.call);
        if self.note_undoing(set, true).is_ok() {
            let _ = self.pending.rename(&name, &self.done, &name);
        }
    }

    pub(super) fn forget(&self, call: CallId, blobs: &mut Vec<String>) {
        let _ = self.pending.remove_file(entry_name(call));
        let _ = self.pending.remove_file(unfinished_name(call));
        for blob in blobs.drain(..) {
            let _ = self.blobs.remove_file(blob);
        }
    }
}

/// Whether a name in a folder is still that of an open file.
pub(super) fn is_named(folder: &Dir, name: impl AsRef<Path>, file: &File) -> bool {
    let named = rustix::fs::statat(folder, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW);
    match (named, rustix::fs::fstat(file)) {
        (Ok(named), Ok(open)) => (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino),
        _ => false,
    }
}
