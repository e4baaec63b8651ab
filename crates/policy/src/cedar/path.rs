//! Paths of the workspace: which arguments are paths, what those of a call resolve to, and their representation in Cedar.
//!
//! A rule is about a file, and a file can be written in many ways: `./secrets/x`, `a/../secrets/x`, a symlink, the absolute path. So a path argument
//! is not text here. It is an entity `Path::"@alias/real/location"`, a member of every directory above it, with its `location` as text for `like`.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::str::FromStr as _;

use cedar_policy::pst::PatternElem;
use cedar_policy::{Entities, Entity, EntityId, EntityTypeName, EntityUid, RestrictedExpression};
use serde_json::Value;

use super::value::Undecidable;

/// The name of the entity type.
pub(crate) const PATH: &str = "Path";

/// The only attribute of a path.
pub(crate) const LOCATION: &str = "location";

/// Which arguments of a tool are paths of the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathInputs {
    /// The arguments.
    pub arguments: Vec<PathInput>,
    /// Whether a call contains a patch, whose files are paths as well.
    pub has_patch: bool,
    /// The working directory of the tool's command, if no argument names it: `@project/src`.
    pub directory: Option<String>,
    /// The aliases of the mounts that paths can be in; empty if unknown.
    pub mounts: Vec<String>,
}

/// An argument that is a path, or a list of paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathInput {
    /// Its name.
    pub name: String,
    /// Whether it is a list whose items are paths.
    pub is_list: bool,
    /// Whether a call without it means the directory that its paths are relative to.
    pub has_default: bool,
    /// The directory that its paths are relative to, such as `@project`.
    pub directory: String,
}

impl PathInputs {
    /// No paths.
    pub const NONE: &'static Self =
        &Self { arguments: Vec::new(), has_patch: false, directory: None, mounts: Vec::new() };

    /// Only these arguments.
    #[must_use]
    pub fn of(arguments: Vec<PathInput>) -> Self {
        Self { arguments, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.arguments.is_empty() && !self.is_certain()
    }

    /// Whether every call has a path, whatever its arguments are.
    pub(crate) fn is_certain(&self) -> bool {
        self.has_patch || self.directory.is_some()
    }

    /// The paths of an example, for which no files exist: resolved lexically.
    #[must_use]
    pub fn lexical_paths(&self, input: &Value) -> CallPaths {
        let mut paths = CallPaths::default();
        if let Some(directory) = &self.directory {
            paths.add(PathSource::WorkingDirectory, vec![directory.clone()]);
        }
        for argument in &self.arguments {
            for (index, text) in argument.values(input) {
                let source = match index {
                    Some(index) => format!("{}/{index}", argument.name),
                    None => argument.name.clone(),
                };
                if let Some(location) = lexical(&argument.directory, text) {
                    paths.add(PathSource::Argument(source), vec![location]);
                }
            }
        }
        paths
    }

    /// The paths that the arguments of a call name, for its record: with the alias of their mount and without `.` and `..`, or as they are written if
    /// they lead nowhere. No file is looked at.
    pub fn named_paths<'a>(&'a self, input: &'a Value) -> impl Iterator<Item = String> + 'a {
        let arguments = self.arguments.iter().flat_map(move |argument| {
            let texts = argument.values(input);
            texts.map(|(_, text)| lexical(&argument.directory, text).unwrap_or_else(|| text.to_owned()))
        });
        self.directory.iter().cloned().chain(arguments)
    }
}

impl PathInput {
    /// Its values in the arguments of a call; items of a list with their index.
    fn values<'a>(&self, input: &'a Value) -> impl Iterator<Item = (Option<usize>, &'a str)> + use<'a> {
        let value = input.get(&self.name);
        let default = (value.is_none() && self.has_default).then_some((None, "."));
        let single = value.and_then(Value::as_str).map(|text| (None, text));
        let items = value.and_then(Value::as_array).into_iter().flatten().enumerate();
        let items = items.filter_map(|(index, item)| Some((Some(index), item.as_str()?)));
        default.into_iter().chain(single).chain(items)
    }
}

/// A path with its alias, without `.` and `..`; `None` for an absolute one or one that leaves the mount.
fn lexical(folder: &str, text: &str) -> Option<String> {
    if text.starts_with('/') {
        return None;
    }
    let folder = if text.starts_with('@') { "" } else { folder };
    let mut location = String::with_capacity(folder.len() + 1 + text.len());
    for name in folder.split('/').chain(text.split('/')) {
        match name {
            "" | "." => {}
            ".." if !location.is_empty() => location.truncate(location.rfind('/')?),
            name => {
                if !location.is_empty() {
                    location.push('/');
                }
                location.push_str(name);
            }
        }
    }
    (!location.is_empty()).then_some(location)
}

/// The source of a path of a call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathSource {
    /// An argument, by name; a list item with `/` and its index.
    Argument(String),
    /// A file of a patch, by index.
    PatchedFile(usize),
    /// The working directory of the tool's command. A separate variant, so that it cannot collide with an argument's name.
    WorkingDirectory,
}

