//! The paths that a permission covers.

use std::path::{Component, Path};

use toolgate_manifest::Globs;

/// The compiled `paths` of a permission.
#[derive(Clone, Debug)]
pub struct PathScope(Globs);

impl PathScope {
    /// A scope of these globs.
    #[must_use]
    pub fn new(globs: Globs) -> Self {
        Self(globs)
    }

    /// Whether a path is covered. It must be the resolved location of the opened file, relative to its mount; a
    /// path that is absolute or contains `..` is never covered, whatever the globs say. The mount's root is the
    /// empty path.
    #[must_use]
    pub fn matches(&self, relative_path: &Path) -> bool {
        let normal = relative_path.components().all(|part| matches!(part, Component::Normal(_)));
        normal && self.0.matches(relative_path)
    }

    /// The globs as written.
    #[must_use]
    pub fn patterns(&self) -> &[String] {
        self.0.patterns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn double_stars_alone_cover_the_whole_mount() {
        let scope = PathScope::new(Globs::compile(["**"]).unwrap());
        for path in ["", "a", "a/b/c", ".hidden", "a/.b", "spaced name"] {
            assert!(scope.matches(Path::new(path)), "{path:?} is not covered");
        }
    }

    #[test]
    fn paths_that_are_not_relative_and_normal_are_never_covered() {
        let scope = PathScope::new(Globs::compile(["**"]).unwrap());
        for path in ["/", "/etc/passwd", "..", "../a", "a/../../b", "./a"] {
            assert!(!scope.matches(Path::new(path)), "{path:?} is covered");
        }
    }

    #[test]
    fn a_folder_does_not_cover_its_neighbours() {
        let scope = PathScope::new(Globs::compile(["src/**"]).unwrap());
        for (path, covered) in [
            ("src/a.rs", true),
            ("src/deep/a.rs", true),
            ("src", false),
            ("src_evil/a", false),
            ("SRC/a", false),
            ("", false),
        ] {
            assert_eq!(scope.matches(Path::new(path)), covered, "{path:?}");
        }
    }
}
