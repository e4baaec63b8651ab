//! The target of a change: an open parent directory and one name in it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use cap_std::fs::{OpenOptions, OpenOptionsExt as _};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use toolgate_types::Sha256;

use crate::error::WorkspaceError;
use crate::mount::Mount;
use crate::open::{OpenedFile, check_rules, identify, open_existing};
use crate::requested_path::{RequestedPath, SHORTER, TOO_LONG};
use crate::view::WorkspaceView;

/// How often a place that changes concurrently is looked up again.
const MAX_ATTEMPTS: usize = 32;

/// A place for a file: its parent is open, the rules allow it, and the current file is open too.
#[derive(Debug)]
pub(crate) struct FileTarget<'a> {
    pub(crate) mount: &'a Mount,
    /// The parent, or the deepest existing directory above it.
    pub(crate) directory: File,
    /// Directories to be created between that and the file.
    pub(crate) missing: Vec<OsString>,
    /// The file's own name.
    pub(crate) name: OsString,
    /// The real location below the mount.
    pub(crate) location: PathBuf,
    /// The current file.
    pub(crate) existing: Option<OpenedFile>,
    /// Digest of that, where it was read.
    pub(crate) sha256: Option<Sha256>,
    /// The path as requested.
    pub(crate) shown: String,
}

/// Finds the place that a path names, for writing.
pub(crate) fn find_target<'a>(
    view: &WorkspaceView<'a>,
    requested: &RequestedPath<'_>,
) -> Result<FileTarget<'a>, WorkspaceError> {
    if requested.is_root() || requested.wants_directory {
        return Err(WorkspaceError::NotAFile { path: requested.shown.to_string() });
    }
    for _ in 0..MAX_ATTEMPTS {
        view.stop.check()?;
        let found = match open_existing(view, requested) {
            Ok(opened) => existing_target(view.mount(opened.mount(requested))?, requested, opened)?,
            Err(WorkspaceError::NotFound { .. }) => new_target(view, requested)?,
            Err(error) => return Err(error),
        };
        let Some(target) = found else { continue };
        check_rules(view, target.mount, &target.location, false, &requested.shown)?;
        if !view.may_change(target.mount, &target.location) {
            return Err(WorkspaceError::ReadOnly { path: requested.shown.to_string() });
        }
        return Ok(target);
    }
    Err(too_many_conflicts(&requested.shown))
}

/// Like [`find_target`], for removing the name itself: a symlink must not stand for its target, or it would be left dangling.
pub(crate) fn find_named<'a>(
    view: &WorkspaceView<'a>,
    requested: &RequestedPath<'_>,
) -> Result<FileTarget<'a>, WorkspaceError> {
    let target = find_target(view, requested)?;
    let is_link = match is_in_named_mount(view, &target, requested) {
        true => is_link(&target, requested.relative()),
        false => is_link_elsewhere(view, requested)?,
    };
    if target.existing.is_some() && is_link {
        return Err(WorkspaceError::IsLink { path: requested.shown.to_string() });
    }
    Ok(target)
}

/// Whether a target lies in the requested mount, that is, no symlink led into another one.
fn is_in_named_mount(
    view: &WorkspaceView<'_>,
    target: &FileTarget<'_>,
    requested: &RequestedPath<'_>,
) -> bool {
    view.mount(requested.mount).is_ok_and(|mount| mount.alias() == target.mount.alias())
}

