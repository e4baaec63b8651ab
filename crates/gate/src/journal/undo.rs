//! Undoing the changes of a call.

use std::fs::{File, TryLockError};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use thiserror::Error;
use toolgate_fs::FileLock;
use toolgate_types::{CallId, Deadline, ErrorCode, Limits, SessionId};
use toolgate_workspace::{
    ExpectedContent, LockTimeout, MovedFile, PathStyle, Restoration, Workspace, WorkspaceError, WorkspaceView,
};

use super::call_recorder::CallRecorder;
use super::change_set::{ChangeSet, FileChange, FileChangeKind};
use super::{EntryPhase, Journal, entry_name, write_atomically};
use crate::touched::TouchedNames;

/// No limits.
const UNLIMITED: Limits = Limits {
    max_read_bytes: u64::MAX,
    max_resource_bytes: u64::MAX,
    max_write_bytes: u64::MAX,
    max_entries: usize::MAX,
    max_matches: usize::MAX,
    max_output_bytes: u64::MAX,
    timeout: Duration::MAX,
};

/// Options of an undo.
#[derive(Clone, Copy, Debug, Default)]
pub struct UndoOptions {
    /// Restore even over changes made since. What the rules forbid stays forbidden.
    pub force: bool,
}

/// The result of an undo.
#[derive(Clone, Debug)]
pub struct UndoOutcome {
    /// The call that was undone.
    pub call: CallId,
    /// The call that undid it, which can be undone in turn.
    pub undo_call: CallId,
    /// The files, with their aliases.
    pub paths: Vec<String>,
}

/// Why changes could not be undone. Nothing was changed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UndoError {
    /// No such call, or it changed nothing.
    #[error("the journal knows no change made by call `{0}`")]
    Unknown(CallId),
    /// Its entry was dropped.
    #[error("the changes of call `{0}` are no longer kept, if it made any")]
    Dropped(CallId),
    /// It was undone before.
    #[error("call `{call}` was undone already, by `{by}`")]
    AlreadyUndone {
        /// The call.
        call: CallId,
        /// What undid it.
        by: CallId,
    },
    /// The file was changed since.
    #[error("call `{call}` cannot be undone: {source}")]
    Conflict {
        /// The call.
        call: CallId,
        /// Which file, and how it differs.
        source: WorkspaceError,
    },
    /// The current rules of the mounts forbid it, or the stored content does not match its digest.
    #[error("call `{call}` is not undone: {source}")]
    Refused {
        /// The call.
        call: CallId,
        /// Which file, and why.
        source: WorkspaceError,
    },
    /// A mount is missing, or is another directory than before.
    #[error(
        "call `{call}` changed the mount `{alias}`, which was `{root}` and is not there now or is another directory"
    )]
    OtherMount {
        /// The call.
        call: CallId,
        /// The mount's alias.
        alias: String,
        /// Where it was on this host.
        root: String,
    },
    /// The gate has no workspace, so nothing can be restored.
    #[error("this gate has no workspace to put anything back into")]
    NoWorkspace,
    /// The undo could not be recorded, so it was not done.
    #[error("the undoing could not be recorded, so nothing was put back: {0}")]
    NotRecorded(String),
    /// The journal itself failed.
    #[error("the journal cannot be read or written: {0}")]
    Journal(#[from] io::Error),
}

impl UndoError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Unknown(_) | Self::Dropped(_) => ErrorCode::NotFound,
            Self::AlreadyUndone { .. } => ErrorCode::PreconditionFailed,
            Self::Conflict { source, .. } | Self::Refused { source, .. } => source.code(),
            Self::OtherMount { .. } | Self::NoWorkspace => ErrorCode::PreconditionFailed,
            Self::Journal(error) if error.kind() == io::ErrorKind::StorageFull => ErrorCode::DiskFull,
            Self::Journal(_) => ErrorCode::IoError,
            Self::NotRecorded(_) => ErrorCode::AuditUnavailable,
        }
    }

    /// Conflicts with later changes can be overridden by `force`; refusals by the rules cannot.
    fn of(call: CallId, source: WorkspaceError) -> Self {
        match source {
            WorkspaceError::Precondition { .. }
            | WorkspaceError::AlreadyExists { .. }
            | WorkspaceError::NotFound { .. } => Self::Conflict { call, source },
            _ => Self::Refused { call, source },
        }
    }
}

/// Lock file that serialises the undos of one journal, so that none is done twice and none overwrites the notes of another.
const UNDO_LOCK_FILE: &str = "undoing";

