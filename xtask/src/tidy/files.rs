//! The text files of the repository.

use std::path::Path;

use crate::Fault;

/// Directories with third-party or generated files.
const SKIPPED: &[&str] = &["target", ".git", "node_modules", "corpus", "artifacts"];

/// The extensions of hand-written files.
const KINDS: &[&str] = &["rs", "toml", "md", "yaml", "yml", "txt", "sh"];

/// A file with its path relative to the root, separated by `/`.
pub(super) struct File {
    pub(super) path: String,
    pub(super) text: String,
}

impl File {
    /// Whether this is a test, a benchmark or data of one.
    pub(super) fn is_test(&self) -> bool {
        self.path.split('/').any(|name| matches!(name, "tests" | "benches"))
    }

    /// The numbered lines up to the first test module.
    pub(super) fn production_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate().map(|(index, line)| (index + 1, line));
        lines.take_while(|(_, line)| *line != "#[cfg(test)]")
    }
}

/// Every file, sorted by path.
pub(super) fn all(root: &Path) -> Result<Vec<File>, Fault> {
    let mut files = Vec::new();
    gather(root, "", &mut files)?;
    files.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(files)
}

fn gather(folder: &Path, prefix: &str, files: &mut Vec<File>) -> Result<(), Fault> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            if !SKIPPED.contains(&&*name) {
                gather(&entry.path(), &format!("{path}/"), files)?;
            }
        } else if name.rsplit_once('.').is_some_and(|(_, kind)| KINDS.contains(&kind)) {
            // A file that is not UTF-8 is a test's hostile input.
            files.extend(std::fs::read_to_string(entry.path()).ok().map(|text| File { path, text }));
        }
    }
    Ok(())
}
