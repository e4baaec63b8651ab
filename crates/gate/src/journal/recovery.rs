//! Recovery: restores what dead processes left half-done.
//!
//! The blob of a call may be the only copy of some content. So blobs are removed only after every file of the call was checked and is as it should
//! be. On any error everything stays for the next start, and the operator is warned.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::sync::Mutex;

use cap_std::fs::{OpenOptions, OpenOptionsExt as _};
use rustix::fs::OFlags;
use rustix::time::ClockId;
use toolgate_fs::FileLock;
use toolgate_types::{CallId, Deadline, Sha256};
use toolgate_workspace::{
    JournalError, LockTimeout, PlannedChange, Recorder, Restoration, TransactionOutcome, Workspace,
    WorkspaceError, WorkspaceView,
};

use super::call_recorder::name_refers_to;
use super::change_set::{ChangeSet, FileChange, FileChangeKind, MountedFile};
use super::undo::{expectation, restoration_of, restore_view};
use super::{EntryPhase, Journal, is_torn, read_entry, utf8_path};
use crate::approved_changes::digest_content;

/// What recovery found of processes that died, or that could not roll back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalRecovery {
    /// Calls whose changes were reverted: they changed nothing.
    pub restored: Vec<CallId>,
    /// Calls, or entry names, whose changes could not be reverted, and why. Their blobs are still stored.
    pub unrestored: Vec<(String, String)>,
    /// How many pending entries carry no valid seal. They are left in place.
    pub unsealed: usize,
    /// How many are empty or truncated by a power cut. Their blobs are still stored.
    pub torn: usize,
}

impl Journal {
    /// Takes every pending entry that no process has locked, reverts its changes in these mounts, and removes it.
    pub(super) fn recover(&self, workspace: &Workspace) -> io::Result<JournalRecovery> {
        let mut recovery = JournalRecovery::default();
        for entry in self.pending.entries()? {
            let name = entry?.file_name();
            let Some((held, bytes)) = self.lock_orphan(&name)? else { continue };
            let shown = name.to_string_lossy();
            let believed = self.verified_entry(&shown, &bytes);
            if shown.starts_with('.') {
                // An unpublished entry of a killed process changed nothing. After a power cut that is unknown, because the rename may be lost: the
                // blob may be the only copy.
                if believed.is_none() && is_torn(&bytes) && was_made_before_boot(&held) {
                    recovery.torn += 1;
                    continue;
                }
                let set = believed.map(|(set, _)| set);
                recovery.unrestored.extend(self.discard_unpublished(&shown, set.as_ref(), workspace));
                continue;
            }
            match believed {
                Some((set, EntryPhase::Pending)) => match self.restore(&set, workspace) {
                    Ok(()) => recovery.restored.push(set.call),
                    Err(reason) => recovery.unrestored.push((set.call.to_string(), reason)),
                },
                // Its process died between appending the done seal and the rename.
                Some((_, EntryPhase::Done)) => self.pending.rename(&name, &self.done, &name)?,
                None if is_torn(&bytes) => recovery.torn += 1,
                None => recovery.unsealed += 1,
            }
        }
        Ok(recovery)
    }

    /// Locks an entry and reads it; `None` if another process holds the lock.
    fn lock_orphan(&self, name: &std::ffi::OsStr) -> io::Result<Option<(FileLock<File>, Vec<u8>)>> {
        let mut options = OpenOptions::new();
        // `O_NONBLOCK`: opening a FIFO planted in place of an entry must not block.
        let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
        options.read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or(0));
        let file = match self.pending.open_with(name, &options) {
            Ok(file) => file.into_std(),
            // Its process has just finished the call.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let Ok(entry) = FileLock::try_lock(file) else { return Ok(None) };
        // Between `open` and `flock`, a living process may have finished one attempt and started another under the same name.
        if !name_refers_to(&self.pending, name, &entry) {
            return Ok(None);
        }
        let bytes = read_entry(&entry);
        Ok(Some((entry, bytes)))
    }

