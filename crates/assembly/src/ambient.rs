//! Ambient authority, in one place: the environment, the current directory, host paths.
#![expect(
    clippy::disallowed_methods,
    reason = "the binary owns ambient authority; everything behind it works on handles"
)]

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use crate::atomic_file::AtomicFile;
use crate::error::BuildError;

/// The current directory, the home directories and the variables of the process.
#[derive(Clone, Debug)]
pub struct HostEnvironment {
    /// The current directory.
    pub current_dir: PathBuf,
    /// `$HOME`, where it is absolute.
    pub home: Option<PathBuf>,
    /// `$XDG_STATE_HOME`, where it is absolute.
    pub state_home: Option<PathBuf>,
    /// `$XDG_CONFIG_HOME`, where it is absolute.
    pub config_home: Option<PathBuf>,
    /// The name of the user.
    pub user: String,
    /// The variables that are text.
    pub variables: BTreeMap<String, String>,
}

impl HostEnvironment {
    /// A path for people: below the home directory with `~`, also where `HOME` is a symlink and the path is resolved.
    #[must_use]
    pub fn shown_path(&self, path: &Path) -> String {
        let homes = self.home.iter().flat_map(|home| [home.clone(), real_path(home)]);
        let below = homes.filter(|home| home.parent().is_some()).find_map(|home| {
            let rest = path.strip_prefix(&home).ok()?;
            Some(Path::new("~").join(rest))
        });
        below.as_deref().unwrap_or(path).display().to_string().trim_end_matches('/').to_owned()
    }

    /// Nothing but a current directory: no home, no variables. State, keys and baselines are then kept in the state directory that the settings name.
    #[must_use]
    pub fn bare(current_dir: PathBuf) -> Self {
        let user = "local".to_owned();
        Self {
            current_dir,
            home: None,
            state_home: None,
            config_home: None,
            user,
            variables: BTreeMap::new(),
        }
    }

    /// Reads them from this process.
    pub fn detect() -> Result<Self, BuildError> {
        let current_dir = std::env::current_dir()
            .map_err(|error| BuildError::usage(format!("there is no current directory: {error}")))?;
        Ok(Self { current_dir, ..Self::from_variables() })
    }

    /// What the variables of this process say, for before its current directory matters.
    #[must_use]
    pub fn from_variables() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        Self {
            current_dir: PathBuf::new(),
            home: absolute("HOME"),
            state_home: absolute("XDG_STATE_HOME"),
            config_home: absolute("XDG_CONFIG_HOME"),
            user: variable("USER")
                .map_or_else(|| "local".to_owned(), |user| user.to_string_lossy().into_owned()),
            variables: std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
        }
    }

    /// A variable of the process, where it is text.
    #[must_use]
    pub fn var(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }

    /// A path as a user writes it: trimmed, `~` expanded, made absolute, without `.` and `..`.
    pub fn absolute(&self, path: &Path) -> Result<PathBuf, BuildError> {
        let text = path.to_str().map_or(path, |text| Path::new(text.trim()));
        if text.as_os_str().is_empty() {
            return Err(BuildError::usage("a folder is named by an empty path"));
        }
        let expanded = match text.strip_prefix("~") {
            Ok(rest) => match &self.home {
                Some(home) => home.join(rest),
                None => {
                    return Err(BuildError::usage(format!(
                        "`{}` needs a home folder, and HOME is not set",
                        text.display()
                    )));
                }
            },
            Err(_) => self.current_dir.join(text),
        };
        Ok(without_dots(&expanded))
    }

    /// A path as messages show it: relative to the current directory where it lies below it.
    pub fn display_path(&self, path: &Path) -> String {
        path.strip_prefix(&self.current_dir).unwrap_or(path).display().to_string()
    }
}

fn without_dots(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            other => clean.push(other),
        }
    }
    clean
}

/// Opens a directory (`O_DIRECTORY`), creating it and its parents first if it is missing.
pub fn open_or_create_directory(path: &Path) -> io::Result<File> {
    match open_directory(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::create_dir_all(path)?;
            open_directory(path)
        }
        other => other,
    }
}

