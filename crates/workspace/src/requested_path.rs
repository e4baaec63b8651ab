//! The path of a request: text parsed into a mount and names below it, or refused.
//!
//! This is the lexical half and no security check: whatever passes here is opened beneath a handle by the kernel.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::error::WorkspaceError;
use crate::mount::Mount;

/// Which path syntax a profile accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathStyle {
    /// Relative to the workspace, absolute inside it, or with an alias.
    Free,
    /// Always with an alias, never with `..`, backslashes read as slashes.
    AliasOnly,
}

impl PathStyle {
    /// An example of a valid path, for a request whose form is never accepted.
    pub(crate) fn example(self) -> &'static str {
        match self {
            Self::Free => "name a file relative to the workspace, such as `src/main.rs`",
            Self::AliasOnly => "name a file with its mount, such as `@project/src/main.rs`",
        }
    }
}

/// A path as requested, resolved to a mount.
#[derive(Clone, Debug)]
pub(crate) struct RequestedPath<'a> {
    /// Index of the mount in the workspace.
    pub(crate) mount: usize,
    /// Names below the mount, separated by slashes; no `.`, no `..`, none empty.
    location: String,
    /// Whether it ended in a slash, so that only a directory matches.
    pub(crate) wants_directory: bool,
    /// The text, shortened for messages.
    pub(crate) shown: Cow<'a, str>,
}

impl RequestedPath<'_> {
    /// The names as a path below the mount; empty for the mount itself.
    pub(crate) fn relative(&self) -> &Path {
        Path::new(&self.location)
    }

    /// The same request for a place of another mount, where a symlink led; `None` where its name is not UTF-8.
    pub(crate) fn led_to(&self, mount: usize, location: &Path) -> Option<Self> {
        let location = location.to_str()?.to_owned();
        Some(Self { mount, location, wants_directory: self.wants_directory, shown: self.shown.clone() })
    }

    pub(crate) fn is_root(&self) -> bool {
        self.location.is_empty()
    }

    pub(crate) fn names(&self) -> impl DoubleEndedIterator<Item = &OsStr> {
        self.location.split('/').filter(|name| !name.is_empty()).map(OsStr::new)
    }

    /// Removes and returns the last name.
    pub(crate) fn pop(&mut self) -> Option<OsString> {
        let last = self.names().next_back()?.to_owned();
        self.location.truncate(self.location.rfind('/').unwrap_or(0));
        Some(last)
    }
}

/// `PATH_MAX` without the NUL at the end.
pub(crate) const MAX_PATH_BYTES: usize = 4095;
/// The message for a path that is too long for any system call.
pub(crate) const TOO_LONG: &str = "is longer than 4095 bytes, counted from the root of the filesystem";
/// The help for it (`ENAMETOOLONG`).
pub(crate) const SHORTER: &str = "choose a shorter path";
const MAX_NAME_BYTES: usize = 255;

/// Parses a path as requested.
pub(crate) fn parse<'a>(
    text: &'a str,
    style: PathStyle,
    mounts: &[Mount],
) -> Result<RequestedPath<'a>, WorkspaceError> {
    let invalid = |reason| Err(WorkspaceError::InvalidPath { reason, help: style.example() });
    if text.trim().is_empty() {
        return invalid("must not be empty");
    }
    if text.contains('\0') {
        return invalid("must not contain a NUL character");
    }
    if text.len() > MAX_PATH_BYTES {
        return invalid(TOO_LONG);
    }
    let shown = shorten(text);
    if is_windows_form(text) || (style == PathStyle::Free && climbs_with_backslashes(text)) {
        return Err(outside(style, &shown, mounts));
    }
    let slashed = match style {
        PathStyle::AliasOnly if text.contains('\\') => Cow::Owned(text.replace('\\', "/")),
        PathStyle::AliasOnly | PathStyle::Free => Cow::Borrowed(text),
    };
    let named = if style == PathStyle::AliasOnly { strip_before_alias(&slashed) } else { &slashed };
    let (mount, rest) = choose_mount(named, style, mounts, &shown)?;
    let Some(location) = normalise(rest, style) else {
        return Err(match style {
            PathStyle::AliasOnly => WorkspaceError::ParentSegment { path: shown.into_owned() },
            PathStyle::Free => WorkspaceError::Outside { path: shown.into_owned() },
        });
    };
    if location.len() > MAX_NAME_BYTES && location.split('/').any(|name| name.len() > MAX_NAME_BYTES) {
        return invalid("has a name that is longer than 255 bytes");
    }
    let wants_directory = slashed.ends_with('/') || slashed.ends_with("/.");
    Ok(RequestedPath { mount, location, wants_directory, shown })
}

/// Strips `./` and `/` in front of an alias; any other path is returned unchanged.
fn strip_before_alias(text: &str) -> &str {
    let mut rest = text;
    while let Some(less) = rest.strip_prefix("./").or_else(|| rest.strip_prefix('/')) {
        rest = less;
    }
    if rest.starts_with('@') { rest } else { text }
}

