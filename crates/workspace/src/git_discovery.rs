//! Which repository git finds from a directory, and which configurations it reads there.
//!
//! The search follows git's own rules: a `.git` directory or symlink, or a `gitdir:` file as linked worktrees, submodules and `--separate-git-dir`
//! have one; `commondir`, `config.worktree` and includes. It may lead out of the mount and continues on the host's path: nothing that is read there
//! is shown or changed, it only determines which places of the mount git executes or reads.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use cap_std::fs::{OpenOptions, OpenOptionsExt as _};
use rustix::fs::{FileType, Mode, OFlags};

use crate::file_identity::read_prefix;
use crate::git_config::{ConfigReference, MAX_CONFIG_BYTES, RefusedSettings, references};
use crate::location::real_location;
use crate::mount::Mount;

/// A longer `gitdir` or `commondir` file holds no valid path: `PATH_MAX` is 4096.
const MAX_POINTER_BYTES: usize = 4096;

/// How deep configurations may include others; git itself gives up at 10.
const MAX_INCLUDE_DEPTH: usize = 10;

/// How many files one configuration may comprise, with all its includes.
const MAX_CONFIGURATIONS: usize = 50;

/// How many linked worktrees of one repository are looked up.
const MAX_WORKTREES: usize = 64;

/// How many directories below `modules` are examined; a repository with more is not followed.
const MAX_MODULES: usize = 1000;

/// A repository, by the absolute paths of its two directories. They differ for a linked worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GitDirectory {
    pub(crate) own: PathBuf,
    pub(crate) common: PathBuf,
}

impl GitDirectory {
    /// The one that git uses in a directory with a `.git` in it.
    pub(crate) fn of_worktree(mount: &Mount, directory: &Path) -> Option<Self> {
        let file = open(mount, &directory.join(".git")).ok()?;
        let own = match is_directory(&file) {
            true => real_location(file.as_fd()).ok()?,
            false => pointer_target(directory, &read_prefix(&file, MAX_POINTER_BYTES).ok()?, b"gitdir:")?,
        };
        Some(Self::at(mount, own))
    }

    /// The one whose own directory is this.
    pub(crate) fn at(mount: &Mount, own: PathBuf) -> Self {
        let common = open(mount, &own.join("commondir")).ok();
        let common = common.and_then(|file| read_prefix(&file, MAX_POINTER_BYTES).ok());
        let common = common.and_then(|content| pointer_target(&own, &content, b""));
        Self { common: common.unwrap_or_else(|| own.clone()), own }
    }

    /// The configurations that git reads for this repository, with all includes.
    pub(crate) fn configurations(&self, mount: &Mount) -> Vec<GitConfigFile> {
        let mut reader = GitConfigReader::new(mount);
        reader.read(self.common.join("config"), false, 0);
        reader.read(self.own.join("config.worktree"), false, 0);
        reader.found
    }

    /// The worktrees that the repository itself names: the directory that contains it, and its linked worktrees.
    pub(crate) fn worktrees(&self, mount: &Mount) -> Vec<PathBuf> {
        let is_dot_git = self.common.file_name() == Some(OsStr::new(".git"));
        let around = self.common.parent().filter(|_| is_dot_git).unwrap_or(&self.common);
        let linked = entries(mount, &self.common.join("worktrees"), MAX_WORKTREES);
        // The `config.worktree` of a linked worktree lies beside the `gitdir` file that points to its `.git`.
        let linked = linked.into_iter().chain([self.own.clone()]).filter_map(|kept| {
            let content = read_prefix(&open(mount, &kept.join("gitdir")).ok()?, MAX_POINTER_BYTES).ok()?;
            pointer_target(&kept, &content, b"")?.parent().map(Path::to_path_buf)
        });
        std::iter::once(around.to_path_buf()).chain(linked).collect()
    }

    /// The repositories of submodules, at any depth; `None` if there are too many.
    pub(crate) fn modules(&self, mount: &Mount) -> Option<Vec<PathBuf>> {
        let (mut found, mut left) = (Vec::new(), vec![self.common.join("modules")]);
        let mut seen = 0;
        while let Some(directory) = left.pop() {
            for entry in entries(mount, &directory, MAX_MODULES + 1) {
                seen += 1;
                if seen > MAX_MODULES {
                    return None;
                }
                // A submodule may be called `a/b`, so a directory may hold only further directories.
                if ["HEAD", "config"].iter().any(|name| open(mount, &entry.join(name)).is_ok()) {
                    left.push(entry.join("modules"));
                    found.push(entry);
                } else {
                    left.push(entry);
                }
            }
        }
        Some(found)
    }
}

/// A configuration that git reads.
#[derive(Clone, Debug)]
pub struct GitConfigFile {
    pub(crate) path: PathBuf,
    pub(crate) names: Vec<ConfigReference>,
    /// The settings that make git execute or include something; `None` if the file does not exist.
    pub(crate) refused: Option<RefusedSettings>,
    /// Whether another configuration includes it, so that nothing else protects it.
    pub(crate) is_included: bool,
}

