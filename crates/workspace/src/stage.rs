//! Content on disk that has no name yet.
//!
//! New content is written and saved under no name at all (`O_TMPFILE`), so that a crash before the change leaves nothing behind.
//! Where a filesystem cannot do that, it waits in memory and gets a temporary name only after the change was recorded.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::fs::{AtFlags, CWD, Gid, MemfdFlags, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;
use toolgate_types::digest::Sha256Hasher;

use crate::change::After;
use crate::error::WorkspaceError;
use crate::target::Target;
use crate::view::View;

/// Mode of files that did not exist before.
const NEW_FILE_MODE: u32 = 0o644;

/// What a file will hold.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// What a file holds now, then these bytes.
    Appended(&'a File, &'a [u8]),
    /// What another file holds.
    CopyOf(&'a File),
}

/// Content that waits for its name.
#[derive(Debug)]
pub(crate) struct Staged {
    file: File,
    in_memory: bool,
    mode: u32,
    owner: Option<(u32, u32)>,
    pub(crate) after: After,
}

/// Writes content beside its target, unnamed and saved.
pub(crate) fn stage(
    view: &View<'_>,
    target: &Target<'_>,
    content: Content<'_>,
    mode: Option<u32>,
) -> Result<Staged, WorkspaceError> {
    let failed = |error: io::Error| WorkspaceError::io("writing", &target.shown, error);
    let (file, in_memory) = unnamed_file(&target.directory).map_err(failed)?;
    let after = fill(view, &file, content, target)?;
    let stat = target.existing.as_ref().map(|existing| &existing.stat);
    let mode = mode.or_else(|| stat.map(|stat| stat.st_mode & 0o777)).unwrap_or(NEW_FILE_MODE);
    let staged = Staged { file, in_memory, mode, owner: stat.map(owner_of), after };
    if !in_memory {
        staged.dress(&staged.file).map_err(failed)?;
        staged.file.sync_all().map_err(failed)?;
    }
    Ok(staged)
}

fn owner_of(stat: &Stat) -> (u32, u32) {
    (stat.st_uid, stat.st_gid)
}

fn unnamed_file(directory: &File) -> io::Result<(File, bool)> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::openat(directory, ".", flags, Mode::from_raw_mode(0o600)) {
        Ok(handle) => Ok((File::from(handle), false)),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            let handle: OwnedFd = rustix::fs::memfd_create("toolgate-staged", MemfdFlags::CLOEXEC)?;
            Ok((File::from(handle), true))
        }
        Err(error) => Err(error.into()),
    }
}

fn fill(
    view: &View<'_>,
    file: &File,
    content: Content<'_>,
    target: &Target<'_>,
) -> Result<After, WorkspaceError> {
    let mut writer = HashingWriter { file, hasher: Sha256Hasher::new(), bytes: 0 };
    let written = match content {
        Content::Bytes(bytes) => writer.write_all(bytes),
        Content::Appended(existing, bytes) => {
            writer.copy_from(existing, view).and_then(|()| writer.write_all(bytes))
        }
        Content::CopyOf(source) => writer.copy_from(source, view),
    };
    written.map_err(|error| match view.stop.reason() {
        Some(reason) => WorkspaceError::Stopped(reason),
        None => WorkspaceError::io("writing", &target.shown, error),
    })?;
    Ok(After { sha256: writer.hasher.finish(), bytes: writer.bytes })
}

struct HashingWriter<'a> {
    file: &'a File,
    hasher: Sha256Hasher,
    bytes: u64,
}

impl HashingWriter<'_> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes)
    }

    fn copy_from(&mut self, mut source: &File, view: &View<'_>) -> io::Result<()> {
        source.rewind()?;
        let mut buffer = vec![0; 128 * 1024];
        loop {
            view.stop.check().map_err(|_| io::Error::from(io::ErrorKind::Interrupted))?;
            match source.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => self.write_all(buffer.get(..count).unwrap_or_default())?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Staged {
    /// Whether it lies on the disk already and only needs a name.
    pub(crate) fn has_no_name(&self) -> bool {
        !self.in_memory
    }

    /// Gives the content a name in a directory; fails if the name is taken.
    pub(crate) fn link(&self, directory: &File, name: &std::ffi::OsStr) -> io::Result<()> {
        if self.in_memory {
            return self.copy_to(directory, name);
        }
        let unnamed = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        rustix::fs::linkat(CWD, unnamed, directory, name, AtFlags::SYMLINK_FOLLOW)?;
        Ok(())
    }

    fn copy_to(&self, directory: &File, name: &std::ffi::OsStr) -> io::Result<()> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let named = File::from(rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(0o600))?);
        (&self.file).rewind()?;
        io::copy(&mut &self.file, &mut &named)?;
        self.dress(&named)?;
        named.sync_all()
    }

    /// Mode as it was; owner too, where we may.
    fn dress(&self, file: &File) -> io::Result<()> {
        if let Some((uid, gid)) = self.owner {
            // Only root may give files away: an ordinary user keeps its own name on what it writes.
            let _ = rustix::fs::fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        }
        rustix::fs::fchmod(file, Mode::from_raw_mode(self.mode))?;
        Ok(())
    }
}
