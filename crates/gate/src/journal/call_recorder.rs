//! Stores what a call is about to change.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::Path;
use std::sync::{Arc, Mutex};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use jiff::Timestamp;
use rustix::fs::{AtFlags, CWD, Stat};
use toolgate_audit::Ticket;
use toolgate_fs::FileLock;
use toolgate_types::digest::Sha256Hasher;
use toolgate_types::time::rfc3339_millis;
use toolgate_types::{CallId, Deadline, SessionId, Sha256};
use toolgate_workspace::{
    ChangeKind, FileStamp, Headroom, JournalError, PlannedChange, Recorder, TransactionOutcome,
    copy_attributes,
};

use super::change_set::{ChangeSet, FileChange, FileChangeKind, MountedFile, MovedFileStamp, StoredBlob};
use super::{EntryPhase, Journal, MAX_ENTRY_BYTES, blob_name, entry_name, unfinished_name, utf8_path};
use crate::approved_changes::digest_content;
use crate::touched::{NamedChange, TouchedNames};

/// The largest file that is copied before it changes. A larger one can be changed only if it need not be copied.
const MAX_COPIED_BYTES: u64 = 64 << 20;
const COPY_CHUNK_BYTES: u64 = 1 << 20;
/// A file up to this size is copied by one `pread` and one `write`, which costs less than trying `FICLONE`.
const SMALL_BYTES: u64 = 64 << 10;
/// The largest file that is hashed before a move. A larger one is identified by inode, size and modification time.
const MAX_HASHED_MOVE_BYTES: u64 = 16 << 20;

/// Records the changes of one call. A call that changes nothing leaves no entry.
pub(crate) struct CallRecorder {
    journal: Arc<Journal>,
    set: ChangeSet,
    state: Mutex<RecorderState>,
    /// Whether a change may be made although its intent could not be recorded.
    intent_may_fail: bool,
    /// Receives the names of what is changed.
    touched: Option<TouchedNames>,
}

