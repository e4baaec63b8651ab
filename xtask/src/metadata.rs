//! The workspace's metadata.

use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;

use crate::Fault;
use crate::command::output;

/// The parts of `cargo metadata` that tasks use.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) target_directory: PathBuf,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    /// Its path, unless it is a package of the registry.
    pub(crate) path: Option<PathBuf>,
    /// `dev`, `build`, or `None` for a normal one.
    pub(crate) kind: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
}

impl Metadata {
    /// Runs `cargo metadata`.
    pub(crate) fn ask(mut cargo: Command) -> Result<Self, Fault> {
        cargo.args(["metadata", "--format-version", "1", "--no-deps"]);
        Ok(serde_json::from_str(&output(cargo)?)?)
    }
}
