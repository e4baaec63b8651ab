//! Paths in a configuration file.

use std::path::{Path, PathBuf};

/// A path on the host: absolute, relative to the directory of the file that declares it, or starting with `~`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredPath(String);

impl DeclaredPath {
    /// Wraps the trimmed text.
    ///
    /// # Errors
    /// Why the text is not a path: a message and a remedy.
    pub(crate) fn new(text: &str) -> Result<Self, (&'static str, &'static str)> {
        let text = text.trim();
        if text.is_empty() {
            Err(("the path is empty", "write `.` for the folder of this file"))
        } else if text.contains('\0') {
            Err(("the path holds NUL", "remove it"))
        } else if text.starts_with('~') && text != "~" && !text.starts_with("~/") {
            Err(("only your own home folder is known", "begin with `~/`, or write the path out"))
        } else if text.starts_with('$') {
            Err(("variables are not expanded in paths", "begin with `~/`, or write the path out"))
        } else {
            Ok(Self(text.to_owned()))
        }
    }

    /// The path as written, trimmed.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path on the host, relative to the directory of the declaring file. `None` if it starts with `~` and there is no home directory.
    #[must_use]
    pub fn resolve(&self, folder: &Path, home: Option<&Path>) -> Option<PathBuf> {
        match self.0.strip_prefix('~') {
            Some(rest) => home.map(|home| home.join(rest.trim_start_matches('/'))),
            None => Some(folder.join(&self.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolves_against_the_file_or_home() {
        for (text, expected) in [
            (".", "/etc/gate/."),
            (" ./audit ", "/etc/gate/./audit"),
            ("../docs", "/etc/gate/../docs"),
            ("/srv/x", "/srv/x"),
            ("~", "/home/sam/"),
            ("~/state", "/home/sam/state"),
            ("~//state", "/home/sam/state"),
            ("a~b", "/etc/gate/a~b"),
        ] {
            let path = DeclaredPath::new(text).unwrap();
            let resolved = path.resolve(Path::new("/etc/gate"), Some(Path::new("/home/sam")));
            assert_eq!(resolved, Some(PathBuf::from(expected)), "{text}");
        }
        assert_eq!(DeclaredPath::new("~/x").unwrap().resolve(Path::new("/"), None), None);
    }

    #[test]
    fn refuses_what_would_become_a_folder_by_surprise() {
        for text in ["", "  ", "a\0b", "~root/x", "$HOME/x", "${HOME}"] {
            assert!(DeclaredPath::new(text).is_err(), "{text:?}");
        }
    }
}