/// Opens a file of the gate's own that grows while it is read. `O_NOFOLLOW`: no symlinks.
pub fn open_to_follow(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Opens a directory; `O_DIRECTORY` refuses anything else.
pub fn open_directory(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = i32::try_from(rustix::fs::OFlags::DIRECTORY.bits()).unwrap_or(0);
    std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Opens a directory of the gate's own, creating it with mode 0700 if it is missing.
pub fn open_private_directory(path: &Path) -> io::Result<Dir> {
    use std::os::unix::fs::DirBuilderExt as _;
    match Dir::open_ambient_dir(path, ambient_authority()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
            Dir::open_ambient_dir(path, ambient_authority())
        }
        other => other,
    }
}

/// The same, to write files into: `fsync` fails with `EBADF` on a descriptor that was opened with `O_PATH`.
pub fn open_private_directory_to_write(path: &Path) -> io::Result<Dir> {
    open_private_directory(path)?;
    open_directory(path).map(Dir::from_std_file)
}

/// Whether the directory exists and has an entry whose name ends with `ending`.
pub fn has_entry(folder: &Path, ending: &str) -> bool {
    let entries = std::fs::read_dir(folder);
    let mut names = entries.into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.any(|name| name.as_encoded_bytes().ends_with(ending.as_bytes()))
}

/// An operator's file longer than this is refused.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Reads a file that the command line names. It may be a pipe (`--config <(…)`, `/dev/stdin`), which is read until its writer closes it.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    read_bounded(File::open(path)?)
}

/// Reads a file that another file names, that was found, or that is going to be replaced: a regular one. Opening a FIFO blocks until something opens its
/// other end, and a device may never end, so `O_NONBLOCK` and `fstat` come before the first read; `O_NOCTTY` keeps a terminal from becoming the
/// controlling one.
pub fn read_regular_file(path: &Path) -> io::Result<Vec<u8>> {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOCTTY).bits()).unwrap_or(0);
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    read_regular(file)
}