/// Like [`is_link`], where a symlink led into another mount: checks the directory that really holds the last name.
fn is_link_elsewhere(
    view: &WorkspaceView<'_>,
    requested: &RequestedPath<'_>,
) -> Result<bool, WorkspaceError> {
    let mut parent = requested.clone();
    let Some(name) = parent.pop() else { return Ok(false) };
    let directory = open_existing(view, &parent)?;
    let stat = stat_name(&directory.file, &name)
        .map_err(|error| WorkspaceError::io("looking at", &requested.shown, error.into()))?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

/// Whether the last name of the requested path is a symlink.
fn is_link(target: &FileTarget<'_>, named: &Path) -> bool {
    if target.location == named {
        return false;
    }
    match target.mount.directory().symlink_metadata(named) {
        Ok(metadata) => metadata.is_symlink(),
        // `symlink_metadata` does not follow absolute symlinks on the path.
        Err(_) => named.file_name() != Some(&target.name),
    }
}

impl WorkspaceView<'_> {
    /// The place that a path names, for removing what is there.
    pub(crate) fn find_unlinked(&self, path: &str) -> Result<FileTarget<'_>, WorkspaceError> {
        find_named(self, &self.request(path)?)
    }

    /// The place that a journal entry names with its alias. Never through a symlink: the entry holds real locations, so a symlink on the path was put
    /// there since. A file of the gate that only its own guard may change was changed by that guard, and is restored without it.
    pub(crate) fn find_exactly<'b>(&'b self, path: &'b str) -> Result<FileTarget<'b>, WorkspaceError> {
        let view = WorkspaceView { unlocked: Some(path), ..*self };
        let requested = view.request(path)?;
        let target = find_target(&view, &requested)?;
        if target.location != requested.relative() || !is_in_named_mount(&view, &target, &requested) {
            return Err(WorkspaceError::ReplacedByLink { path: requested.shown.to_string() });
        }
        Ok(target)
    }

    /// The place that a path names, for writing.
    pub(crate) fn find_by_name(&self, path: &str) -> Result<FileTarget<'_>, WorkspaceError> {
        find_target(self, &self.request(path)?)
    }
}

pub(crate) fn too_many_conflicts(shown: &str) -> WorkspaceError {
    WorkspaceError::Precondition {
        path: shown.to_owned(),
        reason: "it keeps being changed by others".to_owned(),
    }
}

/// The parent of an opened file, at its real location; `None` when it was moved concurrently.
fn existing_target<'a>(
    mount: &'a Mount,
    requested: &RequestedPath<'_>,
    opened: OpenedFile,
) -> Result<Option<FileTarget<'a>>, WorkspaceError> {
    if opened.is_directory() {
        return Err(WorkspaceError::NotAFile { path: requested.shown.to_string() });
    }
    let Some(name) = opened.location.file_name().map(OsStr::to_owned) else { return Ok(None) };
    let parent = opened.location.parent().unwrap_or(Path::new("")).to_path_buf();
    let Some(directory) = open_directory_exactly(mount, &parent, &requested.shown)? else { return Ok(None) };
    match stat_name(&directory, &name) {
        Ok(stat) if same_file(&stat, &opened.stat) => {}
        Ok(_) | Err(Errno::NOENT | Errno::NOTDIR | Errno::STALE) => return Ok(None),
        Err(error) => return Err(WorkspaceError::io("looking at", &requested.shown, error.into())),
    }
    let location = opened.location.clone();
    let shown = requested.shown.to_string();
    Ok(Some(FileTarget {
        mount,
        directory,
        missing: Vec::new(),
        name,
        location,
        existing: Some(opened),
        sha256: None,
        shown,
    }))
}

/// The deepest existing directory above a missing file; `None` when the file appeared concurrently.
fn new_target<'a>(
    view: &WorkspaceView<'a>,
    requested: &RequestedPath<'_>,
) -> Result<Option<FileTarget<'a>>, WorkspaceError> {
    let mut above = requested.clone();
    let mut missing: Vec<OsString> = Vec::new();
    let opened = loop {
        let Some(name) = above.pop() else { return Ok(None) };
        missing.push(name);
        match open_existing(view, &above) {
            Ok(opened) if opened.is_directory() => break opened,
            Ok(_) => return Err(WorkspaceError::NotADirectory { path: requested.shown.to_string() }),
            Err(WorkspaceError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    };
    missing.reverse();
    let mount = view.mount(opened.mount(&above))?;
    let Some(first) = missing.first() else { return Ok(None) };
    match stat_name(&opened.file, first) {
        Err(Errno::NOENT) => {}
        // Everything that can be opened was opened above, so this is a dangling symlink, or it has just appeared.
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => {
            return Err(WorkspaceError::SymlinkOutside { path: requested.shown.to_string(), dangling: true });
        }
        Ok(_) => return Ok(None),
        Err(error) => return Err(WorkspaceError::io("looking at", &requested.shown, error.into())),
    }
    let location = missing.iter().fold(opened.location.clone(), |path, name| path.join(name));
    // `mkdirat` with one name at a time has no limit on the total length; opening what is in the directory has (`PATH_MAX`).
    if !mount.can_locate(&location) {
        return Err(WorkspaceError::InvalidPath { reason: TOO_LONG, help: SHORTER });
    }
    let Some(name) = missing.pop() else { return Ok(None) };
    let shown = requested.shown.to_string();
    Ok(Some(FileTarget {
        mount,
        directory: opened.file,
        missing,
        name,
        location,
        existing: None,
        sha256: None,
        shown,
    }))
}

/// Opens a directory beneath a mount. With `O_DIRECTORY` and `O_NONBLOCK` anything else of that name, such as a FIFO, is refused without blocking.
///
/// # Errors
/// I/O errors.
pub fn open_directory(mount: &Mount, location: &Path) -> io::Result<File> {
    let path = if location.as_os_str().is_empty() { Path::new(".") } else { location };
    let flags = OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or(0));
    Ok(mount.directory().open_with(path, &options)?.into_std())
}

