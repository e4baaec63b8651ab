//! What was named: text turned into a mount and names below it, or refused.
//!
//! This is the lexical half. It decides nothing about safety on its own: whatever passes here is opened beneath a handle by the kernel.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use crate::error::WorkspaceError;
use crate::mount::Mount;

/// How a profile lets paths be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathStyle {
    /// Relative to the workspace, absolute inside it, or with an alias.
    Free,
    /// Always with an alias, never with `..`, backslashes read as slashes.
    AliasOnly,
}

/// A path as it was named, bound to a mount.
#[derive(Clone, Debug)]
pub(crate) struct Requested {
    /// Index of the mount in the workspace.
    pub(crate) mount: usize,
    /// Names below the mount; no `.`, no `..`, none empty.
    pub(crate) names: Vec<OsString>,
    /// Whether it ended in a slash, so that only a directory will do.
    pub(crate) wants_directory: bool,
    /// The text, shortened for messages.
    pub(crate) shown: String,
}

impl Requested {
    pub(crate) fn relative(&self) -> PathBuf {
        self.names.iter().collect()
    }
}

const MAX_PATH_BYTES: usize = 4096;
const MAX_NAME_BYTES: usize = 255;

/// Reads a path as named.
pub(crate) fn parse(text: &str, style: PathStyle, mounts: &[Mount]) -> Result<Requested, WorkspaceError> {
    let invalid = |reason| Err(WorkspaceError::InvalidPath { reason });
    if text.trim().is_empty() {
        return invalid("must not be empty");
    }
    if text.contains('\0') {
        return invalid("must not contain a NUL character");
    }
    if text.len() > MAX_PATH_BYTES {
        return invalid("is too long");
    }
    let shown = shorten(text);
    if is_windows_form(text) || climbs_with_backslashes(text) {
        return Err(WorkspaceError::Outside { path: shown });
    }
    let slashed = if style == PathStyle::AliasOnly { text.replace('\\', "/") } else { text.to_owned() };
    let (mount, rest) = choose_mount(&slashed, style, mounts, &shown)?;
    let names = normalise(&rest, style).ok_or_else(|| WorkspaceError::Outside { path: shown.clone() })?;
    if names.iter().any(|name| name.len() > MAX_NAME_BYTES) {
        return invalid("has a name that is too long");
    }
    let wants_directory = slashed.ends_with('/') || slashed.ends_with("/.");
    Ok(Requested { mount, names, wants_directory, shown })
}

/// Long paths are cut in messages: a model should not be able to fill its own context with them.
fn shorten(text: &str) -> String {
    const SHOWN: usize = 200;
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    text.chars().take(SHOWN).chain("…".chars()).collect()
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

/// `..\..\x` is one odd name here and a way out elsewhere; nobody means the odd name.
fn climbs_with_backslashes(text: &str) -> bool {
    text.contains('\\') && text.split(['/', '\\']).any(|name| name == "..")
}

fn choose_mount(
    text: &str,
    style: PathStyle,
    mounts: &[Mount],
    shown: &str,
) -> Result<(usize, PathBuf), WorkspaceError> {
    if text.starts_with('@') {
        let (alias, rest) = text.split_once('/').unwrap_or((text, ""));
        return match mounts.iter().position(|mount| mount.alias() == alias) {
            Some(index) => Ok((index, PathBuf::from(rest.trim_start_matches('/')))),
            None => Err(WorkspaceError::UnknownAlias { alias: shorten(alias), known: known_aliases(mounts) }),
        };
    }
    if style == PathStyle::AliasOnly {
        return Err(WorkspaceError::AliasRequired { path: shown.to_owned(), known: known_aliases(mounts) });
    }
    let outside = || WorkspaceError::Outside { path: shown.to_owned() };
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
            .ok_or_else(outside);
    }
    mounts.iter().position(Mount::is_default).map(|index| (index, path.to_path_buf())).ok_or_else(outside)
}

pub(crate) fn known_aliases(mounts: &[Mount]) -> String {
    let aliases: Vec<String> = mounts.iter().map(|mount| format!("`{}`", mount.alias())).collect();
    aliases.join(", ")
}

/// Names without `.` and `..`; `None` when they climb out, or at any `..` where none is allowed.
fn normalise(rest: &Path, style: PathStyle) -> Option<Vec<OsString>> {
    let mut names = Vec::new();
    for component in rest.components() {
        match component {
            Component::Normal(name) => names.push(name.to_owned()),
            Component::CurDir => {}
            Component::ParentDir if style == PathStyle::Free => {
                names.pop()?;
            }
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(names)
}
