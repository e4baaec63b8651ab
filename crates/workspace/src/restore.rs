//! Restores earlier content of several files, all or none.

use std::ffi::OsStr;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use toolgate_types::Sha256;

use crate::change::{FileStamp, Recorder};
use crate::error::WorkspaceError;
use crate::file_attributes::FileAttributes;
use crate::file_target::{FileTarget, open_directory_by_names, too_many_conflicts};
use crate::open::OpenedFile;
use crate::rules::PathVerdict;
use crate::staged_file::{NewContent, stage};
use crate::swap::{backup_name, unfinished_name};
use crate::transaction::{ChangeStep, CommitAttempt, LOCK_TIMEOUT, commit_with_timeout};
use crate::view::WorkspaceView;

/// One file to be restored.
#[derive(Debug)]
pub enum Restoration {
    /// Restore content and mode.
    Content {
        /// With its alias.
        path: String,
        /// The kept content.
        content: File,
        /// The digest of that, where it is known: content with another digest is not restored.
        sha256: Option<Sha256>,
        /// Its mode.
        mode: u32,
        /// User and group, for a file that no longer exists and so cannot supply them.
        owner: Option<(u32, u32)>,
        /// The expected current state.
        expect: ExpectedContent,
    },
    /// Remove the file.
    Absence {
        /// With its alias.
        path: String,
        /// The expected current state.
        expect: ExpectedContent,
    },
    /// Give the file its old name again.
    Name {
        /// The current path, with its alias.
        now: String,
        /// The old path, with its alias.
        before: String,
        /// What is expected at the current path.
        moved: MovedFile,
        /// What is expected at the old path.
        expect: ExpectedContent,
    },
}

/// What is expected under the new name of a moved file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MovedFile {
    /// Content with this digest.
    Digest(Sha256),
    /// Exactly this file, not written to since: for files that are too large to hash.
    Stamp(FileStamp),
    /// Whatever is there is moved.
    Anything,
}

/// The expected state of a file before it is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedContent {
    /// Content with this digest.
    Digest(Sha256),
    /// No file.
    Absent,
    /// Whatever is there may be replaced.
    Anything,
}

/// Much longer than a change of one file takes with its locks held.
const BRIEF_LOCK_TIMEOUT: Duration = Duration::from_millis(250);

/// How long to wait for directory locks of other programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockTimeout {
    /// As long as for any other change.
    Default,
    /// For the moment that another gate needs to change a file beside: the caller retries later.
    Brief,
}

impl LockTimeout {
    fn duration(self) -> Duration {
        match self {
            Self::Default => LOCK_TIMEOUT,
            Self::Brief => BRIEF_LOCK_TIMEOUT,
        }
    }
}