impl GitConfigFile {
    pub(crate) fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }
}

/// The user's configurations that git reads in every repository, with all includes.
#[must_use]
pub fn personal_configurations(mount: &Mount) -> Vec<GitConfigFile> {
    let mut reader = GitConfigReader::new(mount);
    for path in &mount.personal().git_configs {
        reader.read(path.clone(), true, 0);
    }
    reader.found
}

/// A configuration with known content, with all includes.
pub(crate) fn configurations_of(mount: &Mount, path: PathBuf, content: &[u8]) -> Vec<GitConfigFile> {
    let mut reader = GitConfigReader::new(mount);
    reader.add(path, Some(content), false, 0);
    reader.found
}

struct GitConfigReader<'m> {
    mount: &'m Mount,
    found: Vec<GitConfigFile>,
    read: HashSet<PathBuf>,
}

impl<'m> GitConfigReader<'m> {
    fn new(mount: &'m Mount) -> Self {
        Self { mount, found: Vec::new(), read: HashSet::new() }
    }

    fn read(&mut self, path: PathBuf, is_included: bool, depth: usize) {
        if depth > MAX_INCLUDE_DEPTH
            || self.read.len() >= MAX_CONFIGURATIONS
            || !self.read.insert(path.clone())
        {
            return;
        }
        let file = open(self.mount, &path).ok();
        let content = file.and_then(|file| read_prefix(&file, MAX_CONFIG_BYTES).ok());
        if content.is_some() || is_included {
            self.add(path, content.as_deref(), is_included, depth);
        }
    }

    fn add(&mut self, path: PathBuf, content: Option<&[u8]>, is_included: bool, depth: usize) {
        let names = content.map(references).unwrap_or_default();
        let refused = content.map(RefusedSettings::of);
        let configuration = GitConfigFile { path, names, refused, is_included };
        let directory = configuration.directory();
        let included = configuration.names.iter().filter_map(|name| match name {
            ConfigReference::Include(value) => absolute(self.mount, directory, value),
            _ => None,
        });
        let included: Vec<PathBuf> = included.collect();
        self.found.push(configuration);
        included.into_iter().for_each(|path| self.read(path, true, depth + 1));
    }
}

/// Resolves a path of a configuration against a directory, lexically.
pub(crate) fn absolute(mount: &Mount, directory: &Path, path: &str) -> Option<PathBuf> {
    if path.contains('\0') {
        return None;
    }
    match path.strip_prefix('~') {
        None => normalised(&directory.join(path)),
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            normalised(&mount.personal().homes.first()?.join(rest.trim_start_matches('/')))
        }
        // `~name` is the home of another user.
        Some(_) => None,
    }
}

fn normalised(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => _ = plain.pop(),
            Component::CurDir | Component::RootDir => {}
            Component::Prefix(_) => return None,
        }
    }
    Some(plain)
}

/// The target of a file that holds one path after a prefix.
fn pointer_target(directory: &Path, content: &[u8], mark: &[u8]) -> Option<PathBuf> {
    let path = content.strip_prefix(mark)?.trim_ascii();
    let path = Path::new(OsStr::from_bytes(path));
    (!path.as_os_str().is_empty()).then(|| normalised(&directory.join(path))).flatten()
}

/// The subdirectories of a directory.
fn entries(mount: &Mount, directory: &Path, most: usize) -> Vec<PathBuf> {
    let Ok(opened) = open(mount, directory) else { return Vec::new() };
    let Ok(entries) = rustix::fs::Dir::read_from(&opened) else { return Vec::new() };
    let entries = entries.filter_map(Result::ok).filter(|entry| {
        let name = entry.file_name().to_bytes();
        let kinds = [FileType::Directory, FileType::Symlink, FileType::Unknown];
        name != b"." && name != b".." && kinds.contains(&entry.file_type())
    });
    entries.take(most).map(|entry| directory.join(OsStr::from_bytes(entry.file_name().to_bytes()))).collect()
}

/// Opens a file or directory by its absolute path, as git does: beneath the mount where that suffices, and on the host otherwise. `O_NONBLOCK` avoids
/// blocking on a FIFO, `O_NOCTTY` acquiring a terminal.
fn open(mount: &Mount, path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let beneath = mount.strip_root(path).map(|place| open_beneath(mount, place));
    match beneath {
        Some(Ok(file)) => Ok(file),
        Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => Err(error),
        // A symlink leads out of the mount, or the path does.
        Some(Err(_)) | None => Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?)),
    }
}

/// Opens a place of the mount, through symlinks that stay in it.
pub(crate) fn open_beneath(mount: &Mount, place: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or(0));
    let place = if place.as_os_str().is_empty() { Path::new(".") } else { place };
    Ok(mount.directory().open_with(place, &options)?.into_std())
}

fn is_directory(file: &File) -> bool {
    rustix::fs::fstat(file).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}
