//! File globs.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::Error;
use crate::path_buffer::as_path;

/// Globs written by hand are shorter, and matching takes time in proportion to the length.
const MAX_GLOB_BYTES: usize = 1024;

const EXAMPLES: &str = "write it like `*.rs`, `src/**/*.rs` or `{a,b}.txt`";

/// A glob over files. Without `/` it matches the name, at any depth; with one, the whole path relative to the start of the walk. `*` and `?` do not
/// cross a `/`, `**` does.
pub(crate) struct FileGlob {
    set: GlobSet,
    on_name: bool,
}

impl FileGlob {
    pub(crate) fn new(text: &str) -> Result<Self, Error> {
        let refuse = |reason: &str| Err(Error::glob(text, reason, EXAMPLES));
        if text.len() > MAX_GLOB_BYTES {
            return refuse(&format!("it is longer than `{MAX_GLOB_BYTES}` bytes"));
        }
        let plain = text.strip_prefix("./").or_else(|| text.strip_prefix('/')).unwrap_or(text);
        if plain.is_empty() {
            return refuse("it is empty");
        }
        if plain.ends_with('/') {
            let help = "add `**` to mean everything beneath that directory";
            return Err(Error::glob(text, "it ends with `/`, and only files are matched", help));
        }
        let set = compile(plain).map_err(|cause| Error::glob(text, cause.kind().to_string(), EXAMPLES))?;
        Ok(Self { set, on_name: !text.contains('/') })
    }

    /// Whether the file of this name, at this path relative to the start of the walk, matches.
    pub(crate) fn matches(&self, name: &[u8], relative: &[u8]) -> bool {
        self.set.is_match(as_path(if self.on_name { name } else { relative }))
    }
}

fn compile(text: &str) -> Result<GlobSet, globset::Error> {
    let glob = GlobBuilder::new(text).literal_separator(true).empty_alternates(true).build()?;
    GlobSetBuilder::new().add(glob).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_at_any_depth_and_paths_from_the_start() {
        let cases: &[(&str, &str, bool)] = &[
            ("*.rs", "main.rs", true),
            ("*.rs", "src/deep/main.rs", true),
            ("*.rs", "main.rs.txt", false),
            ("*.{rs,toml}", "a/Cargo.toml", true),
            ("main.rs", "src/main.rs", true),
            ("src/*.rs", "src/main.rs", true),
            ("src/*.rs", "src/deep/main.rs", false),
            ("src/*.rs", "other/src/main.rs", false),
            ("src/**", "src/deep/main.rs", true),
            ("src/**/*.rs", "src/main.rs", true),
            ("src/**/*.rs", "src/a/b/main.rs", true),
            ("**/tests/*", "a/tests/one", true),
            ("**/tests/*", "a/tests/two/one", false),
            ("/main.rs", "main.rs", true),
            ("/main.rs", "src/main.rs", false),
            ("./main.rs", "src/main.rs", false),
            ("file?.txt", "file1.txt", true),
            ("a?b", "a/b", false),
            ("[!a]*", "beta", true),
            ("[!a]*", "alpha", false),
            ("**", "any/thing", true),
        ];
        for (glob, path, expected) in cases {
            let name = path.rsplit('/').next().unwrap();
            let matches = FileGlob::new(glob).unwrap().matches(name.as_bytes(), path.as_bytes());
            assert_eq!(matches, *expected, "{glob} on {path}");
        }
    }

    #[test]
    fn what_could_never_match_is_refused_with_a_remedy() {
        for bad in ["", "/", "./", "src/", "[a", "{a", "a{b,", &"a".repeat(1025)] {
            let error = FileGlob::new(bad).err().unwrap_or_else(|| panic!("{bad:?} was accepted"));
            assert_eq!(error.code(), toolgate_types::ErrorCode::InvalidPattern);
            assert!(error.help().is_some());
        }
    }
}
