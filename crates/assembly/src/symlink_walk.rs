//! Resolves the path of a user's file: collects its symlinks, then opens the parent directory component by component with `O_NOFOLLOW`.
#![expect(clippy::disallowed_methods, reason = "a person's files may be anywhere, behind links as well")]

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use cap_std::fs::Dir;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;

/// More symlinks than this on one path are a loop; the kernel's own limit (`ELOOP`) is 40 too.
const MAX_SYMLINKS: usize = 40;

/// A fully resolved path. A check of it is a check of what is opened: symlinks and target come from one walk, and a symlink that is planted later is
/// not followed.
#[derive(Debug)]
pub struct ResolvedPath {
    /// The symlinks that were followed.
    pub links: Vec<PathBuf>,
    /// The symlink whose target does not exist.
    pub dangling: Option<PathBuf>,
    /// The path without any symlink.
    pub target: PathBuf,
}

/// A component of the path, and the symlink it came from.
struct PathComponent {
    name: OsString,
    link: Option<PathBuf>,
}

impl ResolvedPath {
    /// Resolves an absolute path, as far as it exists.
    pub fn resolve(path: &Path) -> io::Result<Self> {
        let mut way = Self { links: Vec::new(), dangling: None, target: PathBuf::from("/") };
        let mut ahead: Vec<PathComponent> = components(path, None).collect();
        while let Some(PathComponent { name, link }) = ahead.pop() {
            if name == ".." {
                way.target.pop();
                continue;
            }
            let here = way.target.join(name);
            match std::fs::read_link(&here) {
                Ok(_) if way.links.len() == MAX_SYMLINKS => {
                    return Err(io::Error::other(format!("`{}` leads in a circle of links", path.display())));
                }
                Ok(target) => {
                    if target.is_absolute() {
                        way.target = PathBuf::from("/");
                    }
                    ahead.extend(components(&target, Some(&here)));
                    way.links.push(here);
                }
                Err(error) => {
                    if error.kind() == io::ErrorKind::NotFound && way.dangling.is_none() {
                        way.dangling = link;
                    }
                    way.target = here;
                }
            }
        }
        Ok(way)
    }

    /// The same without the last component, which may be a symlink: for access to the name itself.
    pub fn resolve_parent(path: &Path) -> io::Result<Self> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Self::resolve(path);
        };
        let way = Self::resolve(folder)?;
        Ok(Self { target: way.target.join(name), ..way })
    }

    /// The last component.
    pub fn name(&self) -> &OsStr {
        self.target.file_name().unwrap_or_default()
    }

    /// Opens the parent directory for writing. Missing directories are created with this mode, or are an error if it is `None`.
    pub fn open_parent(&self, missing: Option<u32>) -> io::Result<Dir> {
        let found = self.walk(missing)?;
        // Reopened without `O_PATH`, since `fsync` fails with `EBADF` on such a descriptor.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Dir::from_std_file(File::from(openat(&found, ".", flags, Mode::empty())?)))
    }

    /// Opens the parent directory with `O_PATH`, to read the file: that needs no read permission on the directory.
    pub fn open_parent_path(&self) -> io::Result<Dir> {
        Ok(Dir::from_std_file(File::from(self.walk(None)?)))
    }

    fn walk(&self, missing: Option<u32>) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut place = PathBuf::from("/");
        let mut folder = openat(CWD, &place, flags, Mode::empty())?;
        for name in self.target.parent().unwrap_or(Path::new("/")).components().skip(1) {
            place.push(name);
            let open = || openat(&folder, name.as_os_str(), flags, Mode::empty());
            let opened = match (open(), missing) {
                (Err(Errno::NOENT), Some(mode)) => {
                    match mkdirat(&folder, name.as_os_str(), Mode::from_raw_mode(mode)) {
                        // Another process may have created it first.
                        Ok(()) | Err(Errno::EXIST) => open(),
                        Err(error) => Err(error),
                    }
                }
                (opened, _) => opened,
            };
            folder = opened.map_err(|error| match error {
                Errno::NOTDIR => io::Error::other(format!("`{}` is no folder", place.display())),
                error => error.into(),
            })?;
        }
        Ok(folder)
    }
}

/// The components of a path, last one first.
fn components(path: &Path, link: Option<&Path>) -> impl Iterator<Item = PathComponent> {
    let names =
        path.components().rev().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    names.map(move |part| PathComponent { name: part.as_os_str().to_owned(), link: link.map(Path::to_owned) })
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

    use super::*;
    use crate::ambient::real_path;
    use crate::atomic_file::AtomicFile;

    #[test]
    fn a_way_ends_where_the_system_says_and_tells_its_links() {
        let scratch = tempfile::tempdir().unwrap();
        let root = real_path(scratch.path());
        let at = |name: &str| root.join(name);
        std::fs::create_dir_all(at("real/inner")).unwrap();
        std::fs::write(at("real/file"), "").unwrap();
        for (target, link) in [
            ("real", "link"),
            ("../link/inner", "real/back"),
            ("nowhere", "broken"),
            ("broken", "chain"),
            ("circle", "circle"),
        ] {
            symlink(target, at(link)).unwrap();
        }
        symlink(at("link/file"), at("absolute")).unwrap();
        for (path, links) in [
            ("real/file", &[][..]),
            ("missing/below", &[]),
            ("real/file/below", &[]),
            ("link/file", &["link"]),
            ("link/missing", &["link"]),
            ("absolute", &["absolute", "link"]),
            ("link/back/below", &["link", "real/back", "link"]),
        ] {
            let way = ResolvedPath::resolve(&at(path)).unwrap();
            assert_eq!((way.target, way.dangling), (real_path(&at(path)), None), "{path}");
            assert_eq!(way.links, links.iter().map(|link| at(link)).collect::<Vec<_>>(), "{path}");
        }
        for (path, broken) in [("broken", "broken"), ("broken/below", "broken"), ("chain", "broken")] {
            assert_eq!(ResolvedPath::resolve(&at(path)).unwrap().dangling, Some(at(broken)), "{path}");
        }
        ResolvedPath::resolve(&at("circle/below")).unwrap_err();
        let beside = ResolvedPath::resolve_parent(&at("link/back")).unwrap();
        assert_eq!((beside.target, beside.links), (at("real/back"), vec![at("link")]));
    }

    #[test]
    fn a_file_is_read_in_a_folder_that_cannot_be_listed() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = real_path(scratch.path()).join("folder");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("file"), "held").unwrap();
        std::fs::set_permissions(&folder, Permissions::from_mode(0o300)).unwrap();
        let read = || {
            // Root bypasses permission checks unless it drops its capabilities.
            let none = CapabilitySet::empty();
            set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
                .unwrap();
            let way = ResolvedPath::resolve(&folder.join("file")).unwrap();
            way.open_parent(None).unwrap_err();
            AtomicFile::new(&way.open_parent_path().unwrap(), way.name()).read().unwrap()
        };
        assert_eq!(std::thread::scope(|scope| scope.spawn(read).join().unwrap()), b"held");
        std::fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
    }
}
