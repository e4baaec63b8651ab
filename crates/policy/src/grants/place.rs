//! Where a call's paths lead, and patterns of such places.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A file or directory that a call names or changes, by its real location.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantedPlace {
    /// The mount's alias.
    pub alias: String,
    /// The location below the mount, with symlinks resolved; empty for the mount itself.
    pub location: String,
    /// Whether other programs run the file or read it as instructions, such as a `Makefile`. Only a pattern of this one file matches it.
    pub is_marked: bool,
}

/// A set of places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathPattern {
    alias: String,
    /// Never empty: a whole mount is not granted.
    location: String,
    /// Whether the location is a directory, and everything below it matches.
    below: bool,
}

impl PathPattern {
    /// This one place.
    #[must_use]
    pub fn exactly(place: &GrantedPlace) -> Self {
        Self { alias: place.alias.clone(), location: place.location.clone(), below: false }
    }

    /// A directory and everything below it.
    #[must_use]
    pub fn below(directory: &GrantedPlace) -> Self {
        Self { alias: directory.alias.clone(), location: directory.location.clone(), below: true }
    }

    /// The patterns that cover all these places, the narrowest first: the place itself, the directory of all, the top-level directory.
    pub(super) fn of(places: &[GrantedPlace]) -> Vec<Self> {
        let Some((first, rest)) = places.split_first() else { return Vec::new() };
        if places.iter().any(|place| place.alias != first.alias || !is_normal(&place.location)) {
            return Vec::new();
        }
        let mut patterns = Vec::new();
        if rest.iter().all(|place| place == first) {
            patterns.push(Self::exactly(first));
        }
        let directories = places.iter().map(|place| Path::new(&place.location).parent());
        let common = directories.reduce(|one, other| common_directory(one?, other?)).flatten();
        let top =
            common.and_then(|common| common.components().next()).map(|part| Path::new(part.as_os_str()));
        for directory in [common, top].into_iter().flatten() {
            let Some(location) = directory.to_str().map(str::to_owned) else { continue };
            let pattern = Self { alias: first.alias.clone(), location, below: true };
            if !pattern.location.is_empty() && !patterns.contains(&pattern) {
                patterns.push(pattern);
            }
        }
        patterns.retain(|pattern| !pattern.location.is_empty());
        patterns
    }

    /// The alias of the mount.
    #[must_use]
    pub fn alias(&self) -> &str {
        &self.alias
    }

    /// The location below the mount.
    #[must_use]
    pub fn location(&self) -> &str {
        &self.location
    }

    /// Whether everything below the location matches.
    #[must_use]
    pub fn is_recursive(&self) -> bool {
        self.below
    }

    /// Whether a place matches. Path components are compared, so `src` does not cover `src_evil`.
    #[must_use]
    pub fn matches(&self, place: &GrantedPlace) -> bool {
        if self.alias != place.alias
            || self.location.is_empty()
            || !is_normal(&self.location)
            || !is_normal(&place.location)
        {
            return false;
        }
        let (pattern, location) = (Path::new(&self.location), Path::new(&place.location));
        match self.below {
            true => !place.is_marked && location.starts_with(pattern),
            false => location == pattern,
        }
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = if self.below { "/**" } else { "" };
        write!(formatter, "{}/{}{suffix}", self.alias, self.location)
    }
}

/// A real location has no `.`, `..` or root.
fn is_normal(location: &str) -> bool {
    Path::new(location).components().all(|part| matches!(part, Component::Normal(_)))
}

/// The deepest directory above both.
fn common_directory<'p>(one: &'p Path, other: &Path) -> Option<&'p Path> {
    let other: PathBuf = other.to_path_buf();
    one.ancestors().find(|ancestor| other.starts_with(ancestor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(location: &str) -> GrantedPlace {
        GrantedPlace { alias: "@project".to_owned(), location: location.to_owned(), is_marked: false }
    }

    #[test]
    fn a_pattern_covers_what_lies_below_and_nothing_beside_it() {
        let below = PathPattern::below(&place("src"));
        for (location, covered) in [
            ("src/a.rs", true),
            ("src/deep/a.rs", true),
            ("src", true),
            ("src_evil/a.rs", false),
            ("SRC/a.rs", false),
            ("a/src/b.rs", false),
            ("src/../etc/passwd", false),
            ("/src/a.rs", false),
            ("", false),
        ] {
            assert_eq!(below.matches(&place(location)), covered, "{location:?}");
        }
        assert!(!below.matches(&GrantedPlace { alias: "@docs".to_owned(), ..place("src/a.rs") }));
        let makefile = GrantedPlace { is_marked: true, ..place("src/Makefile") };
        assert!(!below.matches(&makefile), "programs run it");
        assert!(PathPattern::exactly(&makefile).matches(&makefile));
        assert!(!PathPattern::below(&place("")).matches(&place("a")), "a whole mount is not granted");
    }

    #[test]
    fn characters_of_globs_are_ordinary_in_a_directory_name() {
        let below = PathPattern::below(&place("[ab]*"));
        assert!(below.matches(&place("[ab]*/x")));
        assert!(!below.matches(&place("a/x")));
    }
}
