//! Moves what a command left to quarantine, without losing it.
//!
//! No symlink is followed: the directory is opened name by name; the artifact is first renamed to an inert name, and only then examined. What cannot
//! be moved further keeps that name, which no tool can reach.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::sync::atomic::Ordering;

use cap_std::fs::Dir;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use serde_json::json;
use toolgate_types::CallId;
use toolgate_workspace::WorkspaceError;
use toolgate_workspace::internals::{FileIdentity, ProtectedArtifact, open_parent, rename_to_free_name};

use crate::ConfinedMount;
use crate::quarantine_bounds::{NOTE_VERSION, QuarantineBounds};

/// A file on another filesystem is copied up to this size.
const MAX_COPY_BYTES: u64 = 64 << 20;

/// How many numbers are tried for one name; other mounts of the call may have used some.
const MAX_NAME_ATTEMPTS: usize = 10_000;

/// Where the artifacts of a call are kept.
#[derive(Clone, Debug)]
pub struct Quarantine<'q> {
    /// The directory, unreachable for every tool.
    pub directory: &'q Dir,
    /// The call that left them.
    pub call: CallId,
    /// The time, as the audit log writes it.
    pub when: String,
    /// How much is kept.
    pub bounds: QuarantineBounds,
}

/// Something that was moved to quarantine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Where it was, as answers show it.
    pub path: String,
    /// Where it is now: below the quarantine directory, or in its own directory if it could not be moved out of it.
    pub kept_as: String,
    /// Whether it could not be moved out of its directory and was only renamed.
    pub in_place: bool,
}

impl ConfinedMount<'_> {
    /// Moves an artifact to quarantine. `None` when it no longer exists.
    ///
    /// # Errors
    /// An I/O error; the artifact may then still take effect.
    pub fn quarantine(
        &self,
        stray: &ProtectedArtifact,
        quarantine: &Quarantine<'_>,
    ) -> Result<Option<Quarantined>, WorkspaceError> {
        let path = self.tree.mount.show_with_alias(&stray.location);
        let failed = |error: io::Error| WorkspaceError::io("taking away", &path, error);
        let Some((folder, name)) = open_parent(self.tree.mount, &stray.location).map_err(failed)? else {
            return Ok(None);
        };
        let private = private_name(&name);
        let hidden = match rename_to_free_name(&folder, &name, &folder, &private) {
            // The command may have removed write permission from the directory; as its owner, the gate can restore it.
            Err(Errno::ACCESS) if make_writable(&folder).is_ok() => {
                rename_to_free_name(&folder, &name, &folder, &private)
            }
            other => other,
        };
        match hidden {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(errno.into())),
        }
        let taken = stat(folder.as_fd(), &private).map_err(failed)?;
        if !FileIdentity::of(&taken).is_same_file(&stray.identity) {
            // Another process has put another file there since the scan; it gets its name back.
            rename_to_free_name(&folder, &private, &folder, &name).map_err(|errno| failed(errno.into()))?;
            return Ok(None);
        }
        let kept = QuarantineSlot::open(quarantine, &name, self.quarantined.fetch_add(1, Ordering::Relaxed))
            .and_then(|shelf| {
                let note = shelf.note(quarantine, &path, stray);
                shelf.move_in(quarantine, &folder, &private, &taken, &note)
            });
        Ok(Some(match kept {
            Ok(kept_as) => Quarantined { path, kept_as, in_place: false },
            Err(_) => {
                let kept_as = self.tree.mount.show_with_alias(&stray.location.with_file_name(&private));
                Quarantined { path, kept_as, in_place: true }
            }
        }))
    }
}

/// A place in the quarantine directory.
struct QuarantineSlot {
    directory: File,
    call: String,
    name: OsString,
}