/// Opens a directory beneath a mount name by name, `O_NOFOLLOW` each time: no symlink is followed, wherever it leads.
pub(crate) fn open_directory_by_names(mount: &Mount, location: &Path) -> io::Result<File> {
    let mut directory = open_directory(mount, Path::new(""))?;
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    for name in location.components() {
        if !matches!(name, std::path::Component::Normal(_)) {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        directory = File::from(rustix::fs::openat(&directory, name.as_os_str(), flags, Mode::empty())?);
    }
    Ok(directory)
}

/// Opens a directory by its real location; `None` when that is no longer its real location.
fn open_directory_exactly(
    mount: &Mount,
    location: &Path,
    shown: &str,
) -> Result<Option<File>, WorkspaceError> {
    let file =
        match open_directory(mount, location).map_err(|error| WorkspaceError::io("opening", shown, error)) {
            Ok(file) => file,
            // A lack of resources or too long a path does not mean that the directory was moved.
            Err(error @ (WorkspaceError::TooManyOpenFiles { .. } | WorkspaceError::InvalidPath { .. })) => {
                return Err(error);
            }
            Err(_) => return Ok(None),
        };
    let opened = match identify(mount, file, shown) {
        Ok(opened) => opened,
        Err(
            WorkspaceError::NotFound { .. }
            | WorkspaceError::Outside { .. }
            | WorkspaceError::SpecialFile { .. },
        ) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    Ok((opened.is_directory() && opened.location == location).then_some(opened.file))
}

pub(crate) fn stat_name(directory: &File, name: &OsStr) -> Result<Stat, Errno> {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// Whether a file is the same one and has not been written to.
pub(crate) fn is_unmodified(before: &Stat, now: &Stat) -> bool {
    same_file(before, now)
        && before.st_size == now.st_size
        && before.st_mtime == now.st_mtime
        && before.st_mtime_nsec == now.st_mtime_nsec
}

pub(crate) fn same_file(one: &Stat, other: &Stat) -> bool {
    one.st_dev == other.st_dev && one.st_ino == other.st_ino
}

impl FileTarget<'_> {
    /// Creates the missing directories, one name at a time and never through a symlink, and adds those that it created to `made`.
    pub(crate) fn create_parents(&mut self, made: &mut Vec<(File, OsString)>) -> Result<(), WorkspaceError> {
        for name in std::mem::take(&mut self.missing) {
            let created = match rustix::fs::mkdirat(&self.directory, &name, Mode::from_raw_mode(0o755)) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(error) => {
                    return Err(WorkspaceError::io("making a folder for", &self.shown, error.into()));
                }
            };
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let next = rustix::fs::openat(&self.directory, &name, flags, Mode::empty())
                .map_err(|error| WorkspaceError::io("opening the folder of", &self.shown, error.into()))?;
            let above = std::mem::replace(&mut self.directory, File::from(next));
            if created {
                let saved = above.sync_all();
                made.push((above, name));
                saved.map_err(|error| WorkspaceError::io("saving the folder of", &self.shown, error))?;
            }
        }
        Ok(())
    }

    /// Whether this is the file that was found, unmodified. Link count and `st_ctime` are not compared: keeping it for undo changes them.
    pub(crate) fn is_unchanged(&self, now: &Stat) -> bool {
        self.existing.as_ref().is_some_and(|existing| is_unmodified(&existing.stat, now))
    }
}
