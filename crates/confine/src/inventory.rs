//! The content of a writable directory that a program loads as a whole: every entry with its identity, so that any change in it is detected.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::Dir;
use toolgate_workspace::Mount;
use toolgate_workspace::internals::{FileIdentity, identity, open_directory};

/// A directory with more entries is made read-only instead.
const MAX_ENTRIES: usize = 4096;

/// The entries of a directory at any depth, by their places in the mount.
pub(super) type Inventory = BTreeMap<PathBuf, FileIdentity>;

/// All entries; `None` if there are too many, or a directory cannot be read.
pub(super) fn inventory(mount: &Mount, place: &Path) -> Option<Inventory> {
    let (mut found, mut left) = (Inventory::new(), vec![place.to_path_buf()]);
    while let Some(directory) = left.pop() {
        let opened = open_directory(mount, &directory).ok()?;
        for entry in Dir::read_from(&opened).ok()? {
            let entry = entry.ok()?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let place = directory.join(OsStr::from_bytes(name.to_bytes()));
            let identity = identity(opened.as_fd(), name)?;
            if identity.is_directory {
                left.push(place.clone());
            }
            found.insert(place, identity);
        }
        if found.len() > MAX_ENTRIES {
            return None;
        }
    }
    Some(found)
}
