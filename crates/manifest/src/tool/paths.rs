//! Arguments that are paths of a mount, and where they really lead.
//!
//! A path is text until a file was opened by it. Whoever runs the command opens it beneath the mount, without leaving it, and hands in where the
//! file really is: that is what the program is given, so that no symlink on the way leads it elsewhere.

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
    /// Whether each of its items is a path.
    pub is_list: bool,
    /// The directory that its paths are relative to.
    pub directory: MountPath,
    /// What the names of its files may end in.
    pub extensions: Extensions,
    /// `x-toolgate-exists`: whether they must lead to something that is there.
    pub must_exist: bool,
}

/// `x-toolgate-extensions`: what the names of files may end in. None means anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extensions(Arc<[String]>);

impl Extensions {
    /// Whether the file at this location, or of this name, is one of these. The case of letters is nothing.
    ///
    /// # Errors
    /// `invalid_arguments`, with the endings that would fit.
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
    /// The argument: its name, and for an item of a list its index, such as `files/0`.
    pub argument: String,
    /// What it names, as it was spelt.
    pub path: MountPath,
    /// What the name of the file that it leads to must end in.
    pub extensions: Extensions,
    /// Whether it must lead to something that is there.
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

    /// The paths that a call gives for it.
    ///
    /// # Errors
    /// `invalid_arguments` when one of them is not a path.
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

/// Where paths of a call really lead, below their mounts. One that is not in here is written as it was spelt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RealPaths(BTreeMap<String, String>);

impl RealPaths {
    pub(super) fn get(&self, argument: &str) -> Option<&str> {
        self.0.get(argument).map(String::as_str)
    }
}

impl FromIterator<(String, String)> for RealPaths {
    /// Pairs of an argument, as [`NamedPath`] calls it, and the location below its mount.
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

/// A path below a directory; empty parts are left out.
pub(super) fn join_path(folder: &str, below: &str) -> String {
    let parts = [folder, below].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("/")
}