impl WorkspaceView<'_> {
    /// Restores files, all or none: subject to the rules of the mounts, and never through a symlink.
    ///
    /// # Errors
    /// `Precondition` when a file is not what it is expected to be; else see [`WorkspaceError`].
    pub fn restore(
        &self,
        restorations: &[Restoration],
        lock_timeout: LockTimeout,
        recorder: &dyn Recorder,
    ) -> Result<(), WorkspaceError> {
        let mut steps = RestorePlan::default();
        for restoration in restorations {
            steps.add(self, restoration)?;
        }
        match commit_with_timeout(self, steps.steps, recorder, lock_timeout.duration())? {
            CommitAttempt::Committed => Ok(()),
            CommitAttempt::Conflict => Err(too_many_conflicts("a file that was being put back")),
        }
    }

    /// The place, if its current state is the expected one.
    fn expected<'b>(
        &'b self,
        path: &'b str,
        expect: ExpectedContent,
    ) -> Result<FileTarget<'b>, WorkspaceError> {
        let target = self.find_exactly(path)?;
        let found = match (&target.existing, expect) {
            (_, ExpectedContent::Anything) | (None, ExpectedContent::Absent) => return Ok(target),
            (None, ExpectedContent::Digest(_)) => "it was deleted",
            (Some(_), ExpectedContent::Absent) => "there is a file again",
            (Some(existing), ExpectedContent::Digest(digest))
                if self.hash(&existing.file, path)? == digest =>
            {
                return Ok(target);
            }
            (Some(_), ExpectedContent::Digest(_)) => "it was changed since",
        };
        Err(WorkspaceError::Precondition { path: path.to_owned(), reason: found.to_owned() })
    }

    /// Whether the file at the new path is the one that was moved there; `false` where there is none.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn is_moved_file(&self, now: &str, moved: MovedFile) -> Result<bool, WorkspaceError> {
        match &self.find_exactly(now)?.existing {
            Some(existing) => self.is_moved(existing, now, moved),
            None => Ok(false),
        }
    }

    fn is_moved(&self, there: &OpenedFile, shown: &str, moved: MovedFile) -> Result<bool, WorkspaceError> {
        match moved {
            MovedFile::Anything => Ok(true),
            MovedFile::Digest(digest) => Ok(self.hash(&there.file, shown)? == digest),
            MovedFile::Stamp(stamp) => Ok(FileStamp::from(&there.stat) == stamp),
        }
    }

    /// Removes empty directories of a mount, innermost first. What the rules protect from change stays.
    pub fn remove_empty_directories(&self, alias: &str, folders: &[PathBuf]) {
        let Some(mount) = self.workspace.mount(alias) else { return };
        // No configuration of git names this one, nor what contains it: of hundreds of directories in one another only the innermost is compared.
        let mut unnamed: Option<&PathBuf> = None;
        for folder in folders.iter().rev() {
            let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else { continue };
            let reachable = self.verdict(mount, folder, true) == PathVerdict::Reachable;
            if !reachable || !self.rules_allow_change(mount, folder) {
                continue;
            }
            if !unnamed.is_some_and(|inner| inner.starts_with(folder)) {
                if self.is_target(mount, folder) {
                    continue;
                }
                unnamed = Some(folder);
            }
            if let Ok(parent) = open_directory_by_names(mount, parent) {
                // A directory that is not empty is in use and stays.
                let _ = rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR);
            }
        }
    }

    /// Opens the file that a crash left under a temporary name beside a file, if any.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn open_stale_temporary(
        &self,
        alias: &str,
        beside: &Path,
        name: &OsStr,
    ) -> Result<Option<File>, WorkspaceError> {
        let Some(folder) = self.parent_of(alias, beside)? else { return Ok(None) };
        open_regular_file(&folder, name)
    }

    /// Removes a temporary name that a crash left beside a file, and the secondary names used on filesystems without `O_TMPFILE` or
    /// `RENAME_EXCHANGE`. `is_known` returns whether the content is stored elsewhere; unknown content may be the only copy, and stays.
    ///
    /// # Errors
    /// `Precondition` when unknown content is left; else see [`WorkspaceError`].
    pub fn remove_stale_temporary(
        &self,
        alias: &str,
        beside: &Path,
        name: &OsStr,
        is_known: &dyn Fn(Sha256) -> bool,
    ) -> Result<(), WorkspaceError> {
        let Some(folder) = self.parent_of(alias, beside)? else { return Ok(()) };
        let unlink = |name: &OsStr| match rustix::fs::unlinkat(&folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(WorkspaceError::io("removing", &name.to_string_lossy(), error.into())),
        };
        for name in [name.to_owned(), backup_name(name)] {
            let Some(file) = open_regular_file(&folder, &name)? else { continue };
            let path = name.to_string_lossy().into_owned();
            if !is_known(self.hash(&file, &path)?) {
                let reason = "it may be the only copy of something".to_owned();
                return Err(WorkspaceError::Precondition { path, reason });
            }
            unlink(&name)?;
        }
        // This is at most a partial copy of what was about to be written.
        unlink(&unfinished_name(name))
    }

    /// The parent directory of a file; `None` when it no longer exists.
    fn parent_of(&self, alias: &str, beside: &Path) -> Result<Option<File>, WorkspaceError> {
        let Some(mount) = self.workspace.mount(alias) else { return Ok(None) };
        match open_directory_by_names(mount, beside.parent().unwrap_or(Path::new(""))) {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => {
                Err(WorkspaceError::io("opening the folder of", &mount.show_with_alias(beside), error))
            }
        }
    }

    /// Digest of a file; `None` when it does not exist.
    ///
    /// # Errors
    /// See [`WorkspaceError`].
    pub fn digest_of(&self, path: &str) -> Result<Option<Sha256>, WorkspaceError> {
        match self.find_exactly(path)?.existing {
            Some(existing) => Ok(Some(self.hash(&existing.file, path)?)),
            None => Ok(None),
        }
    }
}

