//! Applying a unified diff to several files, all or none.

use std::collections::BTreeSet;

use toolgate_text::diff::unified;
use toolgate_text::escaped_line;
use toolgate_text::patch::{self, FilePatch, PatchKind};
use toolgate_types::{ErrorCode, Failure};

use crate::change::Recorder;
use crate::dress::Dress;
use crate::error::{WorkspaceError, WriteBound};
use crate::stage::{Content, stage};
use crate::target::{Target, keeps_changing};
use crate::transaction::{Attempt, Step, carry_out};
use crate::view::View;
use crate::write::Rehearsal;

const ATTEMPTS: usize = 16;
const DIFF_CONTEXT: usize = 3;
/// Files that one patch may change. All of them are open at once, each with its folder, and a process may not have many open.
const MAX_FILES: usize = 200;

/// What a patch did, or would do.
#[derive(Clone, Debug)]
pub struct Patched {
    /// File by file, in the patch's order.
    pub files: Vec<PatchedFile>,
    /// The changes as they were really made: where a hunk was moved, its real place.
    pub diff: String,
}

/// What a patch did to one file.
#[derive(Clone, Debug)]
pub struct PatchedFile {
    /// The file as answers show it.
    pub path: String,
    /// Its old name, if it has another one now.
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
    /// The word in answers.
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

impl View<'_> {
    /// Applies a unified diff, all of it or nothing.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn apply_patch(
        &self,
        text: &str,
        rehearsal: Rehearsal,
        recorder: &dyn Recorder,
    ) -> Result<Patched, WorkspaceError> {
        let files = patch::parse(text).map_err(WorkspaceError::other)?;
        if files.len() > MAX_FILES {
            let message = format!("the patch changes {} files, more than {MAX_FILES} at once", files.len());
            return Err(WorkspaceError::other(
                Failure::new(ErrorCode::PatchInvalid, message).help("split the patch"),
            ));
        }
        for _ in 0..ATTEMPTS {
            let mut plan = Plan::default();
            for file in &files {
                plan.add(self, file)?;
            }
            plan.refuse_repeats()?;
            let patched = Patched { files: plan.files, diff: plan.diff };
            if rehearsal == Rehearsal::Yes || carry_out(self, plan.steps, recorder)? == Attempt::Done {
                return Ok(patched);
            }
        }
        Err(keeps_changing("a file of the patch"))
    }
}

/// The steps of a patch while they are gathered.
#[derive(Default)]
struct Plan<'v> {
    steps: Vec<Step<'v>>,
    files: Vec<PatchedFile>,
    diff: String,
    places: Vec<(String, String)>,
}

impl<'v> Plan<'v> {
    fn add(&mut self, view: &'v View<'_>, file: &FilePatch) -> Result<(), WorkspaceError> {
        let old = file.old_path.as_deref().unwrap_or_default();
        let new = file.new_path.as_deref().unwrap_or_default();
        match file.kind {
            PatchKind::Create => {
                let target =
                    self.note(must_be_free(view.find_by_name(new)?)?, view, PatchAction::Create, None);
                let after = self.changed(view, file, &target, String::new(), &target)?;
                self.put(view, target, &after, None)
            }
            PatchKind::Modify => {
                let target = self.note(view.find_by_name(old)?, view, PatchAction::Modify, None);
                let before = whole_text(view, &target)?;
                let after = self.changed(view, file, &target, before, &target)?;
                self.put(view, target, &after, None)
            }
            PatchKind::Delete => {
                let target = self.note(view.find_unlinked(old)?, view, PatchAction::Delete, None);
                let before = whole_text(view, &target)?;
                self.changed(view, file, &target, before, &target)?;
                self.steps.push(Step::Remove(target));
                Ok(())
            }
            PatchKind::Rename => {
                let from = view.find_unlinked(old)?;
                let shown = view.show(from.mount, &from.location);
                self.places
                    .push((from.mount.alias().to_owned(), from.location.to_string_lossy().into_owned()));
                let to =
                    self.note(must_be_free(view.find_by_name(new)?)?, view, PatchAction::Rename, Some(shown));
                let before = whole_text(view, &from)?;
                let dress = from.existing.as_ref().map(|existing| Dress::of(&existing.file, &existing.stat));
                let after = self.changed(view, file, &from, before, &to)?;
                self.put(view, to, &after, dress)?;
                self.steps.push(Step::Remove(from));
                Ok(())
            }
        }
    }

    fn note(
        &mut self,
        target: Target<'v>,
        view: &View<'_>,
        action: PatchAction,
        from: Option<String>,
    ) -> Target<'v> {
        self.places.push((target.mount.alias().to_owned(), target.location.to_string_lossy().into_owned()));
        self.files.push(PatchedFile { path: view.show(target.mount, &target.location), from, action });
        target
    }

    /// The new text, and its place in the diff that is answered.
    fn changed(
        &mut self,
        view: &View<'_>,
        file: &FilePatch,
        from: &Target<'_>,
        before: String,
        to: &Target<'_>,
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
        view: &View<'_>,
        target: Target<'v>,
        after: &str,
        dress: Option<Dress>,
    ) -> Result<(), WorkspaceError> {
        let staged = stage(view, &target, Content::Bytes(after.as_bytes()), dress)?;
        self.steps.push(Step::Put(target, staged));
        Ok(())
    }

    /// Two spellings may name one file; only now, with both opened, can that be seen.
    fn refuse_repeats(&self) -> Result<(), WorkspaceError> {
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

fn must_be_free(target: Target<'_>) -> Result<Target<'_>, WorkspaceError> {
    match target.existing {
        None => Ok(target),
        Some(_) => Err(WorkspaceError::AlreadyExists { path: target.shown }),
    }
}

fn whole_text(view: &View<'_>, target: &Target<'_>) -> Result<String, WorkspaceError> {
    match &target.existing {
        Some(existing) => view.whole_text(existing, view.limits.max_write_bytes, &target.shown),
        None => Err(WorkspaceError::NotFound { path: target.shown.clone() }),
    }
}
