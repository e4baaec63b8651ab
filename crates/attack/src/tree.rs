//! A snapshot of a directory tree, so that two moments can be compared.

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use toolgate_types::Sha256;

/// Every file, directory and symlink below a directory, with all metadata that a change would affect.
#[derive(Clone, PartialEq, Eq)]
pub struct Tree(BTreeMap<PathBuf, Node>);

/// One entry of a tree.
#[derive(Clone, PartialEq, Eq)]
pub struct Node {
    what: What,
    mode: u32,
    inode: u64,
    modified: (i64, i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Folder,
    File(Sha256),
    Link(PathBuf),
    Special,
}

impl Tree {
    /// Everything below a directory, and the directory itself.
    #[must_use]
    pub fn of(root: &Path) -> Self {
        Self::without(root, &[])
    }

    /// The same, except for some paths where another process is at work.
    #[must_use]
    pub fn without(root: &Path, left_out: &[&Path]) -> Self {
        let mut nodes = BTreeMap::new();
        let mut pending = vec![root.to_path_buf()];
        while let Some(path) = pending.pop() {
            if left_out.contains(&path.as_path()) {
                continue;
            }
            let node = Node::at(&path);
            if node.what == What::Folder {
                pending.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            nodes.insert(path.strip_prefix(root).unwrap().to_path_buf(), node);
        }
        Self(nodes)
    }

    /// The paths and contents, without inode, mode and times.
    #[must_use]
    pub fn names(&self) -> Vec<(PathBuf, String)> {
        self.0.iter().map(|(path, node)| (path.clone(), format!("{:?}", node.what))).collect()
    }

    /// The differences between two trees, as text.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let paths = self.0.keys().chain(other.0.keys().filter(|path| !self.0.contains_key(*path)));
        let differs = paths.filter(|path| self.0.get(*path) != other.0.get(*path));
        differs
            .map(|path| format!("{}: {:?} -> {:?}", path.display(), self.0.get(path), other.0.get(path)))
            .collect()
    }
}

impl Node {
    fn at(path: &Path) -> Self {
        let stat = std::fs::symlink_metadata(path).unwrap();
        let kind = stat.file_type();
        let what = if kind.is_dir() {
            What::Folder
        } else if kind.is_symlink() {
            What::Link(std::fs::read_link(path).unwrap())
        } else if kind.is_file() {
            What::File(Sha256::of(&std::fs::read(path).unwrap()))
        } else {
            What::Special
        };
        Self { what, mode: stat.mode(), inode: stat.ino(), modified: (stat.mtime(), stat.mtime_nsec()) }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanoseconds) = self.modified;
        write!(formatter, "{:?} {:o} #{} @{seconds}.{nanoseconds:09}", self.what, self.mode, self.inode)
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(&self.0).finish()
    }
}
