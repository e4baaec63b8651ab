//! The files of an installed package, each with its digest.
//!
//! Whatever an archive or a script put there is listed without following a symlink: directories are opened with `O_NOFOLLOW`, relative to their parent.
//! FIFOs, sockets, devices, set-user-ID files and symlinks that lead out of the tree are refused.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, readlinkat, statat};
use rustix::io::Errno;
use toolgate_types::Sha256;
use toolgate_types::digest::Sha256Hasher;

use crate::error::PackageError;

/// More entries than this are refused: a bomb rather than a package.
const MAX_ENTRIES: usize = 400_000;

/// Maximum nesting of directories.
const MAX_DEPTH: usize = 100;

/// Threads that read files. Reading is bound by the digest, so more than the usual number of cores gain nothing.
const MAX_READERS: usize = 4;

/// Set-user-ID and set-group-ID.
const SET_ID: u32 = 0o6000;

/// Every file of a tree, one line each: the digest, whether it is executable, and the escaped path; sorted by path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeListing {
    text: String,
}

/// One entry before its content was read.
enum TreeEntry {
    Directory,
    File { executable: bool },
    Link(Vec<u8>),
}

/// Lists a tree. `outside` are the symlinks that may lead out of it, such as the interpreter of a virtual environment.
///
/// # Errors
/// It holds something that no package needs, or cannot be read.
pub fn list_tree(root: BorrowedFd<'_>, outside: &dyn Fn(&str) -> bool) -> Result<TreeListing, PackageError> {
    let entries = walk(root, outside)?;
    let files: Vec<&str> = entries
        .iter()
        .filter_map(|(path, entry)| matches!(entry, TreeEntry::File { .. }).then_some(path.as_str()))
        .collect();
    let digests = digest_all(root, &files)?;
    let mut text = String::new();
    for (path, entry) in &entries {
        let line = match entry {
            TreeEntry::Directory => format!("directory - {}\n", escaped(path)),
            TreeEntry::File { executable } => {
                let digest = digests.get(path.as_str()).ok_or_else(|| unreadable(path, Errno::NOENT))?;
                format!("{digest} {} {}\n", if *executable { "x" } else { "-" }, escaped(path))
            }
            TreeEntry::Link(target) => format!("link:{} - {}\n", Sha256::of(target), escaped(path)),
        };
        text.push_str(&line);
    }
    Ok(TreeListing { text })
}

impl TreeListing {
    /// The listing as text.
    #[must_use]
    pub fn as_text(&self) -> &str {
        &self.text
    }

    /// The digest of the listing, and so of the whole tree.
    #[must_use]
    pub fn digest(&self) -> Sha256 {
        Sha256::of(self.text.as_bytes())
    }

    /// The first difference from an earlier listing, in words.
    #[must_use]
    pub fn difference(&self, earlier: &str) -> Option<String> {
        let lines = |text: &str| -> BTreeMap<String, String> {
            let line = |line: &str| {
                let path = line.splitn(3, ' ').nth(2).unwrap_or_default();
                (path.to_owned(), line.to_owned())
            };
            text.lines().map(line).collect()
        };
        let (before, now) = (lines(earlier), lines(&self.text));
        let changed = before.iter().find_map(|(path, line)| match now.get(path) {
            None => Some(format!("`{path}` is missing")),
            Some(other) if other != line => Some(format!("`{path}` is not as it was installed")),
            Some(_) => None,
        });
        changed.or_else(|| {
            let added = now.keys().find(|path| !before.contains_key(*path))?;
            Some(format!("`{added}` was added"))
        })
    }
}