    /// Discards an entry that was never published: nothing was changed, but blobs may be stored and directories created for it. A power cut may have
    /// lost the rename that published it: if a file looks changed, everything stays and the operator is warned.
    fn discard_unpublished(
        &self,
        name: &str,
        set: Option<&ChangeSet>,
        workspace: &Workspace,
    ) -> Option<(String, String)> {
        if let Some(set) = set.filter(|set| set.missing_mount(workspace).is_some()) {
            // The directories are removed by a gate that has this mount. Without stored content there is nothing to report.
            let kept = set.changes.iter().find(|change| change.before.is_some())?;
            return Some((
                set.call.to_string(),
                format!("the mount of `{}` is not one of this gate", kept.display_path()),
            ));
        }
        let call = name.trim_start_matches('.').trim_end_matches(".json");
        let counts = |name: &str| self.pending.exists(name) || self.done.exists(name);
        if call.parse::<CallId>().is_ok() && !counts(&format!("{call}.json")) {
            if let Some(shown) = set.and_then(|set| find_applied_change(set, workspace)) {
                let reason =
                    format!("`{shown}` was changed by this call, or by somebody else that it waited for");
                return Some((call.to_owned(), reason));
            }
            for blob in self.blobs.entries().into_iter().flatten().flatten() {
                let blob = blob.file_name();
                if blob.to_string_lossy().strip_prefix(call).is_some_and(|index| index.starts_with('.')) {
                    let _ = self.blobs.remove_file(blob);
                }
            }
            if let Some(set) = set {
                remove_new_directories(set, workspace);
            }
        }
        let _ = self.pending.remove_file(name);
        None
    }

    fn restore(&self, set: &ChangeSet, workspace: &Workspace) -> Result<(), String> {
        if let Some((alias, root)) = set.missing_mount(workspace) {
            return Err(format!("its mount `{alias}`, which was `{root}`, is not one of this gate"));
        }
        let stop = Deadline::never();
        let view = restore_view(workspace, &stop);
        let remembering = RestoreRecorder::new(self, set);
        let known = KnownContents { journal: self, set, digests: OnceCell::new() };
        let mut left = Ok(());
        for change in set.changes.iter().rev() {
            // A file that cannot be restored must not keep the others from being restored.
            left = left.and(restore_one(&view, change, &known, &remembering));
        }
        left?;
        for MountedFile { mount, path, .. } in &set.litter {
            known.remove_litter(&view, mount, path, path).map_err(|error| error.to_string())?;
        }
        if set.undoes.is_some() {
            let _alone = self.lock_undo().map_err(|error| error.to_string())?;
            self.mark_undone(set, false).map_err(|error| error.to_string())?;
        }
        let kept = set.changes.iter().filter_map(|change| change.before.as_ref());
        self.discard(set.call, &mut kept.map(|kept| kept.blob.clone()).collect());
        Ok(())
    }
}

/// Whether a file was last written before the last boot.
fn was_made_before_boot(file: &File) -> bool {
    let seconds = |clock| rustix::time::clock_gettime(clock).tv_sec;
    let booted = seconds(ClockId::Realtime).saturating_sub(seconds(ClockId::Boottime));
    rustix::fs::fstat(file).is_ok_and(|stat| stat.st_mtime < booted)
}

fn restore_one(
    view: &WorkspaceView<'_>,
    change: &FileChange,
    known: &KnownContents<'_>,
    recorder: &dyn Recorder,
) -> Result<(), String> {
    let told = |error: WorkspaceError| operator_text(&error);
    let made = is_applied(view, change).map_err(told)?;
    // Another process may have changed the file since: revert only what this change left.
    if made && is_at_destination(view, change).map_err(told)? {
        let restoration = known.restoration(view, change)?;
        view.restore(&[restoration], LockTimeout::Brief, recorder).map_err(told)?;
    }
    if let Some(temporary) = &change.temporary {
        known.remove_litter(view, &change.mount, &change.path, temporary).map_err(told)?;
    }
    view.remove_empty_directories(change.mount_of_new_directories(), &change.new_folders);
    Ok(())
}

/// Whether a file is as the change would have left it.
fn is_applied(view: &WorkspaceView<'_>, change: &FileChange) -> Result<bool, WorkspaceError> {
    let now = view.digest_of(&change.display_path())?;
    Ok(match change.kind {
        FileChangeKind::Create | FileChangeKind::Modify => change.after.is_some() && now == change.after,
        FileChangeKind::Delete | FileChangeKind::Move => now.is_none(),
    })
}

/// A file that is as the call would have left it, or cannot be read, and whose blob may therefore be the only copy.
fn find_applied_change(set: &ChangeSet, workspace: &Workspace) -> Option<String> {
    let mut kept = set.changes.iter().filter(|change| change.before.is_some());
    let stop = Deadline::never();
    let view = restore_view(workspace, &stop);
    kept.find(|change| is_applied(&view, change).unwrap_or(true)).map(FileChange::display_path)
}

fn remove_new_directories(set: &ChangeSet, workspace: &Workspace) {
    let stop = Deadline::never();
    let view = restore_view(workspace, &stop);
    for change in &set.changes {
        view.remove_empty_directories(change.mount_of_new_directories(), &change.new_folders);
    }
}

