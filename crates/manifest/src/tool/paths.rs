//! Path arguments, and the files that they resolve to.
//!
//! A path is only text until a file is opened by it. The caller that runs the command opens it beneath the mount and passes in the resolved
//! path, which is what the program gets, so that no symlink on the way can lead it elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use toolgate_types::{ErrorCode, Failure};

use super::MountPath;
use super::property::Properties;
use super::rendering::path;

/// An argument with `x-toolgate-path`, or a list of such.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathArgument {
    /// Its name.
    pub name: String,
    /// Whether it is a list whose items are paths.
    pub is_list: bool,
    /// The directory that its paths are relative to.
    pub directory: MountPath,
    /// The allowed file extensions.
    pub extensions: Extensions,
    /// `x-toolgate-exists`: whether the paths must exist.
    pub must_exist: bool,
}

/// `x-toolgate-extensions`: the allowed file extensions. Empty means any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extensions(Arc<[String]>);

impl Extensions {
    /// Whether the file has one of these extensions, case-insensitively.
    ///
    /// # Errors
    /// `invalid_arguments`, with the allowed extensions.
    pub fn check(&self, location: &str, argument: &str) -> Result<(), Failure> {
        let name = location.rsplit('/').next().unwrap_or(location);
        let ending = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, ending)| ending);
        let fits = |ending: &str| self.0.iter().any(|known| known.eq_ignore_ascii_case(ending));
        if self.0.is_empty() || ending.is_some_and(fits) {
            return Ok(());
        }
        let known: Vec<String> = self.0.iter().map(|ending| format!(".{ending}")).collect();
        Err(Failure::new(
            ErrorCode::InvalidArguments,
            format!("`{argument}`: this tool does not take files with such a name"),
        )
        .help(format!("name a file that ends in {}", known.join(", "))))
    }
}

/// One path of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPath {
    /// The argument: its name, and for a list item its index, such as `files/0`.
    pub argument: String,
    /// The path as written in the call.
    pub path: MountPath,
    /// The allowed extensions of the file that it resolves to.
    pub extensions: Extensions,
    /// Whether it must exist.
    pub must_exist: bool,
}

impl PathArgument {
    pub(super) fn all(properties: &Properties) -> Vec<Self> {
        let argument = |property: &super::property::Property| {
            let facts = property.of_one_value();
            let folder = facts.rules.path.clone()?;
            let extensions = Extensions(facts.rules.extensions.clone().into());
            Some(Self {
                name: property.name.clone(),
                is_list: property.facts.is("array"),
                directory: folder,
                extensions,
                must_exist: facts.rules.must_exist,
            })
        };
        properties.iter().filter_map(argument).collect()
    }

    /// The paths that a call passes for it.
    ///
    /// # Errors
    /// `invalid_arguments` if one of them is not a path.
    pub fn named(&self, input: &Value) -> Result<Vec<NamedPath>, Failure> {
        let values: Vec<(String, &Value)> = match input.get(&self.name) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) => {
                let item = |(index, value)| (format!("{}/{index}", self.name), value);
                items.iter().enumerate().map(item).collect()
            }
            Some(value) => vec![(self.name.clone(), value)],
        };
        let one = |(argument, value): (String, &Value)| {
            let below = path(value, &argument)?;
            let path = MountPath {
                alias: self.directory.alias.clone(),
                path: join_path(&self.directory.path, &below),
            };
            let (extensions, must_exist) = (self.extensions.clone(), self.must_exist);
            Ok(NamedPath { argument, path, extensions, must_exist })
        };
        values.into_iter().map(one).collect()
    }
}

/// The resolved paths of a call, relative to their mounts. A path that is missing here is used as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RealPaths(BTreeMap<String, String>);

impl RealPaths {
    pub(super) fn get(&self, argument: &str) -> Option<&str> {
        self.0.get(argument).map(String::as_str)
    }
}

impl FromIterator<(String, String)> for RealPaths {
    /// Pairs of an argument, as in [`NamedPath`], and the resolved path below its mount.
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

/// Joins a directory and a path; empty parts are omitted.
pub(super) fn join_path(folder: &str, below: &str) -> String {
    let parts = [folder, below].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("/")
}
