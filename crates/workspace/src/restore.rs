//! Putting earlier content back, several files at once, all or none.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::AtFlags;
use toolgate_types::Sha256;

use crate::change::Recorder;
use crate::error::WorkspaceError;
use crate::stage::{Content, stage};
use crate::target::{Target, keeps_changing};
use crate::transaction::{Attempt, Step, carry_out, second_name};
use crate::view::View;

/// One file to be put back.
#[derive(Debug)]
pub enum Restoration {
    /// The file gets this content and mode again.
    Content {
        /// With its alias.
        path: String,
        /// What it held.
        content: File,
        /// Its mode.
        mode: u32,
        /// What it is expected to be now.
        expect: Expect,
    },
    /// The file goes away.
    Absence {
        /// With its alias.
        path: String,
        /// What it is expected to be now.
        expect: Expect,
    },
    /// The file gets its old name again.
    Name {
        /// With its alias: where it is.
        now: String,
        /// With its alias: where it was.
        before: String,
        /// What is expected to be there now.
        expect: Expect,
    },
}

/// What a file is expected to be before it is put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Content with this digest.
    Digest(Sha256),
    /// Nothing there.
    Absent,
    /// Whatever is there may go.
    Anything,
}

impl View<'_> {
    /// Puts files back, all or none.
    ///
    /// # Errors
    /// `Precondition` when a file is not what it is expected to be; else see [`WorkspaceError`].
    pub fn restore(
        &self,
        restorations: &[Restoration],
        recorder: &dyn Recorder,
    ) -> Result<(), WorkspaceError> {
        let mut steps = Steps::default();
        for restoration in restorations {
            steps.add(self, restoration)?;
        }
        match carry_out(self, steps.steps, recorder)? {
            Attempt::Done => Ok(()),
            Attempt::Overtaken => Err(keeps_changing("a file that was being put back")),
        }
    }

    /// The place, if what is there is what is expected.
    fn expected(&self, path: &str, expect: Expect) -> Result<Target<'_>, WorkspaceError> {
        let target = self.find_by_name(path)?;
        let found = match (&target.existing, expect) {
            (_, Expect::Anything) | (None, Expect::Absent) => return Ok(target),
            (None, Expect::Digest(_)) => "it was deleted",
            (Some(_), Expect::Absent) => "there is a file again",
            (Some(existing), Expect::Digest(digest)) if self.hash(&existing.file, path)? == digest => {
                return Ok(target);
            }
            (Some(_), Expect::Digest(_)) => "it was changed since",
        };
        Err(WorkspaceError::Precondition { path: path.to_owned(), reason: found.to_owned() })
    }

    /// Takes away folders of a mount if they are empty, innermost first.
    pub fn remove_empty_folders(&self, alias: &str, folders: &[PathBuf]) {
        let Some(mount) = self.workspace.mount(alias) else { return };
        for folder in folders.iter().rev() {
            let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else { continue };
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            if let Ok(parent) = mount.directory().open(parent) {
                // Not empty means in use: it stays.
                let _ = rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR);
            }
        }
    }

    /// Takes away a temporary name that a crash left beside a file, and the second one that some filesystems need.
    pub fn remove_litter(&self, alias: &str, beside: &Path, name: &std::ffi::OsStr) {
        let Some(mount) = self.workspace.mount(alias) else { return };
        let folder =
            beside.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if let Ok(folder) = mount.directory().open(folder) {
            let _ = rustix::fs::unlinkat(&folder, name, AtFlags::empty());
            let _ = rustix::fs::unlinkat(&folder, second_name(name), AtFlags::empty());
        }
    }

    /// Digest of a file, or nothing when there is none.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn digest_of(&self, path: &str) -> Result<Option<Sha256>, WorkspaceError> {
        match self.find_by_name(path)?.existing {
            Some(existing) => Ok(Some(self.hash(&existing.file, path)?)),
            None => Ok(None),
        }
    }
}

/// The steps of putting back while they are gathered.
#[derive(Default)]
struct Steps<'v> {
    steps: Vec<Step<'v>>,
    /// Places that an earlier step leaves free, so that a later one finds nothing there.
    freed: Vec<(String, PathBuf)>,
}

impl<'v> Steps<'v> {
    fn add(&mut self, view: &'v View<'_>, restoration: &Restoration) -> Result<(), WorkspaceError> {
        match restoration {
            Restoration::Content { path, content, mode, expect } => {
                let target = match self.freed(view.find_by_name(path)?) {
                    Some(freed) => freed,
                    None => view.expected(path, *expect)?,
                };
                let staged = stage(view, &target, Content::CopyOf(content), Some(*mode))?;
                self.steps.push(Step::Put(target, staged));
            }
            Restoration::Absence { path, expect } => self.remove(view.expected(path, *expect)?),
            Restoration::Name { now, before, expect } => {
                let from = view.find_by_name(now)?;
                if from.existing.is_none() {
                    return Err(WorkspaceError::NotFound { path: now.clone() });
                }
                let to = self.make_room(view, before, *expect)?;
                self.freed.push(place(&from));
                self.steps.push(Step::Move(Box::new((from, to))));
            }
        }
        Ok(())
    }

    fn remove(&mut self, target: Target<'v>) {
        if target.existing.is_some() {
            self.freed.push(place(&target));
            self.steps.push(Step::Remove(target));
        }
    }

    /// A place that is free, or that may be and will be.
    fn make_room(
        &mut self,
        view: &'v View<'_>,
        path: &str,
        expect: Expect,
    ) -> Result<Target<'v>, WorkspaceError> {
        if expect == Expect::Anything && self.freed(view.find_by_name(path)?).is_none() {
            self.remove(view.find_by_name(path)?);
        }
        let target = view.find_by_name(path)?;
        if target.existing.is_none() {
            return Ok(target);
        }
        self.freed(target).ok_or_else(|| WorkspaceError::AlreadyExists { path: path.to_owned() })
    }

    /// The place as it will be after the steps so far, if one of them leaves it free.
    fn freed(&self, target: Target<'v>) -> Option<Target<'v>> {
        self.freed.contains(&place(&target)).then_some(Target { existing: None, ..target })
    }
}

fn place(target: &Target<'_>) -> (String, PathBuf) {
    (target.mount.alias().to_owned(), target.location.clone())
}