/// Opens a regular file in a directory: `O_NOFOLLOW`, and `O_NONBLOCK` so that a FIFO does not block.
fn open_regular_file(folder: &File, name: &OsStr) -> Result<Option<File>, WorkspaceError> {
    let path = || name.to_string_lossy().into_owned();
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(folder, name, flags, Mode::empty()) {
        Ok(handle) => File::from(handle),
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(WorkspaceError::io("opening", &path(), error.into())),
    };
    let stat =
        rustix::fs::fstat(&file).map_err(|error| WorkspaceError::io("looking at", &path(), error.into()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(WorkspaceError::NotAFile { path: path() });
    }
    Ok(Some(file))
}

/// The steps of a restoration while they are collected.
#[derive(Default)]
struct RestorePlan<'v> {
    steps: Vec<ChangeStep<'v>>,
    /// Places that an earlier step vacates, so that a later one finds no file there.
    freed: Vec<(String, PathBuf)>,
}

impl<'v> RestorePlan<'v> {
    fn add(
        &mut self,
        view: &'v WorkspaceView<'_>,
        restoration: &'v Restoration,
    ) -> Result<(), WorkspaceError> {
        match restoration {
            Restoration::Content { path, content, sha256, mode, owner, expect } => {
                let target = match self.freed(view.find_exactly(path)?) {
                    Some(freed) => freed,
                    None => view.expected(path, *expect)?,
                };
                let dress = restored_attributes(&target, content, *mode, *owner, path)?;
                let staged = stage(view, &target, NewContent::CopyOf(content), Some(dress))?;
                // Compares the digest of the staged copy, not of an earlier read: another process may have the file open.
                if sha256.is_some_and(|sha256| sha256 != staged.after.sha256) {
                    return Err(WorkspaceError::KeptContentDiffers { path: path.clone() });
                }
                self.steps.push(ChangeStep::Put(target, staged));
            }
            Restoration::Absence { path, expect } => {
                // A file that is already gone is in the wanted state, whatever removed it.
                let target = view.find_exactly(path)?;
                if target.existing.is_some() {
                    self.remove(view.expected(path, *expect)?);
                }
            }
            Restoration::Name { now, before, moved, expect } => {
                let from = view.find_exactly(now)?;
                let Some(there) = &from.existing else {
                    return Err(WorkspaceError::NotFound { path: now.clone() });
                };
                if !view.is_moved(there, now, *moved)? {
                    let reason = "it is not the file that was moved there, or was changed since".to_owned();
                    return Err(WorkspaceError::Precondition { path: now.clone(), reason });
                }
                let to = self.vacate(view, before, *expect)?;
                self.freed.push(place(&from));
                self.steps.push(ChangeStep::Move(Box::new((from, to))));
            }
        }
        Ok(())
    }

    fn remove(&mut self, target: FileTarget<'v>) {
        if target.existing.is_some() {
            self.freed.push(place(&target));
            self.steps.push(ChangeStep::Remove(target));
        }
    }

    /// A place that is vacant, or that a step may and will vacate.
    fn vacate(
        &mut self,
        view: &'v WorkspaceView<'_>,
        path: &'v str,
        expect: ExpectedContent,
    ) -> Result<FileTarget<'v>, WorkspaceError> {
        if expect == ExpectedContent::Anything && self.freed(view.find_exactly(path)?).is_none() {
            self.remove(view.find_exactly(path)?);
        }
        let target = view.find_exactly(path)?;
        if target.existing.is_none() {
            return Ok(target);
        }
        self.freed(target).ok_or_else(|| WorkspaceError::AlreadyExists { path: path.to_owned() })
    }

    /// The place as it will be after the steps so far, if one of them vacates it.
    fn freed(&self, target: FileTarget<'v>) -> Option<FileTarget<'v>> {
        let is_freed = self.freed.contains(&place(&target));
        is_freed.then_some(FileTarget { existing: None, sha256: None, ..target })
    }
}

/// The kept mode; all other attributes from the current file or, where there is none, from the kept copy.
fn restored_attributes(
    target: &FileTarget<'_>,
    content: &File,
    mode: u32,
    owner: Option<(u32, u32)>,
    path: &str,
) -> Result<FileAttributes, WorkspaceError> {
    if let Some(existing) = &target.existing {
        return Ok(FileAttributes::of(&existing.file, &existing.stat).with_mode(mode));
    }
    let stat =
        rustix::fs::fstat(content).map_err(|error| WorkspaceError::io("looking at", path, error.into()))?;
    Ok(FileAttributes::of(content, &stat).with_mode(mode).with_owner(owner))
}

fn place(target: &FileTarget<'_>) -> (String, PathBuf) {
    (target.mount.alias().to_owned(), target.location.clone())
}
