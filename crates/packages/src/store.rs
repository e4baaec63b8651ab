//! Where installations of one server are kept.
//!
//! `current` is a sealed lock that names one of them. It is replaced by a `rename` after everything else is on the disk, so that a crash at any instant
//! leaves the installation before or the one after, never a part of one.
#![expect(clippy::disallowed_methods, reason = "the gate's own state, in a folder that no mount shows")]

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use toolgate_fs::FileLock;
use toolgate_manifest::PackageSpec;
use toolgate_types::StateKey;

use crate::error::PackageError;
use crate::lock::Lock;
use crate::python::leads_to_interpreter;
use crate::tree::{TreeListing, list_tree};

/// Maximum size of a lock, and of a list of files.
const MAX_STATE_BYTES: u64 = 64 << 20;

/// How long an installation waits for another one of the same server.
const LOCK_TIMEOUT: Duration = Duration::from_secs(900);

/// The names in the directory of a server.
const CURRENT: &str = "current";
const LOCK: &str = "lock";
const FILES: &str = "files";
const TREE: &str = "tree";
const SCRATCH: &str = "scratch";
const STAGING: &str = "new-";

/// The installations of one server.
#[derive(Debug)]
pub struct PackageStore {
    directory: PathBuf,
    key: StateKey,
}

/// An installed package, every file of which was compared with its digest.
#[derive(Debug)]
pub struct Installed {
    /// What it is.
    pub lock: Lock,
    /// The directory of the package, to be shown to the server.
    pub tree: File,
    /// Where it is on the host.
    pub path: PathBuf,
}

/// An installation that is not used yet. Dropping it removes it.
#[derive(Debug)]
pub struct StagedPackage<'s> {
    store: &'s PackageStore,
    id: String,
    root: PathBuf,
    package: PathBuf,
    scratch: PathBuf,
    lock: Option<Lock>,
    /// Held until it is committed or removed: concurrent installations wait for each other.
    _exclusive: FileLock<File>,
}

impl PackageStore {
    /// The store in this directory.
    #[must_use]
    pub fn new(directory: PathBuf, key: StateKey) -> Self {
        Self { directory, key }
    }