impl Journal {
    /// Undoes all changes of a call, or none: in the mounts of this workspace, under their rules. The undo is itself journalled under `by`, and its
    /// changes are named in `touched`.
    ///
    /// # Errors
    /// See [`UndoError`].
    pub fn undo(
        self: &Arc<Self>,
        call: CallId,
        (by, session): (CallId, SessionId),
        options: UndoOptions,
        workspace: &Workspace,
        touched: TouchedNames,
    ) -> Result<UndoOutcome, UndoError> {
        let _alone = self.lock_undo()?;
        let set = self.change_set(call).ok_or_else(|| self.missing(call))?;
        if let Some(by) = set.undone_by {
            return Err(UndoError::AlreadyUndone { call, by });
        }
        if let Some((alias, root)) = set.missing_mount(workspace) {
            return Err(UndoError::OtherMount { call, alias, root });
        }
        let stop = Deadline::never();
        let view = restore_view(workspace, &stop);
        let mut restorations = Vec::new();
        for change in set.changes.iter().rev() {
            let expected = match options.force {
                true => (ExpectedContent::Anything, MovedFile::Anything),
                false => expectation(change),
            };
            let restoration = restoration_of(&self.blobs, change, expected);
            restorations.push(restoration.map_err(|error| match error.kind() {
                // A sweep was killed after removing the blob and before removing the entry.
                io::ErrorKind::NotFound => UndoError::Dropped(call),
                _ => UndoError::Journal(error),
            })?);
        }
        let recorder =
            CallRecorder::new(Arc::clone(self), by, session, "undo", None, Some(call)).naming(touched);
        view.restore(&restorations, LockTimeout::Default, &recorder)
            .map_err(|source| UndoError::of(call, source))?;
        for change in &set.changes {
            view.remove_empty_directories(change.mount_of_new_directories(), &change.new_folders);
        }
        Ok(UndoOutcome {
            call,
            undo_call: by,
            paths: set.changes.iter().map(FileChange::display_path).collect(),
        })
    }

    fn missing(&self, call: CallId) -> UndoError {
        match self.may_have_dropped(call) {
            true => UndoError::Dropped(call),
            false => UndoError::Unknown(call),
        }
    }

    /// Waits until no other undo of this journal is running. The kernel releases the lock of a process that dies.
    pub(super) fn lock_undo(&self) -> io::Result<FileLock<File>> {
        FileLock::lock(self.open_lock()?)
    }

    /// The same with a timeout; `None` if another process, or an undo of this one, still holds it. `flock` has no timeout, so it polls.
    pub(super) fn try_lock_undo(&self, timeout: Duration) -> io::Result<Option<FileLock<File>>> {
        const RETRY_INTERVAL: Duration = Duration::from_millis(2);
        let until = Instant::now() + timeout;
        loop {
            match FileLock::try_lock(self.open_lock()?) {
                Ok(locked) => return Ok(Some(locked)),
                Err(TryLockError::WouldBlock) if Instant::now() >= until => return Ok(None),
                Err(TryLockError::WouldBlock) => std::thread::sleep(RETRY_INTERVAL),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    fn open_lock(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).mode(0o600);
        Ok(self.directory.open_with(UNDO_LOCK_FILE, &options)?.into_std())
    }

    /// Updates `undone_by` along the chain: undoing an undo puts the first call's changes in force again, and so on.
    pub(super) fn mark_undone(&self, undoing: &ChangeSet, in_force: bool) -> io::Result<()> {
        let (mut by, mut target, mut in_force) = (undoing.call, undoing.undoes, in_force);
        while let Some(mut undone) = target.and_then(|call| self.change_set(call)) {
            undone.undone_by = in_force.then_some(by);
            self.rewrite(&undone)?;
            (by, target, in_force) = (undone.call, undone.undoes, !in_force);
        }
        Ok(())
    }

    fn rewrite(&self, set: &ChangeSet) -> io::Result<()> {
        write_atomically(&self.done, &entry_name(set.call), &self.sealer.seal_entry(EntryPhase::Done, set)?)
    }
}

/// What a change left under its name, and for a move under the new name.
pub(super) fn expectation(change: &FileChange) -> (ExpectedContent, MovedFile) {
    let expect = match (change.kind, change.after) {
        // The old name of a moved file must be free.
        (FileChangeKind::Delete | FileChangeKind::Move, _) => ExpectedContent::Absent,
        (_, Some(digest)) => ExpectedContent::Digest(digest),
        (_, None) => ExpectedContent::Anything,
    };
    (expect, change.moved_file())
}

/// The restoration that reverts one change.
pub(super) fn restoration_of(
    blobs: &Dir,
    change: &FileChange,
    (expect, moved): (ExpectedContent, MovedFile),
) -> io::Result<Restoration> {
    let path = change.display_path();
    if let Some(now) = change.display_destination() {
        return Ok(Restoration::Name { now, before: path, moved, expect });
    }
    Ok(match &change.before {
        Some(kept) => {
            let content = blobs.open(&kept.blob)?.into_std();
            let (sha256, mode, owner) = (Some(kept.sha256), kept.mode, kept.owner());
            Restoration::Content { path, content, sha256, mode, owner, expect }
        }
        None => Restoration::Absence { path, expect },
    })
}

/// A view without limits: the journal only writes back what was there before, however large.
pub(super) fn restore_view<'a>(workspace: &'a Workspace, stop: &'a Deadline) -> WorkspaceView<'a> {
    // Not `AliasOnly`, which would treat a backslash in a name as a slash.
    WorkspaceView { workspace, style: PathStyle::Free, limits: &UNLIMITED, grant: None, stop, unlocked: None }
}
