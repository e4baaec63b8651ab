//! Putting the changes of a call back.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cap_std::fs::Dir;
use thiserror::Error;
use toolgate_types::{CallId, ErrorCode, Limits, SessionId, Stop};
use toolgate_workspace::{
    Access, Expect, Mount, MountError, PathStyle, Patience, Restoration, Rules, View, Workspace,
    WorkspaceError,
};

use super::entry::{Change, ChangeSet, Kind};
use super::record::CallRecorder;
use super::{Journal, entry_name};

/// No limits.
const UNLIMITED: Limits = Limits {
    max_read_bytes: u64::MAX,
    max_write_bytes: u64::MAX,
    max_entries: usize::MAX,
    max_matches: usize::MAX,
    max_output_bytes: u64::MAX,
    timeout: Duration::MAX,
};

/// How to undo.
#[derive(Clone, Copy, Debug, Default)]
pub struct UndoOptions {
    /// Put things back even over changes that others made since.
    pub force: bool,
}

/// What was put back.
#[derive(Clone, Debug)]
pub struct Undone {
    /// The call that was undone.
    pub call: CallId,
    /// The call that undid it; it can be undone in turn.
    pub by: CallId,
    /// The files, with their aliases.
    pub paths: Vec<String>,
}

/// Why changes could not be put back. Nothing was touched.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UndoError {
    /// No such call, or it changed nothing.
    #[error("the journal knows no change made by call `{0}`")]
    Unknown(CallId),
    /// Done already.
    #[error("call `{call}` was undone already, by `{by}`")]
    AlreadyUndone {
        /// The call.
        call: CallId,
        /// What undid it.
        by: CallId,
    },
    /// Somebody changed the file since.
    #[error("call `{call}` cannot be undone: {source}")]
    Conflict {
        /// The call.
        call: CallId,
        /// Which file, and how it differs.
        source: WorkspaceError,
    },
    /// The workspace is not where it was.
    #[error("the workspace of call `{call}` cannot be opened: {source}")]
    Workspace {
        /// The call.
        call: CallId,
        /// The reason.
        source: MountError,
    },
    /// The undoing could not be recorded, so it was not done.
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
            Self::Unknown(_) => ErrorCode::NotFound,
            Self::AlreadyUndone { .. } => ErrorCode::PreconditionFailed,
            Self::Conflict { source, .. } => source.code(),
            Self::Workspace { .. } | Self::Journal(_) => ErrorCode::IoError,
            Self::NotRecorded(_) => ErrorCode::AuditUnavailable,
        }
    }
}

impl Journal {
    /// Puts back all that a call changed, or nothing. The undoing is itself journalled under `by`.
    ///
    /// # Errors
    /// See [`UndoError`].
    pub fn undo(
        self: &Arc<Self>,
        call: CallId,
        by: CallId,
        session: SessionId,
        options: UndoOptions,
    ) -> Result<Undone, UndoError> {
        let set = self.change_set(call).ok_or(UndoError::Unknown(call))?;
        if let Some(by) = set.undone_by {
            return Err(UndoError::AlreadyUndone { call, by });
        }
        let workspace = workspace_of(&set).map_err(|source| UndoError::Workspace { call, source })?;
        let stop = Stop::never();
        let view = restoring(&workspace, &stop);
        let mut restorations = Vec::new();
        for change in set.changes.iter().rev() {
            let expect = if options.force { Expect::Anything } else { expectation(change) };
            restorations.push(restoration_of(&self.blobs, change, expect)?);
        }
        let recorder = CallRecorder::new(Arc::clone(self), by, session, "undo", None, Some(call));
        view.restore(&restorations, Patience::Usual, &recorder)
            .map_err(|source| UndoError::Conflict { call, source })?;
        for change in &set.changes {
            view.remove_empty_folders(change.mount_of_new_folders(), &change.new_folders);
        }
        Ok(Undone { call, by, paths: set.changes.iter().map(Change::shown).collect() })
    }

    /// Notes at the calls concerned whether an undoing is in force. Undoing an undoing puts the first call's changes in force again, and so on.
    pub(super) fn note_undoing(&self, undoing: &ChangeSet, in_force: bool) -> io::Result<()> {
        let (mut by, mut target, mut in_force) = (undoing.call, undoing.undoes, in_force);
        while let Some(mut undone) = target.and_then(|call| self.change_set(call)) {
            undone.undone_by = in_force.then_some(by);
            self.rewrite(&undone)?;
            (by, target, in_force) = (undone.call, undone.undoes, !in_force);
        }
        Ok(())
    }

    fn rewrite(&self, set: &ChangeSet) -> io::Result<()> {
        let name = entry_name(set.call);
        let temporary = format!(".{name}");
        self.done.write(&temporary, serde_json::to_vec(set)?)?;
        self.done.rename(&temporary, &self.done, &name)
    }
}

/// What a change left behind.
pub(super) fn expectation(change: &Change) -> Expect {
    match (change.kind, change.after) {
        // A file that moved must find its old name free.
        (Kind::Delete | Kind::Move, _) => Expect::Absent,
        (_, Some(digest)) => Expect::Digest(digest),
        (_, None) => Expect::Anything,
    }
}

/// What would put one change back.
pub(super) fn restoration_of(blobs: &Dir, change: &Change, expect: Expect) -> io::Result<Restoration> {
    let path = change.shown();
    if let Some(now) = change.shown_destination() {
        return Ok(Restoration::Name { now, before: path, expect });
    }
    Ok(match &change.before {
        Some(kept) => {
            let content = blobs.open(&kept.blob)?.into_std();
            Restoration::Content { path, content, mode: kept.mode, owner: kept.owner(), expect }
        }
        None => Restoration::Absence { path, expect },
    })
}

/// A view for putting things back: the journal only ever writes what was there before, however large.
pub(super) fn restoring<'a>(workspace: &'a Workspace, stop: &'a Stop) -> View<'a> {
    // Not `AliasOnly`, which would read a backslash in a name as a slash.
    View { workspace, style: PathStyle::Free, limits: &UNLIMITED, grant: None, stop, unlocked: None }
}

/// The mounts that a change set names, opened where they were.
pub(super) fn workspace_of(set: &ChangeSet) -> Result<Workspace, MountError> {
    let mut mounts: Vec<Mount> = Vec::new();
    for change in &set.changes {
        let destination = change.moved_to.as_ref().map(|place| (&place.mount, &place.root));
        for (alias, root) in [Some((&change.mount, &change.root)), destination].into_iter().flatten() {
            if mounts.iter().all(|mount| mount.alias() != alias) {
                mounts.push(reopen(alias, Path::new(root))?);
            }
        }
    }
    Workspace::new(mounts)
}

#[expect(clippy::disallowed_methods, reason = "the journal wrote this path itself, from an open mount")]
fn reopen(alias: &str, root: &Path) -> Result<Mount, MountError> {
    let directory = std::fs::File::open(root).map_err(|source| MountError::Open {
        alias: alias.to_owned(),
        path: root.to_path_buf(),
        source,
    })?;
    Mount::new(alias, directory, root, Access::ReadWrite, Rules::new())
}
