//! Globs, compiled when the file is read, so that none can fail when a call is decided.

use std::path::Path;
use std::sync::Arc;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use thiserror::Error;
use toolgate_text::glob_classes::has_class_beyond_ascii;
use toolgate_types::ErrorCode;

use crate::problem::shown;

/// A set of globs over paths relative to a mount, with `/` as separator.
///
/// `*` and `?` do not match `/`; `**` does and, alone, matches every path.
#[derive(Clone, Debug, Default)]
pub struct Globs {
    patterns: Arc<[String]>,
    set: Arc<GlobSet>,
}

/// An invalid glob.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GlobError {
    /// It does not parse.
    #[error("the glob `{}` does not parse: {reason}", shown(.glob))]
    Syntax {
        /// The glob.
        glob: String,
        /// The parser's message.
        reason: String,
    },
    /// It parses, but no path could ever match it: a deny that denies nothing, or an empty scope.
    #[error("the glob `{}` can match nothing: {reason}", shown(.glob))]
    MatchesNothing {
        /// The glob.
        glob: String,
        /// The reason.
        reason: &'static str,
    },
    /// The globs together are too large to compile.
    #[error("these globs are too large to compile: {reason}")]
    TooLarge {
        /// The compiler's message.
        reason: String,
    },
}

impl GlobError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode::InvalidPattern
    }
}

impl Globs {
    /// Compiles globs.
    ///
    /// # Errors
    /// The first glob that does not parse or could never match, or that all of them are too large together.
    pub fn compile<T: AsRef<str>>(patterns: impl IntoIterator<Item = T>) -> Result<Self, GlobError> {
        let patterns: Vec<String> = patterns.into_iter().map(|pattern| pattern.as_ref().to_owned()).collect();
        let mut builder = GlobSetBuilder::new();
        for pattern in &patterns {
            builder.add(parse(pattern)?);
        }
        let set =
            builder.build().map_err(|error| GlobError::TooLarge { reason: error.kind().to_string() })?;
        Ok(Self { patterns: patterns.into(), set: Arc::new(set) })
    }

    /// The globs as written.
    #[must_use]
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// Whether any of them matches. The path is relative to its mount.
    #[must_use]
    pub fn matches(&self, path: &Path) -> bool {
        self.set.is_match(path)
    }
}

fn parse(pattern: &str) -> Result<globset::Glob, GlobError> {
    if let Some(reason) = why_nothing_matches(pattern) {
        return Err(GlobError::MatchesNothing { glob: pattern.to_owned(), reason });
    }
    let unparsable = |reason: String| GlobError::Syntax { glob: pattern.to_owned(), reason };
    if has_class_beyond_ascii(pattern) {
        return Err(unparsable(
            "a class in brackets holds ASCII alone; write `{é,è}` in place of `[éè]`".to_owned(),
        ));
    }
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    glob.map_err(|error| unparsable(error.kind().to_string()))
}

/// Patterns that are paths in other programs and match nothing here, where paths are relative and normalised.
fn why_nothing_matches(pattern: &str) -> Option<&'static str> {
    if pattern.is_empty() {
        return Some("it is empty");
    }
    if pattern.starts_with('!') {
        return Some("`!` does not negate here; use `deny`, or `[!]` for a name that begins with `!`");
    }
    if pattern.starts_with('/') || pattern.starts_with('~') {
        return Some("paths are relative to the mount, so leave out the beginning");
    }
    if pattern.ends_with('/') {
        return Some("it ends in `/`; write `**` after it to match what is inside");
    }
    if pattern.contains('\0') {
        return Some("no path holds NUL");
    }
    let odd = pattern.split('/').find(|name| matches!(*name, "" | "." | ".."));
    odd.map(|_| "paths have no empty, `.` or `..` part")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stay_within_a_name_and_double_stars_cross() {
        for (glob, path, expected) in [
            ("**", "a", true),
            ("**", "a/b/.c", true),
            ("*.md", "a.md", true),
            ("*.md", "docs/a.md", false),
            ("**/*.md", "a.md", true),
            ("**/*.md", "docs/deep/a.md", true),
            ("src/**", "src/a/b.rs", true),
            ("src/**", "src", false),
            ("src/**", "src_evil/a", false),
            ("src/*/x", "src/a/b/x", false),
            ("{a,b}/?", "b/x", true),
            ("{a,b}/?", "b/xy", false),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
        ] {
            let globs = Globs::compile([glob]).unwrap();
            assert_eq!(globs.matches(Path::new(path)), expected, "{glob} against {path}");
        }
    }

    #[test]
    fn no_globs_match_nothing() {
        assert!(!Globs::default().matches(Path::new("a")));
        assert!(!Globs::compile::<&str>([]).unwrap().matches(Path::new("")));
    }

    #[test]
    fn what_could_never_match_is_refused() {
        for glob in [
            "",
            "/etc/**",
            "./src/**",
            "../x",
            "a/../b",
            "a//b",
            "dir/",
            "~/x",
            "!drafts/**",
            "a\0b",
            ".",
            "a/.",
        ] {
            assert!(matches!(Globs::compile([glob]), Err(GlobError::MatchesNothing { .. })), "{glob:?}");
        }
        for glob in ["[", "{a", "a}", "[z-a]", "a\\", "[é]t*", "[!é]t*"] {
            assert!(matches!(Globs::compile([glob]), Err(GlobError::Syntax { .. })), "{glob:?}");
        }
    }

    #[test]
    fn a_set_that_is_too_large_is_an_error_and_not_a_panic() {
        let alternatives: Vec<String> =
            (0..2000).map(|number| format!("{number}{}", "?".repeat(200))).collect();
        let glob = format!("{{{}}}", alternatives.join(","));
        assert!(matches!(Globs::compile([glob]), Err(GlobError::TooLarge { .. })));
    }
}