/// Reads a file to its end, unless it is a pipe or a device.
pub fn read_regular(file: File) -> io::Result<Vec<u8>> {
    match file.metadata()?.is_file() {
        true => read_bounded(file),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

/// Reads to the end of the stream, and fails after `MAX_FILE_BYTES`.
pub fn read_bounded(from: impl io::Read) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    from.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    match u64::try_from(bytes.len()).is_ok_and(|length| length <= MAX_FILE_BYTES) {
        true => Ok(bytes),
        false => Err(io::Error::other("it is longer than 16 MiB")),
    }
}

/// The files of a directory, sorted by name, without those whose name begins with a dot; `None` if the path is not a directory.
pub fn list_directory(path: &Path) -> io::Result<Option<Vec<PathBuf>>> {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !hidden && std::fs::metadata(entry.path()).is_ok_and(|found| found.is_file()) {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(Some(files))
}

/// The most entries of a directory that are listed.
const MAX_ENTRIES: usize = 1000;

/// The entries of a directory by name, each with whether it is a directory; empty if the directory cannot be read.
pub fn directory_entries(path: &Path) -> Vec<(String, bool)> {
    let Ok(found) = std::fs::read_dir(path) else { return Vec::new() };
    let entry = |entry: std::fs::DirEntry| {
        let is_folder = std::fs::metadata(entry.path()).is_ok_and(|found| found.is_dir());
        Some((entry.file_name().into_string().ok()?, is_folder))
    };
    let mut named: Vec<_> = found.flatten().take(MAX_ENTRIES).filter_map(entry).collect();
    named.sort();
    named
}

/// What changes when a file or directory is written: device and inode, size, `mtime` and `ctime`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFingerprint {
    identity: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// The fingerprint of the file at a path, if there is one.
pub fn fingerprint(path: &Path) -> Option<FileFingerprint> {
    use std::os::unix::fs::MetadataExt as _;
    let found = std::fs::metadata(path).ok()?;
    Some(FileFingerprint {
        identity: (found.dev(), found.ino()),
        size: found.size(),
        modified: (found.mtime(), found.mtime_nsec()),
        changed: (found.ctime(), found.ctime_nsec()),
    })
}

/// The permission bits of a file.
pub fn mode(path: &Path) -> io::Result<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(std::fs::metadata(path)?.permissions().mode())
}

/// Whether the path exists; symlinks are followed.
pub fn exists(path: &Path) -> bool {
    std::fs::metadata(path).is_ok()
}

/// Writes a new file, whole or not at all; fails if another process created it first. Missing parent directories are created.
pub fn write_new_file(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let private = if mode & 0o077 == 0 { 0o700 } else { 0o777 };
    std::fs::DirBuilder::new().recursive(true).mode(private).create(parent_directory(path))?;
    with_atomic_file(path, |spot| spot.write_new(content, mode))
}

fn with_atomic_file(path: &Path, write: impl FnOnce(AtomicFile<'_>) -> io::Result<()>) -> io::Result<()> {
    let folder = Dir::from_std_file(open_directory(parent_directory(path))?);
    write(AtomicFile::new(&folder, path.file_name().unwrap_or_default()))
}

fn parent_directory(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// Creates a file with mode 0600 that must not exist yet (`O_EXCL`), to be written in pieces.
pub fn create_private_file(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Replaces the content of an operator's file atomically, and only if it still holds the bytes that were read. A symlink is kept and its target
/// replaced.
pub fn replace_file(path: &Path, read: &[u8], content: &[u8]) -> io::Result<()> {
    with_atomic_file(&real_path(path), |spot| spot.replace(read, content))
}

/// The path of the running executable.
pub fn this_program() -> io::Result<PathBuf> {
    std::env::current_exe()
}

/// The canonical path; where the file does not exist, the canonical path of its nearest existing parent with the rest appended.
pub fn real_path(path: &Path) -> PathBuf {
    if let Ok(real) = std::fs::canonicalize(path) {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real_path(parent).join(name),
        _ => path.to_path_buf(),
    }
}

/// The canonical paths of many files, as [`real_path`] finds them; each parent directory is resolved only once.
#[derive(Default)]
pub struct RealPathCache(HashMap<PathBuf, PathBuf>);

impl RealPathCache {
    /// As [`real_path`], with the parent directories from the cache.
    pub fn resolve(&mut self, path: &Path) -> PathBuf {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return real_path(path) };
        let place = self.resolve_directory(parent).join(name);
        let is_link = std::fs::symlink_metadata(&place).is_ok_and(|found| found.is_symlink());
        if is_link { real_path(&place) } else { place }
    }

    fn resolve_directory(&mut self, path: &Path) -> PathBuf {
        if let Some(known) = self.0.get(path) {
            return known.clone();
        }
        let real = self.resolve(path);
        self.0.insert(path.to_path_buf(), real.clone());
        real
    }
}

/// The name of a configuration file that is searched for.
pub const CONFIG_NAME: &str = "toolgate.yaml";

/// `toolgate.yaml` in this directory or the nearest one above. Anything of that name counts, also a FIFO or a dangling symlink: a file that cannot be
/// read must not be skipped in favour of one further up, or of the defaults.
pub fn find_upward(start: &Path) -> io::Result<Option<PathBuf>> {
    for directory in start.ancestors() {
        let candidate = directory.join(CONFIG_NAME);
        match std::fs::symlink_metadata(&candidate) {
            Ok(_) => return Ok(Some(candidate)),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => {
                return Err(io::Error::new(error.kind(), format!("`{}`: {error}", candidate.display())));
            }
        }
    }
    Ok(None)
}

/// Whether a path is a symlink.
pub fn is_symlink(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

/// Where a symlink leads.
pub fn read_link(path: &Path) -> Option<PathBuf> {
    std::fs::read_link(path).ok()
}

/// Opens a regular file that may be executed, to be read.
pub fn open_program(path: &Path) -> io::Result<File> {
    use rustix::fs::OFlags;
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
    let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOCTTY).bits()).unwrap_or(0);
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    match found.is_file() && found.permissions().mode() & 0o111 != 0 {
        true => Ok(file),
        false => Err(io::Error::other("it is no program")),
    }
}

/// Whether a path is a directory, or a symlink to one.
pub fn is_directory(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_places_are_found_as_single_ones_are() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        std::fs::create_dir_all(at("real/inner")).unwrap();
        std::fs::write(at("real/file"), "").unwrap();
        std::os::unix::fs::symlink("real", at("link")).unwrap();
        std::os::unix::fs::symlink("../link/inner", at("real/back")).unwrap();
        std::os::unix::fs::symlink("nowhere", at("broken")).unwrap();
        std::os::unix::fs::symlink("circle", at("circle")).unwrap();
        let mut places = RealPathCache::default();
        for name in [
            "real/file",
            "link/file",
            "link/inner/../file",
            "link/back/missing/below",
            "real/back",
            "broken",
            "broken/below",
            "circle/below",
            "missing",
            "real/file/below",
            "link/..",
            "",
        ] {
            assert_eq!(places.resolve(&at(name)), real_path(&at(name)), "{name}");
        }
        assert_eq!(places.resolve(Path::new("/")), Path::new("/"));
    }
}
