//! One name in an open folder. What was looked at is what is read and written, whatever becomes of the way there meanwhile.

use std::ffi::OsStr;
use std::io::{self, Write as _};

use cap_std::fs::{Dir, MetadataExt as _, OpenOptions, OpenOptionsExt as _};
use rustix::fs::OFlags;
use toolgate_types::CallId;

use crate::ambient::read_regular;

pub(crate) struct Spot<'f> {
    folder: &'f Dir,
    name: &'f OsStr,
}

impl<'f> Spot<'f> {
    pub(crate) fn new(folder: &'f Dir, name: &'f OsStr) -> Self {
        Self { folder, name }
    }

    /// What the file holds. A link is not followed, and a pipe or a device is none.
    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        read_regular(self.open()?.into_std())
    }

    fn open(&self) -> io::Result<cap_std::fs::File> {
        // Without `NONBLOCK`, opening a pipe waits for somebody who writes into it.
        let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits()).unwrap_or_default();
        self.folder.open_with(self.name, OpenOptions::new().read(true).custom_flags(flags))
    }

    /// Writes a new file, whole or not at all; whoever comes first wins.
    pub(crate) fn write_new(&self, content: &[u8], mode: u32) -> io::Result<()> {
        let draft = self.draft(content, mode)?;
        let placed = self.folder.hard_link(&draft, self.folder, self.name);
        self.folder.remove_file(&draft)?;
        placed?;
        self.save_folder()
    }

    /// Writes a file that only this user may read, in one step and over what is there. That is never followed where it is a link: in a folder that others
    /// write as well, one could lead anywhere.
    pub(crate) fn write_own_over(&self, content: &[u8]) -> io::Result<()> {
        self.refuse_other_than_file()?;
        let draft = self.draft(content, 0o600)?;
        self.put(&draft)
    }

    /// Puts other content into a file, in one step and only while it is what was read.
    pub(crate) fn replace(&self, read: &[u8], content: &[u8]) -> io::Result<()> {
        let mode = self.open()?.metadata()?.mode() & 0o7777;
        let draft = self.draft(content, mode)?;
        match self.read() {
            Ok(now) if now == read => self.put(&draft),
            now => {
                self.folder.remove_file(&draft)?;
                now.and(Err(io::Error::other("somebody else changed it meanwhile")))
            }
        }
    }

    /// Refuses a link, a folder or a device at a place where a plain file is expected, or nothing.
    pub(crate) fn refuse_other_than_file(&self) -> io::Result<()> {
        match self.folder.symlink_metadata(self.name) {
            Ok(found) if found.is_file() => Ok(()),
            Ok(found) => {
                let what = if found.is_symlink() { "a link" } else { "no file" };
                Err(io::Error::other(format!("`{}` beside it is {what}; move it away", self.name.display())))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A file that was not there before, beside the one whose content it has.
    fn draft(&self, content: &[u8], mode: u32) -> io::Result<String> {
        let draft = format!(".{}.{}.new", self.name.to_string_lossy(), CallId::fresh());
        let mut options = OpenOptions::new();
        let mut file = self.folder.open_with(&draft, options.write(true).create_new(true).mode(mode))?;
        if let Err(error) = file.write_all(content).and_then(|()| file.sync_all()) {
            self.folder.remove_file(&draft)?;
            return Err(error);
        }
        Ok(draft)
    }

    fn put(&self, draft: &str) -> io::Result<()> {
        if let Err(error) = self.folder.rename(draft, self.folder, self.name) {
            self.folder.remove_file(draft)?;
            return Err(error);
        }
        self.save_folder()
    }

    fn save_folder(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(self.folder)?)
    }
}