/// A moved file is moved back from its destination. If the destination is missing, is another file, or was modified since, it is left alone.
fn is_at_destination(view: &WorkspaceView<'_>, change: &FileChange) -> Result<bool, WorkspaceError> {
    change.display_destination().map_or(Ok(true), |now| view.is_moved_file(&now, change.moved_file()))
}

/// The error text for the operator.
fn operator_text(error: &WorkspaceError) -> String {
    match error {
        WorkspaceError::NotRecorded(reason) | WorkspaceError::NoSpaceToKeep(reason) => {
            format!("{error}: {reason}")
        }
        _ => error.to_string(),
    }
}

/// Digests of all content that a call wrote or replaced.
struct KnownContents<'j> {
    journal: &'j Journal,
    set: &'j ChangeSet,
    /// Computed only if there are temporary files to check.
    digests: OnceCell<BTreeSet<Sha256>>,
}

impl KnownContents<'_> {
    fn digests(&self) -> &BTreeSet<Sha256> {
        self.digests.get_or_init(|| {
            let after = self.set.changes.iter().filter_map(|change| change.after);
            let kept = self.set.changes.iter().filter_map(|change| change.before.as_ref());
            after.chain(kept.map(|kept| kept.sha256)).collect()
        })
    }

    /// The original file may still exist under its temporary name and is restored from there: if another process changed it just before the call, it
    /// is newer than the blob.
    fn restoration(&self, view: &WorkspaceView<'_>, change: &FileChange) -> Result<Restoration, String> {
        let restoration = restoration_of(&self.journal.blobs, change, expectation(change));
        if let (Some(temporary), Some(kept)) = (&change.temporary, &change.before) {
            let taken = view
                .open_stale_temporary(&change.mount, change.path.as_ref(), temporary.as_ref())
                .map_err(|error| operator_text(&error))?;
            if let Some(taken) = taken {
                let digest =
                    digest_content(&taken, &Deadline::never()).map_err(|error| error.to_string())?.sha256;
                if Some(digest) != change.after {
                    let (path, (expect, _)) = (change.display_path(), expectation(change));
                    let (mode, owner) = (kept.mode, kept.owner());
                    let content = taken;
                    return Ok(Restoration::Content { path, content, sha256: None, mode, owner, expect });
                }
            }
        }
        restoration
            .map_err(|error| format!("what was kept of `{}` cannot be read: {error}", change.display_path()))
    }

    /// Removes the temporary file `name` beside `beside`, if its content exists elsewhere.
    fn remove_litter(
        &self,
        view: &WorkspaceView<'_>,
        mount: &str,
        beside: &str,
        name: &str,
    ) -> Result<(), WorkspaceError> {
        let name = name.rsplit('/').next().unwrap_or(name);
        let places = self.set.changes.iter().map(FileChange::display_path);
        let elsewhere = |digest| {
            places.clone().any(|path| matches!(view.digest_of(&path), Ok(Some(now)) if now == digest))
        };
        let is_known = |digest: Sha256| self.digests().contains(&digest) || elsewhere(digest);
        view.remove_stale_temporary(mount, beside.as_ref(), name.as_ref(), &is_known)
    }
}

/// Adds the temporary names of the recovery to the entry itself, so that the next start finds them if this process dies.
struct RestoreRecorder<'j> {
    journal: &'j Journal,
    held: Mutex<(ChangeSet, Option<FileLock<File>>)>,
}

impl<'j> RestoreRecorder<'j> {
    fn new(journal: &'j Journal, set: &ChangeSet) -> Self {
        Self { journal, held: Mutex::new((set.clone(), None)) }
    }
}

impl Recorder for RestoreRecorder<'_> {
    fn record(&self, changes: &[PlannedChange<'_>], _stop: &Deadline) -> Result<(), JournalError> {
        let mut held = self.held.lock().map_err(|_| "putting back was interrupted".to_owned())?;
        for change in changes {
            let Some(temporary) = &change.temporary else { continue };
            let (mount, root) = (change.alias.to_owned(), utf8_path(change.host_root)?);
            let path = utf8_path(&change.location.with_file_name(temporary))?;
            held.0.litter.push(MountedFile { mount, root, identity: change.root.into(), path });
        }
        let entry = self.journal.create_entry(held.0.call)?;
        self.journal.write_entry(&entry, &held.0)?;
        self.journal.publish_entry(held.0.call)?;
        held.1 = Some(entry);
        Ok(())
    }

    /// The entry stays published throughout.
    fn begin(&self) -> Result<(), JournalError> {
        Ok(())
    }

    fn await_intent(&self) -> Result<(), String> {
        Ok(())
    }

    fn settle(&self, _settled: TransactionOutcome) {}
}