impl std::fmt::Display for PathSource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Argument(name) => formatter.write_str(name),
            Self::PatchedFile(index) => write!(formatter, "patch/{index}"),
            Self::WorkingDirectory => formatter.write_str("working directory"),
        }
    }
}

/// The resolved paths of one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallPaths(BTreeMap<PathSource, RealPath>);

/// A file or directory, by every name that it has in some mount; the one of the innermost mount is first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RealPath(Vec<String>);

impl CallPaths {
    /// Adds a resolved path: its names `@alias/real/location`, that of the innermost mount first. A path without any name counts as unresolved.
    pub fn add(&mut self, source: PathSource, places: Vec<String>) {
        if !places.is_empty() {
            self.0.insert(source, RealPath(places));
        }
    }

    pub(crate) fn argument(&self, name: &str) -> Option<&RealPath> {
        self.0.get(&PathSource::Argument(name.to_owned()))
    }

    /// Each file and directory once.
    pub(crate) fn each(&self) -> BTreeSet<&RealPath> {
        self.0.values().collect()
    }
}

impl RealPath {
    fn location(&self) -> &str {
        self.0.first().map_or("", String::as_str)
    }

    /// The path itself and all its ancestors, by every name.
    fn around(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|place| {
            let above = place.match_indices('/').filter_map(|(end, _)| place.get(..end));
            std::iter::once(place.as_str()).chain(above)
        })
    }

    pub(crate) fn to_cedar(&self) -> Result<RestrictedExpression, Undecidable> {
        Ok(RestrictedExpression::new_entity_uid(uid(self.location())?))
    }

    fn entity(&self) -> Result<Entity, Undecidable> {
        let own = uid(self.location())?;
        let parents = self.around().filter(|place| *place != self.location()).map(uid);
        let parents: HashSet<EntityUid> = parents.collect::<Result<_, _>>()?;
        let location = RestrictedExpression::new_string(self.location().to_owned());
        let attributes = [(LOCATION.to_owned(), location)];
        Entity::new(own, attributes.into(), parents).map_err(|_| unusable())
    }
}

/// These entities, and those of the paths of a call.
pub(crate) fn with_paths(known: Entities, paths: &CallPaths) -> Result<Entities, Undecidable> {
    let entities = paths.each().into_iter().map(RealPath::entity).collect::<Result<Vec<_>, _>>()?;
    known.add_entities(entities, None).map_err(|_| unusable())
}

fn uid(place: &str) -> Result<EntityUid, Undecidable> {
    let kind = EntityTypeName::from_str(PATH).map_err(|_| unusable())?;
    Ok(EntityUid::from_type_name_and_id(kind, EntityId::new(place)))
}