#[derive(Default)]
struct RecorderState {
    /// The intent in the audit log, which must be on disk before the first change.
    intent: Option<Ticket>,
    /// The entry. While its lock is held, recovery does not treat this process as dead.
    entry: Option<FileLock<File>>,
    /// The seal line that marks the entry as done.
    done: String,
    blobs: Vec<String>,
    /// The names of the planned changes.
    named: Vec<NamedChange>,
    /// Disk space of the blobs and the entry.
    bytes: u64,
    /// Whether the disk is too full for copies.
    without_copies: bool,
    /// Whether an earlier change of this call was left half-done; its entry must not be overwritten.
    is_indeterminate: bool,
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
        let state = Mutex::new(RecorderState { intent, ..RecorderState::default() });
        Self { journal, set, state, intent_may_fail: false, touched: None }
    }

    /// Sets whether a change may be made although its intent could not be recorded.
    pub(crate) fn intent_may_fail(self, intent_may_fail: bool) -> Self {
        Self { intent_may_fail, ..self }
    }

    /// Reports the names of committed changes there.
    pub(crate) fn naming(self, touched: TouchedNames) -> Self {
        Self { touched: Some(touched), ..self }
    }

    fn store(
        &self,
        state: &mut RecorderState,
        changes: &[PlannedChange<'_>],
        stop: &Deadline,
    ) -> Result<(), JournalError> {
        let stats = changes.iter().map(stat_to_store).collect::<Result<Vec<_>, _>>()?;
        state.bytes = stats.iter().flatten().map(disk_space).fold(0, u64::saturating_add);
        // An undo is always admitted: it is the way out of a full journal.
        if self.set.undoes.is_none() {
            self.journal.ensure_room(state.bytes)?;
            let is_removal = changes.iter().all(|change| change.after.is_none());
            state.without_copies = match self.journal.make_space(state.bytes) {
                Headroom::Enough => false,
                Headroom::RemovalsOnly(_) if is_removal => true,
                Headroom::RemovalsOnly(note) | Headroom::Nothing(note) => {
                    return Err(JournalError::NoSpace(note));
                }
                Headroom::Unknown(note) => return Err(JournalError::Failed(note)),
            };
        }
        let entry = self.journal.create_entry(self.set.call)?;
        let mut set = self.set.clone();
        for (index, (change, stat)) in changes.iter().zip(&stats).enumerate() {
            set.changes.push(self.store_one(state, index, change, stat.as_ref(), stop)?);
        }
        let noted = self.journal.write_entry(&entry, &set)?;
        state.bytes = state.bytes.saturating_add(noted.bytes);
        state.done = noted.done;
        state.entry = Some(entry);
        Ok(self.wait_for_intent(state)?)
    }

    fn name_changes(&self, changes: &[NamedChange]) {
        if let Some(touched) = &self.touched {
            touched.add_changes(changes);
        }
    }

    fn wait_for_intent(&self, state: &mut RecorderState) -> Result<(), String> {
        match state.intent.take().map(Ticket::wait) {
            Some(Err(error)) if !self.intent_may_fail => Err(error.to_string()),
            _ => Ok(()),
        }
    }

    fn store_one(
        &self,
        state: &mut RecorderState,
        index: usize,
        change: &PlannedChange<'_>,
        stat: Option<&Stat>,
        stop: &Deadline,
    ) -> Result<FileChange, JournalError> {
        let (kind, moved_to) = match &change.kind {
            ChangeKind::Create => (FileChangeKind::Create, None),
            ChangeKind::Modify => (FileChangeKind::Modify, None),
            ChangeKind::Delete => (FileChangeKind::Delete, None),
            ChangeKind::Move { alias, host_root, root, location } => {
                let (root, identity) = (utf8_path(host_root)?, (*root).into());
                let place = MountedFile { mount: alias.clone(), root, identity, path: utf8_path(location)? };
                (FileChangeKind::Move, Some(place))
            }
        };
        let (before, (moved, stamp)) = match (change.before, stat) {
            (Some(file), None) => (None, moved_file_identity(file, change.before_sha256, stop)?),
            (Some(file), Some(stat)) => {
                let blob = blob_name(self.set.call, index);
                state.blobs.push(blob.clone());
                let is_last = kind == FileChangeKind::Delete;
                let max_copied = if state.without_copies { 0 } else { MAX_COPIED_BYTES };
                let wanted = BlobRequest { blob, stat, sha256: change.before_sha256, max_copied, is_last };
                (Some(self.journal.store_blob(file, wanted, stop)?), (None, None))
            }
            (None, _) => (None, (None, None)),
        };
        Ok(FileChange {
            mount: change.alias.to_owned(),
            root: utf8_path(change.host_root)?,
            identity: change.root.into(),
            path: utf8_path(change.location)?,
            kind,
            before,
            after: change.after.map(|after| after.sha256).or(moved),
            stamp,
            made: change.after_stamp.map(MovedFileStamp::from),
            moved_to,
            temporary: change.temporary.as_ref().map(|name| name.to_string_lossy().into_owned()),
            new_folders: change.new_directories.clone(),
        })
    }
}

impl Recorder for CallRecorder {
    fn record(&self, changes: &[PlannedChange<'_>], stop: &Deadline) -> Result<(), JournalError> {
        let mut state = self.state.lock().map_err(|_| "an earlier change was interrupted".to_owned())?;
        if state.is_indeterminate {
            return Err(JournalError::Failed("an earlier change of this call was left half-made".to_owned()));
        }
        let kept = self.store(&mut state, changes, stop);
        state.named = changes.iter().map(NamedChange::of).collect();
        if kept.is_err() {
            self.journal.discard(self.set.call, &mut state.blobs);
        }
        kept
    }

    fn begin(&self) -> Result<(), JournalError> {
        Ok(self.journal.publish_entry(self.set.call)?)
    }

    fn await_intent(&self) -> Result<(), String> {
        let mut state = self.state.lock().map_err(|_| "an earlier change was interrupted".to_owned())?;
        self.wait_for_intent(&mut state)
    }

    fn settle(&self, settled: TransactionOutcome) {
        let Ok(mut state) = self.state.lock() else { return };
        match settled {
            TransactionOutcome::Committed => {
                self.journal.finish(&self.set, &mut state);
                self.name_changes(&state.named);
            }
            TransactionOutcome::RolledBack => self.journal.discard(self.set.call, &mut state.blobs),
            // The lock is released, so the next start reverts the entry.
            TransactionOutcome::Indeterminate => {
                state.is_indeterminate = true;
                self.name_changes(&state.named);
            }
        }
        state.entry = None;
    }
}

/// How to store the content of a file.
struct BlobRequest<'s> {
    blob: String,
    stat: &'s Stat,
    /// Its digest, if known.
    sha256: Option<Sha256>,
    /// A larger file is stored as a hard link instead of a copy.
    max_copied: u64,
    /// Whether the file is deleted, so that the blob must also keep its attributes.
    is_last: bool,
}