impl QuarantineSlot {
    /// Finds a free number for this name, from `first` on, and reserves it with an empty note.
    fn open(quarantine: &Quarantine<'_>, name: &OsStr, first: usize) -> io::Result<Self> {
        let call = quarantine.call.to_string();
        match rustix::fs::mkdirat(quarantine.directory, call.as_str(), Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder =
            File::from(rustix::fs::openat(quarantine.directory, call.as_str(), flags, Mode::empty())?);
        let name = shortened(name);
        for number in first..first.saturating_add(MAX_NAME_ATTEMPTS) {
            let name = OsString::from(format!("{number}-{name}"));
            match create(&folder, &note_name(&name)) {
                Ok(_) => return Ok(Self { directory: folder, call, name }),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(io::ErrorKind::QuotaExceeded.into())
    }

    fn note(&self, quarantine: &Quarantine<'_>, path: &str, stray: &ProtectedArtifact) -> Vec<u8> {
        let note = json!({
            "version": NOTE_VERSION,
            "path": path,
            "kind": stray.kind.as_str(),
            "call": self.call,
            "when": quarantine.when,
        });
        format!("{note}\n").into_bytes()
    }

    /// Moves the privately named file here; returns its path below the quarantine directory.
    fn move_in(
        &self,
        quarantine: &Quarantine<'_>,
        from: &File,
        private: &OsStr,
        taken: &Stat,
        note: &[u8],
    ) -> io::Result<String> {
        let kept = self.write_note(note).and_then(|()| {
            match rename_to_free_name(from, private, &self.directory, &self.name) {
                Err(Errno::XDEV) => self.copy(from, private, taken),
                other => Ok(other?),
            }
        });
        if kept.is_err() {
            let _ = rustix::fs::unlinkat(&self.directory, note_name(&self.name), AtFlags::empty());
        }
        kept?;
        quarantine.bounds.count_added(quarantine.directory, taken);
        let _ = self.directory.sync_all();
        Ok(format!("{}/{}", self.call, self.name.to_string_lossy()))
    }

    fn write_note(&self, note: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, note_name(&self.name), flags, Mode::empty())?;
        let mut file = File::from(file);
        file.write_all(note)?;
        file.sync_all()
    }

    /// Copies from another filesystem. The private name is unlinked only after the copy is fsynced.
    fn copy(&self, from: &File, private: &OsStr, taken: &Stat) -> io::Result<()> {
        match FileType::from_raw_mode(taken.st_mode) {
            FileType::RegularFile => self.copy_file(from, private)?,
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(from, private, Vec::new())?;
                rustix::fs::symlinkat(target, &self.directory, &self.name)?;
            }
            _ => return Err(io::ErrorKind::CrossesDevices.into()),
        }
        Ok(rustix::fs::unlinkat(from, private, AtFlags::empty())?)
    }

    fn copy_file(&self, from: &File, private: &OsStr) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let source = File::from(rustix::fs::openat(from, private, flags, Mode::empty())?);
        if rustix::fs::fstat(&source)?.st_size.cast_unsigned() > MAX_COPY_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut copy = create(&self.directory, &self.name)?;
        let copied = io::copy(&mut (&source).take(MAX_COPY_BYTES), &mut copy).and_then(|_| copy.sync_all());
        if copied.is_err() {
            let _ = rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::empty());
        }
        copied
    }
}

fn create(folder: &File, name: &OsStr) -> Result<File, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?))
}

fn note_name(name: &OsStr) -> OsString {
    let mut note = name.to_owned();
    note.push(".json");
    note
}

/// An inert name that the deny list protects from every tool.
fn private_name(name: &OsStr) -> OsString {
    OsString::from(format!(".{}.{}.toolgate", shortened(name), CallId::fresh()))
}

/// The part of a name that is kept, so that the prefix and suffix fit.
fn shortened(name: &OsStr) -> String {
    let fits = |character: &char| !character.is_control() && *character != char::REPLACEMENT_CHARACTER;
    name.to_string_lossy().chars().filter(fits).take(40).collect()
}

fn stat(folder: BorrowedFd<'_>, name: &OsStr) -> io::Result<Stat> {
    Ok(rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Gives the owner all permissions on an open directory. `fchmod` rejects an `O_PATH` descriptor, but `chmod` of its link in `/proc/self/fd` changes
/// the same inode.
fn make_writable(directory: &File) -> io::Result<()> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(directory)?.st_mode) | Mode::RWXU;
    Ok(rustix::fs::chmod(format!("/proc/self/fd/{}", directory.as_raw_fd()), mode)?)
}
