//! Content on disk that has no name yet.
//!
//! New content is written and synced in an unnamed file (`O_TMPFILE`), so a crash before the change leaves nothing behind. Where the filesystem lacks
//! `O_TMPFILE`, it stays in a `memfd` and gets a temporary name only after the change was recorded.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, MemfdFlags, Mode, OFlags, Stat};
use rustix::io::Errno;
use toolgate_types::Sha256;
use toolgate_types::digest::Sha256Hasher;

use crate::background_fsync::PendingSync;
use crate::change::{ContentDigest, FileStamp};
use crate::error::WorkspaceError;
use crate::file_attributes::FileAttributes;
use crate::file_target::FileTarget;
use crate::swap::{rename_to_free_name, unfinished_name};
use crate::view::WorkspaceView;

/// The future content of a file.
#[derive(Clone, Copy)]
pub(crate) enum NewContent<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// These bytes, with their digest.
    Digested(&'a [u8], &'a dyn Fn() -> Sha256),
    /// The current content of a file, then these bytes.
    Appended(&'a File, &'a [u8]),
    /// The content of another file.
    CopyOf(&'a File),
}

/// Content that has no name yet.
#[derive(Debug)]
pub(crate) struct StagedFile {
    file: Arc<File>,
    /// `stat` of the unnamed file; `None` for one in memory.
    on_disk: Option<Box<Stat>>,
    attributes: FileAttributes,
    sync: Option<PendingSync>,
    pub(crate) after: ContentDigest,
}

/// Writes content to an unnamed file on the target's filesystem and starts syncing it. By default it gets the attributes of the file that it
/// replaces.
pub(crate) fn stage(
    view: &WorkspaceView<'_>,
    target: &FileTarget<'_>,
    content: NewContent<'_>,
    dress: Option<FileAttributes>,
) -> Result<StagedFile, WorkspaceError> {
    let failed = |error: io::Error| WorkspaceError::io("writing", &target.shown, error);
    let (file, in_memory) = unnamed_file(&target.directory).map_err(failed)?;
    let file = Arc::new(file);
    let copied = write(view, &file, content, target)?;
    let replaced =
        || target.existing.as_ref().map(|existing| FileAttributes::of(&existing.file, &existing.stat));
    let dress = dress.or_else(replaced).unwrap_or_else(FileAttributes::for_new_file);
    let (mut saving, mut on_disk) = (None, None);
    if !in_memory {
        dress.apply_to(&file).map_err(failed)?;
        on_disk = Some(Box::new(rustix::fs::fstat(&file).map_err(|errno| failed(errno.into()))?));
        saving = Some(PendingSync::begin(&file));
    }
    // Hashing takes longer than writing, but less time than the fsync that runs in parallel.
    let after = match content {
        NewContent::Bytes(bytes) => ContentDigest { sha256: Sha256::of(bytes), bytes: bytes.len() as u64 },
        NewContent::Digested(bytes, sha256) => ContentDigest { sha256: sha256(), bytes: bytes.len() as u64 },
        NewContent::Appended(..) | NewContent::CopyOf(_) => copied,
    };
    Ok(StagedFile { file, on_disk, attributes: dress, sync: saving, after })
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

/// Writes content; returns the digest of what was copied from other files.
fn write(
    view: &WorkspaceView<'_>,
    file: &File,
    content: NewContent<'_>,
    target: &FileTarget<'_>,
) -> Result<ContentDigest, WorkspaceError> {
    let mut writer = HashingWriter { file, hasher: Sha256Hasher::new(), bytes: 0 };
    let written = match content {
        NewContent::Bytes(bytes) | NewContent::Digested(bytes, _) => (&*file).write_all(bytes),
        NewContent::Appended(existing, bytes) => {
            // The file may grow while it is copied; the copy is limited all the same.
            writer.copy_from(existing, view.changeable(), view).and_then(|()| writer.write_all(bytes))
        }
        NewContent::CopyOf(source) => writer.copy_from(source, u64::MAX, view),
    };
    written.map_err(|error| match view.stop.reason() {
        Some(reason) => WorkspaceError::Stopped(reason),
        None => WorkspaceError::io("writing", &target.shown, error),
    })?;
    Ok(ContentDigest { sha256: writer.hasher.finish(), bytes: writer.bytes })
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

    fn copy_from(&mut self, mut source: &File, room: u64, view: &WorkspaceView<'_>) -> io::Result<()> {
        source.rewind()?;
        let mut buffer = vec![0; 128 * 1024];
        loop {
            view.stop.check().map_err(|_| io::Error::from(io::ErrorKind::Interrupted))?;
            match source.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) if self.bytes.saturating_add(count as u64) > room => {
                    return Err(io::ErrorKind::FileTooLarge.into());
                }
                Ok(count) => self.write_all(buffer.get(..count).ok_or(io::ErrorKind::InvalidData)?)?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl StagedFile {
    /// Whether it is an unnamed file on disk that only needs a name.
    pub(crate) fn has_no_name(&self) -> bool {
        self.on_disk.is_some()
    }

    /// The file that will hold the content, as far as that is known before it has a name.
    pub(crate) fn stamp(&self) -> Option<FileStamp> {
        self.on_disk.as_deref().map(FileStamp::from)
    }

    /// Waits until the content is synced, so that no name ever refers to incomplete content. Content in memory is synced when it gets its name.
    pub(crate) fn wait_for_sync(&mut self) -> io::Result<()> {
        self.sync.take().map_or(Ok(()), PendingSync::finish)
    }

    /// Gives the content a name in a directory and returns its `stat`; fails if the name exists.
    pub(crate) fn link(&self, directory: &File, name: &OsStr) -> io::Result<Stat> {
        // Only the link count and `st_ctime` have changed since it was staged.
        let Some(ours) = self.on_disk.as_deref().copied() else { return self.copy_to(directory, name) };
        let unnamed = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        rustix::fs::linkat(CWD, unnamed, directory, name, AtFlags::SYMLINK_FOLLOW)?;
        Ok(ours)
    }

    /// Writes under the unfinished name first: after a crash, a file of that name is known to be incomplete.
    fn copy_to(&self, directory: &File, name: &OsStr) -> io::Result<Stat> {
        let unfinished = unfinished_name(name);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let named =
            File::from(rustix::fs::openat(directory, &unfinished, flags, Mode::from_raw_mode(0o600))?);
        let copied = self.copy_into(&named).and_then(|()| {
            rename_to_free_name(directory, &unfinished, directory, name)?;
            Ok(rustix::fs::fstat(&named)?)
        });
        if copied.is_err() {
            let _ = rustix::fs::unlinkat(directory, &unfinished, AtFlags::empty());
        }
        copied
    }

    fn copy_into(&self, named: &File) -> io::Result<()> {
        (&*self.file).rewind()?;
        io::copy(&mut &*self.file, &mut &*named)?;
        self.attributes.apply_to(named)?;
        named.sync_all()
    }
}
