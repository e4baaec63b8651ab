//! What the kernel says of files, for comparing before with after: a change time cannot be set back.
#![expect(clippy::disallowed_methods, reason = "the harness looks at its own throw-away directories")]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Names, each with its inode, mode, owner, links, size and times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StatTree(BTreeMap<String, String>);

impl StatTree {
    /// Reads a directory without following symlinks. Names in `without` are left out at the top.
    pub(super) fn read(root: &Path, without: &[&str]) -> io::Result<Self> {
        let mut tree = Self::default();
        tree.add(root, "", without)?;
        Ok(tree)
    }

    /// These names below a directory; one that is missing is noted as such.
    pub(super) fn of<'n>(root: &Path, names: impl Iterator<Item = &'n &'n str>) -> io::Result<Self> {
        let mut tree = Self::default();
        for name in names {
            let state = match fs::symlink_metadata(root.join(name)) {
                Ok(metadata) => stat(&metadata),
                Err(error) if error.kind() == io::ErrorKind::NotFound => "missing".to_owned(),
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => "missing".to_owned(),
                Err(error) => return Err(error),
            };
            tree.0.insert((*name).to_owned(), state);
        }
        Ok(tree)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Judges one file by its content alone.
    pub(super) fn by_content(&mut self, name: &str, path: &Path) -> io::Result<()> {
        self.0.insert(name.to_owned(), String::from_utf8_lossy(&fs::read(path)?).into_owned());
        Ok(())
    }

    /// The names that were added, removed or changed.
    pub(super) fn changed_since(&self, before: &Self) -> Vec<String> {
        let mut names: Vec<String> = self
            .0
            .iter()
            .filter(|(name, now)| before.0.get(*name) != Some(now))
            .map(|(name, _)| name.clone())
            .collect();
        names.extend(before.0.keys().filter(|name| !self.0.contains_key(*name)).cloned());
        names.sort();
        names
    }

    fn add(&mut self, directory: &Path, prefix: &str, without: &[&str]) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if prefix.is_empty() && without.contains(&name.as_str()) {
                continue;
            }
            let (path, shown) = (entry.path(), format!("{prefix}{name}"));
            let metadata = fs::symlink_metadata(&path)?;
            if metadata.is_dir() {
                self.add(&path, &format!("{shown}/"), without)?;
            }
            self.0.insert(shown, stat(&metadata));
        }
        Ok(())
    }
}

fn stat(metadata: &fs::Metadata) -> String {
    format!(
        "{} {:o} {}:{} {} {} {}.{:09} {}.{:09}",
        metadata.ino(),
        metadata.mode(),
        metadata.uid(),
        metadata.gid(),
        metadata.nlink(),
        metadata.size(),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_sets_the_times_back_is_seen() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("a");
        fs::write(&file, "one").unwrap();
        let before = StatTree::read(place.path(), &[]).unwrap();
        let modified = fs::metadata(&file).unwrap().modified().unwrap();
        let opened = fs::File::options().write(true).open(&file).unwrap();
        // Until the clock of the file system has moved on.
        loop {
            fs::write(&file, "two").unwrap();
            opened.set_modified(modified).unwrap();
            if fs::metadata(&file).unwrap().ctime_nsec() != fs::metadata(place.path()).unwrap().ctime_nsec() {
                break;
            }
        }
        assert_eq!(StatTree::read(place.path(), &[]).unwrap().changed_since(&before), ["a"]);
        let named = |name: &'static str| StatTree::of(place.path(), [&name].into_iter()).unwrap();
        let gone = named("b");
        fs::write(place.path().join("b"), "").unwrap();
        assert_eq!(named("b").changed_since(&gone), ["b"]);
    }
}
