//! Temporary directories for attacks.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A temporary directory that is removed on drop.
#[derive(Debug)]
pub struct Scratch(TempDir);

impl Scratch {
    /// A directory on tmpfs (`/dev/shm`) if there is one, so that a hundred thousand calls do not wait for a disk; else among the temporary files.
    #[must_use]
    pub fn new() -> Self {
        let in_memory = Path::new("/dev/shm");
        let builder = |folder: &Path| tempfile::Builder::new().prefix("toolgate-attack-").tempdir_in(folder);
        let folder = builder(in_memory).or_else(|_| builder(&std::env::temp_dir()));
        Self(folder.expect("a folder for the test"))
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// A directory inside it, created if missing.
    #[must_use]
    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a name is that of one of the gate's temporary files.
#[must_use]
pub fn is_litter(name: &str) -> bool {
    name.starts_with('.') && name.contains(".tmp.")
}

/// Every temporary file left below a directory.
#[must_use]
pub fn litter_below(folder: &Path) -> Vec<PathBuf> {
    let mut litter = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            if is_litter(&entry.file_name().to_string_lossy()) {
                litter.push(entry.path());
            }
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            }
        }
    }
    litter
}