fn walk(
    root: BorrowedFd<'_>,
    outside: &dyn Fn(&str) -> bool,
) -> Result<BTreeMap<String, TreeEntry>, PackageError> {
    let mut entries = BTreeMap::new();
    let top = open_directory(root, Path::new(".")).map_err(|error| unreadable(".", error))?;
    let mut open: Vec<(String, OwnedFd, usize)> = vec![(String::new(), top, 0)];
    while let Some((prefix, directory, depth)) = open.pop() {
        if depth > MAX_DEPTH {
            return Err(refused(&prefix, "is nested too deeply"));
        }
        let listing = Dir::read_from(&directory).map_err(|error| unreadable(&prefix, error))?;
        for found in listing {
            let found = found.map_err(|error| unreadable(&prefix, error))?;
            let name = found.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let Ok(text) = name.to_str() else {
                return Err(refused(
                    &format!("{prefix}{}", name.to_string_lossy()),
                    "has a name that is not UTF-8",
                ));
            };
            let path = format!("{prefix}{text}");
            let about = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|error| unreadable(&path, error))?;
            let entry = match FileType::from_raw_mode(about.st_mode) {
                FileType::Directory => {
                    let below = open_directory(directory.as_fd(), Path::new(text))
                        .map_err(|error| unreadable(&path, error))?;
                    open.push((format!("{path}/"), below, depth + 1));
                    TreeEntry::Directory
                }
                FileType::RegularFile if about.st_mode & SET_ID != 0 => {
                    return Err(refused(&path, "runs as another user"));
                }
                FileType::RegularFile => TreeEntry::File { executable: about.st_mode & 0o111 != 0 },
                FileType::Symlink => {
                    let target =
                        readlinkat(&directory, name, Vec::new()).map_err(|error| unreadable(&path, error))?;
                    let target = target.into_bytes();
                    if !outside(&path) && leads_out(&path, &target) {
                        return Err(refused(&path, "is a symlink that leads out of the package"));
                    }
                    TreeEntry::Link(target)
                }
                _ => return Err(refused(&path, "is neither a file, a directory nor a symlink")),
            };
            entries.insert(path, entry);
            if entries.len() > MAX_ENTRIES {
                return Err(refused(&prefix, "holds too many files"));
            }
        }
    }
    Ok(entries)
}

/// Whether a symlink is absolute, has more `..` than directories above it, or a `..` after a name: that name may be a symlink itself, so where it
/// leads is not known from the text.
fn leads_out(path: &str, target: &[u8]) -> bool {
    let target = Path::new(std::ffi::OsStr::from_bytes(target));
    let (mut depth, mut is_named) = (path.matches('/').count(), false);
    for component in target.components() {
        match component {
            Component::RootDir | Component::Prefix(_) => return true,
            Component::ParentDir => match depth.checked_sub(1).filter(|_| !is_named) {
                Some(above) => depth = above,
                None => return true,
            },
            Component::CurDir => {}
            Component::Normal(_) => is_named = true,
        }
    }
    false
}

/// The digests of files, read by a few threads.
fn digest_all<'p>(
    root: BorrowedFd<'_>,
    files: &[&'p str],
) -> Result<BTreeMap<&'p str, Sha256>, PackageError> {
    let readers = std::thread::available_parallelism().map_or(1, usize::from).clamp(1, MAX_READERS);
    let (next, digests, failed) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()), Mutex::new(None));
    let read = || {
        let mut own = Vec::new();
        let mut buffer = vec![0; 128 * 1024];
        while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            match digest_file(root, path, &mut buffer) {
                Ok(digest) => own.push((*path, digest)),
                Err(error) => {
                    failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(error);
                    break;
                }
            }
        }
        digests.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend(own);
    };
    std::thread::scope(|scope| {
        for _ in 1..readers {
            scope.spawn(read);
        }
        read();
    });
    match failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(digests.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)),
    }
}