fn unusable() -> Undecidable {
    Undecidable::Evaluation("a path could not be put into Cedar's terms")
}

const NO_ALIAS: &str = "does not begin with the alias of a mount";
const ODD_PART: &str = "has an empty, `.` or `..` part";
const HOLDS_NUL: &str = "holds a NUL character";
const LONG_NAME: &str = "has a name of more than 255 bytes";

/// The maximum length of a file name (`NAME_MAX`).
const MAX_NAME_BYTES: usize = 255;

/// Why a path literal in a rule can never match, if so. `mounts` are the existing aliases; if it is empty, any could exist.
pub(crate) fn never_matches(place: &str, mounts: &[&str]) -> Option<String> {
    let pattern: Vec<PatternElem> = place.chars().map(PatternElem::Char).collect();
    pattern_never_matches(&pattern, mounts)
}

/// The same for a pattern, whose wildcards match any text, `/` included. A pattern that could match is accepted.
pub(crate) fn pattern_never_matches(pattern: &[PatternElem], mounts: &[&str]) -> Option<String> {
    let is =
        |wanted: char| move |part: &PatternElem| matches!(part, PatternElem::Char(found) if *found == wanted);
    if pattern.iter().any(is('\0')) {
        return Some(HOLDS_NUL.to_owned());
    }
    // A wildcard may match a `/`, so only the text between two of them is certainly within one name.
    let literals = pattern.split(|part| matches!(part, PatternElem::Wildcard | PatternElem::Char('/')));
    if literals.map(bytes_of).any(|bytes| bytes > MAX_NAME_BYTES) {
        return Some(LONG_NAME.to_owned());
    }
    let mut parts = pattern.split(is('/')).map(|part| {
        let is_literal = !part.contains(&PatternElem::Wildcard);
        let literal = part.iter().map_while(|part| match part {
            PatternElem::Char(character) => Some(*character),
            PatternElem::Wildcard => None,
        });
        (literal.collect::<String>(), is_literal)
    });
    let (alias, is_whole) = parts.next().unwrap_or_default();
    let odd_part = parts.any(|(part, is_literal)| is_literal && matches!(&*part, "" | "." | ".."));
    wrong_alias(&alias, is_whole, mounts).or_else(|| odd_part.then(|| ODD_PART.to_owned()))
}

fn bytes_of(literal: &[PatternElem]) -> usize {
    let bytes = |part: &PatternElem| match part {
        PatternElem::Char(character) => character.len_utf8(),
        PatternElem::Wildcard => 0,
    };
    literal.iter().map(bytes).sum()
}

