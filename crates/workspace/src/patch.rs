//! Applies a unified diff to several files, all or none.

use std::collections::BTreeSet;

use toolgate_text::diff::unified;
use toolgate_text::escaped_line;
use toolgate_text::patch::{self, FilePatch, PatchKind};
use toolgate_types::{ErrorCode, Failure};

use crate::change::Recorder;
use crate::error::{WorkspaceError, WriteBound};
use crate::file_attributes::FileAttributes;
use crate::file_target::{FileTarget, too_many_conflicts};
use crate::staged_file::{NewContent, stage};
use crate::transaction::{ChangeStep, CommitAttempt, commit};
use crate::view::WorkspaceView;
use crate::write::DryRun;

const MAX_ATTEMPTS: usize = 16;
const DIFF_CONTEXT: usize = 3;
/// Files that one patch may change. All of them are open at the same time, each with its directory, and the number of open descriptors is limited
/// (`RLIMIT_NOFILE`).
const MAX_FILES: usize = 200;

/// Result of a patch, or of its dry run.
#[derive(Clone, Debug)]
pub struct Patched {
    /// File by file, in the patch's order.
    pub files: Vec<PatchedFile>,
    /// The changes as actually made: a hunk that was applied at another line stands there.
    pub diff: String,
}

/// What a patch did to one file.
#[derive(Clone, Debug)]
pub struct PatchedFile {
    /// The file as answers show it.
    pub path: String,
    /// Its old path, if it was renamed.
    pub from: Option<String>,
    /// What happened to it.
    pub action: PatchAction,
}

/// What a patch does to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchAction {
    /// It is new.
    Create,
    /// It has new content.
    Modify,
    /// It is gone.
    Delete,
    /// It has another name, and perhaps new content.
    Rename,
}

impl PatchAction {
    /// The word used in answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Modify => "modify",
            Self::Delete => "delete",
            Self::Rename => "rename",
        }
    }
}

impl WorkspaceView<'_> {
    /// Applies a unified diff, all of it or nothing.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn apply_patch(
        &self,
        text: &str,
        rehearsal: DryRun,
        recorder: &dyn Recorder,
    ) -> Result<Patched, WorkspaceError> {
        let files = patch::parse(text).map_err(WorkspaceError::other)?;
        if files.len() > MAX_FILES {
            let message = format!("the patch changes {} files, more than {MAX_FILES} at once", files.len());
            return Err(WorkspaceError::other(
                Failure::new(ErrorCode::PatchInvalid, message).help("split the patch"),
            ));
        }
        for _ in 0..MAX_ATTEMPTS {
            let mut plan = PatchPlan::default();
            for file in &files {
                plan.add(self, file)?;
            }
            plan.reject_duplicates()?;
            let patched = Patched { files: plan.files, diff: plan.diff };
            if rehearsal == DryRun::Yes || commit(self, plan.steps, recorder)? == CommitAttempt::Committed {
                return Ok(patched);
            }
        }
        Err(too_many_conflicts("a file of the patch"))
    }
}

/// The steps of a patch while they are collected.
#[derive(Default)]
struct PatchPlan<'v> {
    steps: Vec<ChangeStep<'v>>,
    files: Vec<PatchedFile>,
    diff: String,
    places: Vec<(String, String)>,
}