/// The error for a path outside of every mount; where an alias is mandatory, that the alias is missing.
fn outside(style: PathStyle, shown: &str, mounts: &[Mount]) -> WorkspaceError {
    let path = shown.to_owned();
    match style {
        PathStyle::AliasOnly => WorkspaceError::AliasRequired { path, known: known_aliases(mounts) },
        PathStyle::Free => WorkspaceError::Outside { path },
    }
}

/// Shortens long paths in messages: a model should not be able to fill its own context with them.
fn shorten(text: &str) -> Cow<'_, str> {
    const MAX_SHOWN_CHARS: usize = 200;
    if text.len() <= MAX_SHOWN_CHARS || text.chars().count() <= MAX_SHOWN_CHARS {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().take(MAX_SHOWN_CHARS).chain("…".chars()).collect())
}

/// `C:\x`, `c:/x`, `C:x`, `\\server\share`, `\\?\C:\x`.
fn is_windows_form(text: &str) -> bool {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some('\\'), _) => true,
        (Some(letter), Some(':')) => letter.is_ascii_alphabetic(),
        _ => false,
    }
}

/// `..\..\x` is a single odd name on Linux and an escape on Windows, and is never meant as the odd name.
fn climbs_with_backslashes(text: &str) -> bool {
    text.contains('\\') && text.split(['/', '\\']).any(|name| name == "..")
}

/// The mount, and the rest of the text below it.
fn choose_mount<'t>(
    text: &'t str,
    style: PathStyle,
    mounts: &[Mount],
    shown: &str,
) -> Result<(usize, &'t str), WorkspaceError> {
    if text.starts_with('@') {
        let (alias, rest) = text.split_once('/').unwrap_or((text, ""));
        return match mounts.iter().position(|mount| mount.alias() == alias) {
            Some(index) => Ok((index, rest)),
            None => Err(WorkspaceError::UnknownAlias {
                alias: shorten(alias).into_owned(),
                known: known_aliases(mounts),
                style,
            }),
        };
    }
    let outside = || outside(style, shown, mounts);
    if style == PathStyle::AliasOnly {
        return Err(outside());
    }
    if text.starts_with('~') {
        return Err(outside());
    }
    let path = Path::new(text);
    if path.is_absolute() {
        // The deepest mount wins, so that a mount inside another one keeps its own rules.
        return mounts
            .iter()
            .enumerate()
            .filter_map(|(index, mount)| Some((index, mount.strip_root(path)?)))
            .min_by_key(|(_, rest)| rest.components().count())
            .and_then(|(index, rest)| Some((index, rest.to_str()?)))
            .ok_or_else(outside);
    }
    mounts.iter().position(Mount::is_default).map(|index| (index, text)).ok_or_else(outside)
}

pub(crate) fn known_aliases(mounts: &[Mount]) -> String {
    let aliases: Vec<String> = mounts.iter().map(|mount| format!("`{}`", mount.alias())).collect();
    aliases.join(", ")
}

/// The names without `.` and `..`, separated by slashes. `None` when they climb out of the mount, or for any `..` in [`PathStyle::AliasOnly`].
fn normalise(rest: &str, style: PathStyle) -> Option<String> {
    let mut location = String::with_capacity(rest.len());
    for name in rest.split('/') {
        match name {
            "" | "." => {}
            ".." if style == PathStyle::AliasOnly || location.is_empty() => return None,
            ".." => location.truncate(location.rfind('/').unwrap_or(0)),
            name => {
                if !location.is_empty() {
                    location.push('/');
                }
                location.push_str(name);
            }
        }
    }
    Some(location)
}

#[cfg(test)]
mod tests {
    use std::path::Component;

    use proptest::prelude::*;

    use super::*;

    /// The names in order, as the standard library parses them.
    fn names_of(rest: &str, style: PathStyle) -> Option<Vec<&OsStr>> {
        let mut names = Vec::new();
        for component in Path::new(rest).components() {
            match component {
                Component::Normal(name) => names.push(name),
                Component::CurDir => {}
                Component::ParentDir if style == PathStyle::Free => drop(names.pop()?),
                _ => return None,
            }
        }
        Some(names)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn names_are_those_of_the_standard_library(
            rest in "([a./é ]|\\.\\./|a/|//){0,8}",
            style in prop::sample::select(vec![PathStyle::Free, PathStyle::AliasOnly]),
        ) {
            let rest = rest.trim_start_matches('/');
            let names = names_of(rest, style);
            let location = normalise(rest, style);
            prop_assert_eq!(location.is_some(), names.is_some(), "{:?}", rest);
            if let (Some(location), Some(mut names)) = (location, names) {
                let mut requested =
                    RequestedPath { mount: 0, location, wants_directory: false, shown: Cow::Borrowed(rest) };
                prop_assert_eq!(requested.relative().as_os_str(), names.iter().collect::<std::path::PathBuf>());
                prop_assert_eq!(requested.is_root(), names.is_empty());
                prop_assert_eq!(requested.names().collect::<Vec<_>>(), names.clone());
                while let Some(last) = names.pop() {
                    prop_assert_eq!(requested.pop(), Some(last.to_owned()));
                    prop_assert_eq!(requested.names().collect::<Vec<_>>(), names.clone());
                }
                prop_assert_eq!(requested.pop(), None);
            }
        }
    }
}