    /// What is installed, without a look at the files.
    ///
    /// # Errors
    /// The lock is not this gate's, or cannot be read.
    pub fn current(&self, spec: &str) -> Result<Option<Lock>, PackageError> {
        let path = self.directory.join(CURRENT);
        let bytes = match read_bounded(&path, MAX_STATE_BYTES) {
            Ok(bytes) => bytes,
            Err(PackageError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let text = String::from_utf8_lossy(&bytes);
        match Lock::parse(&text, &self.key, &self.place()) {
            Some(lock) => Ok(Some(lock)),
            None => Err(PackageError::Lock { spec: spec.to_owned() }),
        }
    }

    /// The installed package, if it is what is declared, and unchanged.
    ///
    /// # Errors
    /// See [`PackageError`]: it is not installed, another one is, or something was changed.
    pub fn verified(
        &self,
        spec: &PackageSpec,
        with: &[PackageSpec],
        install_scripts: bool,
    ) -> Result<Installed, PackageError> {
        let shown = spec.to_string();
        let lock = self.current(&shown)?.ok_or_else(|| PackageError::NotInstalled { spec: shown.clone() })?;
        if !lock.satisfies(spec, with, install_scripts) {
            let beside = lock.with.iter().map(|other| format!(" with `{other}`")).collect::<String>();
            return Err(PackageError::OtherInstalled {
                declared: shown,
                installed: format!("{}{beside}", lock.spec),
            });
        }
        self.verify(lock)
    }

    /// Compares every file of an installation with its digest.
    fn verify(&self, lock: Lock) -> Result<Installed, PackageError> {
        let root = self.directory.join(&lock.install);
        let (path, changed) =
            (root.join(TREE), |change: String| PackageError::Changed { spec: lock.spec.clone(), change });
        let tree = match open_directory(&path) {
            Ok(tree) => tree,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(changed("it is gone".to_owned()));
            }
            Err(error) => return Err(PackageError::io(&path, error)),
        };
        let now = listed(&tree)?;
        if lock.tree() != Some(now.digest()) {
            let files = read_bounded(&root.join(FILES), MAX_STATE_BYTES).unwrap_or_default();
            let told = now.difference(&String::from_utf8_lossy(&files));
            return Err(changed(
                told.unwrap_or_else(|| "its list of files is not the one that was sealed".to_owned()),
            ));
        }
        Ok(Installed { lock, tree, path })
    }

    /// An empty staging directory, while no other installation of this server is under way. What a killed one left is removed.
    ///
    /// # Errors
    /// The directory cannot be used, or another installation takes too long.
    pub fn stage(&self) -> Result<StagedPackage<'_>, PackageError> {
        let failed = |error: io::Error| PackageError::io(&self.directory, error);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory).map_err(failed)?;
        let mut options = OpenOptions::new();
        let lock =
            options.create(true).truncate(false).write(true).mode(0o600).open(self.directory.join(LOCK));
        let exclusive = FileLock::within(lock.map_err(failed)?, LOCK_TIMEOUT, || false).map_err(|_| {
            PackageError::Answer("another installation of this server is under way".to_owned())
        })?;
        self.remove_leftovers();
        let id = fresh_id().map_err(failed)?;
        let root = self.directory.join(format!("{STAGING}{id}"));
        let (package, scratch) = (root.join(TREE), root.join(SCRATCH));
        for directory in [&root, &package, &scratch] {
            DirBuilder::new()
                .mode(0o700)
                .create(directory)
                .map_err(|error| PackageError::io(directory, error))?;
        }
        Ok(StagedPackage { store: self, id, root, package, scratch, lock: None, _exclusive: exclusive })
    }

    /// Removes what no lock names: staging directories of killed installations, and installations before the current one.
    fn remove_leftovers(&self) {
        let keep = self.current("").ok().flatten().map(|lock| lock.install);
        for name in names_in(&self.directory).unwrap_or_default() {
            let is_kept = [CURRENT, LOCK].contains(&&*name) || keep.as_ref() == Some(&name);
            // An unreadable lock keeps everything.
            if !is_kept && (keep.is_some() || name.starts_with(STAGING)) {
                remove_tree(&self.directory.join(name));
            }
        }
    }

    /// The directory that a lock belongs to.
    fn place(&self) -> String {
        self.directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

impl StagedPackage<'_> {
    /// The directory of the package.
    #[must_use]
    pub fn package(&self) -> &Path {
        &self.package
    }

    /// The directory for caches.
    #[must_use]
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// What is about to be used.
    #[must_use]
    pub fn lock(&self) -> Option<&Lock> {
        self.lock.as_ref()
    }

    /// Lists the files, and writes the list.
    pub(crate) fn finish(&mut self, mut lock: Lock) -> Result<(), PackageError> {
        remove_tree(&self.scratch);
        let tree = open_directory(&self.package).map_err(|error| PackageError::io(&self.package, error))?;
        let files = listed(&tree)?;
        write_new(&self.root.join(FILES), files.as_text())?;
        lock.tree = files.digest().to_string();
        self.lock = Some(lock);
        Ok(())
    }

    /// A store in which this installation is the current one, for a look at the server before it is used. It lies in the staging directory, and goes with it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn preview(&self) -> Result<PathBuf, PackageError> {
        let lock = self.unfinished()?;
        let directory = self.root.clone();
        let place = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let preview = lock.in_directory("0");
        let inner = directory.join("0");
        if !inner.exists() {
            DirBuilder::new().mode(0o700).create(&inner).map_err(|error| PackageError::io(&inner, error))?;
            // Hard links to directories do not exist, and a symlink is not followed: the tree itself is moved while it is looked at.
            fs::rename(&self.package, inner.join(TREE)).map_err(|error| PackageError::io(&inner, error))?;
            fs::copy(self.root.join(FILES), inner.join(FILES))
                .map_err(|error| PackageError::io(&inner, error))?;
        }
        replace(&directory, CURRENT, &preview.to_text(&self.store.key, &place)?)?;
        Ok(directory)
    }

    fn unfinished(&self) -> Result<&Lock, PackageError> {
        self.lock.as_ref().ok_or_else(|| PackageError::Answer("the installation is not complete".to_owned()))
    }

    /// Makes this installation the current one.
    ///
    /// # Errors
    /// It cannot be written; the one before stays current.
    pub fn commit(self) -> Result<Lock, PackageError> {
        let lock = self.unfinished()?.clone();
        let previewed = self.root.join("0");
        if previewed.exists() {
            let back = fs::rename(previewed.join(TREE), &self.package);
            back.map_err(|error| PackageError::io(&self.package, error))?;
            remove_tree(&previewed);
            let _ = fs::remove_file(self.root.join(CURRENT));
        }
        let root = File::open(&self.root).map_err(|error| PackageError::io(&self.root, error))?;
        // All files of the package reach the disk before the lock names them.
        rustix::fs::syncfs(&root).map_err(|error| PackageError::io(&self.root, error))?;
        let place = self.store.directory.join(&self.id);
        fs::rename(&self.root, &place).map_err(|error| PackageError::io(&place, error))?;
        let text = lock.to_text(&self.store.key, &self.store.place())?;
        replace(&self.store.directory, CURRENT, &text)?;
        Ok(lock)
    }
}