/// An entry that was written.
pub(super) struct WrittenEntry {
    /// The seal line that marks it as done.
    done: String,
    /// Its size including that line.
    bytes: u64,
}

impl Journal {
    /// Stores content as a copy. A hard link would not do: a process that has the file open for writing, such as a command left running for that
    /// purpose, would write into the blob. Only a file too large to copy, or deleted while the disk is too full for a copy, is hard-linked; its
    /// digest shows whether it was written to.
    fn store_blob(
        &self,
        file: &File,
        wanted: BlobRequest<'_>,
        stop: &Deadline,
    ) -> Result<StoredBlob, JournalError> {
        let BlobRequest { blob, stat, sha256, max_copied, is_last } = wanted;
        let bytes = u64::try_from(stat.st_size).unwrap_or(0);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let copy = self.blobs.open_with(&blob, &options)?.into_std();
        let is_small = bytes <= SMALL_BYTES.min(max_copied);
        // `FICLONE`: if the filesystem can share extents, the size does not matter.
        let is_cloned = !is_small && rustix::fs::ioctl_ficlone(&copy, file).is_ok();
        let is_copied = is_cloned || bytes <= max_copied;
        let copied = match is_copied && !is_cloned {
            true if is_small => Some(copy_small(file, &copy, bytes, sha256)?),
            true => copy_bounded(file, &copy, sha256, stop)?,
            false => sha256,
        };
        if is_copied && is_last {
            copy_attributes(file, &copy)?;
        }
        // A file with another hard link may be written to through that name.
        if !is_copied && (stat.st_nlink != 1 || self.link_blob(file, &blob).is_err()) {
            return Err(match max_copied {
                0 => JournalError::NoSpace(
                    "there is no room for a copy, and no other name can be made".to_owned(),
                ),
                limit => JournalError::TooLarge { bytes, limit },
            });
        }
        let sha256 = match copied {
            Some(sha256) => sha256,
            None => digest_content(if is_cloned { &copy } else { file }, stop)?.sha256,
        };
        let (uid, gid) = (Some(stat.st_uid), Some(stat.st_gid));
        let stamp = Some(FileStamp::from(stat).into());
        Ok(StoredBlob { blob, bytes, sha256, stamp, mode: stat.st_mode & 0o777, uid, gid })
    }