/// Why a name with this start, or exactly this name, is not the alias of a mount.
fn wrong_alias(beginning: &str, is_whole: bool, mounts: &[&str]) -> Option<String> {
    if beginning.is_empty() && !is_whole {
        return None;
    }
    let Some(name) = beginning.strip_prefix('@').filter(|name| !is_whole || !name.is_empty()) else {
        return Some(NO_ALIAS.to_owned());
    };
    let fits = |alias: &&str| if is_whole { *alias == beginning } else { alias.starts_with(beginning) };
    if mounts.is_empty() {
        // `@[a-z][a-z0-9_-]*`, as mounts are declared.
        let is_name = |(at, byte): (usize, u8)| {
            byte.is_ascii_lowercase() || at > 0 && (byte.is_ascii_digit() || matches!(byte, b'_' | b'-'))
        };
        let could_be = name.bytes().enumerate().all(is_name);
        return (!could_be).then(|| format!("begins with `{beginning}`, and no mount can be called that"));
    }
    let known = mounts.join("`, `");
    (!mounts.iter().any(fits))
        .then(|| format!("begins with `{beginning}`, and there is no such mount: there is `{known}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_mean_what_they_spell() {
        for (text, expected) in [
            ("a/b", Some("@project/a/b")),
            ("./a//b/", Some("@project/a/b")),
            ("a/../b", Some("@project/b")),
            (".", Some("@project")),
            ("@docs/x", Some("@docs/x")),
            ("..", None),
            ("a/../../b", None),
            ("/etc/passwd", None),
        ] {
            assert_eq!(lexical("@project", text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_path_lies_in_everything_above_it_by_every_name() {
        let path = RealPath(vec!["@inner/x".to_owned(), "@project/a/x".to_owned()]);
        let around: Vec<&str> = path.around().collect();
        assert_eq!(around, ["@inner/x", "@inner", "@project/a/x", "@project", "@project/a"]);
    }

    #[test]
    fn names_that_match_nothing_are_known() {
        let never = [
            "secrets",
            "",
            "@",
            "/etc",
            "@project/",
            "@project//a",
            "@project/../a",
            "./a",
            "@Project",
            "@Project/a",
            "@1",
            "@pro ject/a",
            "@project/a\0b",
            "@project/.",
            "@projekt\u{e9}",
        ];
        for place in never {
            assert!(never_matches(place, &[]).is_some(), "{place}");
            assert!(never_matches(place, &["@project"]).is_some(), "{place}");
        }
        for place in
            ["@project", "@project/a", "@project/a b/.c", "@project/...", "@project/\n", "@project/\\"]
        {
            assert_eq!(never_matches(place, &[]), None, "{place}");
            assert_eq!(never_matches(place, &["@docs", "@project"]), None, "{place}");
            assert!(never_matches(place, &["@docs"]).is_some(), "{place} in another mount");
        }
    }

    #[test]
    fn names_longer_than_any_file_has_match_nothing() {
        let (longest, too_long) = ("é".repeat(127) + "x", "é".repeat(128));
        for (place, is_refused) in [
            (format!("@project/{longest}"), false),
            (format!("@project/{longest}/{longest}"), false),
            (format!("@project/{too_long}"), true),
            (format!("@project/{too_long}/x"), true),
        ] {
            assert_eq!(never_matches(&place, &[]).is_some(), is_refused, "{place}");
            let star = |mut pattern: Vec<PatternElem>| {
                pattern.push(PatternElem::Wildcard);
                pattern
            };
            let pattern = star(place.chars().map(PatternElem::Char).collect());
            assert_eq!(pattern_never_matches(&pattern, &["@project"]).is_some(), is_refused, "{place}*");
        }
        // Together they are longer than a name, but the wildcard may match a `/`.
        let half: Vec<PatternElem> = "x".repeat(200).chars().map(PatternElem::Char).collect();
        let apart = [vec![PatternElem::Wildcard], half.clone(), vec![PatternElem::Wildcard], half].concat();
        assert_eq!(pattern_never_matches(&apart, &["@project"]), None);
    }

    #[test]
    fn patterns_that_match_nothing_are_known() {
        let pattern = |text: &str| -> Vec<PatternElem> {
            let part = |character| {
                if character == '*' { PatternElem::Wildcard } else { PatternElem::Char(character) }
            };
            text.chars().map(part).collect()
        };
        for text in [
            "",
            "secrets/*",
            "@project/./*",
            "@project//*",
            "*/../*",
            "*/./x",
            "@project/*/",
            "*/",
            "@Pro*",
            "@project/*\0",
            "@/*",
            "./*",
            " *",
            "@proj ect*",
            "@other/*",
            "@projects*",
        ] {
            assert!(pattern_never_matches(&pattern(text), &["@project"]).is_some(), "{text}");
        }
        for text in [
            "*",
            "@*",
            "@pro*",
            "@project*",
            "@project/*.pem",
            "*.pem",
            "*/.env",
            "@project/.*/x",
            "@*/a",
            "*secrets*",
            "@project/..*",
        ] {
            assert_eq!(pattern_never_matches(&pattern(text), &["@project"]), None, "{text}");
            assert_eq!(pattern_never_matches(&pattern(text), &[]), None, "{text}");
        }
    }
}
