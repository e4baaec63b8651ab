//! Putting earlier content back, several files at once, all or none.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::AtFlags;
use toolgate_types::Sha256;

use crate::change::Recorder;
use crate::error::WorkspaceError;
use crate::stage::{Content, stage};
use crate::target::{Target, find_target, keeps_changing};
use crate::transaction::{Attempt, Step, carry_out};
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
        let mut steps = Vec::new();
        for restoration in restorations {
            steps.extend(self.step_back(restoration)?);
        }
        match carry_out(self, steps, recorder)? {
            Attempt::Done => Ok(()),
            Attempt::Overtaken => Err(keeps_changing("a file that was being put back")),
        }
    }

    fn step_back(&self, restoration: &Restoration) -> Result<Option<Step<'_>>, WorkspaceError> {
        match restoration {
            Restoration::Content { path, content, mode, expect } => {
                let target = self.expected(path, *expect)?;
                let staged = stage(self, &target, Content::CopyOf(content), Some(*mode))?;
                Ok(Some(Step::Put(target, staged)))
            }
            Restoration::Absence { path, expect } => {
                let target = self.expected(path, *expect)?;
                Ok(target.existing.is_some().then_some(Step::Remove(target)))
            }
            Restoration::Name { now, before } => {
                let from = find_target(self, &self.request(now)?)?;
                let to = find_target(self, &self.request(before)?)?;
                match (&from.existing, &to.existing) {
                    (Some(_), None) => Ok(Some(Step::Move(from, to))),
                    (None, _) => Err(WorkspaceError::NotFound { path: now.clone() }),
                    (_, Some(_)) => Err(WorkspaceError::AlreadyExists { path: before.clone() }),
                }
            }
        }
    }

    fn expected(&self, path: &str, expect: Expect) -> Result<Target<'_>, WorkspaceError> {
        let target = find_target(self, &self.request(path)?)?;
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

    /// Takes away a temporary name that a crash left beside a file.
    pub fn remove_litter(&self, alias: &str, beside: &Path, name: &std::ffi::OsStr) {
        let Some(mount) = self.workspace.mount(alias) else { return };
        let folder =
            beside.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if let Ok(folder) = mount.directory().open(folder) {
            let _ = rustix::fs::unlinkat(&folder, name, AtFlags::empty());
        }
    }

    /// Digest of a file, or nothing when there is none.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn digest_of(&self, path: &str) -> Result<Option<Sha256>, WorkspaceError> {
        match find_target(self, &self.request(path)?)?.existing {
            Some(existing) => Ok(Some(self.hash(&existing.file, path)?)),
            None => Ok(None),
        }
    }
}
