//! What a directory holds, for comparing before with after.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use sha2::{Digest as _, Sha256};

/// The names below a directory, each with a digest of its type, mode and content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileTree(BTreeMap<String, String>);

impl FileTree {
    /// Reads a directory, without following symlinks. Names in `without` are left out at the top.
    pub(crate) fn read(root: &Path, without: &[&str]) -> io::Result<Self> {
        let mut tree = Self::default();
        tree.add(root, "", without)?;
        Ok(tree)
    }

    /// The names that were added, removed or changed.
    pub(crate) fn changed_since(&self, before: &Self) -> Vec<String> {
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

    #[expect(clippy::disallowed_methods, reason = "the harness looks at its own throw-away directories")]
    fn add(&mut self, directory: &Path, prefix: &str, without: &[&str]) -> io::Result<()> {
        use std::os::unix::fs::MetadataExt as _;
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str().map(str::to_owned) else {
                let shown = format!("{prefix}{}", entry.file_name().to_string_lossy());
                self.0.insert(shown, "a name that is not UTF-8".to_owned());
                continue;
            };
            if prefix.is_empty() && without.contains(&name.as_str()) {
                continue;
            }
            let (path, shown) = (entry.path(), format!("{prefix}{name}"));
            let metadata = std::fs::symlink_metadata(&path)?;
            let kind = metadata.file_type();
            let content = if kind.is_symlink() {
                format!("link {}", std::fs::read_link(&path)?.display())
            } else if kind.is_file() {
                let digest = Sha256::digest(std::fs::read(&path)?);
                digest.iter().map(|byte| format!("{byte:02x}")).collect()
            } else if kind.is_dir() {
                self.add(&path, &format!("{shown}/"), without)?;
                "directory".to_owned()
            } else {
                "special".to_owned()
            };
            self.0.insert(shown, format!("{:o} {content}", metadata.mode()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test changes files behind the back of the tree")]
    fn additions_removals_changes_and_modes_are_seen() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir(at("d")).unwrap();
        for name in ["a", "b", "d/c", "e"] {
            std::fs::write(at(name), name).unwrap();
        }
        let before = FileTree::read(place.path(), &["left"]).unwrap();
        std::fs::write(at("a"), "other").unwrap();
        std::fs::remove_file(at("b")).unwrap();
        std::fs::write(at("d/new"), "").unwrap();
        std::fs::set_permissions(at("e"), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(at("left"), "out").unwrap();
        let after = FileTree::read(place.path(), &["left"]).unwrap();
        assert_eq!(after.changed_since(&before), ["a", "b", "d/new", "e"]);
    }
}