fn digest_file(root: BorrowedFd<'_>, path: &str, buffer: &mut [u8]) -> Result<Sha256, PackageError> {
    // `O_NONBLOCK`: a file that became a FIFO since it was listed must not block.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let failed = |error: std::io::Error| PackageError::io(Path::new(path), error);
    let handle = openat(root, path, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
    let mut file = std::fs::File::from(handle);
    let mut hasher = Sha256Hasher::new();
    loop {
        match file.read(buffer).map_err(failed)? {
            0 => return Ok(hasher.finish()),
            read => hasher.update(buffer.get(..read).unwrap_or_default()),
        }
    }
}

fn open_directory(parent: BorrowedFd<'_>, name: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

/// A path on one line.
fn escaped(path: &str) -> String {
    path.escape_debug().to_string()
}

fn refused(path: &str, reason: &'static str) -> PackageError {
    PackageError::Refused { path: escaped(path), reason }
}

fn unreadable(path: &str, error: Errno) -> PackageError {
    PackageError::io(Path::new(path), error)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests arrange files by hand")]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn listed(root: &Path) -> Result<TreeListing, PackageError> {
        list_tree(File::open(root).unwrap().as_fd(), &|_| false)
    }

    #[test]
    fn every_change_of_a_tree_is_told() {
        type Change = fn(&Path);
        let cases: [(&str, Change); 8] = [
            ("`a/file` is not as it was installed", |at| fs::write(at.join("a/file"), "other").unwrap()),
            ("`a/file` is missing", |at| fs::remove_file(at.join("a/file")).unwrap()),
            ("`a/new` was added", |at| fs::write(at.join("a/new"), "").unwrap()),
            ("`empty` is missing", |at| fs::remove_dir(at.join("empty")).unwrap()),
            ("`link` is not as it was installed", |at| {
                fs::remove_file(at.join("link")).unwrap();
                symlink("a", at.join("link")).unwrap();
            }),
            ("`link` is not as it was installed", |at| {
                fs::remove_file(at.join("link")).unwrap();
                fs::write(at.join("link"), "one").unwrap();
            }),
            ("`a/file` is not as it was installed", |at| {
                fs::set_permissions(at.join("a/file"), Permissions::from_mode(0o755)).unwrap();
            }),
            ("`a\\n/x` was added", |at| {
                fs::create_dir(at.join("a\n")).unwrap();
                fs::write(at.join("a\n/x"), "").unwrap();
                fs::remove_dir_all(at.join("a\n")).unwrap();
                fs::create_dir(at.join("b")).unwrap();
                fs::rename(at.join("b"), at.join("a\n")).unwrap();
                fs::write(at.join("a\n/x"), "").unwrap();
            }),
        ];
        for (expected, change) in cases {
            let scratch = tempfile::tempdir().unwrap();
            fs::create_dir_all(scratch.path().join("a")).unwrap();
            fs::create_dir(scratch.path().join("empty")).unwrap();
            fs::write(scratch.path().join("a/file"), "one").unwrap();
            symlink("a/file", scratch.path().join("link")).unwrap();
            let before = listed(scratch.path()).unwrap();
            assert_eq!(listed(scratch.path()).unwrap(), before);
            change(scratch.path());
            let after = listed(scratch.path()).unwrap();
            assert_ne!(after.digest(), before.digest(), "{expected}");
            let told = after.difference(before.as_text()).unwrap();
            assert!(
                told == expected || expected.contains("\\n") && told.contains("a\\n"),
                "{told}: {expected}"
            );
        }
    }

    #[test]
    fn what_no_package_needs_is_refused() {
        let leaks = |target: &str, at: &str| {
            let scratch = tempfile::tempdir().unwrap();
            fs::create_dir_all(scratch.path().join("a/b")).unwrap();
            symlink(target, scratch.path().join(at)).unwrap();
            listed(scratch.path()).is_err()
        };
        for (target, at, expected) in [
            ("/etc/passwd", "link", true),
            ("..", "link", true),
            ("../x", "a/link", false),
            ("../../x", "a/link", true),
            ("b/../../../x", "a/link", true),
            ("../../a/b", "a/b/link", false),
            ("./b", "a/link", false),
            ("b/..", "a/link", true),
        ] {
            assert_eq!(leaks(target, at), expected, "{target} at {at}");
        }
        let scratch = tempfile::tempdir().unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, scratch.path().join("fifo"), Mode::from_raw_mode(0o600))
            .unwrap();
        assert!(matches!(listed(scratch.path()), Err(PackageError::Refused { .. })));
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("su"), "").unwrap();
        fs::set_permissions(scratch.path().join("su"), Permissions::from_mode(0o4755)).unwrap();
        assert!(matches!(listed(scratch.path()), Err(PackageError::Refused { .. })));
    }
}
