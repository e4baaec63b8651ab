//! A file name in an open directory. The directory is held by descriptor, so a rename or symlink on the path cannot redirect a later read or write
//! (TOCTOU).

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use rustix::fs::{Gid, Mode, OFlags, Uid, fchmod, fchown, openat};
use toolgate_types::CallId;

use crate::ambient::read_regular;

/// A file name in an open directory, written by rename so that a reader sees the old content or the new.
pub struct AtomicFile<'f> {
    directory: &'f Dir,
    name: &'f OsStr,
}

impl<'f> AtomicFile<'f> {
    /// The file of this name in this directory.
    pub fn new(directory: &'f Dir, name: &'f OsStr) -> Self {
        Self { directory, name }
    }

    /// The content of the file. Symlinks are not followed (`O_NOFOLLOW`); a FIFO or a device is refused.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        read_regular(self.open()?)
    }

    fn open(&self) -> io::Result<File> {
        // Without `O_NONBLOCK`, opening a FIFO blocks until a writer opens its other end.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(self.directory, self.name, flags, Mode::empty())?))
    }

    /// Writes a new file, whole or not at all: `link` from a temporary file fails with `EEXIST` if another process created it first.
    pub fn write_new(&self, content: &[u8], mode: u32) -> io::Result<()> {
        let draft = self.temp_file(content, mode, None)?;
        let placed = self.directory.hard_link(&draft, self.directory, self.name);
        self.directory.remove_file(&draft)?;
        placed?;
        self.sync_directory()
    }

    /// Writes a file with mode 0600 by rename, replacing the current one. A symlink at this name is refused: in a directory that others can write
    /// too, it could point anywhere.
    pub fn replace_private(&self, content: &[u8]) -> io::Result<()> {
        self.require_regular_file()?;
        let draft = self.temp_file(content, 0o600, None)?;
        self.rename_into_place(&draft)
    }

    /// Replaces the content by rename, and only if the file still holds the bytes that were read. Owner, group and mode are kept.
    pub fn replace(&self, read: &[u8], content: &[u8]) -> io::Result<()> {
        let like = self.open()?.metadata()?;
        // Mode 0600 until owner and group are set: the content must not be readable by others in between.
        let draft = self.temp_file(content, 0o600, Some(&like))?;
        match self.read() {
            Ok(now) if now == read => self.rename_into_place(&draft),
            now => {
                self.directory.remove_file(&draft)?;
                now.and(Err(io::Error::other("somebody else changed it meanwhile")))
            }
        }
    }

    /// Refuses anything but a regular file or no file: a symlink, a directory, a device.
    pub fn require_regular_file(&self) -> io::Result<()> {
        match self.directory.symlink_metadata(self.name) {
            Ok(found) if found.is_file() => Ok(()),
            Ok(found) => {
                let what = if found.is_symlink() { "a link" } else { "no file" };
                Err(io::Error::other(format!("`{}` beside it is {what}; move it away", self.name.display())))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A new temporary file in the same directory with this content, and with the owner, group and mode of `like` if given.
    fn temp_file(&self, content: &[u8], mode: u32, like: Option<&Metadata>) -> io::Result<String> {
        let draft = format!(".{}.{}.new", self.name.to_string_lossy(), CallId::fresh());
        let mut options = OpenOptions::new();
        let file = self.directory.open_with(&draft, options.write(true).create_new(true).mode(mode))?;
        let mut file = file.into_std();
        let dressed = like.map_or(Ok(()), |like| copy_ownership(&file, like));
        if let Err(error) = dressed.and_then(|()| file.write_all(content)).and_then(|()| file.sync_all()) {
            self.directory.remove_file(&draft)?;
            return Err(error);
        }
        Ok(draft)
    }

    fn rename_into_place(&self, draft: &str) -> io::Result<()> {
        if let Err(error) = self.directory.rename(draft, self.directory, self.name) {
            self.directory.remove_file(draft)?;
            return Err(error);
        }
        self.sync_directory()
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(self.directory)?)
    }
}

/// Gives a file the owner, group and mode of another one.
fn copy_ownership(file: &File, like: &Metadata) -> io::Result<()> {
    let is = file.metadata()?;
    if (is.uid(), is.gid()) != (like.uid(), like.gid()) {
        fchown(file, Some(Uid::from_raw(like.uid())), Some(Gid::from_raw(like.gid()))).map_err(|error| {
            let (user, group) = (like.uid(), like.gid());
            io::Error::other(format!(
                "it belongs to user {user} and group {group}, which cannot be kept: {error}"
            ))
        })?;
    }
    // `fchown` clears the set-user-ID and set-group-ID bits, so `fchmod` comes last.
    Ok(fchmod(file, Mode::from_raw_mode(like.mode() & 0o7777))?)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "files are made by hand")]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use rustix::process::geteuid;
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

    use super::*;
    use crate::ambient::open_directory;

    /// Independent of the umask of the process.
    #[test]
    fn a_file_that_is_replaced_keeps_its_mode_and_its_owner() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Dir::from_std_file(open_directory(scratch.path()).unwrap());
        let path = scratch.path().join("file");
        let spot = AtomicFile::new(&folder, OsStr::new("file"));
        for mode in [0o664, 0o600, 0o666, 0o640, 0o2755] {
            std::fs::write(&path, "old").unwrap();
            // Only root may `chown`.
            let owner = geteuid().is_root().then_some(12345);
            chown(&path, owner, owner).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let before = std::fs::metadata(&path).unwrap();
            spot.replace(b"old", b"new").unwrap();
            let after = std::fs::metadata(&path).unwrap();
            assert_eq!(after.mode() & 0o7777, mode, "{mode:o}");
            assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
            assert_ne!(after.ino(), before.ino());
            assert_eq!(std::fs::read(&path).unwrap(), b"new");
        }
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 1);
    }

    /// Only root can make such a file, and then drop the capability to `chown`.
    #[test]
    fn a_file_whose_owner_cannot_be_kept_is_left_alone() {
        if !geteuid().is_root() {
            return;
        }
        let scratch = tempfile::tempdir().unwrap();
        let folder = Dir::from_std_file(open_directory(scratch.path()).unwrap());
        let path = scratch.path().join("file");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        chown(&path, Some(12345), Some(12345)).unwrap();
        let replace = || {
            let none = CapabilitySet::empty();
            set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
                .unwrap();
            AtomicFile::new(&folder, OsStr::new("file")).replace(b"old", b"new")
        };
        let refused = std::thread::scope(|scope| scope.spawn(replace).join().unwrap()).unwrap_err();
        assert!(refused.to_string().contains("belongs to user 12345"), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_is_not_read_and_not_replaced() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Dir::from_std_file(open_directory(scratch.path()).unwrap());
        std::fs::write(scratch.path().join("file"), "old").unwrap();
        symlink("file", scratch.path().join("link")).unwrap();
        let spot = AtomicFile::new(&folder, OsStr::new("link"));
        spot.read().unwrap_err();
        spot.replace(b"old", b"new").unwrap_err();
        assert_eq!(std::fs::read(scratch.path().join("file")).unwrap(), b"old");
    }
}