impl Drop for StagedPackage<'_> {
    fn drop(&mut self) {
        remove_tree(&self.root);
    }
}

fn listed(tree: &File) -> Result<TreeListing, PackageError> {
    list_tree(tree.as_fd(), &leads_to_interpreter)
}

/// Writes a file atomically: a temporary file, `fsync`, `rename`, `fsync` of the directory.
fn replace(directory: &Path, name: &str, text: &str) -> Result<(), PackageError> {
    let (fresh, place) = (directory.join(format!("{name}.new")), directory.join(name));
    let write = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, &place)?;
        File::open(directory)?.sync_all()
    };
    write().map_err(|error| PackageError::io(&place, error))
}

pub(crate) fn write_new(path: &Path, text: &str) -> Result<(), PackageError> {
    let mut options = OpenOptions::new();
    let written = options.create_new(true).write(true).mode(0o644).open(path);
    let written = written.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| PackageError::io(path, error))
}

/// Reads a regular file that a hostile package may have replaced: no symlink, no FIFO, no endless file.
pub(crate) fn read_bounded(path: &Path, most: u64) -> Result<Vec<u8>, PackageError> {
    let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits()).unwrap_or_default();
    let read = || -> io::Result<Vec<u8>> {
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let about = file.metadata()?;
        if !about.is_file() || about.size() > most {
            return Err(io::Error::other("it is not a file of a sensible size"));
        }
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|error| PackageError::io(path, error))
}

/// The names in a directory.
pub(crate) fn names_in(path: &Path) -> Result<Vec<String>, PackageError> {
    let entries = fs::read_dir(path).map_err(|error| PackageError::io(path, error))?;
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

/// `O_NOFOLLOW`: a symlink in its place is not the package.
fn open_directory(path: &Path) -> io::Result<File> {
    let flags = i32::try_from((OFlags::DIRECTORY | OFlags::NOFOLLOW).bits()).unwrap_or_default();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Removes a directory or a file; symlinks are not followed. What cannot be removed is removed the next time.
fn remove_tree(path: &Path) {
    let is_directory = fs::symlink_metadata(path).is_ok_and(|about| about.is_dir());
    let _ = if is_directory { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

fn fresh_id() -> io::Result<String> {
    let mut bytes = [0_u8; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{:016x}", u64::from_le_bytes(bytes)))
}
