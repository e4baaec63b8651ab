//! Attributes of a file besides its content: mode, owner, ACL and `user.*` extended attributes.
//!
//! New content replaces a file under its name, so it must keep the file's attributes. Where one cannot be copied, access is never widened.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt as _;

use rustix::fs::{Gid, Mode, Stat, Uid, XattrFlags};

/// Mode of new files.
const NEW_FILE_MODE: u32 = 0o644;
/// With an ACL, the group bits of the mode are only its mask.
const POSIX_ACL_XATTR: &str = "system.posix_acl_access";
const MODE_WITHOUT_GROUP: u32 = 0o707;
/// Buffer for one attribute value or the list of names; Linux limits each to 64 KiB.
const MAX_XATTR_BYTES: usize = 1 << 16;

/// Mode, owner, ACL and extended attributes.
#[derive(Clone, Debug)]
pub(crate) struct FileAttributes {
    mode: u32,
    owner: Option<(u32, u32)>,
    access_list: PosixAcl,
    xattrs: Vec<(OsString, Vec<u8>)>,
}

#[derive(Clone, Debug)]
enum PosixAcl {
    None,
    Known(Vec<u8>),
    /// There may be an ACL, and it cannot be read.
    Unknown,
}

impl FileAttributes {
    /// The attributes of a new file.
    pub(crate) fn for_new_file() -> Self {
        Self { mode: NEW_FILE_MODE, owner: None, access_list: PosixAcl::None, xattrs: Vec::new() }
    }

    /// The attributes of an open file.
    pub(crate) fn of(file: &File, stat: &Stat) -> Self {
        let owner = Some((stat.st_uid, stat.st_gid));
        let mut dress = Self { mode: stat.st_mode & 0o777, owner, ..Self::for_new_file() };
        match xattr_names(file) {
            Ok(names) => names.into_iter().for_each(|name| dress.read_xattr(file, name)),
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {}
            Err(_) => dress.access_list = PosixAcl::Unknown,
        }
        dress
    }

    /// With another mode.
    pub(crate) fn with_mode(self, mode: u32) -> Self {
        Self { mode, ..self }
    }

    /// With another owner, if given.
    pub(crate) fn with_owner(self, owner: Option<(u32, u32)>) -> Self {
        Self { owner: owner.or(self.owner), ..self }
    }

    fn read_xattr(&mut self, file: &File, name: OsString) {
        let is_access_list = name == POSIX_ACL_XATTR;
        if !is_access_list && !name.as_encoded_bytes().starts_with(b"user.") {
            return;
        }
        let mut value = Vec::with_capacity(MAX_XATTR_BYTES);
        let read = rustix::fs::fgetxattr(file, &name, rustix::buffer::spare_capacity(&mut value));
        value.shrink_to_fit();
        match read {
            Ok(_) if is_access_list => self.access_list = PosixAcl::Known(value),
            Ok(_) => self.xattrs.push((name, value)),
            Err(_) if is_access_list => self.access_list = PosixAcl::Unknown,
            Err(_) => {}
        }
    }

    /// Applies them to a file that no other process has open yet.
    pub(crate) fn apply_to(&self, file: &File) -> io::Result<()> {
        if let Some((uid, gid)) = self.owner {
            // Only root may `chown`: for an ordinary user the file stays its own.
            let _ = rustix::fs::fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        }
        for (name, value) in &self.xattrs {
            // A filesystem without room or support for `user.*` attributes does not prevent a change.
            let _ = rustix::fs::fsetxattr(file, name, value, XattrFlags::empty());
        }
        let (mode, access_list) = match &self.access_list {
            PosixAcl::None => (self.mode, None),
            PosixAcl::Known(list) => (self.mode & MODE_WITHOUT_GROUP, Some(list)),
            PosixAcl::Unknown => (self.mode & MODE_WITHOUT_GROUP, None),
        };
        rustix::fs::fchmod(file, Mode::from_raw_mode(mode))?;
        if let Some(list) = access_list
            && rustix::fs::fsetxattr(file, POSIX_ACL_XATTR, list, XattrFlags::empty()).is_ok()
        {
            // The ACL sets its own group bits; the requested mode limits them again.
            rustix::fs::fchmod(file, Mode::from_raw_mode(self.mode))?;
        }
        Ok(())
    }
}

/// Copies mode, owner, ACL and `user.*` attributes from one file to another.
///
/// # Errors
/// The file cannot be examined, or the copy's mode cannot be set.
pub fn copy_attributes(from: &File, to: &File) -> io::Result<()> {
    FileAttributes::of(from, &rustix::fs::fstat(from)?).apply_to(to)
}

fn xattr_names(file: &File) -> rustix::io::Result<Vec<OsString>> {
    // Almost every file has none; then one system call suffices.
    if rustix::fs::flistxattr_query(file)? == 0 {
        return Ok(Vec::new());
    }
    let mut list = Vec::with_capacity(MAX_XATTR_BYTES);
    rustix::fs::flistxattr(file, rustix::buffer::spare_capacity(&mut list))?;
    let names = list.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| OsString::from_vec(name.to_vec())).collect())
}