    fn link_blob(&self, file: &File, blob: &str) -> io::Result<()> {
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

    /// Creates an empty entry. It is locked before any blob is stored for it, so that recovery does not take it for a dead process's, and finds the
    /// blobs if this process dies.
    pub(super) fn create_entry(&self, call: CallId) -> io::Result<FileLock<File>> {
        let unfinished = unfinished_name(call);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        loop {
            let entry = FileLock::lock(self.pending.open_with(&unfinished, &options)?.into_std())?;
            // Recovery of another process may have removed it between `open` and `flock`.
            if name_refers_to(&self.pending, &unfinished, &entry) {
                return Ok(entry);
            }
        }
    }

    /// Publishes an entry: from here on recovery reverts its changes, unless it is finished.
    pub(super) fn publish_entry(&self, call: CallId) -> io::Result<()> {
        self.pending.rename(unfinished_name(call), &self.pending, entry_name(call))
    }

    /// If this fails, the entry stays pending and the next start reverts the change, or if the done seal was written, moves the entry to `done/`. The
    /// call's result does not change.
    fn finish(&self, set: &ChangeSet, state: &mut RecorderState) {
        use std::io::Write as _;
        let blobs = std::mem::take(&mut state.blobs);
        let (name, Some(entry)) = (entry_name(set.call), &state.entry) else { return };
        if self.mark_undone(set, true).is_ok() && (&**entry).write_all(state.done.as_bytes()).is_ok() {
            let _ = self.pending.rename(&name, &self.done, &name);
            // After the rename: a sweep that starts now finds the entry in either place.
            self.count_added(state.bytes);
            self.background_sync.enqueue(set.call, blobs, self);
        }
    }

    /// Writes the pending entry and returns the seal line that marks it as done.
    pub(super) fn write_entry(
        &self,
        mut entry: &File,
        set: &ChangeSet,
    ) -> Result<WrittenEntry, JournalError> {
        use std::io::Write as _;
        let json = serde_json::to_vec(set).map_err(io::Error::from)?;
        let done = self.sealer.seal_line(EntryPhase::Done, &json);
        let pending = self.sealer.seal_line(EntryPhase::Pending, &json);
        let lines = [&json, &b"\n"[..], pending.as_bytes()].concat();
        let bytes = lines.len().saturating_add(done.len()) as u64;
        if bytes > MAX_ENTRY_BYTES {
            return Err(JournalError::TooLarge { bytes, limit: MAX_ENTRY_BYTES });
        }
        entry.write_all(&lines)?;
        Ok(WrittenEntry { done, bytes })
    }

    pub(super) fn discard(&self, call: CallId, blobs: &mut Vec<String>) {
        let _ = self.pending.remove_file(entry_name(call));
        let _ = self.pending.remove_file(unfinished_name(call));
        for blob in blobs.drain(..) {
            let _ = self.blobs.remove_file(blob);
        }
    }
}

/// `fstat` of the file whose content is to be stored. A moved file keeps its content, so it need not be stored.
fn stat_to_store(change: &PlannedChange<'_>) -> Result<Option<Stat>, JournalError> {
    let kept = change.before.filter(|_| !matches!(change.kind, ChangeKind::Move { .. }));
    Ok(kept.map(rustix::fs::fstat).transpose().map_err(io::Error::from)?)
}

/// Disk space needed to store a file. Copying fills the holes of a sparse file; a file too large to copy shares its allocated blocks.
fn disk_space(stat: &Stat) -> u64 {
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let blocks = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
    if size <= MAX_COPIED_BYTES { size } else { size.min(blocks) }
}

/// The identity of a file that moves: its digest, unless hashing would take too long, and its stamp.
fn moved_file_identity(
    file: &File,
    sha256: Option<Sha256>,
    stop: &Deadline,
) -> Result<(Option<Sha256>, Option<MovedFileStamp>), JournalError> {
    let stat = rustix::fs::fstat(file).map_err(io::Error::from)?;
    let stamp = FileStamp::from(&stat);
    if stamp.bytes > MAX_HASHED_MOVE_BYTES {
        return Ok((None, Some(stamp.into())));
    }
    let sha256 = match sha256 {
        Some(sha256) => sha256,
        None => digest_content(file, stop)?.sha256,
    };
    Ok((Some(sha256), Some(stamp.into())))
}

/// Copies a small file, and hashes it unless its digest is known. Data appended during the copy is ignored: the change is then refused, because the
/// file is not the one that was found.
fn copy_small(
    file: &File,
    mut copy: &File,
    bytes: u64,
    known: Option<Sha256>,
) -> Result<Sha256, JournalError> {
    use std::io::Write as _;
    use std::os::unix::fs::FileExt as _;
    let mut content = vec![0; usize::try_from(bytes).unwrap_or(0)];
    let mut filled = 0;
    while let Some(rest) = content.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    content.truncate(filled);
    copy.write_all(&content)?;
    Ok(known.unwrap_or_else(|| Sha256::of(&content)))
}

/// Copies up to the limit, hashes unless the digest is known, and stops when the call is cancelled. A file that grows past the limit is refused.
fn copy_bounded(
    mut file: &File,
    mut copy: &File,
    known: Option<Sha256>,
    stop: &Deadline,
) -> Result<Option<Sha256>, JournalError> {
    use std::io::Write as _;
    file.rewind()?;
    let (mut copied, mut hasher, mut buffer) = (0, Sha256Hasher::new(), Vec::new());
    loop {
        stop.check().map_err(|_| JournalError::Failed("the call must end".to_owned()))?;
        let count = match known {
            Some(_) => io::copy(&mut file.take(COPY_CHUNK_BYTES), &mut copy)?,
            None => {
                buffer.clear();
                let count = file.take(COPY_CHUNK_BYTES).read_to_end(&mut buffer)?;
                hasher.update(&buffer);
                copy.write_all(&buffer)?;
                count as u64
            }
        };
        copied += count;
        if copied > MAX_COPIED_BYTES {
            return Err(JournalError::TooLarge { bytes: copied, limit: MAX_COPIED_BYTES });
        }
        // A short read: both methods read until end of file.
        if count < COPY_CHUNK_BYTES {
            return Ok(Some(known.unwrap_or_else(|| hasher.finish())));
        }
    }
}

/// Whether a name in a directory still refers to an open file.
pub(super) fn name_refers_to(folder: &Dir, name: impl AsRef<Path>, file: &File) -> bool {
    let named = rustix::fs::statat(folder, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW);
    match (named, rustix::fs::fstat(file)) {
        (Ok(named), Ok(open)) => (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino),
        _ => false,
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests arrange files by hand")]
mod tests {
    use toolgate_types::StateKey;
    use toolgate_workspace::{Mount, MountAccess, MountRules, Workspace};

    use super::*;

    fn open(directory: &Dir, workspace: &Workspace) -> Journal {
        Journal::open(directory, &StateKey::new([7; 32])).unwrap().recover(workspace).unwrap()
    }

    #[test]
    fn what_was_left_half_done_is_found_although_a_new_process_still_has_its_entry() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Dir::open_ambient_dir(scratch.path(), cap_std::ambient_authority()).unwrap();
        let nothing = Workspace::new(Vec::new()).unwrap();
        let journal = Arc::new(open(&folder, &nothing));
        let (call, session) = (CallId::fresh(), "s".parse().unwrap());
        let recorder = CallRecorder::new(journal, call, session, "write_file", None, None);
        recorder.record(&[], &Deadline::never()).unwrap();
        recorder.begin().unwrap();
        let in_use = open(&folder, &nothing);
        assert_eq!(in_use.recovery().restored, [], "somebody is at work on it");
        let _inherited = recorder.state.lock().unwrap().entry.as_ref().unwrap().try_clone().unwrap();
        recorder.settle(TransactionOutcome::Indeterminate);
        assert_eq!(open(&folder, &nothing).recovery().restored, [call]);
    }

    #[test]
    fn what_others_did_before_a_call_began_is_not_put_back() {
        for has_begun in [false, true] {
            let scratch = tempfile::tempdir().unwrap();
            let root = std::fs::canonicalize(scratch.path()).unwrap().join("w");
            let state = scratch.path().join("state");
            for folder in [&root, &state] {
                std::fs::create_dir(folder).unwrap();
            }
            let path = root.join("a");
            std::fs::write(&path, "old").unwrap();
            let state = Dir::open_ambient_dir(state, cap_std::ambient_authority()).unwrap();
            let mount = Mount::new(
                "@w",
                File::open(&root).unwrap(),
                &root,
                MountAccess::ReadWrite,
                MountRules::new(),
            )
            .unwrap();
            let identity = mount.identity();
            let workspace = Workspace::new(vec![mount]).unwrap();
            let journal = Arc::new(open(&state, &workspace));
            let (call, session) = (CallId::fresh(), "s".parse().unwrap());
            let recorder = CallRecorder::new(journal, call, session, "delete_file", None, None);
            let before = File::open(&path).unwrap();
            let deletion = PlannedChange {
                alias: "@w",
                host_root: &root,
                root: identity,
                location: Path::new("a"),
                kind: ChangeKind::Delete,
                before: Some(&before),
                before_sha256: None,
                after: None,
                after_stamp: None,
                temporary: None,
                new_directories: vec!["new".into()],
            };
            recorder.record(&[deletion], &Deadline::never()).unwrap();
            std::fs::create_dir(root.join("new")).unwrap();
            if has_begun {
                recorder.begin().unwrap();
            }
            // By this call, or by another gate that it waits for.
            std::fs::remove_file(&path).unwrap();
            // Its process dies.
            drop(recorder);
            let journal = open(&state, &workspace);
            let recovery = journal.recovery();
            assert_eq!(path.exists(), has_begun);
            if has_begun {
                assert_eq!((&*recovery.restored, &*recovery.unrestored), (&[call][..], &[][..]));
            } else {
                // A power cut may have lost the rename that published the entry: then the blob is the only copy.
                assert_eq!((recovery.restored.len(), recovery.unrestored.len()), (0, 1), "{recovery:?}");
                assert!(recovery.unrestored[0].1.contains("`@w/a`"), "{recovery:?}");
                assert_eq!(journal.blobs.entries().unwrap().count(), 1);
                // A process that recreated the file does not need the blob.
                std::fs::write(&path, "anything").unwrap();
                drop(journal);
                let journal = open(&state, &workspace);
                assert_eq!(journal.recovery(), &super::super::JournalRecovery::default());
            }
            let journal = open(&state, &workspace);
            assert!(!root.join("new").exists(), "begun: {has_begun}");
            let left = [&journal.pending, &journal.blobs].map(|folder| folder.entries().unwrap().count());
            assert_eq!(left, [0, 0], "begun: {has_begun}");
        }
    }
}