impl<'v> PatchPlan<'v> {
    fn add(&mut self, view: &'v WorkspaceView<'_>, file: &FilePatch) -> Result<(), WorkspaceError> {
        let old = file.old_path.as_deref().unwrap_or_default();
        let new = file.new_path.as_deref().unwrap_or_default();
        match file.kind {
            PatchKind::Create => {
                let target =
                    self.note(require_absent(view.find_by_name(new)?)?, view, PatchAction::Create, None);
                let after = self.changed(view, file, &target, String::new(), &target)?;
                self.put(view, target, &after, None)
            }
            PatchKind::Modify => {
                let target = self.note(view.find_by_name(old)?, view, PatchAction::Modify, None);
                let before = read_text(view, &target)?;
                let after = self.changed(view, file, &target, before, &target)?;
                self.put(view, target, &after, None)
            }
            PatchKind::Delete => {
                let target = self.note(view.find_unlinked(old)?, view, PatchAction::Delete, None);
                let before = read_text(view, &target)?;
                self.changed(view, file, &target, before, &target)?;
                self.steps.push(ChangeStep::Remove(target));
                Ok(())
            }
            PatchKind::Rename => {
                let from = view.find_unlinked(old)?;
                let shown = view.show(from.mount, &from.location);
                self.places
                    .push((from.mount.alias().to_owned(), from.location.to_string_lossy().into_owned()));
                let to = self.note(
                    require_absent(view.find_by_name(new)?)?,
                    view,
                    PatchAction::Rename,
                    Some(shown),
                );
                let before = read_text(view, &from)?;
                let dress =
                    from.existing.as_ref().map(|existing| FileAttributes::of(&existing.file, &existing.stat));
                let after = self.changed(view, file, &from, before, &to)?;
                self.put(view, to, &after, dress)?;
                self.steps.push(ChangeStep::Remove(from));
                Ok(())
            }
        }
    }

    fn note(
        &mut self,
        target: FileTarget<'v>,
        view: &WorkspaceView<'_>,
        action: PatchAction,
        from: Option<String>,
    ) -> FileTarget<'v> {
        self.places.push((target.mount.alias().to_owned(), target.location.to_string_lossy().into_owned()));
        self.files.push(PatchedFile { path: view.show(target.mount, &target.location), from, action });
        target
    }

    /// The new text; also appends the change to the diff of the result.
    fn changed(
        &mut self,
        view: &WorkspaceView<'_>,
        file: &FilePatch,
        from: &FileTarget<'_>,
        before: String,
        to: &FileTarget<'_>,
    ) -> Result<String, WorkspaceError> {
        let after = patch::apply(file, &before).map_err(WorkspaceError::other)?.text;
        view.check_write_size(after.len() as u64, WriteBound::Result, &to.shown)?;
        let nothing = || "/dev/null".to_owned();
        let old =
            if file.kind == PatchKind::Create { nothing() } else { view.show(from.mount, &from.location) };
        let new = if file.kind == PatchKind::Delete { nothing() } else { view.show(to.mount, &to.location) };
        self.diff.push_str(&unified(&before, &after, &old, &new, DIFF_CONTEXT));
        Ok(after)
    }

    fn put(
        &mut self,
        view: &WorkspaceView<'_>,
        target: FileTarget<'v>,
        after: &str,
        dress: Option<FileAttributes>,
    ) -> Result<(), WorkspaceError> {
        let staged = stage(view, &target, NewContent::Bytes(after.as_bytes()), dress)?;
        self.steps.push(ChangeStep::Put(target, staged));
        Ok(())
    }

    /// Two different paths may name one file; that shows only now, with both opened.
    fn reject_duplicates(&self) -> Result<(), WorkspaceError> {
        let mut seen = BTreeSet::new();
        match self.places.iter().find(|place| !seen.insert(*place)) {
            None => Ok(()),
            Some((_, location)) => Err(WorkspaceError::other(
                Failure::new(
                    ErrorCode::PatchInvalid,
                    format!("the patch changes `{}` twice", escaped_line(location)),
                )
                .help("put all changes of one file under one header"),
            )),
        }
    }
}

fn require_absent(target: FileTarget<'_>) -> Result<FileTarget<'_>, WorkspaceError> {
    match target.existing {
        None => Ok(target),
        Some(_) => Err(WorkspaceError::AlreadyExists { path: target.shown }),
    }
}

fn read_text(view: &WorkspaceView<'_>, target: &FileTarget<'_>) -> Result<String, WorkspaceError> {
    match &target.existing {
        Some(existing) => view.read_text(existing, view.limits.max_write_bytes, &target.shown),
        None => Err(WorkspaceError::NotFound { path: target.shown.clone() }),
    }
}
